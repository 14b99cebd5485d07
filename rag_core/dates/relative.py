"""Relative dates: counted from today ("three weeks ago", "last month", "за последние 2 дня").

Also weekdays, weeks, quarters, seasons, and parts of a month or year ("the end of August").
"""

from __future__ import annotations

import re
from datetime import date

from rag_core.dates.grammar import (
    DAY_NUMBER,
    MONTH_GROUP,
    MONTH_SHORT,
    NUMBER,
    ONE_DAY,
    PART_GROUP,
    PAST_GROUP,
    SEASON,
    SHORT_MONTH_GROUP,
    THIS_GROUP,
    UNIT,
    WEEKDAY,
    WEEKDAY_SHORT,
    YEAR_GROUP,
    YEAR_SUFFIX,
    DateMatch,
    DateRange,
    DateRule,
    Match,
    build_day_range,
    build_unit_range,
    build_weekday_range,
    parse_cardinal,
    parse_day_number,
    parse_month,
    parse_season,
    parse_unit,
    parse_weekday,
    parse_year,
    resolve_date_parts,
    shift_months,
)

__all__ = [
    "CALENDAR_UNIT_RULES",
    "RELATIVE_DATE_RULES",
    "add_units",
    "resolve_last_units",
    "resolve_named_unit",
    "resolve_nth_unit",
    "resolve_part",
    "resolve_season",
    "resolve_units_ago",
    "resolve_weekday",
]

_MONTHS_PER_UNIT = {"month": 1, "quarter": 3, "half": 6, "year": 12, "decade": 120}
_DAYS_PER_UNIT = {"day": 1, "weekend": 7, "week": 7}


def _subtract_units(n: int, name: str, today: date) -> date:
    months = _MONTHS_PER_UNIT.get(name)
    n = min(n, 12_000)
    return shift_months(today, -months * n) if months else today - min(n * _DAYS_PER_UNIT[name], 300_000) * ONE_DAY


def resolve_units_ago(n: int, name: str, today: date) -> DateRange:
    """Resolve "n units ago" to one day."""
    return build_day_range(_subtract_units(n, name, today))


def add_units(n: int, name: str, start: date) -> date:
    """Add n units to a date."""
    months = _MONTHS_PER_UNIT.get(name)
    return shift_months(start, months * n) if months else start + n * _DAYS_PER_UNIT[name] * ONE_DAY


def resolve_last_units(n: int, name: str, today: date) -> DateRange:
    """Range from n units ago to today, inclusive."""
    return DateRange(_subtract_units(n, name, today), today + ONE_DAY)


def resolve_named_unit(name: str, by: int, today: date, part: str) -> DateRange | None:
    """Resolve this unit or an earlier one (`by` below zero), or a part of it; None for no date."""
    # on a weekday the latest past weekend is meant; at a weekend "last weekend" is the one before
    if name == "weekend" and today.weekday() < 5:
        by = min(by, -1)
    if name == "day":
        return DateRange(today + by * ONE_DAY, today + (by + 1) * ONE_DAY)
    if name == "working week":
        monday = build_unit_range("week", today, by).since
        return DateRange(monday, monday + 5 * ONE_DAY) if monday else None
    unit = build_unit_range(name, today, by)
    if unit.since and unit.until and part in {"later", "earlier"} and not by:
        return DateRange(today, unit.until) if part == "later" else DateRange(unit.since, today)
    return resolve_part(part, unit) if part else unit


def resolve_weekday(number: int, today: date, past: bool, week: int | None, times: int) -> DateRange:
    """Resolve a weekday: the latest one, that of this or the last week (`week`), or `times` weeks back."""
    if week is not None:
        monday = build_unit_range("week", today, week).since
        assert monday is not None
        return build_day_range(monday + number * ONE_DAY)
    if past:  # "last Wednesday" is in the week before: that of this week is "on Wednesday"
        return resolve_weekday(number, today, False, -1, 1)
    day = build_weekday_range(number, today, before=times > 1).since
    assert day is not None
    return build_day_range(day - 7 * (times - 1) * ONE_DAY)


def resolve_nth_unit(
    box: DateRange | None, name: str, wd: int | None, nth: int, n: int, last: bool
) -> DateRange | None:
    """Resolve the nth unit or weekday of a period, the last one, or n units at its beginning or end.

    A week belongs to the period with most of its days (ISO 8601).
    """
    if box is None or box.since is None or box.until is None:
        return None
    if wd is not None:
        if last:
            return build_day_range(box.until - ONE_DAY - ((box.until - ONE_DAY).weekday() - wd) % 7 * ONE_DAY)
        return build_day_range(box.since + (wd - box.since.weekday()) % 7 * ONE_DAY + 7 * (nth - 1) * ONE_DAY)
    if name == "week":
        monday = build_unit_range("week", box.until - 4 * ONE_DAY if last else box.since + 3 * ONE_DAY).since
        assert monday is not None
        first = monday - 7 * (n - 1) * ONE_DAY if last else monday + 7 * (nth - 1) * ONE_DAY
        return DateRange(first, first + 7 * n * ONE_DAY)
    months = _MONTHS_PER_UNIT.get(name)
    if months:
        return (
            DateRange(shift_months(box.until, -months * n), box.until)
            if last
            else DateRange(shift_months(box.since, months * (nth - 1)), shift_months(box.since, months * (nth - 1 + n)))
        )
    if last:
        return DateRange(box.until - n * ONE_DAY, box.until)
    return DateRange(box.since + (nth - 1) * ONE_DAY, box.since + (nth - 1 + n) * ONE_DAY)


def resolve_season(first: int, y: int | None, past: bool, today: date) -> DateRange:
    """Resolve a season: three months from `first`, by default the latest begun; a winter has the year it begins in."""
    year = today.year if y is None else y
    start = date(year, first, 1)
    while y is None and start > today:
        start = shift_months(start, -12)
    if past and shift_months(start, 3) > today:
        start = shift_months(start, -12)
    return DateRange(start, shift_months(start, 3))


def resolve_part(part: str, whole: DateRange | None) -> DateRange | None:
    """Resolve the beginning, middle or end of a period: a third of it; the end of a week is its last three days."""
    if whole is None or whole.since is None or whole.until is None:
        return whole
    length = (whole.until - whole.since).days
    if length <= 2:
        return whole
    third = 3 if length == 7 else 10 if length < 32 else None
    if third:
        first, second = whole.since + third * ONE_DAY, whole.since + 2 * third * ONE_DAY
        last = whole.until - 3 * ONE_DAY if length == 7 else second
    else:
        months = round(length / 30.4 / 3)
        first, second = shift_months(whole.since, months), shift_months(whole.since, 2 * months)
        last = second
    if any(word in part for word in ("начал", "beginning", "start", "early")):
        return DateRange(whole.since, first)
    if any(word in part for word in ("середин", "mid")):
        return DateRange(first, second)
    return DateRange(last, whole.until)


def _read_quarter(found: Match) -> DateMatch | None:
    word = found["n"]
    n = {"i": 1, "ii": 2, "iii": 3, "iv": 4}.get(word) or parse_day_number(word)
    months = 6 if found["size"].startswith(("h", "полуг")) else 3
    y = parse_year(found["y"]) if found["y"] else None
    if n * months > 12:
        return None

    def read(today: date) -> DateRange | None:
        first = resolve_date_parts(y, months * (n - 1) + 1, 1, today)
        last = resolve_date_parts(first.since.year, months * n, None, today) if first and first.since else None
        return DateRange(first.since, last.until) if first and last else None

    return DateMatch(found.start(), found.end(), read)


def _read_month_of_year(found: Match) -> DateMatch:
    m, past = parse_month(found["m"]), bool(found["past"]) or found["of"] in {"last", "previous"}
    return DateMatch(found.start(), found.end(), lambda today: resolve_date_parts(today.year - past, m, None, today))


def _read_weekday(found: Match) -> DateMatch:
    parts, n = found.groupdict(), parse_weekday(found["wd"])
    past, week = bool(parts.get("past")) and not parts.get("this"), parts.get("week")
    by = None if not week else -1 if re.search(r"прошл|last|previous", week) else 0
    times = parse_cardinal(parts["n"]) if parts.get("n") else 1
    needs = "" if past or week or parts.get("this") or parts.get("n") else "on"
    return DateMatch(found.start(), found.end(), lambda today: resolve_weekday(n, today, past, by, times), needs=needs)


def _read_season(found: Match) -> DateMatch:
    parts, n = found.groupdict(), parse_season(found["s"])
    y = parse_year(parts["y"]) if parts.get("y") else None
    # the instrumental case "летом" means "in summer"; "лето" needs a preposition
    bare = found["s"] in {"зима", "зимы", "весна", "весны", "лето", "лета", "осень", "осени", "fall"}
    qualified = y is not None or parts.get("past") or parts.get("this")
    needs = "in" if not qualified and (bare or found["s"].isascii()) else ""
    return DateMatch(
        found.start(), found.end(), lambda today: resolve_season(n, y, bool(parts.get("past")), today), needs=needs
    )


def _read_period_part(found: Match) -> DateMatch:
    parts = found.groupdict()
    m = parse_month(parts["m"]) if parts.get("m") else None
    y = parse_year(parts["y"]) if parts.get("y") else None
    return DateMatch(
        found.start(), found.end(), lambda today: resolve_part(parts["part"], resolve_date_parts(y, m, None, today))
    )


def _read_week_number(found: Match) -> DateMatch | None:
    n, y = int(found["n"]), parse_year(found["y"]) if found["y"] else None

    def read(today: date) -> DateRange | None:
        try:
            monday = date.fromisocalendar(y or today.year, n, 1)
        except ValueError:
            return None
        return DateRange(monday, monday + 7 * ONE_DAY)

    return DateMatch(found.start(), found.end(), read)


def _read_weekday_with_day(found: Match) -> DateMatch:
    """Weekday with a day number: "Tue 13th" is the latest 13th that was a Tuesday."""
    wd, d = parse_weekday(found["wd"].rstrip(".")), parse_day_number(found["d"])

    def read(today: date) -> DateRange | None:
        for _ in range(28 * 12):
            one = resolve_date_parts(None, None, d, today)
            if one is None or one.since is None or one.since.weekday() == wd:
                return one
            today = one.since - ONE_DAY
        return None

    return DateMatch(found.start(), found.end(), read)


def _read_this_or_last_month(found: Match) -> DateMatch:
    m, past = parse_month(found["m"]), bool(found["past"])

    def read(today: date) -> DateRange | None:
        one = resolve_date_parts(None, m, None, today)
        here = one is not None and one.until is not None and one.until > today
        return resolve_date_parts(today.year - 1, m, None, today) if past and here else one

    return DateMatch(found.start(), found.end(), read)


CALENDAR_UNIT_RULES: tuple[DateRule, ...] = (
    (re.compile(rf"\b(?:(?P<n>i{{1,3}}|iv|[1-4](?:st|nd|rd|th|-?[йгоем]+)?|{DAY_NUMBER})\s+(?P<size>quarter|квартал\w?|half(?=\s+of\s+\d)|полугоди\w)"
        rf")(?:\s+(?:of\s+)?{YEAR_GROUP})?{YEAR_SUFFIX}(?!\w)"), _read_quarter),
    (re.compile(rf"\b(?P<size>q|h)(?P<n>[1-4])(?:[\s-]*(?:of\s+|')?\s*{YEAR_GROUP})(?!\w)"), _read_quarter),
    (re.compile(rf"(?<!\d){YEAR_GROUP}[\s-]*(?P<size>q|h)(?P<n>[1-4])(?!\w)"), _read_quarter),
    (re.compile(rf"\bweek\s+(?P<n>\d{{1,2}})(?:\s+of\s+{YEAR_GROUP})?(?!\w)"), _read_week_number),
    (re.compile(rf"\b(?P<wd>{WEEKDAY_SHORT})[\s,]+(?:the\s+)?(?P<d>\d{{1,2}}(?:st|nd|rd|th))(?!\w)"), _read_weekday_with_day),
    (re.compile(rf"\b{SHORT_MONTH_GROUP}\s+(?:{THIS_GROUP}|{PAST_GROUP}|of\s+(?:the\s+)?(?P<of>this|last|previous))\s+(?:года|year)(?!\w)"), _read_month_of_year),
    (re.compile(rf"\b(?:{THIS_GROUP}|{PAST_GROUP})\s+(?P<m>{MONTH_SHORT})(?<!this may)(?<!that may)(?!\w)"), _read_this_or_last_month),
    (re.compile(rf"\b(?:(?P<n>{NUMBER})\s+)(?P<wd>{WEEKDAY})\s+(?:ago|back)\b"), _read_weekday),
    (re.compile(rf"\b(?:(?:{THIS_GROUP}\s+)?(?:{PAST_GROUP}\s+)?)(?P<wd>{WEEKDAY})(?P<week>\s+(?:of|на|in)\s+(?:{THIS_GROUP.replace('this>', 'x>')}|"
        rf"{PAST_GROUP.replace('past>', 'z>')})\s+(?:недел\w|week))?\b"), _read_weekday),
    (re.compile(rf"\b(?:(?:{THIS_GROUP}|{PAST_GROUP})\s+)?(?P<s>{SEASON})(?:\s+(?:of\s+)?{YEAR_GROUP})?{YEAR_SUFFIX}(?!\w)"), _read_season),
    (re.compile(rf"\b{PART_GROUP}[\s-]+(?:(?:{MONTH_GROUP})(?!\w))?(?:\s*(?:of\s+)?{YEAR_GROUP}{YEAR_SUFFIX}(?!\w))?"), _read_period_part),
)  # fmt: skip


_LARGE_NUMBER = re.compile(r"(?:million|billion|thousand|hundred|млн|млрд|миллион\w*|миллиард\w*|тысяч\w*)\.?\s*$")


def _read_units_ago(found: Match) -> DateMatch | None:
    if _LARGE_NUMBER.search(found.string[: found.start()]):
        return None  # "66 million years ago"
    n = parse_cardinal(found["n"]) if found["n"] else 1
    name = "week" if found["unit"].startswith("fortnight") else parse_unit(found["unit"])
    n *= 2 if found["unit"].startswith("fortnight") else 1
    slack = {"week": 3, "month": 10, "quarter": 45, "half": 60, "year": 45, "decade": 400}.get(name, 0)
    return DateMatch(found.start(), found.end(), lambda today: resolve_units_ago(n, name, today), slack=slack)


def _read_last_units(found: Match) -> DateMatch:
    half = found["unit"] == "полгода"
    n, name = parse_cardinal(found["n"]) if found["n"] else 1, "half" if half else parse_unit(found["unit"])
    return DateMatch(found.start(), found.end(), lambda today: resolve_last_units(n, name, today))


def _read_half_year_ago(found: Match) -> DateMatch:
    months = 6 if found["half"] == "полгода" else 18
    return DateMatch(found.start(), found.end(), lambda today: resolve_units_ago(months, "month", today), slack=30)


def _read_this_or_last_unit(found: Match) -> DateMatch:
    parts, name = found.groupdict(), parse_unit(found["unit"])
    if parts.get("working") and name == "week":
        name = "working week"
    past = parts.get("past") or ""
    by = -2 if past.startswith("поза") or parts.get("twice") else -1 if past else 0
    which = parts.get("part") or ""
    # "последний день Помпеи", "в последние годы жизни": the last ones of something, not the latest ones
    needs = "last" if past.startswith("последн") else ""
    return DateMatch(found.start(), found.end(), lambda today: resolve_named_unit(name, by, today, which), needs=needs)


def _read_yesterday(found: Match) -> DateMatch:
    back = {"поза": 2, "позапоза": 3, "the day before": 2, "day before": 2}.get((found["before"] or "").strip(), 1)
    return DateMatch(found.start(), found.end(), lambda today: resolve_units_ago(back, "day", today))


def _read_today(found: Match) -> DateMatch:
    return DateMatch(found.start(), found.end(), lambda today: resolve_units_ago(0, "day", today))


def _read_now(found: Match) -> DateMatch:
    return DateMatch(found.start(), found.end(), lambda today: resolve_units_ago(0, "day", today), needs="range")


def _read_abbreviated_ago(found: Match) -> DateMatch:
    name = {"d": "day", "w": "week", "m": "month", "y": "year"}[found["unit"]]
    return DateMatch(found.start(), found.end(), lambda today: resolve_units_ago(int(found["n"]), name, today))


def _read_unit_before_last(found: Match) -> DateMatch:
    return DateMatch(
        found.start(), found.end(), lambda today: resolve_named_unit(parse_unit(found["unit"]), -2, today, "")
    )


RELATIVE_DATE_RULES: tuple[DateRule, ...] = (
    (re.compile(r"\b(?:tomorrow|завтра(?:шнего дня)?|now|сих пор|present)\b"), _read_now),
    (re.compile(rf"\b(?:(?P<n>{NUMBER})\s*)?(?P<unit>{UNIT}|fortnights?)\s+(?:тому\s+)?(?:ago|back|earlier|before (?:today|now)|назад)\b"), _read_units_ago),
    (re.compile(r"\b(?P<half>полгода|полтора года)\s+(?:тому\s+)?назад\b"), _read_half_year_ago),
    (re.compile(r"\bза\s+(?P<n>)(?:(?:все\s+)?(?:последн(?:ий|юю|ее)|прошедш(?:ий|ую|ее|ие))\s+)?(?P<unit>день|сутки|неделю|месяц|квартал|"
        r"полугодие|год|полгода)(?!\s*\d|\w)"), _read_last_units),
    (re.compile(r"\b(?P<past>)(?:the\s+(?=weekend))?(?P<unit>выходны(?:е|х)|(?<=the )weekend)\b"), _read_this_or_last_unit),
    (re.compile(r"\b(?P<n>\d{1,3})(?P<unit>d|w|m|y)\s+ago\b"), _read_abbreviated_ago),
    (re.compile(rf"\b(?:{PAST_GROUP}|the\s+(?:last|past|previous))\s+(?P<n>{NUMBER})\s+(?P<unit>{UNIT})\b"), _read_last_units),
    (re.compile(rf"\b(?:{PART_GROUP}\s+)?(?:{THIS_GROUP}|{PAST_GROUP})\s*(?:(?:calendar|календарн\w+|(?P<working>working|рабоч\w+))\s+)?(?P<unit>{UNIT})\b(?!\s+of\b)"), _read_this_or_last_unit),
    (re.compile(rf"\bthe (?P<unit>{UNIT}) before (?P<past>last)(?P<twice>)\b"), _read_unit_before_last),
    (re.compile(r"\b(?P<before>(?:поза)+|(?:the )?day before )?(?:вчера|yesterday)\b"), _read_yesterday),
    (re.compile(r"\b(?:сегодня|today|tonight)\b"), _read_today),
    (re.compile(r"\bthe day before(?=\W*$)"), lambda f: DateMatch(f.start(), f.end(), lambda today: resolve_units_ago(1, "day", today))),
    (re.compile(r"\b(?:to|till) date\b"), lambda f: DateMatch(f.start(), f.end(), lambda today: DateRange(None, today))),
)  # fmt: skip
