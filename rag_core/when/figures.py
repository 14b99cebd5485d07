"""Dates in figures: 31.10.74, 2024-05-06, 5/13/2021, 10/1/2018-10/7/2018."""

from __future__ import annotations

import re
from datetime import date

from rag_core.when.days import Days, latest
from rag_core.when.lexicon import (
    WEEKDAY_SHORT,
)
from rag_core.when.point import (
    Match,
    Point,
    Rule,
    century,
)

__all__ = ["RULES"]

_NUMERIC = r"(?:1[0-2]|0?[1-9])/(?:3[01]|[12]\d|0?[1-9])(?:/(?:19|20)\d\d)?|(?:1[0-2]|0?[1-9])-(?:3[01]|[12]\d|0?[1-9])-(?:19|20)\d\d"

_CYRILLIC = re.compile("[а-я]")


def _figures(found: Match) -> Point | None:
    """31.10.74, 2024-05-06, 5/13/2021. Where both readings of a/b are dates, English has the month first."""
    m: int
    d: int | None
    parts = {key: int(value) for key, value in found.groupdict().items() if value and value.isdecimal()}
    a, b, y = parts.get("a"), parts.get("b"), parts.get("y")
    if a is not None and b is not None:
        english = "slash" in found.re.groupindex and not _CYRILLIC.search(found.string)
        month_first = a <= 12 and (english or b > 12)
        m, d = (a, b) if month_first else (b, a)
    else:
        m, d = parts["m"], parts.get("d")
    if y is not None and y < 100 and re.match(r"[1-9]\.[1-9]\.", found[0]):
        return None  # 1.1.30 is a version
    needs = "" if y is not None or found.groupdict().get("dot") or found.groupdict().get("wd") else "on"

    def read(today: date) -> Days | None:
        return latest(None if y is None else century(y, today), m, d, today)

    full = y if y is None or y > 99 else None
    return Point(found.start(), found.end(), read, None if y is not None and full is None else (full, m, d), needs)


def _numeric_pair(found: Match) -> Point | None:
    """10/1/2018-10/7/2018, 2/29-3/1: the last part says the year."""
    parts = [[int(part) for part in re.split(r"[/.-]", found[name])] for name in ("one", "two")]
    order = (0, 1) if "/" in found["one"] or "-" in found["one"] else (1, 0)

    def read(today: date) -> Days | None:
        (one, other), (m, d) = parts, order
        last = latest(other[2] if len(other) == 3 else None, other[m], other[d], today)
        first = latest(one[2] if len(one) == 3 else None, one[m], one[d], last.since) if last and last.since else None
        return Days(first.since, last.until) if first and last else None

    return Point(found.start(), found.end(), read, needs="" if len(parts[1]) == 3 else "on", pair=True)


RULES: tuple[Rule, ...] = (
    (re.compile(r"(?<![\d./])(?<!\d-)(?P<y>(?:19|20)\d\d)[-/.](?P<m>1[0-2]|0?[1-9])[-/.](?P<d>3[01]|[12]\d|0?[1-9])(?!\d)"), _figures),
    (re.compile(r"(?<!\d)(?P<y>(?:19|20)\d\d)(?P<m>1[0-2]|0[1-9])(?P<d>3[01]|[12]\d|0[1-9])(?!\d)"), _figures),
    (re.compile(r"(?<![\d./-])(?P<y>(?:19|20)\d\d)[-/](?P<m>1[0-2]|0?[1-9])(?![\d/-])"), _figures),
    (re.compile(r"(?<![\d./-])(?P<m>1[0-2]|0?[1-9])[/.](?P<y>(?:19|20)\d\d)(?![\d/-])"), _figures),
    (re.compile(r"(?<![\d./-])(?P<a>3[01]|[12]\d|0?[1-9])\.\s?(?P<b>1[0-2]|0?[1-9])\.\s?(?P<y>(?:19|20)?\d\d)(?![\d.]\d|\d)"), _figures),
    (re.compile(r"(?<![\d./-])(?P<a>3[01]|[12]\d|0?[1-9])(?P<slash>[/-])(?P<b>3[01]|[12]\d|0?[1-9])[/-](?P<y>(?:19|20)\d\d|\d\d(?![/-]))(?![\d/])"), _figures),
    (re.compile(r"(?<![\d./-])(?P<a>3[01]|[12]\d|0?[1-9])\.(?P<b>1[0-2]|0[1-9])(?P<dot>\.)?(?![\d.%]|\s*(?:%|проц|руб|тыс|млн))"), _figures),
    (re.compile(rf"(?<![\d./-])(?:this\s+|last\s+)?(?P<wd>{WEEKDAY_SHORT}[\s,]*)?(?P<a>3[01]|[12]\d|0?[1-9])\s?(?P<slash>/)\s?"
        r"(?P<b>3[01]|[12]\d|0?[1-9])(?![\d/]|-\d+-)"), _figures),
    (re.compile(rf"(?<!\d)(?P<one>{_NUMERIC})\s?[-–—]\s?(?P<two>{_NUMERIC})(?![\d/])"), _numeric_pair),
)  # fmt: skip
