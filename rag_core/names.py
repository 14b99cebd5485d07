"""Names in a text, by their capital letters, and the forms that a Russian surname takes. Pure."""

from __future__ import annotations

import re

__all__ = ["names", "surname", "surname_pattern"]

_CAPITAL = "[A-ZÀ-ÖØ-ÞΑ-ΩЀ-Я]"
_REST = r"[\w'’-]*(?:\.[\w'’-]+)*"  # U.S. is one word, the full stop of a sentence belongs to none
_SMALL = r"(?:of(?:\s+the)?|the|de|von|van|and|for|и|на|по)"
_NAME = re.compile(rf"(?<!\w){_CAPITAL}{_REST}(?:\s+(?:{_SMALL}\s+)?{_CAPITAL}{_REST}|\s+\d+(?!\w|[.,]\d))*")
_SURNAME = re.compile(r"(?P<base>[а-я]{2,}(?:ов|ев|ин|ын))(?:а|у|ым|ой|е|ы|ых|ыми)?")


def names(text: str) -> list[re.Match[str]]:
    """Runs of words with a capital letter, small words between them and numbers behind them included."""
    return list(_NAME.finditer(text))


def surname(word: str) -> str | None:
    """What all forms of a Russian surname begin with: "Торосов" of "Торосовой". None where it is none."""
    found = _SURNAME.fullmatch(word.lower().replace("ё", "е")) if word[:1].isupper() else None
    return found["base"] if found else None


def surname_pattern(base: str) -> re.Pattern[str]:
    """All forms of a surname, in a lower-case text without ё."""
    return re.compile(rf"(?<!\w){base}(?:а|у|ым|ой|е|ы|ых|ыми)?(?!\w)")
