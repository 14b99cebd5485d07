"""Numbers of a sentence and what they belong to: items of a price list, units, identifiers.

A number decides only where it stands at the claim's own words.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from rag_core.text.numbers import CURRENCIES, Number
from rag_core.text.query_terms import is_asking_word
from rag_core.text.tokens import measure_stem_similarity, stem
from rag_core.verification.claim_extraction import is_verb
from rag_core.verification.compare import find_nearest_word, is_same_value
from rag_core.verification.facts import SentenceFacts
from rag_core.verification.vocabulary import Word

_SAME_WORD = 0.7  # similarity from which two words count as the same
_MOST_ITEM_WORDS = 40  # words of an item that are compared
_DASH = re.compile(r"\s[–—-]\s")
_PIECE_BREAK = re.compile(r"[,;.!?\n•|)]\s|[\n(]")


def is_predicate(word: Word) -> bool:
    """Check whether a word looks like a verb; an English word in "s" may be a plural."""
    return is_verb(word) and not (word.low.isascii() and word.low.endswith("s"))


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
            claimed = find_nearest_word(word, claim.words)[0] >= _SAME_WORD
            verb = is_predicate(word) and not word.capital and not claimed
            light = is_asking_word(word.low) or word.start in units or verb
            if not light:
                pieces[bisect_right(starts, word.start) - 1].append(word)
        self._size: dict[int, int] = {}
        self._claimed: dict[int, int] = {}
        self._words: dict[int, frozenset[str]] = {}
        mine = frozenset(word.stem for word in claim.words)
        self._stems = mine
        for number in here.numbers:
            at = bisect_right(starts, number.start) - 1
            words = pieces[at] or pieces[max(0, at - 1)]  # a number that stands alone belongs to the piece before
            self._size[number.start] = len(words)
            self._words[number.start] = frozenset(word.stem for word in words[:_MOST_ITEM_WORDS])
            self._claimed[number.start] = sum(
                find_nearest_word(word, claim.words)[0] >= _SAME_WORD for word in words[:_MOST_ITEM_WORDS]
            )

    def find_rival(self, number: Number) -> Number | None:
        """Find a number of the same unit that stands at the claim's own words."""
        numbers, mine = self._here.numbers, self._values
        others = [n for n in numbers if _have_same_unit(number, n) and not any(is_same_value(m, n) for m in mine)]
        if own := next((n for n in others if self._claimed[n.start]), None):
            return own
        return others[0] if len(others) == 1 and not any(is_same_value(number, n) for n in numbers) else None

    def is_bound_elsewhere(self, number: Number) -> bool:
        """Check whether the number stands only at other things, while the claim's thing has another number."""
        same = [n for n in self._here.numbers if is_same_value(number, n)]
        if not same or any(self._claimed[n.start] == self._size[n.start] for n in same):
            return False
        most = max(self._claimed[n.start] for n in same)
        others = (n for n in self._here.numbers if _have_same_unit(number, n) and n not in same)
        return any(self._claimed[n.start] > most for n in others)

    def is_mixed(self) -> bool:
        """Check whether a number of the claim stands at a foreign word, and another one at more of the claim's words."""
        for number in self._values:
            same = [n for n in self._here.numbers if is_same_value(number, n)]
            others = [n for n in self._here.numbers if _have_same_unit(number, n) and n not in same]
            for one in same:
                words = self._words[one.start]
                if words - self._stems and any((self._words[n.start] & self._stems) - words for n in others):
                    return True
        return False

    def find_difference(self) -> str:
        """Find a number of the claim in whose place the sentence has another."""
        for number in self._values:
            here = any(is_same_value(number, other) for other in self._here.numbers)
            if (not here or self.is_bound_elsewhere(number)) and (rival := self.find_rival(number)):
                quoted = self._claim.text[number.start : number.end]
                return f"{quoted} ≠ {self._here.text[rival.start : rival.end]}"
        return ""

    def find_misplaced(self) -> Iterator[tuple[bool, str]]:
        """Find numbers of the claim that belong to another item, while the claim's item has its own: (True, why)."""
        for number in self._values:
            if number.unit in CURRENCIES and self.is_bound_elsewhere(number) and (rival := self.find_rival(number)):
                quoted = self._claim.text[number.start : number.end]
                yield True, f"{quoted} ≠ {self._here.text[rival.start : rival.end]}"

    def is_same_attribute(self) -> bool:
        """Check that what differs may be the same attribute later: the price of the same item, or no number at all."""
        rivals = [rival for number in self._values if (rival := self.find_rival(number))]
        return all(rival.unit and self._claimed[rival.start] == self._size[rival.start] for rival in rivals)


def list_unit_words(facts: SentenceFacts) -> frozenset[int]:
    """Offsets of the words that are units: "roubles" in "40 roubles"."""
    ends = {number.end for number in facts.numbers if number.unit and number.unit != "ordinal"}
    return frozenset(word.start for word in facts.words if not ends.isdisjoint(range(word.start - 2, word.start + 1)))


def _have_same_unit(one: Number, other: Number) -> bool:
    if one.unit or other.unit:
        bare_price = not (one.unit and other.unit) and not other.noun and bool({one.unit, other.unit} & CURRENCIES)
        return one.unit == other.unit or bare_price
    mine, theirs = (stem(number.noun.split()[0]) if number.noun else "" for number in (one, other))
    return mine == theirs or measure_stem_similarity(mine, (theirs,)) >= _SAME_WORD
