"""Dates of a text: calendar dates, parts of other dates, and dates counted from today, as a recursive descent parser."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date

from rag_core.dates.calendar_arithmetic import (
    FEW_DAYS,
    ONE_DAY,
    DateRange,
    Recurrence,
    add_units,
    build_day_range,
    build_month_range,
    build_unit_range,
    build_year_range,
    pick_day,
    resolve_date_parts,
    resolve_half,
    resolve_nth_unit,
    resolve_part,
)
from rag_core.dates.date_tokenizer import DateMatch, TokenReader

_RANGE_WORDS = ("-", "по", "до", "to", "through", "thru", "until", "till", "and", "и")
_SEPARATORS = (",", "-", "/", "of", "the", ".")
# Words that show that a number is no year: "за 2000 рублей".
_MEASURES = ("руб", "₽", "долл", "евро", "чел", "штук", "мест", "экземпл", "тонн", "км", "кг", "год", "people", "dollar",
             "euro", "men", "women", "seat", "bonus", "kg", "points")  # fmt: skip


_TIME_OF_DAY = re.compile(r"[.:]\d\d|\s?(?:[ap]\.?m\b|o['’]clock|час|утра|вечера|дня|ночи)")


class CalendarReader(TokenReader):
    """Reader of dates that the calendar has, with a year or recurring."""

    def _calendar_date(self, i: int, depth: int) -> DateMatch | None:
        """Date with its day or month, in any usual order, after a weekday or not: Tue 5 May 2023, May 5-7, 03.05.24."""
        start, weekday = i, self.value(i) if self.kind(i) == "weekday" else None
        if weekday is not None:
            i = self.skip(i + 1, ",", ".")
        if self.kind(i) == "date":
            return self._numeric_date(start, i, weekday)
        article, i = i, self.skip(i, "the")
        if self.kind(i) == "month" and i == article:
            return self._month_first(start, i, weekday)
        if (first := self.year(i)) and self.kind(self.skip(first[1], "-", "/", ",")) == "month":
            m = self.skip(first[1], "-", "/", ",")
            day = self.day(self.skip(m + 1, "-", "/", ","))
            d, end = day if day and not self.tokens[m].text.endswith("е") else (None, m + 1)
            return self._build_date(start, end, (first[0], self.value(m), d))
        day = self.day(i)
        if day is None:
            return self._weekday(start) if weekday is not None else None
        d, end = day
        last = None
        if self.kind(end) in _RANGE_WORDS and (day := self.day(self.skip(end + 1, "the"))):
            last, end = day
        at = self.skip(end, *_SEPARATORS)
        if self.kind(at) == "month":
            end, m = at + 1 + self._skip_full_stop(at), self.value(at)
            y, end = self._trailing_year(end)
            return self._build_date(start, end, (y, m, d), last)
        if weekday is not None and last is None and self.kind(i) in {"ordinal", "number"}:
            timed = self.kind(end) == "unit" or _TIME_OF_DAY.match(self.text, self.tokens[i].end)  # "Friday, 7.30pm"
            return self._weekday(start) if timed else self._weekday_with_day(start, end, weekday, d)
        return self._weekday(start) if weekday is not None else None

    def _numeric_date(self, start: int, i: int, weekday: int | None) -> DateMatch | None:
        token, end = self.tokens[i], i + 1
        before = (
            self.kind(i - 1) == "-"
            and self.glued(i)
            and self.kind(i - 2) in {"number", "ordinal"}
            and self.glued(i - 1)
        )
        if before or self.text[: token.start].rstrip(" :").endswith(
            ("верси", "версия", "версии", "версию", "version", "релиз", "v")
        ):
            return None  # "133-03-03-2020" is a code, "версия 1.1.30" none either
        return self._build_date(start, end, token.value, needs="on" if token.short and weekday is None else "")  # type: ignore[arg-type]

    def _month_first(self, start: int, i: int, weekday: int | None) -> DateMatch | None:
        m, token, end = self.value(i), self.tokens[i], i + 1
        end += self._skip_full_stop(i)
        locative = token.text[-1] == "е" and token.text[0] > "а"  # "в мае" is never followed by a day
        at = self.skip(end, ",", "-", "/", "the", "of")
        y, year_end = self._trailing_year(end)
        if y is None and locative:
            y, year_end = self._short_ordinal_year(end)
        if y is not None:
            return self._build_date(start, year_end, (y, m, None))
        day = None if locative else self.day(at)
        if day and self.kind(day[1]) not in {"unit", ":"}:
            d, end = day
            last = None
            if (
                self.kind(end) in _RANGE_WORDS
                and (day := self.day(self.skip(end + 1, "the")))
                and self.kind(day[1]) != "month"
            ):
                last, end = day
            y, end = self._trailing_year(end)
            return self._build_date(start, end, (y, m, d), last)
        return self._build_date(start, end, (None, m, None), needs="range" if token.short else "in")

    def _skip_full_stop(self, month: int) -> bool:
        """Whether a full stop behind a month is part of the date: "авг. 2005", "май. 2005"."""
        return self.word(month + 1) == "." and bool(self.tokens[month].short or self.year(month + 2))

    def _build_date(
        self, start: int, end: int, fields: tuple[int | None, int, int | None], last: int | None = None, needs: str = ""
    ) -> DateMatch | None:
        y, m, d = fields
        if last is not None:

            def read(today: date) -> DateRange | None:
                first = resolve_date_parts(y, m, d, today)
                end = resolve_date_parts(first.since.year, m, last, today) if first and first.since else None
                return DateRange(first.since, end.until) if first and end and d is not None and d <= last else None

            return self.match(start, end, read, pair=True)
        recurrence = Recurrence("year", lambda first: build_month_range(first.year, m) if d is None else pick_day(first.replace(month=m), d)) if y is None else None  # fmt: skip
        return self.match(start, end, lambda today: resolve_date_parts(y, m, d, today), fields=fields, needs=needs,
                          recurrence=recurrence, holds=d is None and y is not None)  # fmt: skip

    def _weekday(self, i: int) -> DateMatch | None:
        if self.tokens[i].short:
            return None
        end, number = i + 1, self.value(i)
        if self.kind(end) == "clock":
            end += 1  # "wednesday night"
        recurrence = Recurrence("week", lambda monday: build_day_range(monday + number * ONE_DAY))
        return self.recurring(
            i, end, recurrence, needs="" if end > i + 1 and self.kind(end) in {"end", "?", ",", ".", "!"} else "on"
        )

    def _weekday_with_day(self, i: int, end: int, weekday: int, day: int) -> DateMatch:
        """Weekday with a day number: "Tue 13th" is the latest 13th that was a Tuesday."""

        def pick(first: date) -> DateRange | None:
            found = pick_day(first, day)
            return found if found and found.since and found.since.weekday() == weekday else None

        return self.recurring(i, end, Recurrence("month", pick))

    def _day_of_month(self, i: int, depth: int) -> DateMatch | None:
        """Day number without a month: 15 числа, с 11 до 15 числа, the 5th; "в последних числах" of a month."""
        at = self.skip(i, "the")
        if not (day := self.day(at)):
            return None
        (d, end), last = day, None
        if self.kind(end) in _RANGE_WORDS and (day := self.day(self.skip(end + 1, "the"))):
            last, end = day
        if self.kind(end) == "numbers of a month" and self.word(end) in {"числа", "число"}:
            end, needs = end + 1, ""
        elif self.kind(at) == "ordinal" and self.word(at).endswith(("-го", "-е", "-ое")) and self.kind(end) != "unit":
            needs = "bound"  # "до 10-го"
        elif self.kind(at) == "ordinal" and last is not None and self.kind(end) == "of":
            needs = "range"  # "from the 2nd to the 5th of last month"
        elif (
            self.kind(at) == "ordinal"
            and self.word(i) == "the"
            and last is None
            and self.kind(end) in {"end", "of", "?", ".", ",", "!"}
        ):
            needs = "on"
        else:
            return None
        length = (last or d) - d + 1
        recurrence = Recurrence("month", lambda first: DateRange(one.since, one.since + length * ONE_DAY) if (one := pick_day(first, d)) and one.since else None)  # fmt: skip
        return self.recurring(i, end, recurrence, needs=needs, pair=last is not None) if length > 0 else None

    def _quarter(self, i: int, depth: int) -> DateMatch | None:
        """Quarter or half of a year: Q3 2023, 2023 q1, I квартал, 3 кв. 2024, второе полугодие."""
        year = self.year(i)
        at = self.skip(year[1], "-", "/") if year else self.skip(i, "the")
        number = (self.value(at), True, at + 1) if self.kind(at) == "roman" else self.number(at)
        if self.kind(at) == "quarter":
            (size, n), end = self.value(at), at + 1
        elif number and self.kind(at) != "cardinal" and self.value(number[2]) in {"quarter", "half"}:
            n, end = number[0], number[2] + 1
            if not number[1] and self.word(end - 1) not in {"квартал", "квартале", "кв", "полугодие", "полугодии"}:
                return None  # "3 quarters"
            size, end = 3 if self.value(end - 1) == "quarter" else 6, end + (self.word(end) == ".")
        else:
            return None
        if n * size > 12:
            return None
        recurrence = Recurrence("year", lambda one: build_month_range(one.year, size * (n - 1) + 1, size))
        if year:
            return self.match(
                i, end, lambda today: recurrence.find_inside(resolve_date_parts(year[0], None, None, today))
            )
        return self._recurring_of_year(i, end, recurrence, needs="in" if self.word(at).startswith("h") else "")

    def _season(self, i: int, depth: int) -> DateMatch | None:
        """Season; a winter has the year it begins in: летом, summer of 2024, winter 2021-2022."""
        if self.kind(i) != "season":
            return None
        month = self.value(i)
        recurrence = Recurrence("year", lambda first: build_month_range(first.year, month, 3))
        y, end = self._trailing_year(i + 1)
        second = self.year(end + 1) if y is not None and self.kind(end) in {"-", "/"} else None
        if second and second[0] == (y or 0) + 1:
            return replace(
                self._recurring_of_year(i, i + 1, recurrence), end=second[1], to=self.tokens[second[1] - 1].end
            )
        # the instrumental case "летом" means "in summer"; "лето" and "summer" need a preposition
        adverb = self.word(i) in {"зимой", "весной", "летом", "осенью"}
        return self._recurring_of_year(i, i + 1, recurrence, needs="" if adverb else "in")

    def _recurring_of_year(self, i: int, end: int, recurrence: Recurrence, needs: str = "") -> DateMatch:
        """Recurring date, with or without the year after it."""
        y, stop = self._trailing_year(end)
        if y is None:
            y, stop = self._short_ordinal_year(end)
        if y is None:
            return self.recurring(i, end, recurrence, needs=needs)
        return self.match(i, stop, lambda today: recurrence.find_inside(resolve_date_parts(y, None, None, today)))

    def _decade(self, i: int, depth: int) -> DateMatch | None:
        """Decade or century: 90s, the nineties, девяностые, 19 век, the twentieth century."""
        i0, i = i, self.skip(i, "the")
        if self.kind(i) == "decade":
            first, figures = self.value(i), self.word(i)[0].isdecimal()
            if self.kind(i + 1) == "numbers of a month" or (not figures and self.word(i)[0] < "а" and i == i0):
                return None
            end = i + 1 + (self.kind(i + 1) == "unit" and self.value(i + 1) == "year")
            return self.match(i0, end, lambda _: build_year_range(first, 10))
        number = (self.value(i), True, i + 1) if self.kind(i) == "roman" else self.number(i)
        at = number[2] + (self.kind(number[2]) == "-") if number else 0
        if not number or self.kind(at) != "century" or not 10 < number[0] < 22:
            return None
        n = number[0]
        return self.match(i0, at + 1, lambda _: build_year_range(100 * n - 100, 100))

    def _year(self, i: int, depth: int) -> DateMatch | None:
        at = self.skip(i, "the")
        named = self.word(at) == "year"  # "the year 2021", "year of 2021"
        i0, i = (i, self.skip(at + 1, "of")) if named else (i, i)
        found = self.year(i)
        if not found:
            return None
        y, end, sure = found
        if self.kind(i) in {"number", "ordinal"} and not self._stands_alone(i, end):
            return None
        if not (sure or named) and any(self.word(end).startswith(word) for word in _MEASURES):
            return None
        return self.match(i0, end, lambda today: resolve_date_parts(y, None, None, today), fields=(y, None, None),
                          needs="" if sure or named else "year", holds=True)  # fmt: skip

    def _stands_alone(self, i: int, end: int) -> bool:
        """Whether a number of four digits is no piece of a longer number, code or sum."""
        start, stop = self.tokens[i].start, self.tokens[end - 1].end
        before, after = self.text[:start][-2:], self.text[stop:][:2]
        if before and (before[-1].isalnum() or before[-1] in ".,$€₽№#/_"):
            return False
        digits_before = (
            before[-1:] == "-" and before[:1].isalnum() and self.kind(i - 2) != "part" and not self.year(i - 2)
        )
        return not (
            digits_before
            or after[:1] == "%"
            or (after[:1] in {"-", ",", "."} and after[1:].isdecimal() and not self.year(end + 1))
        )


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
