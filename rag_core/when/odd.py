"""Dates in an order that no rule knows ("September-2020-23"), by dateparser: slow, so asked last."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from itertools import islice

from rag_core.when.days import Days, day
from rag_core.when.lexicon import MONTH_SHORT

__all__ = ["odd_date"]

_MOST = 3  # candidates: each takes dateparser a millisecond or two
# A month in words among figures, a year of four digits with it: what is left to be found is the order.
_PIECE = r"[\s,./-]{0,3}"
_CANDIDATE = re.compile(rf"(?<!\w)(?:(?:\d{{1,4}}|{MONTH_SHORT})(?:st|nd|rd|th)?{_PIECE}){{2,4}}(?!\w)")
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_MONTH = re.compile(MONTH_SHORT)
_DAY = re.compile(r"(?<!\d)\d\d?(?!\d)")


def odd_date(text: str, today: date) -> tuple[Days, str] | None:
    """A day with its month in words and its year in four digits, in whatever order; and the words it stands in."""
    every = (found for found in _CANDIDATE.finditer(text) if all(p.search(found[0]) for p in (_YEAR, _MONTH, _DAY)))
    for found in islice(every, _MOST):
        import dateparser

        settings = {"STRICT_PARSING": True, "RELATIVE_BASE": datetime.combine(today, time())}
        parsed = dateparser.parse(found[0].strip(), languages=["en", "ru"], settings=settings)
        if parsed:
            return Days(day(parsed.date()).since, day(parsed.date()).until), found[0].strip()
    return None
