"""Receipts: the words an answer cites, shown by Telegram itself as a quote of the post."""
