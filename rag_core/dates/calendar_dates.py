"""Calendar dates: day, month and year in any usual order, weekdays, quarters, seasons, years, decades and centuries."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

from rag_core.dates.calendar_arithmetic import (
    ONE_DAY,
    DateRange,
    Recurrence,
    build_day_range,
    build_month_range,
    build_year_range,
    pick_day,
    resolve_date_parts,
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
