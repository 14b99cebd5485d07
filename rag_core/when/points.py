"""Times inside another: the first week of July, two weeks starting May 20th. And all times of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date

from rag_core.when import counted, figures, weeks, written_dates
from rag_core.when.days import DAY, Days
from rag_core.when.lexicon import (
    MONTH_SHORT,
    NUMBER,
    UNIT,
    WEEKDAY,
    YEAR,
    day_number,
    number_of,
    unit_of,
    weekday_of,
)
from rag_core.when.point import (
    PAST,
    THIS,
    Match,
    Point,
    Rule,
)
from rag_core.when.relative import later, nth_of

__all__ = ["Point", "points"]

NTH = (
    r"(?P<nth>перв(?:ый|ая|ое|ые|ых|ую|ом|ой)|втор(?:ой|ая|ое|ую)|трет(?:ий|ья|ье|ью)|последн(?:ий|яя|ее|ие|их|юю|ей|ем)|"
    r"first|second|third|fourth|last|[1-5](?:st|nd|rd|th))"
)
BOX = (
    rf"(?:{THIS.replace('?P<this>', '?:')}|{PAST.replace('?P<past>', '?:')})\s+(?:year|month|quarter|год|месяц|квартал)|"
    rf"{MONTH_SHORT}(?!\w)|{YEAR}"
)


def _after(found: Match, rules: Sequence[Rule]) -> Point | None:
    """The longest time that follows at once."""
    here = (rule(match) for pattern, rule in rules if (match := pattern.match(found.string, found.end())))
    return max(filter(None, here), key=lambda point: point.to, default=None)


def _nth(found: Match) -> Point | None:
    """The first week of, the last three days of: the days of what follows are asked for when it is read."""
    rest = _after(found, _SIMPLE)
    if rest is None:
        return None
    word = found["nth"]
    last = word.startswith(("последн", "last"))
    nth = 1 if last else day_number(word)
    n = number_of(found["n"]) if found["n"] else 1
    wd = weekday_of(found["wd"]) if found["wd"] else None
    name = unit_of(found["unit"]) if found["unit"] else "day"
    return Point(found.start(), rest.to, lambda today: nth_of(rest.read(today), name, wd, nth, n, last), None)


def _week_of(found: Match) -> Point | None:
    rest = _after(found, (*_SIMPLE, *_PARTS))

    def read(today: date) -> Days | None:
        days = rest.read(today) if rest else None
        return Days(days.since, days.since + 7 * DAY) if days and days.since and days.until else None

    return Point(found.start(), rest.to, read) if rest else None


def _from_then(found: Match) -> Point | None:
    rest, n, name = _after(found, (*_SIMPLE, *_PARTS)), number_of(found["n"]), unit_of(found["unit"])

    def read(today: date) -> Days | None:
        days = rest.read(today) if rest else None
        return Days(days.since, later(n, name, days.since)) if days and days.since else None

    return Point(found.start(), rest.to, read) if rest else None


# No time within a time within a time: a text of nothing else would be read for ever.
_SIMPLE = (*written_dates.RULES, *figures.RULES, *weeks.RULES, *counted.RULES)
_PARTS: tuple[Rule, ...] = (
    (re.compile(rf"\b(?:{NTH})\s+(?:(?P<n>{NUMBER})\s+)?(?:(?P<unit>{UNIT})|(?P<wd>{WEEKDAY}))\s*(?:of|in)?\s*(?:the\s+)?(?={BOX})"), _nth),
)  # fmt: skip
_LENGTHS: tuple[Rule, ...] = (
    (re.compile(r"\b(?:w/c|week (?:commencing|beginning|starting|of))\s+(?:the\s+)?(?=\S)"), _week_of),
    (re.compile(rf"\b(?:for\s+)?(?P<n>{NUMBER})\s+(?P<unit>{UNIT}),?\s+(?:starting|beginning|начиная)\s+(?:from\s+|on\s+|с\s+)?(?=\S)"), _from_then),
)  # fmt: skip
# Of two readings of the same words the first one stands.
_RULES = (*_SIMPLE, *_PARTS, *_LENGTHS)
_RECENT = {id(pattern) for pattern, _ in (*weeks.RULES, *counted.RULES)}


def points(text: str) -> Iterator[Point]:
    """The times of a lower-case text from left to right, of overlapping ones the first and longest."""
    end = 0
    for point in sorted(_every(text), key=lambda p: (p.at, -p.to)):
        if point.at >= end:
            yield point
            end = point.to


def _every(text: str) -> Iterator[Point]:
    for pattern, rule in _RULES:
        for found in pattern.finditer(text):
            if point := rule(found):
                counts_back = id(pattern) in _RECENT and not found.groupdict().get("y")
                yield replace(point, recent=True) if counts_back else point
