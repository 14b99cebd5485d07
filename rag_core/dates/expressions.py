"""Date expressions, composed of a few primitives: unit, direction and count; part of; nth of; weekday; calendar date.

A recursive descent parser over the tokens of a text: "the first week of last month" is nth(week) of direction(month).
At most two expressions are nested, and an expression has few tokens, so parsing is linear in the length of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from rag_core.dates.grammar import DateToken, tokenize_dates
from rag_core.dates.ranges import (
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

__all__ = ["DateMatch", "find_dates"]

_MAX_DEPTH = 2
_RANGE_WORDS = ("-", "по", "до", "to", "through", "thru", "until", "till", "and", "и")
_SEPARATORS = (",", "-", "/", "of", "the", ".")
_SLACK_DAYS = {"week": 3, "month": 10, "quarter": 45, "half": 60, "year": 45, "decade": 400}
_FEW_DAYS = 5  # "the first days of May", "в первых числах мая"
_UNIT_LETTERS = {"d": "day", "w": "week", "m": "month", "y": "year"}
_ACCUSATIVE_UNITS = {"день", "сутки", "неделю", "месяц", "квартал", "полугодие", "полгода", "год"}  # "за неделю"
_GENITIVE_UNITS = {"дня", "недели", "месяца", "квартала", "полугодия", "года"}  # "итоги недели"
# Kinds of tokens that an expression begins with.
_FIRST_KINDS = {
    *"number ordinal cardinal month weekday weekend unit season part day direction date decade quarter roman clock".split(),
    *"the за на через in to till other".split(),
    *("short year", "several ago", "one and a half", "unit ago", "week start", "new year"),
}
_LARGE_NUMBERS = {"million", "billion", "thousand", "hundred", "млн", "млрд"}
# Words that show that a number is no year: "за 2000 рублей".
_MEASURES = ("руб", "₽", "долл", "евро", "чел", "штук", "мест", "экземпл", "тонн", "км", "кг", "год", "people", "dollar",
             "euro", "men", "women", "seat", "bonus", "kg", "points")  # fmt: skip
# Places called by a date: "площадь 1905 года", "улица Восьмого Марта".
_PLACE_NOUNS = {
    *"улица улице улицы улицу ул площадь площади пл проспект проспекте переулок бульвар бульваре сквер сквере".split(),
    *"парк парке станция станции метро набережная имени street square avenue station".split(),
}


@dataclass(frozen=True, slots=True)
class DateMatch:
    """Date expression at [at:to] of a text: `read(today)` gives its range, None for an impossible date.

    `end` is the number of the token after it. `fields` are (year, month, day) of a calendar date, so that a missing
    year can be taken from the other end of a range. `needs` names the words required before it: "в марте" is a date,
    "март" may be a café; "" requires none. `recurrence` is set where another range can hold it: "May of last year".
    """

    at: int
    to: int
    end: int
    read: Callable[[date], DateRange | None]
    fields: tuple[int | None, int | None, int | None] | None = None
    needs: str = ""
    slack: int = 0
    pair: bool = False  # a range by itself, with beginning and end
    recurrence: Recurrence | None = None
    holds: bool = False  # a unit or a year, in which recurring dates lie


def find_dates(text: str) -> Iterator[DateMatch]:
    """Find the dates of a lower-case text from left to right; of overlapping ones the first and longest."""
    parser, i = _DateParser(text), 0
    while i < len(parser.tokens):
        found = parser.parse_date(i)
        if found and parser.kind(i - 1) != "place":
            yield found
        i = found.end if found else i + 1


class _DateParser:
    """Parser of one text. Each method reads the expression that begins at token `i`, or gives None."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize_dates(text)

    def kind(self, i: int) -> str:
        """Kind of a token; "place" is a noun of places that are called by dates, "end" is outside of the text."""
        if not 0 <= i < len(self.tokens):
            return "end"
        token = self.tokens[i]
        return token.kind or ("place" if token.text in _PLACE_NOUNS else "")

    def token(self, i: int) -> DateToken:
        return self.tokens[i]

    def value(self, i: int) -> Any:
        return self.tokens[i].value if 0 <= i < len(self.tokens) else None

    def word(self, i: int) -> str:
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def glued(self, i: int) -> bool:
        """Whether a token touches the one before it."""
        return 0 < i < len(self.tokens) and self.tokens[i - 1].end == self.tokens[i].start

    def skip(self, i: int, *kinds: str) -> int:
        for _ in range(3):
            i += self.kind(i) in kinds
        return i

    def match(self, i: int, end: int, read: Callable[[date], DateRange | None], **more: Any) -> DateMatch:
        return DateMatch(self.tokens[i].start, self.tokens[end - 1].end, end, read, **more)

    def recurring(self, i: int, end: int, recurrence: Recurrence, **more: Any) -> DateMatch:
        return self.match(i, end, recurrence.find_latest, recurrence=recurrence, **more)

    def parse_date(self, i: int, depth: int = 0, *, inner: bool = False) -> DateMatch | None:
        """Longest date expression at `i`; with `inner` also a unit alone, as after "the start of"."""
        if self.kind(i) not in _FIRST_KINDS:
            return None
        ways = (self._calendar_date, self._relative_day, self._fixed_phrase, self._day_of_month, self._directed, self._counted,
                self._latest_unit, self._nth, self._part, self._quarter, self._season, self._weekend, self._decade, self._year,
                self._week_of)  # fmt: skip
        found = [one for way in ways if (one := way(i, depth))]
        if inner and self.kind(i) == "unit":
            found.insert(0, self._unit_alone(i))
        best = max(found, key=lambda one: one.end, default=None)
        return self._join_inner_and_outer(best, depth) if best and depth < _MAX_DEPTH else best

    def _join_inner_and_outer(self, one: DateMatch, depth: int) -> DateMatch:
        """Recurring date within another: "March of last year", "в прошлом году в марте"."""
        i = self.skip(one.end, "of", "in", "на", "в", "the", ",", "on")
        if i - one.end > 2 or not (one.recurrence or one.holds):
            return one
        other = self.parse_date(i, _MAX_DEPTH)
        if other is None or other.pair:
            return one
        inner, outer = (one, other) if one.recurrence else (other, one)
        if inner.recurrence is None or not outer.holds:
            return one
        recurrence = inner.recurrence
        return DateMatch(one.at, other.to, other.end, lambda today: recurrence.find_inside(outer.read(today)))

    def number(self, i: int) -> tuple[int, bool, int] | None:
        """Number in figures or words: its value, whether it is an ordinal, and the token after it."""
        kind, value = self.kind(i), self.value(i)
        if kind in {"number", "ordinal"}:
            return value, kind == "ordinal", i + 1
        if kind != "cardinal":
            return None
        if self.token(i).short and self.kind(i + 1) == "cardinal":  # "a few", "a couple of"
            i, value = i + 1, self.value(i + 1)
        end = self.skip(i + 1, "of") if self.word(i) == "couple" else i + 1
        after = end + (self.kind(end) == "-" and self.glued(end))
        if value in range(20, 100) and self.kind(after) in {"cardinal", "ordinal"} and self.value(after) < 10:
            return value + self.value(after), self.kind(after) == "ordinal", after + 1
        return value, False, end

    def day(self, i: int) -> tuple[int, int] | None:
        """Day of a month: 5, 5th, fifth; and the token after it."""
        found = self.number(i)
        if self.glued(i) and self.kind(i - 1) in {".", ","} and self.glued(i - 1):
            return None  # "6,107.31 August"
        if not found or (self.kind(i) == "cardinal" and not found[1]):
            return None
        return (found[0], found[2]) if 1 <= found[0] <= 31 else None

    def year(self, i: int) -> tuple[int, int, bool] | None:
        """Year in figures or words, the token after it, and whether a word says that it is a year."""
        found = self._year_number(i)
        if not found:
            return None
        year, end = found
        if self.kind(end) == "unit" and self.value(end) == "year" and self.word(end).startswith(("г", "y")):
            return year, end + 1, True
        if self.word(end) == "г":
            return year, end + 1 + (self.word(end + 1) == "."), True
        return (year, end, False) if year > 99 or self.kind(i) == "short year" else None

    def _year_number(self, i: int) -> tuple[int, int] | None:
        kind, value, word = self.kind(i), self.value(i), self.word(i)
        if kind == "short year":
            return value, i + 1
        if kind in {"number", "ordinal"} and len(str(value)) == 4:
            return (value, i + 1) if 1800 <= value < 2100 else None
        # "24-го года" and "в 98 году", but "24 года" and "5 лет" are counts
        after = self.word(i + 1)
        if kind == "ordinal" and word[:2].isdecimal() and "-" in word and value < 100:
            return value, i + 1
        if (
            kind == "number"
            and len(word) == 2
            and (after == "году" or (after == "года" and value % 10 not in {2, 3, 4}))
        ):
            return value, i + 1
        if word in {"two", "две"} and after in {"thousand", "тысячи"}:
            rest = self.number(self.skip(i + 2, "and"))
            return (2000 + rest[0], rest[2]) if rest and rest[0] < 100 else None
        if word == "тысяча" and after == "девятьсот":
            rest = self.number(i + 2)
            return (1900 + rest[0], rest[2]) if rest and rest[0] < 100 else None
        if (
            value in {19, 20}
            and kind == "cardinal"
            and not word.startswith(("д", "о"))
            and (rest := self.number(i + 1))
        ):
            return (value * 100 + rest[0], rest[2]) if 10 <= rest[0] < 100 and self.kind(i + 1) == "cardinal" else None
        # "в девяносто восьмом году"
        if (found := self.number(i)) and found[1] and 10 < found[0] < 100 and kind == "cardinal":
            return (found[0], found[2]) if self.word(found[2]).startswith("год") else None
        return (2000, i + 1) if value == 2000 and kind == "ordinal" else None

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
            d, end = day if day and not self.token(m).text.endswith("е") else (None, m + 1)
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
            end, m = at + 1 + (self.token(at).short and self.word(at + 1) == "."), self.value(at)
            y, end = self._trailing_year(end)
            return self._build_date(start, end, (y, m, d), last)
        if weekday is not None and last is None and self.kind(i) in {"ordinal", "number"}:
            return self._weekday_with_day(start, end, weekday, d) if self.kind(end) != "unit" else self._weekday(start)
        return self._weekday(start) if weekday is not None else None

    def _numeric_date(self, start: int, i: int, weekday: int | None) -> DateMatch | None:
        token, end = self.token(i), i + 1
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
        m, token, end = self.value(i), self.token(i), i + 1
        end += token.short and self.word(end) == "."
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

    def _short_ordinal_year(self, i: int) -> tuple[int | None, int]:
        """Year as in "в ноябре 24-го", "летом 24-го", and the token after it."""
        short = self.kind(i) == "ordinal" and self.word(i)[:2].isdecimal() and 10 < self.value(i) < 100
        if short and self.kind(i + 1) not in {"month", "numbers of a month"}:
            return self.value(i), i + 1
        return None, i

    def _trailing_year(self, i: int) -> tuple[int | None, int]:
        """Year after a day or a month, and the token after it."""
        at = self.skip(i, ",", "of", "in", "-", "/")
        found = self.year(at)
        if found:
            return found[0], found[1]
        two = (
            self.kind(i) == "number"
            and len(self.word(i)) == 2
            and self.kind(i - 1) == "month"
            and self.kind(i - 2) in {"number", "ordinal", "-", "/"}
        )
        if two and self.kind(i + 1) not in {":", ".", "unit", "month"} and not self.glued(i):
            return self.value(i), i + 1  # "3 Aug 96"
        return None, i

    def _build_date(
        self, start: int, end: int, fields: tuple[int | None, int, int | None], last: int | None = None, needs: str = ""
    ) -> DateMatch | None:
        """Build the match of a calendar date, or of a range of days in one month, up to the day `last`."""
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
        if self.token(i).short:
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

    def _relative_day(self, i: int, depth: int) -> DateMatch | None:
        """Day counted from today: yesterday, the day before yesterday, вчера вечером, this morning, last night."""
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
            return self.match(i, at + 2, lambda today: DateRange(today - _FEW_DAYS * ONE_DAY, today + ONE_DAY))
        if self.kind(at) == "unit" and words[1:] == ("before", "last"):
            name = self.value(at)
            return self.match(i, at + 3, lambda today: build_unit_range(name, today, -2), holds=True)
        if words[:2] in {("new", "year"), ("нового", "года"), ("новым", "годом")}:
            return self.recurring(i, at + 2, Recurrence("year", build_day_range), needs="bound")
        if self.kind(at) == "unit ago":
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
        if self.kind(at) in {"half", "several ago"}:  # "the last half year", "последние полгода"
            end = self.skip(at + 1, "-")
            return self._rolling(start, end + (self.kind(end) == "unit"), 1, "half", which)
        working = self.word(at) in {"working", "business"} or self.word(at).startswith("рабоч")
        at += working or self.word(at) in {"calendar", "one"} or self.word(at).startswith("календарн")
        count = self.number(at)
        if count and self.kind(count[2]) == "unit" and not count[1]:
            return self._rolling(start, count[2] + 1, count[0], self.value(count[2]), which)
        if self.kind(at) == "unit":
            return self._directed_unit(start, at, which, later, working=working)
        return self._directed_recurrence(start, at, which, depth)

    def _directed_unit(self, i: int, at: int, which: str, later: str, *, working: bool) -> DateMatch | None:
        name, end = self.value(at), at + 1
        if name in {"hour", "fortnight"}:
            return self._rolling(i, end, 1, name, which)
        if (which == "last" and self.kind(end) == "of") or (which == "that" and self.word(at)[0] < "а"):
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
        inner = self._calendar_date(at, depth) or self._season(at, depth) or self._weekend(at, depth)
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
        """The weekend, the latest that has begun."""
        at = self.skip(i, "the")
        if self.kind(at) != "weekend":
            return None
        recurrence = Recurrence("week", lambda monday: DateRange(monday + 5 * ONE_DAY, monday + 7 * ONE_DAY))
        sure = at > i or self.word(at) in {"выходные", "выходных"}
        return self.recurring(i, at + 1, recurrence, needs="" if sure else "on")

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
        if self.kind(i) in {"several ago", "one and a half"}:
            return self._half_year_ago(i)
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

    def _half_year_ago(self, i: int) -> DateMatch | None:
        months = 6 if self.kind(i) == "several ago" else 18
        end = self.skip(i + 1 if months == 6 else i + 2, "тому")
        if self.kind(end) != "ago" or (months == 18 and self.value(i + 1) != "year"):
            return None
        return self.match(i, end + 1, lambda today: build_day_range(add_units(-months, "month", today)), slack=30)

    def _units_from(self, i: int, end: int, n: int, name: str, depth: int) -> DateMatch | None:
        """Units from a date on: two weeks starting May 20th."""
        if self.word(end) not in {"starting", "beginning", "начиная"} or depth >= _MAX_DEPTH:
            return None
        first = self.parse_date(self.skip(end + 1, "from", "on", "с", "the"), depth + 1)
        if first is None:
            return None
        return self.match(i, first.end, _from_start(first, lambda day: DateRange(day, add_units(n, name, day))))

    def _latest_unit(self, i: int, depth: int) -> DateMatch | None:
        """Unit up to now: за неделю, "digest for the week", "итоги года"."""
        if self.word(i) == "за":
            name = "half" if self.kind(i + 1) == "several ago" else self.value(i + 1)
            bounded = self.kind(i + 2) in {"number", "date"} or self.word(i + 2) == "до"
            return self._rolling(i, i + 2, 1, name) if self.word(i + 1) in _ACCUSATIVE_UNITS and not bounded else None
        at = self.skip(i, "the")
        if self.kind(at) != "unit" or (at == i and self.word(i) not in _GENITIVE_UNITS):
            return None
        if self.value(at) == "week":
            return replace(self._rolling(i, at + 1, 1, "week"), needs="digest", pair=False)
        return replace(self._unit_alone(at), at=self.tokens[i].start, needs="digest")

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
            n = 10 if nth in {10, 20} else _FEW_DAYS if nth == 1 else 7
            return lambda box: resolve_nth_unit(box, "day", None, nth, n)
        if kind in {"weekday", "weekend"}:
            weekday, length = (value, 1) if kind == "weekday" else (5, 2)
            return lambda box: resolve_nth_unit(box, "day", weekday, nth, length)
        if kind != "unit" or value in {"hour", "fortnight"}:
            return None
        n = n or (_FEW_DAYS if word in {"days", "дни", "дней", "днях"} else 1)
        return lambda box: resolve_nth_unit(box, value, None, nth, n)

    def _inside(
        self, i: int, end: int, resolve: Callable[[DateRange], DateRange | None], depth: int
    ) -> DateMatch | None:
        """Something inside of the range that follows: "… of last year"."""
        at = self.skip(end, "of", "in", "the", "-")
        outer = self.parse_date(at, depth + 1, inner=True) if depth < _MAX_DEPTH else None
        if outer is None or (outer.needs == "range" and outer.fields is None):
            return None
        read_outer = outer.read
        return DateMatch(
            self.tokens[i].start,
            outer.to,
            outer.end,
            lambda today: resolve(box) if (box := read_outer(today)) else None,
        )

    def _part(self, i: int, depth: int) -> DateMatch | None:
        """Start, middle or end of a range: early May, в середине прошлого года, the end of the month."""
        at = self.skip(i, "the")
        if self.kind(at) != "part" or (
            self.word(at) in {"start", "middle", "end", "beginning"}
            and self.kind(at + 1) != "of"
            and self.value(at + 1) != "this"
            and self.value(at + 1) != "last"
        ):
            return None
        part = self.value(at)
        return (
            self._inside(i, at + 1, lambda box: resolve_part(part, box), depth)
            if part in {"start", "middle", "end"}
            else None
        )

    def _unit_alone(self, i: int) -> DateMatch:
        name = self.value(i) if self.value(i) not in {"hour", "fortnight"} else "day"
        return self.match(i, i + 1, lambda today: build_unit_range(name, today), holds=True)

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
        start, stop = self.token(i).start, self.token(end - 1).end
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

    def _week_of(self, i: int, depth: int) -> DateMatch | None:
        """Week that begins on a date, or a numbered week: week of May 3, w/c 4 Feb, week 12 of 2024."""
        start, i = i, self.skip(i, "the")
        words = tuple(self.word(n) for n in range(i, i + 3))
        starting = words[0] == "week" and words[1] in {"of", "commencing", "beginning", "starting"}
        if starting or words == ("w", "/", "c"):
            first = (
                self.parse_date(self.skip(i + (2 if starting else 3), "the"), depth + 1) if depth < _MAX_DEPTH else None
            )
            if first is None:
                return None
            return self.match(start, first.end, _from_start(first, lambda day: DateRange(day, day + 7 * ONE_DAY)))
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


def _convert_unit(n: int, name: str) -> tuple[int, str]:
    """Convert hours and fortnights to days and weeks."""
    return (-(-n // 24), "day") if name == "hour" else (2 * n, "week") if name == "fortnight" else (n, name)


def _from_start(first: DateMatch, build: Callable[[date], DateRange]) -> Callable[[date], DateRange | None]:
    """Resolve a range that begins where a date begins."""

    def read(today: date) -> DateRange | None:
        box = first.read(today)
        return build(box.since) if box and box.since else None

    return read
