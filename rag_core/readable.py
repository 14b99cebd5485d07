"""Texts made readable for analysis, one code point for one code point, so that offsets stay right."""

from __future__ import annotations

import unicodedata

__all__ = ["readable"]

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Letters and digits in another dress ("𝗕𝗼𝗹𝗱", "Ｗｉｄｅ"). Raised and lowered digits stay: 10² is not 102.
_DRESSED = ("<font>", "<wide>", "<narrow>", "<noBreak>")


class _Table(dict[int, str]):
    """What stands for a code point, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        self[code] = found = _plain(chr(code))
        return found


def _plain(char: str) -> str:
    if char == "\n":
        return char
    if unicodedata.category(char) in _INVISIBLE:
        return " "
    if unicodedata.decomposition(char).startswith(_DRESSED):
        undressed = unicodedata.normalize("NFKC", char)
        return undressed if len(undressed) == 1 else char
    return char


_TABLE = _Table()


def readable(text: str) -> str:
    """The same text, as long as before: controls, bidi marks and zero-width characters are spaces."""
    return text if text.isascii() and text.isprintable() else text.translate(_TABLE)
