"""Scores of date parsing: own expressions and test suites of other programs, as a search over past posts needs it.

Scored are rows of day grain or longer with one date that is not in the future; durations, repeats, holidays and times
of day are left out, because no post is filtered by them. Days are compared, hours are not. The sources read "last N
units" by the calendar or counting back from now, an end as inclusive or exclusive, and some give only where a range
begins: each of these readings is right. Rows with `gold` list their readings themselves, and are compared exactly: a
day that is still to come is no filter of posts, so a row that has nothing else is one where nothing may be found.
"""

import json
import re
import time as time_module
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from dateutil.relativedelta import relativedelta

from rag_core.dates import parse_period

_DEFAULT_REFERENCE = datetime(2025, 1, 15, 12, tzinfo=UTC)
_ONE_DAY = timedelta(days=1)
_MAX_DAYS_BY_UNIT = {"day": 1, "week": 7, "month": 31, "year": 366}
_MAX_UNITS = 150  # decades: more would begin before the year 1
SCORED = frozenset(Path(__file__).with_name("scored_dates.txt").read_text("utf-8").split())
_LAST_N_PATTERN = re.compile(
    r"\b(?:last|past|previous|прошл\w+|последн\w+)\s+(?:few\s+|нескол\w+\s+)?(?P<n>[\w-]+)\s+"
    r"(?P<unit>days?|weeks?|months?|quarters?|years?|decades?|дн\w+|день|недел\w+|месяц\w*|квартал\w*|год\w*|лет)\b",
    re.I,
)
# Size of a unit in "the last three quarters": (months, days).
_UNIT_SIZES = {
    "day": (0, 1), "дн": (0, 1), "день": (0, 1), "week": (0, 7), "недел": (0, 7), "month": (1, 0), "месяц": (1, 0),
    "quarter": (3, 0), "квартал": (3, 0), "year": (12, 0), "год": (12, 0), "лет": (12, 0), "decade": (120, 0),
}  # fmt: skip
_NUMBER_WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11,
    "twelve": 12, "два": 2, "две": 2, "три": 3, "четыре": 4, "пять": 5, "шесть": 6, "семь": 7, "восемь": 8,
    "девять": 9, "десять": 10,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DaySpan:
    """Days from `since` to before `until`; None is open, `slack` is the tolerance of each end in days.

    With `widest`, only the start is known, and it lies in these days: a period is right if it starts in them, or if it
    contains the first of them and is not longer than `widest` days.
    """

    since: date | None
    until: date | None
    widest: int = 0
    slack: int = 1  # some sources give inclusive ends, some exclusive


@dataclass(frozen=True, slots=True)
class DateRow:
    """An expression, its reference time, and the right readings; no readings if it holds no date."""

    id: str
    lang: str
    text: str
    ref: datetime
    readings: tuple[DaySpan, ...]


def read_date_rows(folder):
    """Read the rows to score from all .jsonl files of a folder, and the rows without a date."""
    lines = [line for file in sorted(folder.glob("*.jsonl")) for line in file.read_text(encoding="utf-8").splitlines()]
    return [row for line in lines if line.strip() and (row := _parse_date_row(json.loads(line)))]


def _parse_date_row(raw):
    ref = datetime.fromisoformat(raw["ref"]).replace(tzinfo=UTC) if raw.get("ref") else None
    if raw.get("negative"):
        return DateRow(raw["id"], raw["lang"], raw["text"], ref or _DEFAULT_REFERENCE, ())
    if "gold" in raw and ref:
        spans = (
            DaySpan(_parse_day(since), _parse_day(until), slack=sum(slack)) for since, until, *slack in raw["gold"]
        )
        past = tuple(s for s in spans if (s.since or date.min) <= ref.date())
        return DateRow(raw["id"], raw["lang"], raw["text"], ref, past)
    if raw["id"] not in SCORED:
        return None
    text, (value,) = raw["text"], raw["expected"]
    now = ref or _DEFAULT_REFERENCE
    past = tuple(s for s in _parse_readings(value, now) if (s.since or s.until or date.max) <= now.date())
    return DateRow(raw["id"], raw["lang"], text, now, (*past, *_build_last_n_spans(text, now))) if past else None


def _parse_readings(expected, now):
    """Parse the expected values of a source, in each of its formats."""
    if "values" in expected:
        yield from (
            s for raw_value in expected["values"] if (s := _parse_recognizer_value(raw_value, expected["type"]))
        )
    elif "grain" in expected:
        if expected["grain"] in {"day", "week", "month", "quarter", "year"} and not expected.get("holiday"):
            yield DaySpan(_parse_day(expected["start"]), _parse_day(expected["end"]))
    elif "offset" in expected:
        if expected["period"] != "day" or not {"hours", "minutes", "seconds"} & set(expected["offset"]):
            day = _parse_day(expected["start_at"])
            yield DaySpan(day, day + _ONE_DAY if day else None, _MAX_DAYS_BY_UNIT.get(expected["period"], 31))
    elif span := _parse_asserted_span(expected, now):
        yield span


def _parse_recognizer_value(value, kind):
    if kind == "date" and re.fullmatch(r"\d{4}-\d\d-\d\d", value.get("value") or ""):
        day = _parse_day(value["value"])
        return DaySpan(day, day + _ONE_DAY if day else None)
    if kind == "daterange" and (value.get("start") or value.get("end")):
        return DaySpan(_parse_day(value.get("start")), _parse_day(value.get("end")))
    return None


def _parse_asserted_span(expected, now):
    """Parse instants, and the date fields that a test compares; the year may be missing."""
    begins = _parse_asserted_days(expected.get("start_at") or expected.get("start_fields"), now)
    ends = _parse_asserted_days(expected.get("end_at") or expected.get("end_fields"), now)
    return DaySpan(begins.since, ends.until) if begins and ends else begins


def _parse_asserted_days(value, now):
    """Convert an instant, or the asserted fields of a date, to the days it can mean."""
    if isinstance(value, str):
        day = datetime.fromisoformat(value).date()
        return DaySpan(day, day + _ONE_DAY, 31)
    if not isinstance(value, Mapping) or not 0 < value.get("year", now.year) < 9999:
        return None
    if not {"day", "month", "year"} & set(value):
        return None  # a time of day
    year, month = value.get("year", now.year), value.get("month")
    if "day" in value:
        day = date(year, month or now.month, value["day"])
        return DaySpan(day, day + _ONE_DAY, 31)
    since = date(year, month or 1, 1)
    until = (since + timedelta(days=31)).replace(day=1) if month else date(year + 1, 1, 1)
    return DaySpan(since, until, 366)


def _parse_day(value):
    return datetime.fromisoformat(value).date() if value else None


def _build_last_n_spans(text, now):
    """Build the calendar and the rolling reading of "the last N units"."""
    match = _LAST_N_PATTERN.search(text)
    number = _NUMBER_WORDS.get(match["n"].lower().replace("ё", "е"), match["n"]) if match else ""
    if not match or not str(number).isdecimal() or int(number) > _MAX_UNITS:
        return
    months, days = next(size for start, size in _UNIT_SIZES.items() if match["unit"].lower().startswith(start))
    today, n = now.date(), int(number)
    rolling = today - relativedelta(months=months * n) - timedelta(days=days * n)
    yield DaySpan(rolling, today)
    yield DaySpan(rolling, None)
    if months:
        first = today.replace(day=1) - relativedelta(months=(today.month - 1) % months if months <= 12 else 0)
        yield DaySpan(first - relativedelta(months=months * n), first)
    elif days == 7:
        monday = today - timedelta(days=today.weekday())
        yield DaySpan(monday - timedelta(days=7 * n), monday)


def _matches_reading(found, reading):
    since = found.since.date() if found.since else None
    until = found.until.date() if found.until else None
    if reading.widest:
        if since is None or reading.since is None or reading.until is None:
            return False
        inside = until is not None and since <= reading.since < until and (until - since).days <= reading.widest
        return reading.since <= since < reading.until or inside
    return _is_near_day(since, reading.since, reading.slack) and (
        _is_near_day(until, reading.until, reading.slack) or (reading.slack > 0 and _includes_whole_end(until, reading))
    )


def _is_near_day(one, other, slack):
    return one == other or (one is not None and other is not None and abs((one - other).days) <= slack)


def _includes_whole_end(until, reading):
    """Whether the period includes the last month or year where the source excludes it: "from 2014 to 2018"."""
    end = reading.until
    if until is None or end is None or reading.since is None or end.day > 1 or reading.since.day > 1:
        return False
    months = (end.year - reading.since.year) * 12 + end.month - reading.since.month
    of_years = end.month == 1 and reading.since.month == 1
    of_quarters = (end.month - 1) % 3 == 0 and (reading.since.month - 1) % 3 == 0
    return (
        (months > 1 and until == end + relativedelta(months=1))
        or (of_quarters and months > 3 and until == end + relativedelta(months=3))
        or (of_years and months > 12 and until == end + relativedelta(years=1))
    )


def score_dates(rows):
    """Share of right readings, share of false finds among rows without a date, rows per second."""
    started = time_module.perf_counter()
    found = [(row.readings, parse_period(row.text, row.ref)) for row in rows]
    took = time_module.perf_counter() - started
    right = [
        period is not None and any(_matches_reading(period, reading) for reading in readings)
        for readings, period in found
        if readings
    ]
    false_finds = [period is not None for readings, period in found if not readings]
    return {
        "right": sum(right) / max(1, len(right)),
        "false_finds": sum(false_finds) / max(1, len(false_finds)),
        "per_second": len(rows) / took,
    }
