"""Absolute dates: numeric (31.10.74, 2024-05-06, 5/13/2021) and written, with the month in words.

Written ones: 5 мая 2023, the third of March, August 10 - 22; also years, decades and centuries.
"""

from __future__ import annotations

import re
from datetime import date

from rag_core.dates.grammar import (
    DAY_AFTER,
    DAY_GROUP,
    DAY_NUMBER,
    LEADING_WEEKDAY,
    MONTH_GROUP,
    MONTH_SHORT,
    OF_SEPARATOR,
    ONE_DAY,
    OPTIONAL_ARTICLE,
    RANGE_SEPARATOR,
    SECOND_DAY_GROUP,
    SHORT_MONTH_GROUP,
    WEEKDAY_SHORT,
    YEAR_GROUP,
    YEAR_SUFFIX,
    DateMatch,
    DateRange,
    DateRule,
    Match,
    build_calendar_match,
    expand_short_year,
    parse_day_number,
    parse_month,
    parse_year,
    resolve_date_parts,
)

__all__ = ["NUMERIC_DATE_RULES", "WRITTEN_DATE_RULES"]

_NUMERIC_DATE = r"(?:1[0-2]|0?[1-9])/(?:3[01]|[12]\d|0?[1-9])(?:/(?:19|20)\d\d)?|(?:1[0-2]|0?[1-9])-(?:3[01]|[12]\d|0?[1-9])-(?:19|20)\d\d"

_CYRILLIC = re.compile("[а-я]")


def _read_numeric_date(found: Match) -> DateMatch | None:
    """Numeric date: 31.10.74, 2024-05-06, 5/13/2021. Where a/b is ambiguous, English has the month first."""
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
        return None  # "1.1.30" is a version number
    needs = "" if y is not None or found.groupdict().get("dot") or found.groupdict().get("wd") else "on"

    def read(today: date) -> DateRange | None:
        return resolve_date_parts(None if y is None else expand_short_year(y, today), m, d, today)

    full = y if y is None or y > 99 else None
    return DateMatch(found.start(), found.end(), read, None if y is not None and full is None else (full, m, d), needs)


def _read_numeric_range(found: Match) -> DateMatch | None:
    """Range of numeric dates: 10/1/2018-10/7/2018, 2/29-3/1; the second date gives the year."""
    parts = [[int(part) for part in re.split(r"[/.-]", found[name])] for name in ("one", "two")]
    order = (0, 1) if "/" in found["one"] or "-" in found["one"] else (1, 0)

    def read(today: date) -> DateRange | None:
        (one, other), (m, d) = parts, order
        last = resolve_date_parts(other[2] if len(other) == 3 else None, other[m], other[d], today)
        first = (
            resolve_date_parts(one[2] if len(one) == 3 else None, one[m], one[d], last.since)
            if last and last.since
            else None
        )
        return DateRange(first.since, last.until) if first and last else None

    return DateMatch(found.start(), found.end(), read, needs="" if len(parts[1]) == 3 else "on", pair=True)


NUMERIC_DATE_RULES: tuple[DateRule, ...] = (
    (re.compile(r"(?<![\d./])(?<!\d-)(?P<y>(?:19|20)\d\d)[-/.](?P<m>1[0-2]|0?[1-9])[-/.](?P<d>3[01]|[12]\d|0?[1-9])(?!\d)"), _read_numeric_date),
    (re.compile(r"(?<!\d)(?P<y>(?:19|20)\d\d)(?P<m>1[0-2]|0[1-9])(?P<d>3[01]|[12]\d|0[1-9])(?!\d)"), _read_numeric_date),
    (re.compile(r"(?<![\d./-])(?P<y>(?:19|20)\d\d)[-/](?P<m>1[0-2]|0?[1-9])(?![\d/-])"), _read_numeric_date),
    (re.compile(r"(?<![\d./-])(?P<m>1[0-2]|0?[1-9])[/.](?P<y>(?:19|20)\d\d)(?![\d/-])"), _read_numeric_date),
    (re.compile(r"(?<![\d./-])(?P<a>3[01]|[12]\d|0?[1-9])\.\s?(?P<b>1[0-2]|0?[1-9])\.\s?(?P<y>(?:19|20)?\d\d)(?![\d.]\d|\d)"), _read_numeric_date),
    (re.compile(r"(?<![\d./-])(?P<a>3[01]|[12]\d|0?[1-9])(?P<slash>[/-])(?P<b>3[01]|[12]\d|0?[1-9])[/-](?P<y>(?:19|20)\d\d|\d\d(?![/-]))(?![\d/])"), _read_numeric_date),
    (re.compile(r"(?<![\d./-])(?P<a>3[01]|[12]\d|0?[1-9])\.(?P<b>1[0-2]|0[1-9])(?P<dot>\.)?(?![\d.%]|\s*(?:%|проц|руб|тыс|млн))"), _read_numeric_date),
    (re.compile(rf"(?<![\d./-])(?:this\s+|last\s+)?(?P<wd>{WEEKDAY_SHORT}[\s,]*)?(?P<a>3[01]|[12]\d|0?[1-9])\s?(?P<slash>/)\s?"
        r"(?P<b>3[01]|[12]\d|0?[1-9])(?![\d/]|-\d+-)"), _read_numeric_date),
    (re.compile(rf"(?<!\d)(?P<one>{_NUMERIC_DATE})\s?[-–—]\s?(?P<two>{_NUMERIC_DATE})(?![\d/])"), _read_numeric_range),
)  # fmt: skip


_ROMAN_NUMERALS = {w: n for n, w in enumerate("xi xii xiii xiv xv xvi xvii xviii xix xx xxi".split(), 11)}


def _read_written_date(found: Match) -> DateMatch | None:
    """Written date: 5 мая 2023, May 5th, the third of March."""
    parts = found.groupdict()
    y = parse_year(parts["y"]) if parts.get("y") else None
    d = parse_day_number(parts["d"]) if parts.get("d") else None
    return build_calendar_match(found, y, parse_month(parts["m"]), d)


def _read_month(found: Match) -> DateMatch:
    return build_calendar_match(found, None, parse_month(found["m"]), None, "in")


def _read_short_month(found: Match) -> DateMatch:
    return build_calendar_match(found, None, parse_month(found["m"]), None, "range")


def _read_year(found: Match) -> DateMatch | None:
    y = parse_year(found["y"])
    return build_calendar_match(found, y, None, None, "" if found["g"] else "year") if y else None


def _read_day_range(found: Match) -> DateMatch | None:
    """Range of days in one month: 13 - 15 июля 2023, August 10 - 22."""
    parts = found.groupdict()
    m = parse_month(parts["m"]) if not parts["m"].isdecimal() else int(parts["m"])
    y = parse_year(parts["y"]) if parts.get("y") else None
    d, d2 = parse_day_number(parts["d"]), parse_day_number(parts["d2"])

    def read(today: date) -> DateRange | None:
        first = resolve_date_parts(y, m, d, today)
        last = resolve_date_parts(first.since.year, m, d2, today) if first and first.since else None
        return DateRange(first.since, last.until) if first and last and first.since and d <= d2 else None

    return DateMatch(found.start(), found.end(), read, pair=True)


def _read_day_number_range(found: Match) -> DateMatch | None:
    """Range of day numbers without a month: с 11 до 15 числа."""
    d, d2 = parse_day_number(found["d"]), parse_day_number(found["d2"])

    def read(today: date) -> DateRange | None:
        first = resolve_date_parts(None, None, d, today)
        return (
            DateRange(first.since, first.since + (d2 - d + 1) * ONE_DAY) if first and first.since and d <= d2 else None
        )

    return DateMatch(found.start(), found.end(), read, pair=True)


def _read_day_number(found: Match) -> DateMatch:
    return build_calendar_match(found, None, None, parse_day_number(found["d"]), "" if found["word"] else "on")


def _read_decade(found: Match) -> DateMatch:
    first = int(found["y"]) // 10 * 10
    first += 1900 if first < 100 else 0
    return DateMatch(found.start(), found.end(), lambda _: DateRange(date(first, 1, 1), date(first + 10, 1, 1)))


def _read_new_year(found: Match) -> DateMatch:
    return build_calendar_match(found, None, 1, 1, "bound")


def _read_century(found: Match) -> DateMatch | None:
    word = found["n"]
    n = int(re.match(r"\d+", word)[0]) if word[0].isdecimal() else _ROMAN_NUMERALS.get(word, 0)  # type: ignore[index]
    if not 10 < n < 22:
        return None
    return DateMatch(found.start(), found.end(), lambda _: DateRange(date(100 * n - 100, 1, 1), date(100 * n, 1, 1)))


_DECADE_WORDS = "twenties thirties forties fifties sixties seventies eighties nineties".split()


def _read_decade_word(found: Match) -> DateMatch:
    first = 1920 + 10 * _DECADE_WORDS.index(found["word"])
    return DateMatch(found.start(), found.end(), lambda _: DateRange(date(first, 1, 1), date(first + 10, 1, 1)))


def _read_short_year(found: Match) -> DateMatch | None:
    """Written date with a two-digit year: 3 Aug 96; otherwise an ordinary written date."""
    if not found["yy"]:
        return _read_written_date(found)
    yy, m, d = int(found["yy"].strip("'")), parse_month(found["m"]), parse_day_number(found["d"])
    return DateMatch(
        found.start(), found.end(), lambda today: resolve_date_parts(expand_short_year(yy, today), m, d, today)
    )


WRITTEN_DATE_RULES: tuple[DateRule, ...] = (
    (re.compile(rf"\b{LEADING_WEEKDAY}{OPTIONAL_ARTICLE}{DAY_GROUP}{RANGE_SEPARATOR}{SECOND_DAY_GROUP}(?:\s+|{OF_SEPARATOR}){SHORT_MONTH_GROUP}(?:,?\s*{YEAR_GROUP})?{YEAR_SUFFIX}(?!\w)"), _read_day_range),
    (re.compile(rf"\b{SHORT_MONTH_GROUP}\s*{OPTIONAL_ARTICLE}{DAY_GROUP}{RANGE_SEPARATOR}{SECOND_DAY_GROUP}(?:,?\s*{YEAR_GROUP})?(?!\w|[./]\d)"), _read_day_range),
    (re.compile(r"(?<![\d.])(?P<d>\d{1,2})\.?\s*[-–/]\s*(?P<d2>\d{1,2})\.(?P<m>1[0-2]|0?[1-9])(?:\.(?P<y>\d{4})|\.?)(?![\d%])"), _read_day_range),
    (re.compile(rf"\b{DAY_GROUP}{RANGE_SEPARATOR}{SECOND_DAY_GROUP}\s+числа\b"), _read_day_number_range),
    (re.compile(rf"(?<![\w.]){LEADING_WEEKDAY}{OPTIONAL_ARTICLE}{DAY_GROUP}(?:\s*(?:of|-|,|/)\s*|\s*){SHORT_MONTH_GROUP}(?:\s*[,/-]?\s*{YEAR_GROUP}|\s(?P<yy>'?\d\d(?![\d:.]|\s*(?:{MONTH_SHORT}))))?{YEAR_SUFFIX}(?!\w)"),
     _read_short_year),
    (re.compile(rf"\b{LEADING_WEEKDAY}{SHORT_MONTH_GROUP}[\s,/-]*{OPTIONAL_ARTICLE}(?P<d>{DAY_AFTER})(?:\s*(?:,|/|-|of)?\s*{YEAR_GROUP})?(?![\w.:]\d|\w)"), _read_written_date),
    (re.compile(rf"\b{SHORT_MONTH_GROUP}\s*(?:,|-|/|of|in)?\s*{YEAR_GROUP}{YEAR_SUFFIX}(?!\w)"), _read_written_date),
    (re.compile(rf"(?<!\d){YEAR_GROUP}\s*[/,-]?\s*{SHORT_MONTH_GROUP}(?:\s*[/,-]?\s*{DAY_GROUP})?(?!\w)"), _read_written_date),
    (re.compile(rf"\b{MONTH_GROUP}(?!\w)"), _read_month),
    (re.compile(rf"\b{SHORT_MONTH_GROUP}(?!\w)"), _read_short_month),
    (re.compile(rf"(?<![\w.,$€₽№#/-]){YEAR_GROUP}(?P<g>\s*(?:год(?:а|у|ом|е)?|г\.|year)(?!\w))?(?![\w%])(?!\s*(?:руб|₽|доллар|евро|"
        r"человек|чел\b|штук|мест|экземпл|тонн|км|кг|people|dollars|euros|men|women|seats|bonus|km|kg|points))"), _read_year),
    (re.compile(r"\b(?P<y>(?:19|20)?\d0)(?:\s?'?s\b|-?[её]?[ехы](?:\s+годы|\s+годах|\s+годов)?\b)"), _read_decade),
    (re.compile(r"\b(?P<n>i?[ivx]+|\d{1,2}(?:st|nd|rd|th|-?[йгоем]+)?)[\s-]+(?:century|век(?:а|е|у)?)\b"), _read_century),
    (re.compile(rf"\bthe (?P<word>{'|'.join(_DECADE_WORDS)})\b"), _read_decade_word),
    (re.compile(rf"\b(?:the\s+)?(?P<d>{DAY_NUMBER})(?P<word>\s+числа)(?!\w)"), _read_day_number),
    (re.compile(r"\bthe\s+(?P<d>\d{1,2}(?:st|nd|rd|th))(?P<word>)(?!\s*[a-z])"), _read_day_number),
    (re.compile(r"\b(?:нового года|новым годом|new year)(?:'?s)?\b"), _read_new_year),
)  # fmt: skip
