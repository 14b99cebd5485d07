"""Values in price lists and the like: each number, time and name is bound to the words of the item it belongs to.

A value decides only where it stands at the claim's own words. Pure functions.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from rag_core.text.numbers import CURRENCIES, Number
from rag_core.text.query_terms import is_asking_word
from rag_core.text.tokens import measure_stem_similarity, stem
from rag_core.verification.claim_comparison import contains_value, is_same_value
from rag_core.verification.claim_extraction import is_verb
from rag_core.verification.facts import SentenceFacts
from rag_core.verification.subject_comparison import list_identifiers, list_unit_words
from rag_core.verification.word_comparison import SAME_WORD, Word, is_same_name

_MOST_ITEM_WORDS = 40  # words of an item that are compared
_JOINT = re.compile(r"\s(?:[–—-]|и|а|and|but|while)\s")
_PIECE_BREAK = re.compile(r"[,;.!?\n•|)]\s|[\n(]")


class NumberedItems:
    """Items of a sentence, such as a price list: the words that each of its numbers, times and names belongs to."""

    def __init__(self, claim: SentenceFacts, values: Sequence[Number], here: SentenceFacts) -> None:
        self._claim, self._values, self._here = claim, values, here
        names = [name.word.start for name in here.names if not name.weak]
        valued = [*(number.start for number in here.numbers), *(moment.start for moment in here.moments), *names]
        starts = [0, *(found.end() for found in _PIECE_BREAK.finditer(here.text))]
        for found in _JOINT.finditer(here.text):  # between two values, not between a thing and its price
            edges = max(start for start in starts if start <= found.start()), found.start()
            if any(edges[0] <= at < edges[1] for at in valued) and any(at >= found.end() for at in valued):
                starts = sorted({*starts, found.end()})
        units = list_unit_words(here)
        pieces: list[list[Word]] = [[] for _ in starts]
        for word in here.words:
            plural = word.low.isascii() and word.low.endswith("s")  # or an English verb in "s"
            verb = is_verb(word) and not plural and not word.capital and not claim.words.has(word)
            if not (is_asking_word(word.low) or word.start in units or verb):
                pieces[bisect_right(starts, word.start) - 1].append(word)
        # a value that stands alone belongs to the piece before
        self._places = {start: bisect_right(starts, start) - 1 for start in valued}
        self._words = {at: (pieces[n] or pieces[max(0, n - 1)])[:_MOST_ITEM_WORDS] for at, n in self._places.items()}
        self._words |= {at: [word for word in self._words[at] if word.start not in names] for at in names}
        self._claimed = {
            at: frozenset(
                near.stem for word in words if claim.words.has(word) and (near := claim.words.nearest(word)[1])
            )
            for at, words in self._words.items()
        }
        self._foreign = {at: not all(map(claim.words.has, words)) for at, words in self._words.items()}
        for number in list_identifiers(claim):  # "bus 27" and "bus 41" have the same words
            for at, n in self._places.items():
                named = [o for o in here.numbers if o.unit in {"", "ordinal"} and self._places[o.start] == n]
                if any(is_same_value(number, other) for other in named):
                    self._claimed[at] |= {f"{number.values[0]:g}"}
                elif named:
                    self._foreign[at] = True

    def _list_same(self, number: Number) -> list[Number]:
        return [n for n in self._here.numbers if is_same_value(number, n)]

    def _is_claimed_whole(self, number: Number) -> bool:
        return not self._foreign[number.start]

    def find_rival(self, number: Number) -> Number | None:
        """Find a number of the same unit that stands at the claim's own words."""
        others = self._list_rivals(number)
        if own := max((n for n in others if self._claimed[n.start]), key=self._is_claimed_whole, default=None):
            return own
        return others[0] if len(others) == 1 and not contains_value(number, self._here) else None

    def is_bound_elsewhere(self, number: Number) -> bool:
        """Check whether the number stands only at other things, while the claim's thing has another number."""
        same = [n.start for n in self._list_same(number)]
        return any(self._is_nearer(n.start, same) for n in self._list_rivals(number))

    def _list_rivals(self, number: Number) -> list[Number]:
        mine = [*self._values, number]
        numbers = (n for n in self._here.numbers if not any(is_same_value(m, n) for m in mine))
        return [n for n in numbers if _have_same_unit(number, n)]

    def _is_nearer(self, other: int, same: Sequence[int]) -> bool:
        """Check whether another value stands at more of the claim's words than all of these: offsets of values.

        In "билет — 450 ₽, льготный — 200 ₽" the second is nearer to "льготный билет", but not to "билет".
        """
        there = self._claimed[other]

        def is_nearer(one: int) -> bool:
            here, foreign = self._claimed[one], self._foreign[one]
            own = bool(there - here) and not self._foreign[other]
            return (own and (other > one or foreign)) or (foreign and len(there) > len(here))

        return bool(same) and all(map(is_nearer, same))

    def find_moment_elsewhere(self) -> str:
        """Find a date or time of the claim that stands only at another thing, while the claim's thing has another."""
        for moment in self._claim.moments:
            mine = moment.fields()
            shared = [(one, mine.keys() & one.fields().keys()) for one in self._here.moments]
            same = [one.start for one, names in shared if names and all(one.fields()[n] == mine[n] for n in names)]
            for other, names in shared:
                differs = names and all(other.fields()[n] != mine[n] for n in names)
                if differs and other.start not in same and self._is_nearer(other.start, same):
                    quoted = self._claim.text[moment.start : moment.end]
                    return f"{quoted} ≠ {self._here.text[other.start : other.end]}"
        return ""

    def find_name_elsewhere(self) -> str:
        """Find a name of the claim that stands only at another thing, while the claim's thing has another name."""
        theirs = [name.word for name in self._here.names if name.word.start in self._places]
        for name in self._claim.names:
            same = [word.start for word in theirs if is_same_name(name.word, word)]
            pieces = {self._places[start] for start in same}
            others = (w for w in theirs if self._places[w.start] not in pieces and not self._claim.words.has(w))
            if other := next((w for w in others if self._is_nearer(w.start, same)), None):
                return f"{name.word.low} ≠ {other.low}"
        return ""

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


def _have_same_unit(one: Number, other: Number) -> bool:
    if one.unit or other.unit:
        bare_price = not (one.unit and other.unit) and not other.noun and bool({one.unit, other.unit} & CURRENCIES)
        return one.unit == other.unit or bare_price
    mine, theirs = (stem(number.noun.split()[0]) if number.noun else "" for number in (one, other))
    return mine == theirs or measure_stem_similarity(mine, (theirs,)) >= SAME_WORD
