"""Grammar of dates: word patterns for Russian and English, day arithmetic, and the type of a match.

Texts are lower case, without ё. Ends of ranges are exclusive everywhere.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

__all__ = [
    "DAY_AFTER",
    "DAY_GROUP",
    "DAY_NUMBER",
    "LEADING_WEEKDAY",
    "MONTH",
    "MONTH_GROUP",
    "MONTH_SHORT",
    "NUMBER",
    "OF_SEPARATOR",
    "ONE_DAY",
    "OPTIONAL_ARTICLE",
    "PART_GROUP",
    "PAST_GROUP",
    "RANGE_SEPARATOR",
    "SEASON",
    "SECOND_DAY_GROUP",
    "SHORT_MONTH_GROUP",
    "THIS_GROUP",
    "UNIT",
    "WEEKDAY",
    "WEEKDAY_SHORT",
    "YEAR",
    "YEAR_GROUP",
    "YEAR_SUFFIX",
    "DateMatch",
    "DateRange",
    "DateRule",
    "Match",
    "build_calendar_match",
    "build_day_range",
    "build_month_range",
    "build_unit_range",
    "build_weekday_range",
    "build_year_range",
    "expand_short_year",
    "parse_cardinal",
    "parse_day_number",
    "parse_month",
    "parse_season",
    "parse_unit",
    "parse_weekday",
    "parse_year",
    "resolve_date_parts",
    "shift_months",
]

_SOFT_ENDINGS, _HARD_ENDINGS = "(?:ь|я|е|ю|ем)", "(?:а|е|у|ом)?"  # whole words: "в Мартышкино" is not a month
_MONTHS = (
    (f"январ{_SOFT_ENDINGS}|january", "янв|jan"), (f"феврал{_SOFT_ENDINGS}|february", "февр|фев|feb"),
    (f"март{_HARD_ENDINGS}|march", "мар|mar"), (f"апрел{_SOFT_ENDINGS}|april", "апр|apr"), ("ма(?:й|я|е|ю|ем)|may", "may"),
    (f"июн{_SOFT_ENDINGS}|june", "июн|jun"), (f"июл{_SOFT_ENDINGS}|july", "июл|jul"), (f"август{_HARD_ENDINGS}|august", "авг|aug"),
    (f"сентябр{_SOFT_ENDINGS}|september", "сент|сен|sept|sep"), (f"октябр{_SOFT_ENDINGS}|october", "окт|oct"),
    (f"ноябр{_SOFT_ENDINGS}|november", "нояб|ноя|nov"), (f"декабр{_SOFT_ENDINGS}|december", "дек|dec"),
)  # fmt: skip
MONTH = "(?:" + "|".join(full for full, _ in _MONTHS) + ")"
# Only next to a day or a year: "mar" and "сен" alone are other words.
MONTH_SHORT = "(?:" + "|".join(f"{full}|(?:{short})\\b\\.?" for full, short in _MONTHS) + ")"
_MONTH_NUMBERS = [(re.compile(f"(?:{full}|{short})\\.?$"), n) for n, (full, short) in enumerate(_MONTHS, 1)]

_WEEKDAYS = (
    ("понедельник(?:а|у|ом|е)?|mondays?", "пнд|пн|mon"), ("вторник(?:а|у|ом|е)?|tuesdays?", "втр|вт|tues|tue"),
    ("сред(?:а|у|ы|е|ой)|wednesdays?", "срд|ср|wed"), ("четверг(?:а|у|ом|е)?|thursdays?", "чтв|чт|thurs|thur|thu"),
    ("пятниц(?:а|у|ы|е|ей)|fridays?", "птн|пт|fri"), ("суббот(?:а|у|ы|е|ой)|saturdays?", "сбт|сб|sat"),
    ("воскресень(?:е|я|ю|ем)|sundays?", "вск|вс|sun"),
)  # fmt: skip
WEEKDAY = "(?:" + "|".join(full for full, _ in _WEEKDAYS) + ")"
WEEKDAY_SHORT = "(?:" + "|".join(f"{full}|(?:{short})\\b\\.?" for full, short in _WEEKDAYS) + ")"
_WEEKDAY_NUMBERS = [(re.compile(f"(?:{full}|{short})\\.?$"), n) for n, (full, short) in enumerate(_WEEKDAYS)]

_UNITS = {
    "weekend": "weekends?|выходн(?:ые|ых|ым|ыми|ой)", "day": "days?|дн(?:я|ей|и|ю|ем|ями|ях)|день|сут(?:ки|ок)",
    "week": "weeks?|wks?|недел(?:я|и|е|ю|ь|ей|ями)", "month": "months?|mths?|месяц(?:а|у|ем|е|ев|ы)?",
    "quarter": "quarters?|qtrs?|квартал(?:а|у|ом|е|ов|ы)?", "half": "half[- ]years?|полугоди(?:е|я|и|ю|ем|й)",
    "year": "years?|yrs?|год(?:а|у|ом|е|ы|ов)?|лет", "decade": "decades?|десятилети(?:е|я|и|й|ю)",
}  # fmt: skip
UNIT = "(?:" + "|".join(_UNITS.values()) + ")"
_UNIT_NAMES = [(re.compile(f"(?:{pattern})$"), name) for name, pattern in _UNITS.items()]

_SEASONS = {"winter": 12, "spring": 3, "summer": 6, "autumn": 9, "fall": 9,
            "зим": 12, "весн": 3, "лет": 6, "осен": 9}  # fmt: skip
SEASON = "(?:winter|spring|summer|autumn|fall|зим(?:а|у|ы|ой)|весн(?:а|у|ы|ой)|лет(?:о|ом|а)|осен(?:ь|и|ью))"

_CARDINALS = {
    1: "one|an?|один|одну|одного|одна", 2: "two|a couple(?: of)?|couple(?: of)?|два|две|двух|пару|пара",
    3: "three|a few|few|several|три|трех|несколько", 4: "four|четыре|четырех", 5: "five|пять|пяти",
    6: "six|шесть|шести", 7: "seven|семь|семи", 8: "eight|восемь|восьми", 9: "nine|девять|девяти",
    10: "ten|десять|десяти", 11: "eleven|одиннадцать", 12: "twelve|двенадцать", 13: "thirteen", 14: "fourteen",
    15: "fifteen|пятнадцать", 18: "eighteen", 20: "twenty|двадцать|двадцати", 24: "twenty-four",
    30: "thirty|тридцать", 50: "fifty|пятьдесят", 100: "hundred|сто",
}  # fmt: skip
NUMBER = r"(?:\d{1,4}|" + "|".join(_CARDINALS.values()) + ")"
_CARDINAL_VALUES = {w: n for n, words in _CARDINALS.items() for w in words.replace("(?: of)?", "").split("|")}
_CARDINAL_VALUES |= {"an": 1, "a": 1}

_TEENS_RU = "одиннадцат двенадцат тринадцат четырнадцат пятнадцат шестнадцат семнадцат восемнадцат девятнадцат".split()
_ORDINAL_STEMS_RU = [
    "",
    "перв",
    "втор",
    "трет",
    "четверт",
    "пят",
    "шест",
    "седьм",
    "восьм",
    "девят",
    "десят",
    *_TEENS_RU,
    "двадцат",
]
_ORDINALS_EN = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
_ORDINAL_ENDINGS_RU = "(?:ое|ого|ому|ым|ый|ая|ую|ой|ом|ье|ьего|ьему|ий|ья|ью|ей)"
_ORDINAL_WORDS = (
    f"(?:двадцать |тридцать )?(?:{'|'.join(sorted(filter(None, _ORDINAL_STEMS_RU), key=len, reverse=True))}){_ORDINAL_ENDINGS_RU}|тридцат{_ORDINAL_ENDINGS_RU}|"
    f"(?:twenty|thirty)[- ](?:{'|'.join(_ORDINALS_EN[:9])})|{'|'.join(sorted(_ORDINALS_EN, key=len, reverse=True))}|thirtieth"
)
_ORDINAL_SUFFIX = r"(?:-?(?:ое|ого|его|ему|ому|го|му|ым|ое|е|й|я)(?![а-я])|(?:st|nd|rd|th)\b)?"
DAY_AFTER = rf"(?:(?:[12]\d|3[01]|0?[1-9]){_ORDINAL_SUFFIX}(?!\d)|{_ORDINAL_WORDS})"  # after a month
DAY_NUMBER = rf"(?:(?<![\d.,:/-])(?:[12]\d|3[01]|0?[1-9]){_ORDINAL_SUFFIX}(?!\d)|{_ORDINAL_WORDS})"
YEAR = r"(?:(?:1[89]|20)\d\d(?!\d)|nineteen [a-z]+(?:[ -][a-z]+)?|two thousand(?: and)? [a-z]+(?:[ -][a-z]+)?)"


def parse_month(word: str) -> int:
    """Parse a month name to 1..12."""
    return next(n for pattern, n in _MONTH_NUMBERS if pattern.match(word))


def parse_weekday(word: str) -> int:
    """Parse a weekday name to 0..6; Monday is 0."""
    return next(n for pattern, n in _WEEKDAY_NUMBERS if pattern.match(word))


def parse_unit(word: str) -> str:
    """Parse a unit to day, week, weekend, month, quarter, half, year or decade."""
    return next(name for pattern, name in _UNIT_NAMES if pattern.match(word))


def parse_season(word: str) -> int:
    """Parse a season to its first month, 1..12."""
    return next(n for start, n in _SEASONS.items() if word.startswith(start))


def parse_cardinal(word: str) -> int:
    """Parse a cardinal number in figures or words."""
    return int(word) if word.isdecimal() else _CARDINAL_VALUES[re.sub(r" of$", "", word)]


def parse_day_number(word: str) -> int:
    """Parse a day number, 1..31, from figures with or without an ending, or from an ordinal in words."""
    if figures := re.match(r"\d+", word):
        return int(figures[0])
    tens = 20 if word.startswith(("двадцать ", "twenty")) else 30 if word.startswith(("тридца", "thirt")) else 0
    if word in {"twentieth", "thirtieth"} or (word.startswith("тридцат") and " " not in word):
        return 20 if word == "twentieth" else 30
    last = re.split(r"[ -]", word)[-1]
    if word in _ORDINALS_EN:
        return _ORDINALS_EN.index(word) + 1
    if tens and last in _ORDINALS_EN:
        return tens + _ORDINALS_EN.index(last) + 1
    stem = max((s for s in _ORDINAL_STEMS_RU if s and last.startswith(s)), key=len)
    return (tens if " " in word else 0) + _ORDINAL_STEMS_RU.index(stem)


_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}


def parse_year(words: str) -> int | None:
    """Parse a year in figures or English words; None for words that are no number."""
    if words.isdecimal():
        return int(words)
    rest = [w for w in re.split(r"[ -]", words) if w != "and"]
    base, rest = (1900, rest[1:]) if rest[0] == "nineteen" else (2000, rest[2:])
    total = 0
    for word in rest:
        value = _TENS.get(word, _CARDINAL_VALUES.get(word))
        if value is None:
            return None
        total += value
    return base + total


ONE_DAY = timedelta(days=1)
_LEAP_CYCLE = 8  # years to search back for a 29 February
_FIRST_YEAR, _LAST_YEAR = 1000, 9000  # range of accepted years


@dataclass(frozen=True, slots=True)
class DateRange:
    """Range of days from `since` to `until`, exclusive; None is an open end."""

    since: date | None
    until: date | None


def build_day_range(one: date) -> DateRange:
    """Range of one day."""
    return DateRange(one, one + ONE_DAY)


def build_month_range(year_: int, number: int) -> DateRange:
    """Range of a month of a year."""
    first = date(year_, number, 1)
    return DateRange(first, first + timedelta(days=monthrange(year_, number)[1]))


def build_year_range(number: int) -> DateRange:
    """Range of a year."""
    return DateRange(date(number, 1, 1), date(number + 1, 1, 1))


def resolve_date_parts(y: int | None, m: int | None, d: int | None, today: date) -> DateRange | None:
    """Resolve year, month and day to a range; without a year the latest that has begun. None for an impossible date."""
    if y is not None and not _FIRST_YEAR <= y <= _LAST_YEAR:
        return None
    if m is None:
        return (build_year_range(y) if d is None else None) if y is not None else _resolve_day_of_month(d, today)
    if not 1 <= m <= 12:
        return None
    for candidate in [y] if y is not None else range(today.year, today.year - _LEAP_CYCLE - 1, -1):
        if d is not None and not 1 <= d <= monthrange(candidate, m)[1]:
            continue
        days = build_month_range(candidate, m) if d is None else build_day_range(date(candidate, m, d))
        if y is not None or (days.since and days.since <= today):
            return days
    return None


def _resolve_day_of_month(d: int | None, today: date) -> DateRange | None:
    """Latest date with this day of the month, not after today."""
    if d is None or not 1 <= d <= 31:
        return None
    first = today.replace(day=1)
    while d > monthrange(first.year, first.month)[1] or first.replace(day=d) > today:
        first = (first - ONE_DAY).replace(day=1)
    return build_day_range(first.replace(day=d))


def shift_months(one: date, months: int) -> date:
    """Shift a date by months, back if negative; the last day of the month where it has no such day."""
    at = one.year * 12 + one.month - 1 + months
    y, m = divmod(at, 12)
    if not _FIRST_YEAR <= y <= _LAST_YEAR:
        y = min(max(y, _FIRST_YEAR), _LAST_YEAR)
    return date(y, m + 1, min(one.day, monthrange(y, m + 1)[1]))


def build_unit_range(name: str, today: date, by: int = 0) -> DateRange:
    """Range of the calendar unit that contains `today`, shifted by `by` units (negative is back)."""
    if name == "day":
        return build_day_range(today + by * ONE_DAY)
    if name == "week":
        monday = today - today.weekday() * ONE_DAY + 7 * by * ONE_DAY
        return DateRange(monday, monday + 7 * ONE_DAY)
    if name == "weekend":
        saturday = today - today.weekday() * ONE_DAY + 5 * ONE_DAY + 7 * by * ONE_DAY
        return DateRange(saturday, saturday + 2 * ONE_DAY)
    size = {"month": 1, "quarter": 3, "half": 6, "year": 12, "decade": 120}[name]
    first = date(today.year - today.year % 10, 1, 1) if name == "decade" else today.replace(day=1)
    if name in {"quarter", "half", "year"}:
        first = first.replace(month=(first.month - 1) // size * size + 1)
    first = shift_months(first, size * by)
    return DateRange(first, shift_months(first, size))


def build_weekday_range(number: int, today: date, *, before: bool = False) -> DateRange:
    """Latest such weekday, Monday is 0; with `before`, not today itself."""
    gone = (today.weekday() - number) % 7 or (7 if before else 0)
    return build_day_range(today - gone * ONE_DAY)


@dataclass(frozen=True, slots=True)
class DateMatch:
    """Date expression at [at:to] of a text: `read(today)` gives its range, None for an impossible date.

    `fields` are (year, month, day) of a calendar date, so that a missing year can be taken from the other end of a
    range. `needs` names the words required before it: "в марте" is a date, "март" may be a café; "" requires none.
    """

    at: int
    to: int
    read: Callable[[date], DateRange | None]
    fields: tuple[int | None, int | None, int | None] | None = None
    needs: str = ""
    slack: int = 0
    pair: bool = False  # a range by itself, with beginning and end
    recent: bool = False  # relative to today


YEAR_SUFFIX = r"(?:\s*(?:г(?:ода|оду|од|\.)?|year)(?!\w))?"  # "2023 г."
OF_SEPARATOR = r"(?:\s*(?:of|the|,|-|/)\s*|\s+)"
LEADING_WEEKDAY = rf"(?:{WEEKDAY_SHORT}[\s,]*)?"
OPTIONAL_ARTICLE = r"(?:the\s+)?"
YEAR_GROUP = rf"(?P<y>{YEAR})"
DAY_GROUP, SECOND_DAY_GROUP = rf"(?P<d>{DAY_NUMBER})", rf"(?P<d2>{DAY_NUMBER})"
MONTH_GROUP, SHORT_MONTH_GROUP = rf"(?P<m>{MONTH})", rf"(?P<m>{MONTH_SHORT})"
RANGE_SEPARATOR = r"\s*(?:по|до|-|–|—|to|through|thru|until|till|and|и)\s*(?:the\s+)?"
THIS_GROUP = r"(?P<this>эт(?:от|ого|ому|им|ом|а|ой|у|и|их|о)|текущ(?:ий|его|ем|ая|ей|ую)|нынешн(?:ий|его|ем|яя|ей|юю)|this|current|that(?: one)?)"
PAST_GROUP = (
    r"(?P<past>(?:поза)?прошл(?:ый|ого|ым|ом|ая|ой|ую|ые|ых|ое)|предыдущ(?:ий|его|ем|ая|ей|ую|ие|их)|"
    r"последн(?:ий|его|ем|яя|ей|юю|ие|их)|last|previous|past)"
)
PART_GROUP = (
    r"(?P<part>начал(?:о|а|е|у)|середин(?:а|ы|е|у)|кон(?:ец|ца|це|цу)|(?:the )?(?:beginning|start|middle|end) of(?: the)?|"
    r"early|mid|late|later|earlier)"
)
Match = re.Match[str]
DateRule = tuple[re.Pattern[str], Callable[[Match], DateMatch | None]]


def build_calendar_match(found: Match, y: int | None, m: int | None, d: int | None, needs: str = "") -> DateMatch:
    """Build the match of a calendar date, month or year; None is a missing part."""
    return DateMatch(found.start(), found.end(), lambda today: resolve_date_parts(y, m, d, today), (y, m, d), needs)


def expand_short_year(yy: int, today: date) -> int:
    """Expand a two-digit year to the latest that is not in the future; longer years stay."""
    return yy if yy > 99 else yy + (2000 if yy <= today.year % 100 else 1900)
