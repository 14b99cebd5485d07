"""Date expressions, composed of a few primitives: unit, direction and count; part of; nth of; weekday; calendar date.

A recursive descent parser over the tokens of a text: "the first week of last month" is nth(week) of direction(month).
At most two expressions are nested, and an expression has few tokens, so parsing is linear in the length of the text.
"""

from __future__ import annotations

from collections.abc import Iterator

from rag_core.dates.relative_dates import RelativeReader
from rag_core.dates.token_reader import DateMatch

__all__ = ["DateMatch", "find_dates"]

# Kinds of tokens that an expression begins with.
_FIRST_KINDS = {
    *"number ordinal cardinal month weekday weekend unit season part day direction date decade quarter roman clock".split(),
    *"the за на через in to till other moment".split(),
    *("short year", "half a year", "one and a half", "of last year", "week start", "new year"),
}
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
        if depth > _MAX_DEPTH or self.kind(i) not in _FIRST_KINDS:
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
