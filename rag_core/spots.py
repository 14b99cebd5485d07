"""Where the words of a search stand in a text, and which piece of it shows them best. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rag_core.analysis import terms
from rag_core.mentions import Word, word_of
from rag_core.readable import readable

__all__ = ["Spot", "Spots", "around", "small"]

_MARK = "[\u0300-\u036f]"  # stress marks and the like
_WORD = re.compile(rf"[^\W_](?:[^\W_]|{_MARK})*")
_MOST_TRIED = 200  # places a piece may begin at
_LONGEST_PHRASE = 300  # characters
_LEAD = 4  # the share of a piece that stands before the first word found: one in so many


class Spot(NamedTuple):
    """A place in a text, in code points, and which of the words or phrases stands there."""

    start: int
    end: int
    which: int


def small(text: str) -> str:
    """Small letters without ё, one for each: places in it are places in the text."""
    low = text.lower()
    if len(low) != len(text):  # "İ" has two small ones
        low = "".join(one if len(one := letter.lower()) == 1 else letter for letter in text)
    return low.replace("ё", "е")


@dataclass(frozen=True, slots=True)
class Spots:
    """What is looked for: words in any of their forms, and phrases word for word."""

    words: tuple[Word, ...] = ()
    phrases: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def of(cls, words: str, phrases: Sequence[str] = ()) -> Spots:
        """From the words as they were written, the phrases, #tags and @names among them too."""
        found = {term: _word(term, piece) for piece in re.findall(r"[^\W_]+", words) for term in terms(piece)}
        return cls(tuple(found.values()), tuple(_phrase(phrase) for phrase in phrases if _WORD.search(phrase)))

    def all_in(self, text: str) -> bool:
        """Whether all of it stands in the text."""
        low = small(readable(text))
        if not self.phrases_in(text):
            return False
        found = frozenset(terms(text))
        return all(word.stands_in(low, found) for word in self.words)

    def phrases_in(self, text: str) -> bool:
        """Whether the phrases stand in the text."""
        low = small(readable(text)) if self.phrases else ""
        return all(phrase.search(low) for phrase in self.phrases)

    def within(self, text: str) -> list[Spot]:
        """Where it stands, in the order of the text; no two overlap."""
        low = small(readable(text))
        found = [Spot(*m.span(), -n) for n, phrase in enumerate(self.phrases, 1) for m in phrase.finditer(low)]
        for piece in _WORD.finditer(low):
            stems = frozenset(terms(piece[0]))
            which = next((n for n, word in enumerate(self.words) if word.stands_in(piece[0], stems)), None)
            if which is not None:
                found.append(Spot(*piece.span(), which))
        found.sort(key=lambda spot: (spot.start, -spot.end))
        kept: list[Spot] = []
        for spot in found:
            if not kept or spot.start >= kept[-1].end:
                kept.append(spot)
        return kept


def _word(term: str, written: str) -> Word:
    """A surname is recognised by its form only where its stems may be those of another word: "Иванов", "Иван"."""
    word = word_of(term, written)
    return word if len(word.terms) > 1 else Word(word.terms)


def _phrase(phrase: str) -> re.Pattern[str]:
    said = small(readable(phrase))
    if len(said) > _LONGEST_PHRASE:  # what stands on is not looked at: so many letters are found in one text
        said = said[:_LONGEST_PHRASE].rpartition(" ")[0] or said[:_LONGEST_PHRASE]
    # possessive: a run of marks is read in one way only, or a text full of them would take for ever
    spelt = ["".join(f"{re.escape(letter)}{_MARK}*+" for letter in piece) for piece in re.findall(r"[^\W_]+", said)]
    sign = phrase[0] if phrase[0] in "#@" else ""
    return re.compile(rf"(?<![^\W_]){sign}" + r"[\W_]++".join(spelt) + r"(?![^\W_])")


def around(text: str, spots: Sequence[Spot], longest: int) -> tuple[int, int]:
    """The piece of at most `longest` characters that holds the most of what was found, from word to word."""
    if len(text) <= longest:
        return 0, len(text)
    tried = spots[:_MOST_TRIED]

    def held(first: Spot) -> int:
        return len({spot.which for spot in tried if first.start <= spot.start and spot.end <= first.start + longest})

    first = max(tried, key=held, default=Spot(0, 0, 0))
    start = max(0, first.start - longest // _LEAD)
    if start:
        start = text.find(" ", start, first.start) + 1 or first.start
    end = min(len(text), start + longest)
    if end < len(text) and (space := text.rfind(" ", max(first.end, start + longest // 2), end)) > 0:
        end = space
    return start, end
