"""Which words of a claim a sentence has, and how nearly. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from rag_core.asked import kinship
from rag_core.verify.facts import Stated
from rag_core.verify.naming import initials, same_word
from rag_core.verify.opposites import alike
from rag_core.verify.words import Word

__all__ = ["COPIED", "Weight", "has_name", "likeness", "names_same", "nearest", "share", "word_for_word"]

Weight = Callable[[str], float]  # a term -> how telling it is, above 0

COPIED = 0.8  # of the words in their order: the sentence is all but copied
_NAME, _ALIKE = 0.95, 0.9
_KIN = 0.7  # below it kindred words are different ones
# Names of one thing that share no letters.
_ALIASES = (
    "сша америка штаты американский usa us u.s america american", "великобритания британия британский англия английский uk britain british england",
    "россия рф российский русский russia russian", "ес евросоюз eu европейский", "петербург питер спб санкт petersburg", "оон un",
    "москва столица московский moscow", "германия фрг немецкий germany german", "китай кнр китайский china chinese",
    "украина украинский ukraine ukrainian", "беларусь белоруссия белорусский belarus", "цб центробанк банк", "нидерланды голландия голландский netherlands holland dutch",
    "турция турецкий turkey turkish", "франция французский france french", "испания испанский spain spanish", "греция греческий greece greek",
    "пророк мухаммад мухаммед muhammad mohammed mohammad", "аллах бог allah god",
)  # fmt: skip
_ALIAS = {word: n for n, row in enumerate(_ALIASES) for word in row.split()}


@lru_cache(maxsize=20_000)
def likeness(one: str, stem: str, other: str, other_stem: str) -> float:
    """How much one word is the other, 0..1; both as folded and as stemmed."""
    if stem == other_stem:
        return 1.0
    if same_word(one, other) or _aliases(one, other):
        return _NAME
    if alike(one, other):
        return _ALIKE
    return found if (found := kinship(stem, (other_stem,))) >= _KIN else 0.0


def _aliases(one: str, other: str) -> bool:
    return bool(_rows(one) & _rows(other))


@lru_cache(maxsize=10_000)
def _rows(word: str) -> frozenset[int]:
    """Which things a word may name."""
    alike = (said for said in _ALIAS if said[:2] == word[:2] and min(len(said), len(word)) > 3)
    return frozenset(_ALIAS[said] for said in (*alike, word) if said in _ALIAS and same_word(said, word))


def nearest(word: Word, words: Iterable[Word]) -> tuple[float, Word | None]:
    """The word of these that is most like this one."""
    best: tuple[float, Word | None] = (0.0, None)
    for other in words:
        if (found := likeness(word.low, word.stem, other.low, other.stem)) > best[0]:
            best = (found, other)
            if found == 1.0:
                break
    return best


def word_for_word(claim: Stated, best: Stated) -> float:
    """How much of the claim stands in the sentence in its order, 0..1."""
    mine, theirs = [w.low for w in claim.all_words], [w.low for w in best.all_words]
    if not mine:
        return 0.0
    blocks = SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / len(mine)


def share(words: Sequence[Word], there: Sequence[Word], weight: Weight) -> float:
    """The share of the words' weight that is met there, 0..1; 1 for no words."""
    whole = sum(weight(word.stem) for word in words)
    stems = frozenset(word.stem for word in there)
    met = sum(weight(w.stem) * (1.0 if w.stem in stems else nearest(w, there)[0]) for w in words)
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
    return same_word(word.low, other.low) or _aliases(word.low, other.low)


def has_name(word: Word, there: Sequence[Stated]) -> bool:
    """Whether a name stands in the sentences: inflected, in another script, by its initials or by another name."""
    for sentence in there:
        for other in sentence.all_words:
            if names_same(word, other):
                return True
        capitals = [w.low for w in sentence.all_words if w.stem]
        if len(word.low) <= 6 and initials(word.low, capitals):
            return True
    return False
