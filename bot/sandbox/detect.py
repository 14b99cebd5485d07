"""Entities that Telegram finds by itself: links, mentions, hashtags, commands, e-mail addresses."""

from __future__ import annotations

import re

from bot.sandbox.rooms import Json

__all__ = ["found_entities"]

_URL = (
    r"(?:https?://|tg://)[^\s<>\"'`]+"
    r"|(?<![\w@.-])(?:[a-z0-9-]+\.)+(?:com|org|net|ru|me|io|dev|info|example|рф)(?:/[^\s<>\"'`]*)?(?![\w.-]*@)"
)
_PATTERNS = (
    ("email", re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    ("url", re.compile(_URL, re.IGNORECASE)),
    ("bot_command", re.compile(r"(?<![\w/<>@])/[A-Za-z0-9_]{1,64}(?:@[A-Za-z][A-Za-z0-9_]{2,31})?(?![\w/])")),
    ("mention", re.compile(r"(?<![\w@/])@[A-Za-z][A-Za-z0-9_]{3,31}(?!\w)")),
    ("hashtag", re.compile(r"(?<![\w#/&])#\w*[^\W\d]\w*")),
)
_TRAILING = ".,:;!?)]}»…'\""
_CLOSED = {"pre", "code", "text_link", "text_mention", "url", "email", "mention", "hashtag", "bot_command"}


def found_entities(text: str, known: list[Json]) -> list[Json]:
    """Entities not yet among `known`, never inside a link or code."""
    taken = [(e["offset"], e["offset"] + e["length"]) for e in known if e["type"] in _CLOSED]
    found: list[Json] = []
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            piece = match[0].rstrip(_TRAILING) if kind == "url" else match[0]
            start = _units(text[: match.start()])
            end = start + _units(piece)
            if all(end <= left or start >= right for left, right in taken):
                taken.append((start, end))
                found.append({"type": kind, "offset": start, "length": end - start})
    return found


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
