"""SETTINGS.md from the code: every setting, its default and what it does.

Run it with .venv/bin/python deploy/write_settings_page.py after a setting was added or changed.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from bot.settings import Settings, format_default

PAGE = Path(__file__).with_name("SETTINGS.md")
HEAD = """# Settings

All {count} settings, made from the code by `deploy/write_settings_page.py`; `citegram --settings` shows the same. They
are variables of the environment or lines of `.env`, such as `BOT__TIMEZONE=Europe/Moscow`; the environment goes before
`.env`. What owners usually set is in [.env.example](../.env.example).
"""


def format_page() -> str:
    """Format the page in Markdown: a table for each section."""
    count, parts = 0, []
    for name, section in Settings.model_fields.items():
        kind = section.annotation
        assert isinstance(kind, type) and issubclass(kind, BaseModel)
        count += len(kind.model_fields)
        rows = []
        for field, about in kind.model_fields.items():
            default = f"`{shown}`" if (shown := format_default(about.default)) else ""
            rows.append(f"| `{name.upper()}__{field.upper()}` | {default} | {about.description} |")
        head = [f"## {name}", "", kind.__doc__ or "", "", "| Setting | Default | |", "|---|---|---|"]
        parts.append("\n".join([*head, *rows]))
    return "\n".join([HEAD.format(count=count), "\n\n".join(parts), ""])


if __name__ == "__main__":
    PAGE.write_text(format_page(), encoding="utf-8")
