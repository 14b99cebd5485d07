"""Dates whose month is a word, and years: 5 мая 2023, the third of March, August 10 - 22, the 1990s."""

from __future__ import annotations

import re
from datetime import date

from rag_core.when.days import DAY, Days, latest
from rag_core.when.lexicon import (
    DAY_AFTER,
    DAY_NUMBER,
    MONTH_SHORT,
    day_number,
    month_of,
    year_of,
)
from rag_core.when.point import (
    D2,
    MS,
    OF,
    OF_YEAR,
    THE,
    TO,
    WEEKDAY_FIRST,
    D,
    M,
    Match,
    Point,
    Rule,
    Y,
    calendar,
    century,
)

__all__ = ["RULES"]

_ROMAN = {w: n for n, w in enumerate("xi xii xiii xiv xv xvi xvii xviii xix xx xxi".split(), 11)}


def _written(found: Match) -> Point | None:
    """5 мая 2023, May 5th, the third of March."""
    parts = found.groupdict()
    y = year_of(parts["y"]) if parts.get("y") else None
    d = day_number(parts["d"]) if parts.get("d") else None
    return calendar(found, y, month_of(parts["m"]), d)


def _month_alone(found: Match) -> Point:
    return calendar(found, None, month_of(found["m"]), None, "in")


def _month_short(found: Match) -> Point:
    return calendar(found, None, month_of(found["m"]), None, "range")


def _year_alone(found: Match) -> Point | None:
    y = year_of(found["y"])
    return calendar(found, y, None, None, "" if found["g"] else "year") if y else None


def _pair(found: Match) -> Point | None:
    """13 - 15 июля 2023, August 10 - 22: two days of one month."""
    parts = found.groupdict()
    m = month_of(parts["m"]) if not parts["m"].isdecimal() else int(parts["m"])
    y = year_of(parts["y"]) if parts.get("y") else None
    d, d2 = day_number(parts["d"]), day_number(parts["d2"])

    def read(today: date) -> Days | None:
        first = latest(y, m, d, today)
        last = latest(first.since.year, m, d2, today) if first and first.since else None
        return Days(first.since, last.until) if first and last and first.since and d <= d2 else None

    return Point(found.start(), found.end(), read, pair=True)


def _pair_of_days(found: Match) -> Point | None:
    """с 11 до 15 числа."""
    d, d2 = day_number(found["d"]), day_number(found["d2"])

    def read(today: date) -> Days | None:
        first = latest(None, None, d, today)
        return Days(first.since, first.since + (d2 - d + 1) * DAY) if first and first.since and d <= d2 else None

    return Point(found.start(), found.end(), read, pair=True)


def _number_of_month(found: Match) -> Point:
    return calendar(found, None, None, day_number(found["d"]), "" if found["word"] else "on")


def _decade(found: Match) -> Point:
    first = int(found["y"]) // 10 * 10
    first += 1900 if first < 100 else 0
    return Point(found.start(), found.end(), lambda _: Days(date(first, 1, 1), date(first + 10, 1, 1)))


def _new_year(found: Match) -> Point:
    return calendar(found, None, 1, 1, "bound")


def _century_of(found: Match) -> Point | None:
    word = found["n"]
    n = int(re.match(r"\d+", word)[0]) if word[0].isdecimal() else _ROMAN.get(word, 0)  # type: ignore[index]
    if not 10 < n < 22:
        return None
    return Point(found.start(), found.end(), lambda _: Days(date(100 * n - 100, 1, 1), date(100 * n, 1, 1)))


_DECADES = "twenties thirties forties fifties sixties seventies eighties nineties".split()


def _decade_word(found: Match) -> Point:
    first = 1920 + 10 * _DECADES.index(found["word"])
    return Point(found.start(), found.end(), lambda _: Days(date(first, 1, 1), date(first + 10, 1, 1)))


def _short_year(found: Match) -> Point | None:
    """3 Aug 96; without the short year as it is written."""
    if not found["yy"]:
        return _written(found)
    yy, m, d = int(found["yy"].strip("'")), month_of(found["m"]), day_number(found["d"])
    return Point(found.start(), found.end(), lambda today: latest(century(yy, today), m, d, today))


RULES: tuple[Rule, ...] = (
    (re.compile(rf"\b{WEEKDAY_FIRST}{THE}{D}{TO}{D2}(?:\s+|{OF}){MS}(?:,?\s*{Y})?{OF_YEAR}(?!\w)"), _pair),
    (re.compile(rf"\b{MS}\s*{THE}{D}{TO}{D2}(?:,?\s*{Y})?(?!\w|[./]\d)"), _pair),
    (re.compile(r"(?<![\d.])(?P<d>\d{1,2})\.?\s*[-–/]\s*(?P<d2>\d{1,2})\.(?P<m>1[0-2]|0?[1-9])(?:\.(?P<y>\d{4})|\.?)(?![\d%])"), _pair),
    (re.compile(rf"\b{D}{TO}{D2}\s+числа\b"), _pair_of_days),
    (re.compile(rf"(?<![\w.]){WEEKDAY_FIRST}{THE}{D}(?:\s*(?:of|-|,|/)\s*|\s*){MS}(?:\s*[,/-]?\s*{Y}|\s(?P<yy>'?\d\d(?![\d:.]|\s*(?:{MONTH_SHORT}))))?{OF_YEAR}(?!\w)"),
     _short_year),
    (re.compile(rf"\b{WEEKDAY_FIRST}{MS}[\s,/-]*{THE}(?P<d>{DAY_AFTER})(?:\s*(?:,|/|-|of)?\s*{Y})?(?![\w.:]\d|\w)"), _written),
    (re.compile(rf"\b{MS}\s*(?:,|-|/|of|in)?\s*{Y}{OF_YEAR}(?!\w)"), _written),
    (re.compile(rf"(?<!\d){Y}\s*[/,-]?\s*{MS}(?:\s*[/,-]?\s*{D})?(?!\w)"), _written),
    (re.compile(rf"\b{M}(?!\w)"), _month_alone),
    (re.compile(rf"\b{MS}(?!\w)"), _month_short),
    (re.compile(rf"(?<![\w.,$€₽№#/-]){Y}(?P<g>\s*(?:год(?:а|у|ом|е)?|г\.|year)(?!\w))?(?![\w%])(?!\s*(?:руб|₽|доллар|евро|"
        r"человек|чел\b|штук|мест|экземпл|тонн|км|кг|people|dollars|euros|men|women|seats|bonus|km|kg|points))"), _year_alone),
    (re.compile(r"\b(?P<y>(?:19|20)?\d0)(?:\s?'?s\b|-?[её]?[ехы](?:\s+годы|\s+годах|\s+годов)?\b)"), _decade),
    (re.compile(r"\b(?P<n>i?[ivx]+|\d{1,2}(?:st|nd|rd|th|-?[йгоем]+)?)[\s-]+(?:century|век(?:а|е|у)?)\b"), _century_of),
    (re.compile(rf"\bthe (?P<word>{'|'.join(_DECADES)})\b"), _decade_word),
    (re.compile(rf"\b(?:the\s+)?(?P<d>{DAY_NUMBER})(?P<word>\s+числа)(?!\w)"), _number_of_month),
    (re.compile(r"\bthe\s+(?P<d>\d{1,2}(?:st|nd|rd|th))(?P<word>)(?!\s*[a-z])"), _number_of_month),
    (re.compile(r"\b(?:нового года|новым годом|new year)(?:'?s)?\b"), _new_year),
)  # fmt: skip
