"""Calendar arithmetic: ranges of days, parts of units and their nth units, recurring dates. Ends are exclusive."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple

ONE_DAY = timedelta(days=1)
YEARLESS_AHEAD = timedelta(days=300)  # a day of a post without a year is the one before this long after it
FEW_DAYS = 5  # "the first days of May", "в первых числах мая", "на днях"
_LEAP_CYCLE = 8  # years to search back for a 29 February
_FIRST_YEAR, _LAST_YEAR = 1000, 9000  # range of accepted years
_MONTHS_PER_UNIT = {"month": 1, "quarter": 3, "half": 6, "year": 12, "decade": 120}
_DAYS_PER_UNIT = {"day": 1, "week": 7}
_MAX_MONTHS, _MAX_DAYS = 12_000, 300_000
_MAX_OCCURRENCES = 60  # units searched for a recurring date: the 31st, 29 February, a weekday within a year


class DateRange(NamedTuple):
    """Range of days from `since` to `until`, exclusive; `date.min` and `date.max` are open ends."""

    since: date
    until: date


def build_day_range(one: date) -> DateRange:
    """Range of one day."""
    return DateRange(one, one + ONE_DAY)


def build_month_range(year: int, number: int, months: int = 1) -> DateRange:
    """Range of months of a year."""
    first = date(year, number, 1)
    return DateRange(first, shift_months(first, months))


def build_year_range(number: int, years: int = 1) -> DateRange:
    """Range of years."""
    return DateRange(date(number, 1, 1), date(number + years, 1, 1))


def shift_months(one: date, months: int) -> date:
    """Shift a date by months, back if negative; the last day of the month where it has no such day."""
    year, month = divmod(one.year * 12 + one.month - 1 + months, 12)
    year = min(max(year, _FIRST_YEAR), _LAST_YEAR)
    return date(year, month + 1, min(one.day, monthrange(year, month + 1)[1]))


def add_units(n: int, name: str, start: date) -> date:
    """Add n units to a date; subtract them if n is negative."""
    if months := _MONTHS_PER_UNIT.get(name):
        return shift_months(start, max(-_MAX_MONTHS, min(_MAX_MONTHS, months * n)))
    return start + max(-_MAX_DAYS, min(_MAX_DAYS, n * _DAYS_PER_UNIT[name])) * ONE_DAY


def build_unit_range(name: str, today: date, by: int = 0) -> DateRange:
    """Range of the calendar unit that contains `today`, shifted by `by` units (negative is back)."""
    if size := _DAYS_PER_UNIT.get(name):
        first = today + (by * size - (today.weekday() if name == "week" else 0)) * ONE_DAY
        return DateRange(first, first + size * ONE_DAY)
    size = _MONTHS_PER_UNIT[name]
    first = date(today.year - today.year % 10, 1, 1) if name == "decade" else today.replace(day=1)
    if name in {"quarter", "half", "year"}:
        first = first.replace(month=(first.month - 1) // size * size + 1)
    first = shift_months(first, size * by)
    return DateRange(first, shift_months(first, size))


def resolve_date_parts(y: int | None, m: int | None, d: int | None, today: date) -> DateRange | None:
    """Resolve year, month and day to a range; without a year the latest that has begun. None for an impossible date.

    A year of two digits is the latest that is not in the future.
    """
    if y is not None and y < 100:
        y += 2000 if y <= today.year % 100 else 1900
    if y is not None and not _FIRST_YEAR <= y <= _LAST_YEAR:
        return None
    if m is None:
        if d is None:
            return build_year_range(y) if y is not None else None
        return Recurrence("month", lambda first: pick_day(first, d)).find_latest(today) if y is None else None
    if not 1 <= m <= 12:
        return None
    for candidate in [y] if y is not None else range(today.year, today.year - _LEAP_CYCLE - 1, -1):
        days = build_month_range(candidate, m) if d is None else pick_day(date(candidate, m, 1), d)
        if days and (y is not None or days.since <= today):
            return days
    return None


def pick_day(first: date, day: int) -> DateRange | None:
    """Day of the month that begins with `first`; None where the month has no such day."""
    return build_day_range(first.replace(day=day)) if 1 <= day <= monthrange(first.year, first.month)[1] else None


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Recurring date: a weekday of each week, a day of each month, a month or a season of each year.

    `step` is week, month or year; `at` gives the occurrence in the unit that begins on its argument.
    """

    step: str
    at: Callable[[date], DateRange | None]

    def get(self, today: date, by: int) -> DateRange | None:
        """Occurrence in this unit, or `by` units from it."""
        return self.at(build_unit_range(self.step, today, by).since)

    def find_latest(self, today: date) -> DateRange | None:
        """Latest occurrence that has begun."""
        found = (self.get(today, -back) for back in range(_MAX_OCCURRENCES))
        return next((one for one in found if one and one.since <= today), None)

    def find_ended(self, today: date, back: int = 1) -> DateRange | None:
        """Latest occurrence that is over; with `back` the one so many before it, less one."""
        found = (self.get(today, -n) for n in range(_MAX_OCCURRENCES))
        ended = [one for one in found if one and one.until <= today][:back]
        return ended[back - 1] if len(ended) == back else None

    def find_inside(self, box: DateRange | None) -> DateRange | None:
        """First occurrence that begins inside a range."""
        if box is None:
            return None
        found = (self.get(box.since, n) for n in range(_MAX_OCCURRENCES))
        return next((one for one in found if one and box.since <= one.since < box.until), None)


def resolve_nth_unit(box: DateRange, name: str, weekday: int | None, nth: int, n: int = 1) -> DateRange:
    """Resolve n units of a range, from the nth on; or n days from its nth `weekday` on. From the end if `nth` is negative.

    A week belongs to the range with most of its days (ISO 8601).
    """
    if weekday is not None:
        last = box.until - ONE_DAY
        back, ahead = (last.weekday() - weekday) % 7, (weekday - box.since.weekday()) % 7
        day = last - (back - 7 * (nth + 1)) * ONE_DAY if nth < 0 else box.since + (ahead + 7 * (nth - 1)) * ONE_DAY
        return DateRange(day, day + n * ONE_DAY)
    start, end = box
    if name == "week":
        middle = box.until - 4 * ONE_DAY if nth < 0 else box.since + 3 * ONE_DAY
        start = middle - middle.weekday() * ONE_DAY
        end = start + 7 * ONE_DAY
    if nth < 0:
        end = add_units(nth + 1, name, end)
        return DateRange(add_units(-n, name, end), end)
    start = add_units(nth - 1, name, start)
    return DateRange(start, add_units(n, name, start))


def resolve_half(whole: DateRange, number: int) -> DateRange:
    """Resolve the first or the second half of a range."""
    days = (whole.until - whole.since).days
    middle = shift_months(whole.since, round(days / 61)) if days > 80 else whole.since + days // 2 * ONE_DAY
    return DateRange(whole.since, middle) if number == 1 else DateRange(middle, whole.until)


def resolve_part(part: str, whole: DateRange) -> DateRange:
    """Resolve the start, middle or end of a range: a third of it; the end of a week is its last three days."""
    length = (whole.until - whole.since).days
    if length <= 2:
        return whole
    if length < 32:
        third = 3 if length == 7 else 10
        first, second = whole.since + third * ONE_DAY, whole.since + 2 * third * ONE_DAY
        last = whole.until - 3 * ONE_DAY if length == 7 else second
    else:
        months = round(length / 30.4 / 3)
        first = shift_months(whole.since, months)
        second = last = shift_months(whole.since, 2 * months)
    parts = {"start": DateRange(whole.since, first), "middle": DateRange(first, second)}
    return parts.get(part, DateRange(last, whole.until))
