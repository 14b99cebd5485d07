"""The title of a channel as readers see it: whoever owns a channel may have written anything there."""

from __future__ import annotations

import unicodedata

from aiogram.utils.formatting import Bold, Text

from bot.inert import styled
from bot.plain import plain
from bot.render import link
from bot.words import Words
from rag_core.types import Channel

__all__ = ["one_line", "title_of", "titled"]

# Letters that look like nothing: Telegram takes a button with nothing but these for empty.
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_LONGEST = 100  # characters; Telegram's own limit is 128, an export's title may be a book


def one_line(text: str, longest: int = _LONGEST) -> str:
    """A text from outside in one line of at most `longest` characters; "" where nothing of it would be seen."""
    line = " ".join(plain(text).split())
    if not any(unicodedata.category(c)[0] in "LNPS" and c not in _BLANK for c in line):
        return ""
    return line if len(line) <= longest else f"{line[: longest - 1].rstrip()}…"


def title_of(channel: Channel, words: Words, longest: int = _LONGEST) -> str:
    """The title in one line, which is not empty and has at most `longest` characters."""
    return one_line(channel.title, longest) or words("unnamed-channel")


def titled(channel: Channel, words: Words) -> Text:
    """The title as a link to a public channel, in bold otherwise."""
    title = title_of(channel, words)
    return link(title, f"https://t.me/{channel.username}") if channel.username else styled(Bold, title)
