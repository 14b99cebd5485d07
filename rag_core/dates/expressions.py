"""Date expressions, composed of a few primitives: unit, direction and count; part of; nth of; weekday; calendar date.

A recursive descent parser over the tokens of a text: "the first week of last month" is nth(week) of direction(month).
At most two expressions are nested, and an expression has few tokens, so parsing is linear in the length of the text.
"""

from __future__ import annotations

from collections.abc import Iterator

from rag_core.dates.relative_dates import RelativeReader
from rag_core.dates.token_reader import DateMatch

__all__ = ["DateMatch", "find_dates"]

# Expressions that begin with a token of each kind: the parser tries only these.
_NUMBER_WAYS = "calendar_date day_of_month counted nth quarter decade year"
_WAYS = {
    **dict.fromkeys(("number", "ordinal", "cardinal"), _NUMBER_WAYS),
    **dict.fromkeys(("month", "weekday", "date"), "calendar_date"),
    **dict.fromkeys(("day", "clock", "moment"), "relative_day"),
    **dict.fromkeys(("to", "till", "на", "other", "of last year", "new year"), "fixed_phrase"),
    **dict.fromkeys(("in", "через", "half a year", "one and a half"), "counted"),
    "short year": "calendar_date quarter year", "season": "season", "weekend": "weekend", "quarter": "quarter",
    "roman": "quarter decade", "decade": "nth decade", "part": "directed part", "за": "latest_unit", "week start": "week_of",
    "direction": "relative_day directed nth", "unit": "relative_day fixed_phrase counted latest_unit year week_of",
    "the": f"relative_day fixed_phrase directed latest_unit part weekend week_of {_NUMBER_WAYS}",
}  # fmt: skip
_MAX_DEPTH = 2


def find_dates(text: str) -> Iterator[DateMatch]:
    """Find the dates of a lower-case text from left to right; of overlapping ones the first and longest."""
    parser, i = _DateParser(text), 0
    while i < len(parser.tokens):
        found = parser.parse_date(i)
        if found and parser.kind(i - 1) != "place":
            yield found
        i = found.end if found else i + 1


class _DateParser(RelativeReader):
    """Parser of one text: the longest of the expressions that begin at a token."""

    def parse_date(self, i: int, depth: int = 0, *, inner: bool = False) -> DateMatch | None:
        """Longest date expression at `i`; with `inner` also a unit alone, as after "the start of"."""
        if depth > _MAX_DEPTH or self.kind(i) not in _WAYS:
            return None
        ways = (getattr(self, f"_{name}") for name in _WAYS[self.kind(i)].split())
        found: list[DateMatch] = [one for way in ways if (one := way(i, depth))]
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
