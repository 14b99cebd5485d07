"""Numbers in price lists and the like: each number is bound to the words of the item that it belongs to.

A number decides only where it stands at the claim's own words. Pure functions.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from rag_core.text.numbers import CURRENCIES, Number
from rag_core.text.query_terms import is_asking_word
from rag_core.text.stem_similarity import measure_stem_similarity
from rag_core.text.tokens import stem
from rag_core.verification.claim_comparison import contains_value, is_same_value
from rag_core.verification.claim_extraction import is_verb
from rag_core.verification.facts import SentenceFacts
from rag_core.verification.word_comparison import SAME_WORD, Word

_MOST_ITEM_WORDS = 40  # words of an item that are compared
_DASH = re.compile(r"\s[–—-]\s")
_PIECE_BREAK = re.compile(r"[,;.!?\n•|)]\s|[\n(]")


class NumberedItems:
    """Items of a sentence, such as a price list: the words that each of its numbers belongs to."""

    def __init__(self, claim: SentenceFacts, values: Sequence[Number], here: SentenceFacts) -> None:
        self._claim, self._values, self._here = claim, values, here
        numbered = [number.start for number in here.numbers]
        starts = [0, *(found.end() for found in _PIECE_BREAK.finditer(here.text))]
        for found in _DASH.finditer(here.text):  # between two numbers, not between a thing and its price
            edges = max(start for start in starts if start <= found.start()), found.start()
            if any(edges[0] <= at < edges[1] for at in numbered) and any(at >= found.end() for at in numbered):
                starts = sorted({*starts, found.end()})
        units = list_unit_words(here)
        pieces: list[list[Word]] = [[] for _ in starts]
        for word in here.words:
            plural = word.low.isascii() and word.low.endswith("s")  # or an English verb in "s"
            verb = is_verb(word) and not plural and not word.capital and not claim.words.has(word)
            if not (is_asking_word(word.low) or word.start in units or verb):
                pieces[bisect_right(starts, word.start) - 1].append(word)
        # a number that stands alone belongs to the piece before
        places = [(start, bisect_right(starts, start) - 1) for start in numbered]
        self._words = {start: (pieces[at] or pieces[max(0, at - 1)])[:_MOST_ITEM_WORDS] for start, at in places}
        self._claimed = {start: sum(map(claim.words.has, words)) for start, words in self._words.items()}

    def _list_same(self, number: Number) -> list[Number]:
        return [n for n in self._here.numbers if is_same_value(number, n)]

    def _is_claimed_whole(self, number: Number) -> bool:
        return self._claimed[number.start] == len(self._words[number.start])

    def find_rival(self, number: Number) -> Number | None:
        """Find a number of the same unit that stands at the claim's own words."""
        numbers, mine = self._here.numbers, self._values
        others = [n for n in numbers if _have_same_unit(number, n) and not any(is_same_value(m, n) for m in mine)]
        if own := next((n for n in others if self._claimed[n.start]), None):
            return own
        return others[0] if len(others) == 1 and not contains_value(number, self._here) else None

    def is_bound_elsewhere(self, number: Number) -> bool:
        """Check whether the number stands only at other things, while the claim's thing has another number."""
        same = self._list_same(number)
        if not same or any(map(self._is_claimed_whole, same)):
            return False
        most = max(self._claimed[n.start] for n in same)
        others = (n for n in self._here.numbers if _have_same_unit(number, n) and n not in same)
        return any(self._claimed[n.start] > most for n in others)

    def is_mixed(self) -> bool:
        """Check whether a number of the claim stands at a foreign word, and another one at more of the claim's words."""
        mine, stems = self._claim.words.stems, {at: {w.stem for w in words} for at, words in self._words.items()}
        for number in self._values:
            same = self._list_same(number)
            others = [n for n in self._here.numbers if _have_same_unit(number, n) and n not in same]
            for one in same:
                words = stems[one.start]
                if words - mine and any((stems[n.start] & mine) - words for n in others):
                    return True
        return False

    def find_difference(self, numbers: Sequence[Number]) -> str:
        """Find one of these numbers of the claim in whose place the sentence has another."""
        for number in numbers:
            apart = not contains_value(number, self._here) or self.is_bound_elsewhere(number)
            if apart and (rival := self.find_rival(number)):
                quoted = self._claim.text[number.start : number.end]
                return f"{quoted} ≠ {self._here.text[rival.start : rival.end]}"
        return ""

    def is_same_attribute(self) -> bool:
        """Check that what differs may be the same attribute later: the price of the same item, or no number at all."""
        rivals = [rival for number in self._values if (rival := self.find_rival(number))]
        return all(rival.unit and self._is_claimed_whole(rival) for rival in rivals)


def list_unit_words(facts: SentenceFacts) -> frozenset[int]:
    """Offsets of the words that are units: "roubles" in "40 roubles"."""
    ends = {number.end for number in facts.numbers if number.unit and number.unit != "ordinal"}
    return frozenset(word.start for word in facts.words if not ends.isdisjoint(range(word.start - 2, word.start + 1)))


def _have_same_unit(one: Number, other: Number) -> bool:
    if one.unit or other.unit:
        bare_price = not (one.unit and other.unit) and not other.noun and bool({one.unit, other.unit} & CURRENCIES)
        return one.unit == other.unit or bare_price
    mine, theirs = (stem(number.noun.split()[0]) if number.noun else "" for number in (one, other))
    return mine == theirs or measure_stem_similarity(mine, (theirs,)) >= SAME_WORD
