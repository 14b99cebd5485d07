"""Token reader: the tokens of a text by number, and the numbers, days and years that begin at one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

from rag_core.dates.grammar import DateToken, tokenize_dates
from rag_core.dates.ranges import (
    DateRange,
    Recurrence,
)

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


class TokenReader:
    """Reader of one text. Each method reads what begins at token `i`, or gives None; depth counts nested expressions."""

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
        """Token by its number."""
        return self.tokens[i]

    def value(self, i: int) -> Any:
        """Value of a token; None outside of the text."""
        return self.tokens[i].value if 0 <= i < len(self.tokens) else None

    def word(self, i: int) -> str:
        """Text of a token; empty outside of the text."""
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def glued(self, i: int) -> bool:
        """Whether a token touches the one before it."""
        return 0 < i < len(self.tokens) and self.tokens[i - 1].end == self.tokens[i].start

    def skip(self, i: int, *kinds: str) -> int:
        """Skip up to three tokens of these kinds."""
        for _ in range(3):
            i += self.kind(i) in kinds
        return i

    def match(self, i: int, end: int, read: Callable[[date], DateRange | None], **more: Any) -> DateMatch:
        """Build the match of the tokens from `i` to before `end`."""
        return DateMatch(self.tokens[i].start, self.tokens[end - 1].end, end, read, **more)

    def recurring(self, i: int, end: int, recurrence: Recurrence, **more: Any) -> DateMatch:
        """Build the match of a recurring date, by itself the latest that has begun."""
        return self.match(i, end, recurrence.find_latest, recurrence=recurrence, **more)

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

    def _short_ordinal_year(self, i: int) -> tuple[int | None, int]:
        """Year as in "в ноябре 24-го", "летом 24-го", and the token after it."""
        short = self.kind(i) == "ordinal" and self.word(i)[:2].isdecimal() and 10 < self.value(i) < 100
        if short and self.kind(i + 1) not in {"month", "numbers of a month"}:
            return self.value(i), i + 1
        return None, i

    def parse_date(self, i: int, depth: int = 0, *, inner: bool = False) -> DateMatch | None:
        """Longest date expression at token `i`; with `inner` also a unit alone, as after "the start of"."""
        raise NotImplementedError
