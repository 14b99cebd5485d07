"""Times counted from today: "three weeks ago", "last month", "on Tuesday", "the end of August"."""

from __future__ import annotations

from datetime import date

from rag_core.when.days import DAY, Days, day, shifted, unit, weekday

__all__ = ["ago", "last_n", "later", "named", "nth_of", "part_of", "season", "this_weekday"]

_MONTHS = {"month": 1, "quarter": 3, "half": 6, "year": 12, "decade": 120}
_DAYS = {"day": 1, "weekend": 7, "week": 7}


def _back(n: int, name: str, today: date) -> date:
    months = _MONTHS.get(name)
    n = min(n, 12_000)
    return shifted(today, -months * n) if months else today - min(n * _DAYS[name], 300_000) * DAY


def ago(n: int, name: str, today: date) -> Days:
    """The day that lies n units back."""
    return day(_back(n, name, today))


def later(n: int, name: str, start: date) -> date:
    """The day n units after a start."""
    months = _MONTHS.get(name)
    return shifted(start, months * n) if months else start + n * _DAYS[name] * DAY


def last_n(n: int, name: str, today: date) -> Days:
    """From n units ago to today."""
    return Days(_back(n, name, today), today + DAY)


def named(name: str, by: int, today: date, part: str) -> Days | None:
    """This unit or an earlier one, or a part of it."""
    # at a weekend "last weekend" is the one before, on a weekday the one that has passed
    if name == "weekend" and today.weekday() < 5:
        by = min(by, -1)
    if name == "day":
        return Days(today + by * DAY, today + (by + 1) * DAY)
    if name == "working week":
        monday = unit("week", today, by).since
        return Days(monday, monday + 5 * DAY) if monday else None
    found = unit(name, today, by)
    if found.since and found.until and part in {"later", "earlier"} and not by:
        return Days(today, found.until) if part == "later" else Days(found.since, today)
    return part_of(part, found) if part else found


def this_weekday(number: int, today: date, past: bool, week: int | None, times: int) -> Days:
    """The latest such weekday; of this week or the one before where the week is named; several weeks back."""
    if week is not None:
        monday = unit("week", today, week).since
        assert monday is not None
        return day(monday + number * DAY)
    if past:  # of the week before: what was on Wednesday of this week is "on Wednesday"
        return this_weekday(number, today, False, -1, 1)
    found = weekday(number, today, before=times > 1).since
    assert found is not None
    return day(found - 7 * (times - 1) * DAY)


def nth_of(box: Days | None, name: str, wd: int | None, nth: int, n: int, last: bool) -> Days | None:
    """The nth unit or weekday of a month, quarter or year, the last one, or n units at its beginning or end.

    A week belongs to where most of its days are (ISO 8601).
    """
    if box is None or box.since is None or box.until is None:
        return None
    if wd is not None:
        if last:
            return day(box.until - DAY - ((box.until - DAY).weekday() - wd) % 7 * DAY)
        return day(box.since + (wd - box.since.weekday()) % 7 * DAY + 7 * (nth - 1) * DAY)
    if name == "week":
        monday = unit("week", box.until - 4 * DAY if last else box.since + 3 * DAY).since
        assert monday is not None
        first = monday - 7 * (n - 1) * DAY if last else monday + 7 * (nth - 1) * DAY
        return Days(first, first + 7 * n * DAY)
    months = _MONTHS.get(name)
    if months:
        return (
            Days(shifted(box.until, -months * n), box.until)
            if last
            else Days(shifted(box.since, months * (nth - 1)), shifted(box.since, months * (nth - 1 + n)))
        )
    if last:
        return Days(box.until - n * DAY, box.until)
    return Days(box.since + (nth - 1) * DAY, box.since + (nth - 1 + n) * DAY)


def season(first: int, y: int | None, past: bool, today: date) -> Days:
    """Three months from the one it begins in; winter is named by the year it begins in, unless that is to come."""
    year = today.year if y is None else y
    start = date(year, first, 1)
    while y is None and start > today:
        start = shifted(start, -12)
    if past and shifted(start, 3) > today:
        start = shifted(start, -12)
    return Days(start, shifted(start, 3))


def part_of(part: str, whole: Days | None) -> Days | None:
    """The beginning, middle or end of a month, year or week: a third of it; of a week its last three days."""
    if whole is None or whole.since is None or whole.until is None:
        return whole
    length = (whole.until - whole.since).days
    if length <= 2:
        return whole
    third = 3 if length == 7 else 10 if length < 32 else None
    if third:
        first, second = whole.since + third * DAY, whole.since + 2 * third * DAY
        last = whole.until - 3 * DAY if length == 7 else second
    else:
        months = round(length / 30.4 / 3)
        first, second = shifted(whole.since, months), shifted(whole.since, 2 * months)
        last = second
    if any(word in part for word in ("начал", "beginning", "start", "early")):
        return Days(whole.since, first)
    if any(word in part for word in ("середин", "mid")):
        return Days(first, second)
    return Days(last, whole.until)
