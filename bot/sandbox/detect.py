"""Entities that Telegram finds by itself: links, mentions, tags, commands, e-mail addresses, phones, bank cards.

The patterns follow TDLib (find_urls, find_mentions, find_hashtags, find_cashtags, find_bot_commands,
find_bank_card_numbers in td/telegram/MessageEntity.cpp); of phone numbers, which the server alone finds, those with a
plus or with ten digits and more, as https://core.telegram.org/bots/api#messageentity shows them.
"""

from __future__ import annotations

import re

from bot.sandbox.rooms import Json

__all__ = ["found_entities"]

_DOMAIN = r"(?:[\w-]+\.)+"
# TDLib knows the list of all top-level domains; here are some of it. In letters of other alphabets all are taken.
_TOP = (
    r"(?:com|org|net|ru|me|io|dev|info|app|xyz|top|online|site|shop|club|museum|zip|md|example|test"
    r"|xn--[a-z0-9-]+|(?![a-z0-9_])[^\W\d_]{2,})"
)
_URL = (
    r"(?:https?://|tg://|ton://|ftp://)[^\s<>\"'`]+"
    rf"|(?<![\w@.-]){_DOMAIN}{_TOP}(?![\w-])(?::\d+)?(?:[/?#][^\s<>\"'`]*)?(?![\w.-]*@)"
    r"|(?<![\w@.])(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?(?:/[^\s<>\"'`]*)?(?![\w.])"
)
_NAME = r"[A-Za-z][A-Za-z0-9_]{2,31}"
_PATTERNS = (
    ("email", re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    ("url", re.compile(_URL, re.IGNORECASE)),
    ("bot_command", re.compile(rf"(?<![\w/<>@])/[A-Za-z0-9_]{{1,64}}(?:@{_NAME})?(?![\w/])")),
    # a tag of one channel: https://core.telegram.org/api/entities
    ("hashtag", re.compile(rf"(?<![\w#/&])#\w*[^\W\d]\w*(?:@{_NAME})?(?!\w*#)")),
    ("cashtag", re.compile(rf"(?<![\w$])\$(?:1INCH|[A-Z]{{1,8}})(?:@{_NAME})?(?![\w$])")),
    ("mention", re.compile(r"(?<![\w@/])@[A-Za-z][A-Za-z0-9_]{3,31}(?!\w)")),
    ("bank_card", re.compile(r"(?<![\w+.,-])\d(?:[ -]?\d){12,18}(?![\w-])")),
    ("phone_number", re.compile(r"\+\d(?:[ ()-]{0,2}\d){6,14}(?!\d)|(?<![\w.,+-])\d{10,15}(?![\w-])")),
)
_TRAILING = ".,:;!?)]}»…'\""
_CLOSED = {"pre", "code", "text_link", "text_mention", "phone_number"} | {kind for kind, _ in _PATTERNS}
_CARD = "bank_card"


def found_entities(text: str, known: list[Json]) -> list[Json]:
    """Entities not yet among `known`, never inside a link or code."""
    taken = [(e["offset"], e["offset"] + e["length"]) for e in known if e["type"] in _CLOSED]
    found: list[Json] = []
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            if kind == _CARD and not _is_card(match[0]):
                continue
            piece = match[0].rstrip(_TRAILING) if kind == "url" else match[0]
            start = _units(text[: match.start()])
            end = start + _units(piece)
            if all(end <= left or start >= right for left, right in taken):
                taken.append((start, end))
                found.append({"type": kind, "offset": start, "length": end - start})
    return found


def _is_card(text: str) -> bool:
    """Luhn's check of a card's number."""
    digits = [int(char) for char in reversed(text) if char.isdigit()]
    doubled = (2 * digit - 9 * (digit > 4) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
