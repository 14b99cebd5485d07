"""Whether a terse line prices the thing of a claim anew: "ржаной 160 ₽" after "ржаной подовый 140 ₽". Pure."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from rag_core.asked import is_asking
from rag_core.verify.facts import Stated, stated
from rag_core.verify.matching import nearest
from rag_core.verify.numerals import CURRENCIES, Number
from rag_core.verify.valued import same_value
from rag_core.verify.words import Word

__all__ = ["listed_otherwise", "priced_anew"]

_BREAK = re.compile(r"[,;.!?\n•|]\s")
_SAME = 0.7  # of a word: it is the same word


def priced_anew(claim_text: str, line: str, lang: str) -> bool:
    """Whether a price in the line is another one than the claim's, and all that stands before it is of the claim.

    The first word of the claim, or another of its numbers ("250 г"), must stand there; a claim of one day is never
    priced anew.
    """
    claim, there = stated(claim_text, lang), stated(line, lang)
    prices = [number for number in claim.numbers if number.unit in CURRENCIES]
    if not prices or any(moment.day is not None for moment in claim.moments):
        return False
    others = [n for n in there.numbers if n.unit in CURRENCIES and not any(same_value(n, p) for p in prices)]
    return any(_same_thing(claim, there, number) for number in others)


def listed_otherwise(claim: Stated, best: Stated) -> Iterator[tuple[bool, str]]:
    """A price of the claim that stands behind another thing of a list, where the claim's thing has a price of its own."""
    prices = [number for number in best.numbers if number.unit in CURRENCIES]
    if not prices or not any(price.unit in CURRENCIES for price in claim.numbers):
        return
    before = _Before(best)
    listed = [(number, before.thing(number)[1]) for number in prices]
    for price in claim.numbers:
        mine = [words for number, words in listed if price.unit in CURRENCIES and same_value(price, number)]
        if not mine or any(_shares(words, claim) or not words for words in mine):
            continue
        others = [number for number, words in listed if _shares(words, claim) and not same_value(price, number)]
        if len(others) == 1:
            said, there = claim.text[price.start : price.end], best.text[others[0].start : others[0].end]
            yield True, f"{said} ≠ {there}"


def _shares(words: list[Word], claim: Stated) -> bool:
    return any(nearest(word, claim.words)[0] >= _SAME for word in words)


def _same_thing(claim: Stated, there: Stated, price: Number) -> bool:
    start, words = _Before(there).thing(price)
    numbers = [n for n in there.numbers if start <= n.start < price.start]
    if not words or any(nearest(word, claim.words)[0] < _SAME for word in words):
        return False
    if any(not any(same_value(n, mine) for mine in claim.numbers) for n in numbers):
        return False
    first = _first(claim)
    return bool(numbers) or (first is not None and nearest(first, words)[0] >= _SAME)


class _Before:
    """What stands before the prices of a sentence."""

    def __init__(self, there: Stated) -> None:
        self._starts = [0, *(found.end() for found in _BREAK.finditer(there.text))]
        self._words = [word for word in there.words if not is_asking(word.low)]
        self._places = [word.start for word in self._words]

    def thing(self, price: Number) -> tuple[int, list[Word]]:
        """Where the thing that is priced begins to be named, and the words that name it: as far back as one is found."""
        last = bisect_left(self._places, price.start)
        if not last:
            return 0, []
        start = self._starts[bisect_right(self._starts, self._places[last - 1]) - 1]
        return start, self._words[bisect_left(self._places, start) : last]


def _first(claim: Stated) -> Word | None:
    """The first word of a claim that says what it is about."""
    strong = {name.word.start for name in claim.names if not name.weak}
    return next((w for w in claim.words if not is_asking(w.low) and w.start not in strong), None)
