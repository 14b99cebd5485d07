"""Dates of a text: calendar dates, parts of other dates, and dates counted from today, by a recursive descent parser.

"The first week of last month" is nth(week) of direction(month). At most two expressions are nested, and an expression
has few tokens, so parsing is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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

_MAX_DEPTH = 2
_RANGE_WORDS = ("-", "по", "до", "to", "through", "thru", "until", "till", "and", "и")
_SEPARATORS = (",", "-", "/", "of", "the", ".")
_VERSIONS = ("верси", "версия", "версии", "версию", "version", "релиз", "v")
# Words that show that a number is no year: "за 2000 рублей".
_MEASURES = ("руб", "₽", "долл", "евро", "чел", "штук", "мест", "экземпл", "тонн", "км", "кг", "год", "people", "dollar",
             "euro", "men", "women", "seat", "bonus", "kg", "points")  # fmt: skip
_TIME_OF_DAY = re.compile(r"[.:]\d\d|\s?(?:[ap]\.?m\b|o['’]clock|час|утра|вечера|дня|ночи)")
_SLACK_DAYS = {"week": 3, "month": 10, "quarter": 45, "half": 60, "year": 45, "decade": 400}
_UNIT_LETTERS = {"d": "day", "w": "week", "m": "month", "y": "year"}
_ACCUSATIVE_UNITS = {"день", "сутки", "неделю", "месяц", "квартал", "полугодие", "полгода", "год"}  # "за неделю"
_GENITIVE_UNITS = {"дня", "недели", "месяца", "квартала", "полугодия", "года"}  # "итоги недели"
_DAYS_PLURAL = {"days", "дни", "дней", "днях"}
_YEARS_BY_DIRECTION = {"this": 0, "last": -1, "before last": -2}
# Before a unit: "полтора года назад" is not a year ago.
_OTHER_NUMBERS = {"million", "billion", "thousand", "hundred", "half", "млн", "млрд", "полтора", "полторы", "половиной"}


def find_dates(text: str) -> Iterator[DateMatch]:
    """Find the dates of a lower-case text from left to right; of overlapping ones the first and longest."""
    parser, i = DateReader(text), 0
    while i < len(parser.tokens):
        found = parser.parse_date(i)
        if found and parser.kind(i - 1) != "place":
            yield found
        i = found.end if found else i + 1


class DateReader(TokenReader):
    """Reader of one text. A method reads what begins at token `i`, or gives None; depth counts nested expressions."""

    def parse_date(self, i: int, depth: int = 0, *, inner: bool = False) -> DateMatch | None:
        """Longest date expression at `i`; with `inner` also a unit alone, as after "the start of"."""
        if depth > _MAX_DEPTH or self.kind(i) not in _WAYS:
            return None
        found: list[DateMatch] = [one for way in _WAYS[self.kind(i)] if (one := way(self, i, depth))]
        if inner and self.kind(i) == "unit":
            found.insert(0, self._unit_alone(i))
        one = max(found, key=lambda one: one.end, default=None)
        if one is None or depth == _MAX_DEPTH or not (one.recurrence or one.holds):
            return one
        # a recurring date within another: "March of last year", "в прошлом году в марте"
        i = self.skip(one.end, "of", "in", "на", "в", "the", ",", "on")
        other = self.parse_date(i, _MAX_DEPTH) if i - one.end <= 2 else None
        within, outer = (one, other) if one.recurrence else (other, one)
        if other is None or other.pair or within is None or outer is None or not outer.holds:
            return one
        recurrence, box = within.recurrence, outer.read
        if recurrence is None:
            return one
        return DateMatch(one.at, other.to, other.end, lambda today: recurrence.find_inside(box(today)))

    def _calendar_date(self, i: int, depth: int) -> DateMatch | None:
        """Date with its day or month, in any usual order, after a weekday or not: Tue 5 May 2023, May 5-7, 03.05.24."""
        start, weekday = i, self.value(i) if self.kind(i) == "weekday" else None
        if weekday is not None:
            i = self.skip(i + 1, ",", ".")
        if self.kind(i) == "date":
            token = self.tokens[i]
            code = self.kind(i - 1) == "-" and self.glued(i) and self.glued(i - 1)
            if code and self.kind(i - 2) in {"number", "ordinal"}:
                return None  # "133-03-03-2020"
            if self.text[: token.start].rstrip(" :").endswith(_VERSIONS):
                return None  # "версия 1.1.30"
            return self._build_date(start, i + 1, token.value, needs="on" if token.short and weekday is None else "")  # type: ignore[arg-type]
        article, i = i, self.skip(i, "the")
        if self.kind(i) == "month" and i == article:
            return self._month_first(start, i)
        if (first := self.year(i)) and self.kind(self.skip(first[1], "-", "/", ",")) == "month":
            m = self.skip(first[1], "-", "/", ",")
            day = self.day(self.skip(m + 1, "-", "/", ","))
            d, end = day if day and not self.tokens[m].text.endswith("е") else (None, m + 1)
            return self._build_date(start, end, (first[0], self.value(m), d))
        of_week = self._weekday(start) if weekday is not None else None
        if (day := self.day(i)) is None:
            return of_week
        d, last, end = self._day_range(day)
        at = self.skip(end, *_SEPARATORS)
        if self.kind(at) == "month":
            y, end = self._trailing_year(at + 1 + self._skip_full_stop(at))
            return self._build_date(start, end, (y, self.value(at), d), last)
        if weekday is None or last is not None or self.kind(i) not in {"ordinal", "number"}:
            return of_week
        if self.kind(end) == "unit" or _TIME_OF_DAY.match(self.text, self.tokens[i].end):
            return of_week  # "Friday, 7.30pm"

        def pick(first: date) -> DateRange | None:
            found = pick_day(first, d)
            return found if found and found.since.weekday() == weekday else None

        return self.recurring(start, end, Recurrence("month", pick))  # "Tue 13th": the latest 13th that was a Tuesday

    def _day_range(self, day: tuple[int, int]) -> tuple[int, int | None, int]:
        """Day, the last day of a range ("5-7", "3 по 9") and the token after it."""
        d, end = day
        if self.kind(end) in _RANGE_WORDS and (last := self.day(self.skip(end + 1, "the"))):
            return d, *last
        return d, None, end

    def _month_first(self, start: int, i: int) -> DateMatch | None:
        m, token, end = self.value(i), self.tokens[i], i + 1 + self._skip_full_stop(i)
        locative = token.text[-1] == "е" and token.text[0] > "а"  # "в мае" is never followed by a day
        y, year_end = self._trailing_year(end)
        if y is not None:
            return self._build_date(start, year_end, (y, m, None))
        day = None if locative else self.day(self.skip(end, ",", "-", "/", "the", "of"))
        if day and self.kind(day[1]) not in {"unit", ":"}:
            d, last, end = self._day_range(day)
            if last is not None and self.kind(end) == "month":
                last, end = None, day[1]
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
                end = resolve_date_parts(first.since.year, m, last, today) if first else None
                return DateRange(first.since, end.until) if first and end and d is not None and d <= last else None

            return self.match(start, end, read, pair=True)
        recurrence = Recurrence("year", lambda first: build_month_range(first.year, m) if d is None else pick_day(first.replace(month=m), d)) if y is None else None  # fmt: skip
        return self.match(start, end, lambda today: resolve_date_parts(y, m, d, today), fields=fields, needs=needs,
                          recurrence=recurrence, holds=d is None and y is not None)  # fmt: skip

    def _weekday(self, i: int) -> DateMatch | None:
        if self.tokens[i].short:
            return None
        end, number = i + 1 + (self.kind(i + 1) == "clock"), self.value(i)  # "wednesday night"
        recurrence = Recurrence("week", lambda monday: build_day_range(monday + number * ONE_DAY))
        sure = end > i + 1 and self.kind(end) in {"end", "?", ",", ".", "!"}
        return self.recurring(i, end, recurrence, needs="" if sure else "on")

    def _day_of_month(self, i: int, depth: int) -> DateMatch | None:
        """Day number without a month: 15 числа, с 11 до 15 числа, the 5th; "в последних числах" of a month."""
        at = self.skip(i, "the")
        if not (day := self.day(at)):
            return None
        d, last, end = self._day_range(day)
        if self.kind(end) == "numbers of a month" and self.word(end) in {"числа", "число"}:
            end, needs = end + 1, ""
        elif self.kind(at) != "ordinal":
            return None
        elif self.word(at).endswith(("-го", "-е", "-ое")) and self.kind(end) != "unit":
            needs = "bound"  # "до 10-го"
        elif last is not None and self.kind(end) == "of":
            needs = "range"  # "from the 2nd to the 5th of last month"
        elif self.word(i) == "the" and last is None and self.kind(end) in {"end", "of", "?", ".", ",", "!"}:
            needs = "on"
        else:
            return None
        length = (last or d) - d + 1
        recurrence = Recurrence("month", lambda first: DateRange(one.since, one.since + length * ONE_DAY) if (one := pick_day(first, d)) else None)  # fmt: skip
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
            y = year[0]
            return self.match(i, end, lambda today: recurrence.find_inside(resolve_date_parts(y, None, None, today)))
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
            one = self._recurring_of_year(i, i + 1, recurrence)
            return replace(one, end=second[1], to=self.tokens[second[1] - 1].end)
        # the instrumental case "летом" means "in summer"; "лето" and "summer" need a preposition
        adverb = self.word(i) in {"зимой", "весной", "летом", "осенью"}
        return self._recurring_of_year(i, i + 1, recurrence, needs="" if adverb else "in")

    def _recurring_of_year(self, i: int, end: int, recurrence: Recurrence, needs: str = "") -> DateMatch:
        """Recurring date, with or without the year after it."""
        y, stop = self._trailing_year(end)
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
        if not (found := self.year(i)):
            return None
        y, end, sure = found
        joined = ((i - 2, self.glued(i) and self.glued(i - 1)), (end + 1, self.glued(end) and self.glued(end + 1)))
        if any(glued and self.kind(at) == "number" and not self.year(at) for at, glued in joined):
            return None  # a phone number
        if not (sure or named) and self.word(end).startswith(_MEASURES):
            return None
        return self.match(i0, end, lambda today: resolve_date_parts(y, None, None, today), fields=(y, None, None),
                          needs="" if sure or named else "year", holds=True)  # fmt: skip

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
        kind, value, word = self.kind(at), self.value(at), self.word(at)

        def resolve(box: DateRange) -> DateRange:
            if kind == "half":
                return resolve_half(box, nth)
            if word == "числах":
                return resolve_nth_unit(box, "day", None, nth, 10 if nth in {10, 20} else FEW_DAYS if nth == 1 else 7)
            if kind in {"weekday", "weekend"}:
                return resolve_nth_unit(box, "day", *((value, nth, 1) if kind == "weekday" else (5, nth, 2)))
            return resolve_nth_unit(box, value, None, nth, n or (FEW_DAYS if word in _DAYS_PLURAL else 1))

        of_unit = kind == "unit" and value not in {"hour", "fortnight"}
        known = of_unit or word == "числах" or kind in {"weekday", "weekend"} or (kind == "half" and nth in {1, 2})
        return self._inside(i0, at + 1, resolve, depth) if known else None

    def _inside(self, i: int, end: int, resolve: Callable[[DateRange], DateRange], depth: int) -> DateMatch | None:
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

    def _relative_day(self, i: int, depth: int) -> DateMatch | None:
        """Day counted from today: yesterday, the day before yesterday, вчера вечером, this morning, last night."""
        if self.kind(i) == "moment" or self.word(i) == "tonight":  # "from 2023 until now"
            needs = "range" if self.kind(i) == "moment" else ""
            return self.match(i, i + 1, lambda today: build_unit_range("day", today), needs=needs)
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
        """Phrases without free parts: to date, year to date, the week before last, на днях."""
        at = self.skip(i, "the")
        words = tuple(self.word(n) for n in range(at, at + 3))
        if words[0] in {"to", "till"} and words[1] == "date":
            return self.match(i, at + 2, lambda today: DateRange(date.min, today + ONE_DAY))
        if words == ("year", "to", "date"):
            return self.match(i, at + 3, lambda today: DateRange(date(today.year, 1, 1), today + ONE_DAY))
        if words[:2] in {("other", "day"), ("на", "днях")}:
            return self.match(i, at + 2, lambda today: DateRange(today - FEW_DAYS * ONE_DAY, today + ONE_DAY))
        if words == ("под", "новый", "год"):
            week = Recurrence("year", lambda first: DateRange(date(first.year, 12, 25), date(first.year + 1, 1, 1)))
            return self.recurring(i, at + 3, week)
        if words[:2] in {("new", "year"), ("нового", "года"), ("новым", "годом")}:
            return self.recurring(i, at + 2, Recurrence("year", build_day_range), needs="bound")
        name, by = ("year", -1) if self.kind(at) == "of last year" else (self.value(at), -2)
        if by == -1 or (self.kind(at) == "unit" and words[1:] == ("before", "last")):
            end = at + (1 if by == -1 else 3)
            return self.match(i, end, lambda today: build_unit_range(name, today, by), holds=True)
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
        of_something = which == "last" and self.kind(end) == "of"  # "the last day of school", "that day nobody came"
        if of_something or (which == "that" and (self.word(at)[0] < "а" or name == "day")):
            return None
        by = {"this": 0, "next": 1, "before last": -2}.get(which, -1)

        def read(today: date) -> DateRange:
            since, until = build_unit_range(name, today, by)
            if working and name == "week":
                until = since + 5 * ONE_DAY
            return DateRange(today if later == "later" else since, today if later == "earlier" else until)

        # "последний день Помпеи", "в последние годы жизни": the last ones of something, not the latest ones
        return self.match(i, end, read, needs="last" if which == "latest" else "", holds=True)

    def _directed_recurrence(self, i: int, at: int, which: str, depth: int) -> DateMatch | None:
        ways = (self._calendar_date, self._season, self._weekend, self._holiday)
        inner = next(filter(None, (way(at, depth) for way in ways)), None)
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
                return before if before and before.until > today else once.get(today, 0)
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
        length = days * ONE_DAY
        recurrence = Recurrence("year", lambda one: DateRange(start := date(one.year, month, day), start + length))
        return self.recurring(i, i + 1, recurrence, needs="on" if days > 1 else "bound")

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
        if self.kind(i) == "half a year" and self.kind(self.skip(i + 1, "тому")) == "ago":
            return self.match(i, self.skip(i + 1, "тому") + 1, lambda today: build_day_range(add_units(-6, "month", today)),
                              slack=_SLACK_DAYS["year"])  # fmt: skip
        count = self.number(i)
        n, at = (count[0], count[2]) if count and not count[1] else (1, i)
        name = self.value(at)
        if self.kind(at) in {"weekday", "weekend"} and self.kind(at + 1) == "ago" and count:
            first = name if self.kind(at) == "weekday" else 5
            recurrence = Recurrence("week", lambda monday: build_day_range(monday + first * ONE_DAY))
            return self.match(start, at + 2, lambda today: recurrence.find_ended(today, n))
        if self.kind(i) == "number" and self.glued(at) and self.word(at) in _UNIT_LETTERS:
            name = _UNIT_LETTERS[self.word(at)]
        elif self.kind(at) != "unit" or self.word(start - 1) in _OTHER_NUMBERS:
            return None
        n, name = _convert_unit(n, name)
        end = self.skip(at + 1, "тому")
        words, sign = (self.word(end), self.word(end + 1)), 0
        if self.kind(end) == "ago" or words[0] == "earlier":
            end, sign = end + 1, -1
        elif words in {("before", "today"), ("before", "now"), ("from", "now")}:
            end, sign = end + 2, 1 if words[0] == "from" else -1
        if not sign and not (future and (count or self.word(start) == "через")):
            return None
        shift = (sign or 1) * n
        return self.match(start, end, lambda today: build_day_range(add_units(shift, name, today)),
                          slack=_SLACK_DAYS.get(name, 0))  # fmt: skip

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


def _convert_unit(n: int, name: str) -> tuple[int, str]:
    return (-(-n // 24), "day") if name == "hour" else (2 * n, "week") if name == "fortnight" else (n, name)


_R = DateReader
_NUMBER_WAYS = (_R._calendar_date, _R._day_of_month, _R._counted, _R._nth, _R._quarter, _R._decade, _R._year)
# Expressions that begin with a token of each kind: the parser tries only these.
_WAYS: dict[str, tuple[Callable[[DateReader, int, int], DateMatch | None], ...]] = {
    **dict.fromkeys(("number", "ordinal", "cardinal"), _NUMBER_WAYS),
    **dict.fromkeys(("month", "weekday", "date"), (_R._calendar_date,)),
    **dict.fromkeys(("day", "clock", "moment"), (_R._relative_day,)),
    **dict.fromkeys(("to", "till", "на", "под", "other", "of last year", "new year"), (_R._fixed_phrase,)),
    **dict.fromkeys(("in", "через", "half a year"), (_R._counted,)),
    "short year": (_R._calendar_date, _R._quarter, _R._year), "season": (_R._season,), "weekend": (_R._weekend,),
    "quarter": (_R._quarter,), "roman": (_R._quarter, _R._decade), "decade": (_R._nth, _R._decade),
    "part": (_R._directed, _R._part), "holiday": (_R._holiday,), "за": (_R._latest_unit,),
    "direction": (_R._relative_day, _R._directed, _R._nth),
    "unit": (_R._relative_day, _R._fixed_phrase, _R._counted, _R._latest_unit, _R._year),
    "the": (_R._relative_day, _R._fixed_phrase, _R._directed, _R._latest_unit, _R._part, _R._weekend,
            *_NUMBER_WAYS),
}  # fmt: skip
