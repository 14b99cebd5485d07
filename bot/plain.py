"""What is said of posts in plain text, for chat and terminal. Knows no aiogram, which takes seconds to load."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime, tzinfo

from bot.words import Words
from rag_core.types import Channel, Origin

__all__ = ["WRITING", "Shown", "dated", "plain", "speaker"]

# Stages without which everything was searched all the same.
WRITING = frozenset(
    {"write", "support", "stopped", "verify", "recipe", "overlap", "judge", "predict", "parts", "map", "choose"}
)

# Embeddings, overrides and isolates of writing direction: they could turn our own words around.
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Shown:
    """How things are said to this reader: the sentences of a language, a time zone, and whether in a group."""

    words: Words
    zone: tzinfo
    group: bool = False


def plain(text: str) -> str:
    """A text from outside without control characters and turns of writing direction; lines are kept."""
    kept = (c if c == "\n" or unicodedata.category(c) != "Cc" else " " for c in _TURNS.sub("", text))
    return "".join(kept).strip()


def speaker(channel: Channel | None, origin: Origin | None, words: Words) -> str:
    """Whose words a post has: the channel's, or those of whom it forwards."""
    title = (plain(channel.title).replace("\n", " ") if channel else "") or words("unnamed-channel")
    if origin is None or (channel and origin.chat_id == channel.chat_id):
        return title
    name = plain(origin.name).replace("\n", " ") or words("unnamed-origin")
    return words("source-forwarded", origin=name, channel=title)


def dated(date: datetime, edited: datetime | None, shown: Shown) -> str:
    """The day of a post, and that of its last edit."""
    said = shown.words.date(date, shown.zone)
    if edited is None:
        return said
    return f"{said} · {shown.words('source-edited', date=shown.words.date(edited, shown.zone))}"
