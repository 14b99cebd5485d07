"""Scores of date parsing: own expressions and test suites of other programs, as a search over past posts needs it.

Scored are rows of day grain or longer with one date that is not in the future; durations, repeats, holidays and times
of day are left out, because no post is filtered by them. Days are compared, hours are not. `gold` lists the right
readings of a row; a day that is still to come is no filter of posts, so a row that has nothing else is one where
nothing may be found. Of the suites of other programs scored_dates.jsonl keeps the readings: they read "last N units" by
the calendar or counting back from now, an end as inclusive or exclusive, and some give only where a range begins.
"""

import json
import time as time_module
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from dateutil.relativedelta import relativedelta

from rag_core.dates import parse_period

_DEFAULT_REFERENCE = datetime(2025, 1, 15, 12, tzinfo=UTC)
_SCORED_ROWS = Path(__file__).with_name("scored_dates.jsonl").read_text("utf-8").splitlines()
SCORED = {row["id"]: row["gold"] for row in map(json.loads, _SCORED_ROWS)}


@dataclass(frozen=True, slots=True)
class DaySpan:
    """Days from `since` to before `until`; None is open, `slack` is the tolerance of each end in days.

    With `widest`, only the start is known, and it lies in these days: a period is right if it starts in them, or if it
    contains the first of them and is not longer than `widest` days.
    """

    since: date | None
    until: date | None
    slack: int = 0  # in the suites 1: some give inclusive ends, some exclusive
    widest: int = 0


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
    ref = datetime.fromisoformat(raw["ref"]).replace(tzinfo=UTC) if raw.get("ref") else _DEFAULT_REFERENCE
    gold = [] if raw.get("negative") else raw.get("gold", SCORED.get(raw["id"]))
    if gold is None:
        return None
    spans = (DaySpan(_parse_day(since), _parse_day(until), *rest) for since, until, *rest in gold)
    past = tuple(span for span in spans if (span.since or date.min) <= ref.date())
    return DateRow(raw["id"], raw["lang"], raw["text"], ref, past)


def _parse_day(value):
    return datetime.fromisoformat(value).date() if value else None


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
