"""The words of a text with an inverted index over them: which is most like a given word, without comparing with all.

Two words can only be alike where they share a key: a stem, the first letters, a sound, an alias, a side of an
opposition. Of one key only so many different words are compared (`_MOST_COMPARED`), so that the work for a word does
not grow with the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from rag_core.asked import kinship
from rag_core.verify.naming import is_cyrillic, same_word, skeletons
from rag_core.verify.opposites import alike, sides
from rag_core.verify.words import Word

__all__ = ["Vocabulary", "aliases", "likeness"]

_MOST_COMPARED = 32  # different words with the same key; a passage of ordinary prose has fewer than ten
_NAME, _ALIKE = 0.95, 0.9
_KIN = 0.7  # below it kindred words are different ones
_PREFIX, _STEM = 3, 4  # letters that forms of one word, and kindred stems, have in common
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

Key = tuple[str, object]


@lru_cache(maxsize=20_000)
def likeness(one: str, stem: str, other: str, other_stem: str) -> float:
    """How much one word is the other, 0..1; both as folded and as stemmed."""
    if stem == other_stem:
        return 1.0
    if same_word(one, other) or aliases(one, other):
        return _NAME
    if alike(one, other):
        return _ALIKE
    return found if (found := kinship(stem, (other_stem,))) >= _KIN else 0.0


def aliases(one: str, other: str) -> bool:
    """Whether two folded words may name one thing."""
    return bool(_rows(one) & _rows(other))


@lru_cache(maxsize=10_000)
def _rows(word: str) -> frozenset[int]:
    """Which things a word may name."""
    alike = (said for said in _ALIASES_BY_START.get(word[:2], ()) if min(len(said), len(word)) > 3)
    return frozenset(_ALIAS[said] for said in (*alike, word) if said in _ALIAS and same_word(said, word))


_ALIASES_BY_START: dict[str, list[str]] = {}
for _word in _ALIAS:
    _ALIASES_BY_START.setdefault(_word[:2], []).append(_word)


@lru_cache(maxsize=20_000)
def _keys(low: str, stem: str) -> frozenset[Key]:
    """What a word has in common with each word that is like it, but for those in another script."""
    keys: set[Key] = {("stem", stem), ("form", low[:_PREFIX]), ("kin", stem[:_STEM])}
    keys |= {("alias", row) for row in _rows(low)}
    keys |= {("side", side) for side in sides(low)}
    return frozenset(keys)


@lru_cache(maxsize=20_000)
def _sounds(low: str) -> frozenset[Key]:
    """What a word has in common with each word of another script that sounds like it."""
    return frozenset(("sound", skeleton[:1]) for skeleton in skeletons(low))


class Vocabulary(tuple[Word, ...]):
    """Words in the order of their text. The index is built when it is first asked."""

    _index: dict[Key, list[int]]
    _spoken: dict[bool, dict[Key, list[int]]]
    _found: dict[tuple[str, str], tuple[float, Word | None]]
    _stems: frozenset[str]

    @property
    def stems(self) -> frozenset[str]:
        """The stems of the words."""
        if not hasattr(self, "_stems"):
            self._stems = frozenset(word.stem for word in self)
        return self._stems

    def nearest(self, word: Word) -> tuple[float, Word | None]:
        """How like this word the likest one is, 0..1, and which that is: of equal ones the first."""
        if not hasattr(self, "_found"):
            self._found = {}
        key = word.low, word.stem
        if (found := self._found.get(key)) is None:
            self._found[key] = found = self._likest(word)
        return found

    def _likest(self, word: Word) -> tuple[float, Word | None]:
        best: tuple[float, Word | None] = (0.0, None)
        for other in self.candidates(word):
            if (found := likeness(word.low, word.stem, other.low, other.stem)) > best[0]:
                best = (found, other)
                if found == 1.0:
                    break
        return best

    def candidates(self, word: Word) -> Iterator[Word]:
        """The words that may be like this one, each once, in their order."""
        if not hasattr(self, "_index"):
            self._index = _indexed(self)
            self._spoken = {}
        places = {place for key in _keys(word.low, word.stem) for place in self._index.get(key, ())}
        script = not is_cyrillic(word.low)
        if script not in self._spoken:
            self._spoken[script] = _spoken(self, script)
        if self._spoken[script]:
            places |= {place for key in _sounds(word.low) for place in self._spoken[script].get(key, ())}
        return (self[place] for place in sorted(places))


def _indexed(words: Iterable[Word]) -> dict[Key, list[int]]:
    index: dict[Key, list[int]] = {}
    for place, word in _different(words):
        for key in _keys(word.low, word.stem):
            listed = index.setdefault(key, [])
            if len(listed) < _MOST_COMPARED:
                listed.append(place)
    return index


def _spoken(words: Iterable[Word], cyrillic: bool) -> dict[Key, list[int]]:
    """The words of one script by their first sound."""
    index: dict[Key, list[int]] = {}
    for place, word in _different(words):
        if is_cyrillic(word.low) == cyrillic:
            for key in _sounds(word.low):
                listed = index.setdefault(key, [])
                if len(listed) < _MOST_COMPARED:
                    listed.append(place)
    return index


def _different(words: Iterable[Word]) -> Iterator[tuple[int, Word]]:
    """Each word once, in small letters and with a capital."""
    seen: set[tuple[str, bool]] = set()
    for place, word in enumerate(words):
        if (word.low, word.capital) not in seen:
            seen.add((word.low, word.capital))
            yield place, word
