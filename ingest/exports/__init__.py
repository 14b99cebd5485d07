"""Exports of Telegram Desktop: scan, import, and the two formats (JSON and HTML)."""
