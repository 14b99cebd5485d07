"""Weekdays, weeks, quarters, seasons, and parts of a month or year."""

from __future__ import annotations

import re
from datetime import date

from rag_core.when.days import DAY, Days, latest
from rag_core.when.lexicon import (
    DAY_NUMBER,
    MONTH_SHORT,
    NUMBER,
    SEASON,
    WEEKDAY,
    WEEKDAY_SHORT,
    day_number,
    month_of,
    number_of,
    season_of,
    weekday_of,
    year_of,
)
from rag_core.when.point import (
    MS,
    OF_YEAR,
    PART,
    PAST,
    THIS,
    M,
    Match,
    Point,
    Rule,
    Y,
)
from rag_core.when.relative import part_of, season, this_weekday

__all__ = ["RULES"]


def _quarter(found: Match) -> Point | None:
    word = found["n"]
    n = {"i": 1, "ii": 2, "iii": 3, "iv": 4}.get(word) or day_number(word)
    months = 6 if found["size"].startswith(("h", "полуг")) else 3
    y = year_of(found["y"]) if found["y"] else None
    if n * months > 12:
        return None

    def read(today: date) -> Days | None:
        first = latest(y, months * (n - 1) + 1, 1, today)
        last = latest(first.since.year, months * n, None, today) if first and first.since else None
        return Days(first.since, last.until) if first and last else None

    return Point(found.start(), found.end(), read)


def _month_of_year(found: Match) -> Point:
    m, past = month_of(found["m"]), bool(found["past"]) or found["of"] in {"last", "previous"}
    return Point(found.start(), found.end(), lambda today: latest(today.year - past, m, None, today))


def _weekday(found: Match) -> Point:
    parts, n = found.groupdict(), weekday_of(found["wd"])
    past, week = bool(parts.get("past")) and not parts.get("this"), parts.get("week")
    by = None if not week else -1 if re.search(r"прошл|last|previous", week) else 0
    times = number_of(parts["n"]) if parts.get("n") else 1
    needs = "" if past or week or parts.get("this") or parts.get("n") else "on"
    return Point(found.start(), found.end(), lambda today: this_weekday(n, today, past, by, times), needs=needs)


def _season(found: Match) -> Point:
    parts, n = found.groupdict(), season_of(found["s"])
    y = year_of(parts["y"]) if parts.get("y") else None
    # "летом" says when by its case, "лето" does not
    bare = found["s"] in {"зима", "зимы", "весна", "весны", "лето", "лета", "осень", "осени", "fall"}
    said = y is not None or parts.get("past") or parts.get("this")
    needs = "in" if not said and (bare or found["s"].isascii()) else ""
    return Point(found.start(), found.end(), lambda today: season(n, y, bool(parts.get("past")), today), needs=needs)


def _part(found: Match) -> Point:
    parts = found.groupdict()
    m = month_of(parts["m"]) if parts.get("m") else None
    y = year_of(parts["y"]) if parts.get("y") else None
    return Point(found.start(), found.end(), lambda today: part_of(parts["part"], latest(y, m, None, today)))


def _week_number(found: Match) -> Point | None:
    n, y = int(found["n"]), year_of(found["y"]) if found["y"] else None

    def read(today: date) -> Days | None:
        try:
            monday = date.fromisocalendar(y or today.year, n, 1)
        except ValueError:
            return None
        return Days(monday, monday + 7 * DAY)

    return Point(found.start(), found.end(), read)


def _weekday_number(found: Match) -> Point:
    """Tue 13th: the latest 13th that was a Tuesday."""
    wd, d = weekday_of(found["wd"].rstrip(".")), day_number(found["d"])

    def read(today: date) -> Days | None:
        for _ in range(28 * 12):
            one = latest(None, None, d, today)
            if one is None or one.since is None or one.since.weekday() == wd:
                return one
            today = one.since - DAY
        return None

    return Point(found.start(), found.end(), read)


def _named_month(found: Match) -> Point:
    m, past = month_of(found["m"]), bool(found["past"])

    def read(today: date) -> Days | None:
        one = latest(None, m, None, today)
        here = one is not None and one.until is not None and one.until > today
        return latest(today.year - 1, m, None, today) if past and here else one

    return Point(found.start(), found.end(), read)


RULES: tuple[Rule, ...] = (
    (re.compile(rf"\b(?:(?P<n>i{{1,3}}|iv|[1-4](?:st|nd|rd|th|-?[йгоем]+)?|{DAY_NUMBER})\s+(?P<size>quarter|квартал\w?|half(?=\s+of\s+\d)|полугоди\w)"
        rf")(?:\s+(?:of\s+)?{Y})?{OF_YEAR}(?!\w)"), _quarter),
    (re.compile(rf"\b(?P<size>q|h)(?P<n>[1-4])(?:[\s-]*(?:of\s+|')?\s*{Y})(?!\w)"), _quarter),
    (re.compile(rf"(?<!\d){Y}[\s-]*(?P<size>q|h)(?P<n>[1-4])(?!\w)"), _quarter),
    (re.compile(rf"\bweek\s+(?P<n>\d{{1,2}})(?:\s+of\s+{Y})?(?!\w)"), _week_number),
    (re.compile(rf"\b(?P<wd>{WEEKDAY_SHORT})[\s,]+(?:the\s+)?(?P<d>\d{{1,2}}(?:st|nd|rd|th))(?!\w)"), _weekday_number),
    (re.compile(rf"\b{MS}\s+(?:{THIS}|{PAST}|of\s+(?:the\s+)?(?P<of>this|last|previous))\s+(?:года|year)(?!\w)"), _month_of_year),
    (re.compile(rf"\b(?:{THIS}|{PAST})\s+(?P<m>{MONTH_SHORT})(?<!this may)(?<!that may)(?!\w)"), _named_month),
    (re.compile(rf"\b(?:(?P<n>{NUMBER})\s+)(?P<wd>{WEEKDAY})\s+(?:ago|back)\b"), _weekday),
    (re.compile(rf"\b(?:(?:{THIS}\s+)?(?:{PAST}\s+)?)(?P<wd>{WEEKDAY})(?P<week>\s+(?:of|на|in)\s+(?:{THIS.replace('this>', 'x>')}|"
        rf"{PAST.replace('past>', 'z>')})\s+(?:недел\w|week))?\b"), _weekday),
    (re.compile(rf"\b(?:(?:{THIS}|{PAST})\s+)?(?P<s>{SEASON})(?:\s+(?:of\s+)?{Y})?{OF_YEAR}(?!\w)"), _season),
    (re.compile(rf"\b{PART}[\s-]+(?:(?:{M})(?!\w))?(?:\s*(?:of\s+)?{Y}{OF_YEAR}(?!\w))?"), _part),
)  # fmt: skip
