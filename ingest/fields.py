"""Reading values out of JSON that strangers wrote: right type, sane range, or `Malformed`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["ID_LIMIT", "Malformed", "box", "unix_seconds", "whole", "words"]

# Telegram promises that ids fit 52 bits: https://core.telegram.org/bots/api#chat
ID_LIMIT = 2**52
# Telegram's times are unsigned 32-bit seconds.
_TIME_LIMIT = 2**32


class Malformed(ValueError):
    """A message lacks what every message has, or holds what none can."""


def whole(value: object, low: int = 1, high: int = ID_LIMIT) -> int:
    """An integer within `low`..`high`."""
    if type(value) is not int or not low <= value <= high:
        raise Malformed(f"not a number from {low} to {high}")
    return value


def unix_seconds(value: object) -> int:
    """Unix seconds, from a number or its digits."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        value = int(value)
    return whole(value, 1, _TIME_LIMIT)


def words(value: object) -> str | None:
    """A text that is not empty, else None. Half a surrogate pair, which no file can hold, becomes U+FFFD."""
    if not isinstance(value, str) or not value:
        return None
    # Both are one UTF-16 unit long, so that the offsets of entities stay right.
    return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def box(value: object) -> Mapping[str, Any]:
    """An object, else an empty one."""
    return value if isinstance(value, dict) else {}
