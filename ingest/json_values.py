"""JSON values of messages: they come from strangers, so that each is checked for type, range and length.

Lengths are Telegram's limits, in code points: https://limits.tginfo.me
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Telegram promises that ids fit 52 bits: https://core.telegram.org/bots/api#chat
MAX_ID = 2**52
MAX_TITLE_LENGTH = 128  # of chats and topics
_MAX_NAME_LENGTH = 129  # of a person: first and last name have 64 each
MAX_FILE_NAME_LENGTH = 255


class MalformedMessage(ValueError):
    """A message lacks a mandatory field or holds an invalid value."""


def parse_integer(value: object, low: int = 1, high: int = MAX_ID) -> int:
    """Parse an integer within `low`..`high`. Raises MalformedMessage."""
    if type(value) is not int or not low <= value <= high:
        raise MalformedMessage(f"not a number from {low} to {high}")
    return value


def parse_text(value: object, most: int | None = None) -> str | None:
    """Parse a non-empty text, cut at `most` characters, else None. Half a surrogate pair becomes U+FFFD."""
    if not isinstance(value, str) or not value:
        return None
    text = value[:most]
    # Both are one UTF-16 unit long, so that the offsets of entities stay right.
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parse_object(value: object) -> Mapping[str, Any]:
    """Parse an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def parse_peer_name(peer: Mapping[str, Any]) -> str:
    """Parse the name of a chat or a person; "" if it has none."""
    names = (parse_text(peer.get(key), MAX_TITLE_LENGTH) for key in ("title", "first_name", "last_name"))
    return " ".join(filter(None, names))


def parse_name(value: object) -> str | None:
    """Parse the name of a person or chat, as written in one text, else None."""
    return parse_text(value, _MAX_NAME_LENGTH)


def count_utf16_units(text: str) -> int:
    """Length of a text in UTF-16 units, in which entities are measured."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
