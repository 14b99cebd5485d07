"""Parts of other dates, and weeks by a day or a number: the first week of July, the week of May 3, week 12 of 2024."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from rag_core.dates.calendar_arithmetic import (
    FEW_DAYS,
    ONE_DAY,
    DateRange,
    resolve_half,
    resolve_nth_unit,
    resolve_part,
)
from rag_core.dates.calendar_dates import CalendarReader
from rag_core.dates.date_tokenizer import DateMatch


class DatePartReader(CalendarReader):
    """Reader of parts of other dates, and of weeks by a day or a number."""

    def _nth(self, i: int, depth: int) -> DateMatch | None:
        """Nth unit, weekday or half of a range: the first week of July, вторая половина мая, последние дни марта."""
        i0, i = i, self.skip(i, "the")
        nth, end = -1, i + 1
        if self.kind(i) == "decade" and self.word(i + 1) == "числах":  # "в двадцатых числах мая"
            nth = self.value(i) - 1900
        elif self.kind(i) != "direction" or self.value(i) not in {"last", "latest"}:
            ordinal = self.number(i)
            if not ordinal or not ordinal[1] or ordinal[0] > 31:
                return None
            nth, end = ordinal[0], ordinal[2]
        count = self.number(end)
        n, at = (count[0], count[2]) if count and not count[1] else (0, end)
        resolve = self._choose_nth(at, nth, n)
        return self._inside(i0, at + 1, resolve, depth) if resolve else None

    def _choose_nth(self, at: int, nth: int, n: int) -> Callable[[DateRange], DateRange | None] | None:
        """Choose what is counted: halves, days, weekends, weekdays or units; `n` of them, 0 if their number is not said."""
        kind, value, word = self.kind(at), self.value(at), self.word(at)
        if kind == "half":
            return (lambda box: resolve_half(box, nth)) if nth in {1, 2} else None
        if word == "числах":
            n = 10 if nth in {10, 20} else FEW_DAYS if nth == 1 else 7
            return lambda box: resolve_nth_unit(box, "day", None, nth, n)
        if kind in {"weekday", "weekend"}:
            weekday, length = (value, 1) if kind == "weekday" else (5, 2)
            return lambda box: resolve_nth_unit(box, "day", weekday, nth, length)
        if kind != "unit" or value in {"hour", "fortnight"}:
            return None
        n = n or (FEW_DAYS if word in {"days", "дни", "дней", "днях"} else 1)
        return lambda box: resolve_nth_unit(box, value, None, nth, n)

    def _inside(
        self, i: int, end: int, resolve: Callable[[DateRange], DateRange | None], depth: int
    ) -> DateMatch | None:
        at = self.skip(end, "of", "in", "the", "-")
        outer = self.parse_date(at, depth + 1, inner=True)
        if outer is None or (outer.needs == "range" and outer.fields is None):
            return None
        read_outer = outer.read
        return self.match(i, outer.end, lambda today: resolve(box) if (box := read_outer(today)) else None)

    def _part(self, i: int, depth: int) -> DateMatch | None:
        """Start, middle or end of a range: early May, в середине прошлого года, the end of the month."""
        at = self.skip(i, "the")
        part, noun = self.value(at), self.word(at) in {"start", "middle", "end", "beginning"}
        if self.kind(at) != "part" or part not in {"start", "middle", "end"}:
            return None
        if noun and self.kind(at + 1) != "of" and self.value(at + 1) not in {"this", "last"}:
            return None
        return self._inside(i, at + 1, lambda box: resolve_part(part, box), depth)

    def _iso_week(self, i: int, depth: int) -> DateMatch | None:
        """Week or day of ISO 8601: 2025-W14, 2025-W14-3, 2025w14."""
        at = self.skip(i + 1, "-")
        week, end = self.value(at + 1), at + 2
        if not (self.word(at) == "w" and self.glued(at) and self.glued(at + 1) and self.kind(at + 1) == "number"):
            return None
        day = self.kind(end) == "-" and self.glued(end + 1) and self.kind(end + 1) == "number" and self.value(end + 1)
        try:
            first = date.fromisocalendar(self.value(i), week, day or 1)
        except ValueError:
            return None
        return self.match(i, end + 2 * bool(day), lambda _: DateRange(first, first + (1 if day else 7) * ONE_DAY))

    def _week_of(self, i: int, depth: int) -> DateMatch | None:
        """Week that begins on a date, or a numbered week: week of May 3, w/c 4 Feb, week 12 of 2024."""
        start, i = i, self.skip(i, "the")
        words = tuple(self.word(n) for n in range(i, i + 3))
        starting = words[0] == "week" and words[1] in {"of", "commencing", "beginning", "starting"}
        if starting or words == ("w", "/", "c"):
            first = self.parse_date(self.skip(i + (2 if starting else 3), "the"), depth + 1)
            if first is None:
                return None
            return self.match(
                start, first.end, first.build_reader_from_start(lambda day: DateRange(day, day + 7 * ONE_DAY))
            )
        if self.word(i) != "week" or self.kind(i + 1) != "number" or not 1 <= self.value(i + 1) <= 53:
            return None
        n, (y, end) = self.value(i + 1), self._trailing_year(i + 2)

        def read(today: date) -> DateRange | None:
            try:
                monday = date.fromisocalendar(y or today.year, n, 1)
            except ValueError:
                return None
            return DateRange(monday, monday + 7 * ONE_DAY)

        return self.match(start, end, read)
