"""Relative dates, counted from today or another date: last week, 3 days ago, this morning, за неделю."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from rag_core.dates.calendar_arithmetic import (
    FEW_DAYS,
    ONE_DAY,
    DateRange,
    Recurrence,
    add_units,
    build_day_range,
    build_unit_range,
)
from rag_core.dates.calendar_dates import CalendarReader
from rag_core.dates.date_tokenizer import DateMatch

_SLACK_DAYS = {"week": 3, "month": 10, "quarter": 45, "half": 60, "year": 45, "decade": 400}
_HALF_UNITS = {"week": (4, "day"), "month": (15, "day"), "year": (6, "month")}  # half of a unit
_UNIT_LETTERS = {"d": "day", "w": "week", "m": "month", "y": "year"}
_ACCUSATIVE_UNITS = {"день", "сутки", "неделю", "месяц", "квартал", "полугодие", "полгода", "год"}  # "за неделю"
_GENITIVE_UNITS = {"дня", "недели", "месяца", "квартала", "полугодия", "года"}  # "итоги недели"
_YEARS_BY_DIRECTION = {"this": 0, "last": -1, "before last": -2}
_LARGE_NUMBERS = {"million", "billion", "thousand", "hundred", "млн", "млрд"}


class RelativeReader(CalendarReader):
    """Reader of dates composed of directions, counts and units."""

    def _relative_day(self, i: int, depth: int) -> DateMatch | None:
        """Day counted from today: yesterday, the day before yesterday, вчера вечером, this morning, last night."""
        if self.kind(i) == "moment":  # "from 2023 until now"
            return self.match(i, i + 1, lambda today: build_unit_range("day", today), needs="range")
        if self.word(i) == "tonight":
            return self.match(i, i + 1, lambda today: build_unit_range("day", today))
        if self.kind(i) == "direction" and self.kind(i + 1) == "clock" and self.value(i) in {"this", "last", "past"}:
            by = 0 if self.value(i) == "this" else -1
            days = 2 if by and self.value(i + 1) == "night" else 1
            return self.match(i, i + 2, lambda today: DateRange(today + by * ONE_DAY, today + (by + days) * ONE_DAY))
        start, i, more = i, self.skip(i, "the"), 0
        if self.word(i) == "day" and self.word(i + 1) in {"before", "after"}:
            more = -1 if self.word(i + 1) == "before" else 1
            i += 2
            if not any(token.text.isalnum() for token in self.tokens[i : i + 2]):
                return self.match(start, i, lambda today: build_unit_range("day", today, more))
        if self.kind(i) != "day":
            return None
        by = self.value(i) + more
        end = i + 1 + (self.kind(i + 1) == "clock" or self.word(i + 1) in {"день", "дня"})
        return self.match(start, end, lambda today: build_unit_range("day", today, by), needs="range" if by > 0 else "")

    def _fixed_phrase(self, i: int, depth: int) -> DateMatch | None:
        """Phrases without free parts: to date, year to date, the week before last, the other day, на днях."""
        at = self.skip(i, "the")
        words = tuple(self.word(n) for n in range(at, at + 3))
        if words[0] in {"to", "till"} and words[1] == "date":
            return self.match(i, at + 2, lambda today: DateRange(None, today + ONE_DAY))
        if words == ("year", "to", "date"):
            return self.match(
                i, at + 3, lambda today: DateRange(build_unit_range("year", today).since, today + ONE_DAY)
            )
        if words[:2] in {("other", "day"), ("на", "днях")}:
            return self.match(i, at + 2, lambda today: DateRange(today - FEW_DAYS * ONE_DAY, today + ONE_DAY))
        if self.kind(at) == "unit" and words[1:] == ("before", "last"):
            name = self.value(at)
            return self.match(i, at + 3, lambda today: build_unit_range(name, today, -2), holds=True)
        if words == ("под", "новый", "год"):
            week = Recurrence("year", lambda first: DateRange(date(first.year, 12, 25), date(first.year + 1, 1, 1)))
            return self.recurring(i, at + 3, week)
        if words[:2] in {("new", "year"), ("нового", "года"), ("новым", "годом")}:
            return self.recurring(i, at + 2, Recurrence("year", build_day_range), needs="bound")
        if self.kind(at) == "of last year":
            return self.match(i, at + 1, lambda today: build_unit_range("year", today, -1), holds=True)
        return None

    def _directed(self, i: int, depth: int) -> DateMatch | None:
        """Direction with a unit, a count of units or a recurring date: last week, the past 3 days, прошлым летом."""
        start, i = i, self.skip(i, "the")
        later = self.value(i) if self.kind(i) == "part" and self.value(i) in {"earlier", "later"} else ""
        i += bool(later)
        if self.kind(i) != "direction" or (later and self.value(i) != "this"):
            return None
        which, at = self.value(i), i + 1
        if which == "this" and self.value(at) == "past":  # "this past week"
            which, at = "past", at + 1
        if self.kind(at) in {"half", "half a year"}:  # "the last half year", "последние полгода"
            end = self.skip(at + 1, "-")
            return self._rolling(start, end + (self.kind(end) == "unit"), 1, "half", which)
        working = self.word(at) in {"working", "business"} or self.word(at).startswith("рабоч")
        at += working or self.word(at) in {"calendar", "one"} or self.word(at).startswith("календарн")
        count = self.number(at)
        if count and self.kind(count[2]) == "unit" and not count[1]:
            return self._rolling(start, count[2] + 1, count[0], self.value(count[2]), which)
        elliptic = self.kind(i - 1) == "month" and self.word(i).endswith("го") and not self.word(at).isalnum()
        if elliptic and which in _YEARS_BY_DIRECTION:  # "в ноябре прошлого"
            by = _YEARS_BY_DIRECTION[which]
            return self.match(start, at, lambda today: build_unit_range("year", today, by), holds=True)
        if self.kind(at) == "unit" and which == "latest" and self.word(at) in {"сутки", "суток"}:
            return self._rolling(start, at + 1, 1, "day")
        if self.kind(at) == "unit":
            return self._directed_unit(start, at, which, later, working=working)
        return self._directed_recurrence(start, at, which, depth)

    def _directed_unit(self, i: int, at: int, which: str, later: str, *, working: bool) -> DateMatch | None:
        name, end = self.value(at), at + 1
        if name in {"hour", "fortnight"}:
            return self._rolling(i, end, 1, name, which)
        if (which == "last" and self.kind(end) == "of") or (
            which == "that" and (self.word(at)[0] < "а" or name == "day")
        ):
            return None  # "the last day of school", "that day nobody came"
        by = {"this": 0, "next": 1, "before last": -2}.get(which, -1)

        def read(today: date) -> DateRange | None:
            unit = build_unit_range(name, today, by)
            if unit.since and working and name == "week":
                return DateRange(unit.since, unit.since + 5 * ONE_DAY)
            if later:
                return DateRange(today, unit.until) if later == "later" else DateRange(unit.since, today)
            return unit

        # "последний день Помпеи", "в последние годы жизни": the last ones of something, not the latest ones
        return self.match(i, end, read, needs="last" if which == "latest" else "", holds=True)

    def _directed_recurrence(self, i: int, at: int, which: str, depth: int) -> DateMatch | None:
        inner = (
            self._calendar_date(at, depth)
            or self._season(at, depth)
            or self._weekend(at, depth)
            or self._holiday(at, depth)
        )
        if inner is None or inner.recurrence is None or (inner.fields and inner.fields[2]):
            return None
        if self.word(at) == "may" and which in {"this", "that"}:
            return None  # "this may be wrong"
        once = inner.recurrence

        def read(today: date) -> DateRange | None:
            if which == "latest":
                return once.find_latest(today)
            if which == "this" and self.kind(at) == "weekend":  # the nearer one
                return once.get(today, -1 if today.weekday() < 2 else 0)
            if which == "this":
                before = once.get(today, -1)
                return before if before and before.until and before.until > today else once.get(today, 0)
            if which == "next" or (which == "last" and self.kind(at) == "weekday"):
                return once.get(today, 1 if which == "next" else -1)  # "last Friday" is that of the week before
            return once.find_ended(today, 2 if which == "before last" else 1)

        return self.match(i, inner.end, read)

    def _weekend(self, i: int, depth: int) -> DateMatch | None:
        at = self.skip(i, "the")
        if self.kind(at) != "weekend":
            return None
        recurrence = Recurrence("week", lambda monday: DateRange(monday + 5 * ONE_DAY, monday + 7 * ONE_DAY))
        sure = at > i or self.word(at) in {"выходные", "выходных"}
        return self.recurring(i, at + 1, recurrence, needs="" if sure else "on")

    def _holiday(self, i: int, depth: int) -> DateMatch | None:
        if self.kind(i) != "holiday":
            return None
        month, day, days = self.value(i)

        def read(first: date) -> DateRange:
            start = date(first.year, month, day)
            return DateRange(start, start + days * ONE_DAY)

        return self.recurring(i, i + 1, Recurrence("year", read), needs="on" if days > 1 else "bound")

    def _rolling(self, i: int, end: int, n: int, name: str, which: str = "last") -> DateMatch:
        """The last n units, counted back from today, today included; or the next."""
        n, name = _convert_unit(n, name)
        if which == "next":
            return self.match(i, end, lambda today: DateRange(today + ONE_DAY, add_units(n, name, today)))
        return self.match(i, end, lambda today: DateRange(add_units(-n, name, today), today + ONE_DAY), pair=True)

    def _counted(self, i: int, depth: int) -> DateMatch | None:
        """Count of units: три дня назад, a week ago, 2 weeks from now, через месяц, 2 thursdays ago, 3w ago."""
        start, future = i, self.word(i) in {"через", "in"}
        i += future
        if found := self._halves_ago(i):
            return found
        count = self.number(i)
        n, at = (count[0], count[2]) if count and not count[1] else (1, i)
        name = self.value(at)
        if self.kind(at) in {"weekday", "weekend"} and self.kind(at + 1) == "ago" and count:
            first = name if self.kind(at) == "weekday" else 5
            recurrence = Recurrence("week", lambda monday: build_day_range(monday + first * ONE_DAY))
            return self.match(start, at + 2, lambda today: recurrence.find_ended(today, n))
        if self.kind(i) == "number" and self.glued(at) and self.word(at) in _UNIT_LETTERS:
            name = _UNIT_LETTERS[self.word(at)]
        elif self.kind(at) != "unit" or self.word(start - 1) in _LARGE_NUMBERS:
            return None
        n, name = _convert_unit(n, name)
        end, sign = self._count_direction(self.skip(at + 1, "тому"))
        if not sign and not (future and (count or self.word(start) == "через")):
            return self._units_from(start, end, n, name, depth) if count else None
        shift = (sign or 1) * n
        return self.match(start, end, lambda today: build_day_range(add_units(shift, name, today)),
                          slack=_SLACK_DAYS.get(name, 0))  # fmt: skip

    def _count_direction(self, i: int) -> tuple[int, int]:
        """Token after "ago" or "from now", and the sign of the count; 0 for none."""
        words = (self.word(i), self.word(i + 1))
        if self.kind(i) == "ago" or words[0] == "earlier":
            return i + 1, -1
        if words in {("before", "today"), ("before", "now")}:
            return i + 2, -1
        return (i + 2, 1) if words == ("from", "now") else (i, 0)

    def _halves_ago(self, i: int) -> DateMatch | None:
        """Units and a half: полгода назад, полтора месяца назад, two and a half years ago, a year and a half ago."""
        count = self.number(i)
        n, at = (count[0], count[2]) if count and not count[1] else (0, i)
        if self.kind(i) == "half a year":
            n, name, at = 0, "year", i + 1
        elif self.kind(i) == "one and a half":
            n, name, at = 1, self.value(i + 1), i + 2
        elif (after := self._skip_half(at)) > at:
            name, at = self.value(after), after + 1
        elif (after := self._skip_half(at + 1)) > at + 1:
            name, at = self.value(at), after
        else:
            return None
        end = self.skip(at, "тому")
        if self.kind(end) != "ago" or name not in _HALF_UNITS:
            return None
        size, unit = _HALF_UNITS[name]
        return self.match(i, end + 1, lambda today: build_day_range(add_units(-(2 * n + 1) * size, unit, today)),
                          slack=_SLACK_DAYS[name])  # fmt: skip

    def _skip_half(self, i: int) -> int:
        if self.word(i) == "and" and self.word(i + 1) == "a" and self.kind(i + 2) == "half":
            return i + 3
        return i + 2 if self.word(i) == "с" and self.kind(i + 1) == "half" else i

    def _latest_unit(self, i: int, depth: int) -> DateMatch | None:
        """Unit up to now: за неделю, "digest for the week", "итоги года"."""
        if self.word(i) == "за":
            name = "half" if self.kind(i + 1) == "half a year" else self.value(i + 1)
            bounded = self.kind(i + 2) in {"number", "date"} or self.word(i + 2) == "до"
            return self._rolling(i, i + 2, 1, name) if self.word(i + 1) in _ACCUSATIVE_UNITS and not bounded else None
        at = self.skip(i, "the")
        if self.kind(at) != "unit" or (at == i and self.word(i) not in _GENITIVE_UNITS):
            return None
        if self.value(at) == "week":
            return replace(self._rolling(i, at + 1, 1, "week"), needs="digest", pair=False)
        return replace(self._unit_alone(at), at=self.tokens[i].start, needs="digest")

    def _unit_alone(self, i: int) -> DateMatch:
        """Unit itself, as after "the start of": month, неделя."""
        name = self.value(i) if self.value(i) not in {"hour", "fortnight"} else "day"
        return self.match(i, i + 1, lambda today: build_unit_range(name, today), holds=True)

    def _units_from(self, i: int, end: int, n: int, name: str, depth: int) -> DateMatch | None:
        """Units from a date on: two weeks starting May 20th."""
        if self.word(end) not in {"starting", "beginning", "начиная"}:
            return None
        first = self.parse_date(self.skip(end + 1, "from", "on", "с", "the"), depth + 1)
        if first is None:
            return None
        return self.match(
            i, first.end, first.build_reader_from_start(lambda day: DateRange(day, add_units(n, name, day)))
        )


def _convert_unit(n: int, name: str) -> tuple[int, str]:
    return (-(-n // 24), "day") if name == "hour" else (2 * n, "week") if name == "fortnight" else (n, name)
