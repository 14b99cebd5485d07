"""Which words of a claim a sentence has, and how nearly. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import Match, SequenceMatcher
from functools import lru_cache

from rag_core.verify.facts import LONGEST_STATED, Stated
from rag_core.verify.naming import initials, same_word
from rag_core.verify.vocabulary import Vocabulary, aliases, likeness
from rag_core.verify.words import Word

__all__ = [
    "COPIED",
    "Weight",
    "common_blocks",
    "has_name",
    "likeness",
    "names_same",
    "nearest",
    "share",
    "word_for_word",
]

Weight = Callable[[str], float]  # a term -> how telling it is, above 0

_MOST_WORDS = LONGEST_STATED // 2  # that so many characters can hold
COPIED = 0.8  # of the words in their order: the sentence is all but copied


def nearest(word: Word, words: Iterable[Word]) -> tuple[float, Word | None]:
    """The word of these that is most like this one."""
    return (words if isinstance(words, Vocabulary) else Vocabulary(words)).nearest(word)


def word_for_word(claim: Stated, best: Stated) -> float:
    """How much of the claim stands in the sentence in its order, 0..1."""
    if not claim.all_words:
        return 0.0
    return sum(block.size for block in common_blocks(claim, best)) / len(claim.all_words)


def common_blocks(claim: Stated, best: Stated) -> tuple[Match, ...]:
    """The runs of words that stand in both, in order (difflib's matching blocks)."""
    return _blocks(tuple(w.low for w in claim.all_words), tuple(w.low for w in best.all_words))


@lru_cache(maxsize=256)
def _blocks(mine: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[Match, ...]:
    compared = SequenceMatcher(None, mine[:_MOST_WORDS], theirs[:_MOST_WORDS], autojunk=False)
    return tuple(compared.get_matching_blocks())


def share(words: Sequence[Word], there: Sequence[Word], weight: Weight) -> float:
    """The share of the words' weight that is met there, 0..1; 1 for no words."""
    there = there if isinstance(there, Vocabulary) else Vocabulary(there)
    whole = sum(weight(word.stem) for word in words)
    met = sum(weight(w.stem) * (1.0 if w.stem in there.stems else there.nearest(w)[0]) for w in words)
    return met / whole if whole else 1.0


def names_same(word: Word, other: Word) -> bool:
    """Whether a name is this word: inflected, shortened ("Tim" of "Timothy"), in another script, or by another name."""
    if word.low == other.low or (other.stem and word.stem == other.stem):
        return True
    if not other.stem:
        return False
    short, long = sorted((word.low, other.low), key=len)
    if other.capital and len(short) >= 3 and short.isascii() and long.startswith(short) and len(long) - len(short) <= 5:
        return True
    return same_word(word.low, other.low) or aliases(word.low, other.low)


def has_name(word: Word, there: Sequence[Stated]) -> bool:
    """Whether a name stands in the sentences: inflected, in another script, by its initials or by another name."""
    for sentence in there:
        if any(names_same(word, other) for other in sentence.all_words.candidates(word)):
            return True
        if 2 <= len(word.low) <= 6 and initials(word.low, sentence.initials):
            return True
    return False
