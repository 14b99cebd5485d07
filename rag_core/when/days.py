"""Arithmetic of whole days: months, weeks, quarters; the latest 3rd of May. Ends are exclusive everywhere."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import date, timedelta

__all__ = ["DAY", "Days", "day", "latest", "month", "shifted", "unit", "weekday", "year"]

DAY = timedelta(days=1)
_LEAP_CYCLE = 8  # years to look back for a 29 February
_FIRST, _LAST = 1000, 9000  # years that are dates of anything


@dataclass(frozen=True, slots=True)
class Days:
    """From `since` to before `until`; None is open."""

    since: date | None
    until: date | None


def day(one: date) -> Days:
    """One day."""
    return Days(one, one + DAY)


def month(year_: int, number: int) -> Days:
    """A month of a year."""
    first = date(year_, number, 1)
    return Days(first, first + timedelta(days=monthrange(year_, number)[1]))


def year(number: int) -> Days:
    """A year."""
    return Days(date(number, 1, 1), date(number + 1, 1, 1))


def latest(y: int | None, m: int | None, d: int | None, today: date) -> Days | None:
    """The day, month or year with these parts, the latest that has begun where the year is missing; None: no such day."""
    if y is not None and not _FIRST <= y <= _LAST:
        return None
    if m is None:
        return (year(y) if d is None else None) if y is not None else _numbered(d, today)
    if not 1 <= m <= 12:
        return None
    for candidate in [y] if y is not None else range(today.year, today.year - _LEAP_CYCLE - 1, -1):
        if d is not None and not 1 <= d <= monthrange(candidate, m)[1]:
            continue
        found = month(candidate, m) if d is None else day(date(candidate, m, d))
        if y is not None or (found.since and found.since <= today):
            return found
    return None


def _numbered(d: int | None, today: date) -> Days | None:
    """The latest day of a month with this number."""
    if d is None or not 1 <= d <= 31:
        return None
    first = today.replace(day=1)
    while d > monthrange(first.year, first.month)[1] or first.replace(day=d) > today:
        first = (first - DAY).replace(day=1)
    return day(first.replace(day=d))


def shifted(one: date, months: int) -> date:
    """The same day so many months later or, below zero, earlier; the last of the month where it has no such day."""
    at = one.year * 12 + one.month - 1 + months
    y, m = divmod(at, 12)
    if not _FIRST <= y <= _LAST:
        y = min(max(y, _FIRST), _LAST)
    return date(y, m + 1, min(one.day, monthrange(y, m + 1)[1]))


def unit(name: str, today: date, by: int = 0) -> Days:
    """The day, week, month, quarter, year, decade that holds `today`, or the one so many before (below zero)."""
    if name == "day":
        return day(today + by * DAY)
    if name == "week":
        monday = today - today.weekday() * DAY + 7 * by * DAY
        return Days(monday, monday + 7 * DAY)
    if name == "weekend":
        saturday = today - today.weekday() * DAY + 5 * DAY + 7 * by * DAY
        return Days(saturday, saturday + 2 * DAY)
    size = {"month": 1, "quarter": 3, "half": 6, "year": 12, "decade": 120}[name]
    first = date(today.year - today.year % 10, 1, 1) if name == "decade" else today.replace(day=1)
    if name in {"quarter", "half", "year"}:
        first = first.replace(month=(first.month - 1) // size * size + 1)
    first = shifted(first, size * by)
    return Days(first, shifted(first, size))


def weekday(number: int, today: date, *, before: bool = False) -> Days:
    """The latest such weekday, Monday 0; with `before` not today itself."""
    gone = (today.weekday() - number) % 7 or (7 if before else 0)
    return day(today - gone * DAY)
