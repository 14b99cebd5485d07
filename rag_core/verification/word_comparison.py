"""Word comparison for verification: folding, stemming, antonyms, synonyms, and an index of similar words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path

from rag_core.text.names import is_cyrillic, is_name_variant, skeletons
from rag_core.text.tokens import SIGN_AFTER_NAME, STOP_BEFORE_NAME, measure_stem_similarity, normalize_characters, stem

SAME_WORD = 0.7  # similarity from which two words count as the same
Key = tuple[str, object]  # by which similar or opposite words are looked up
_WORD = re.compile(rf"{STOP_BEFORE_NAME}[^\W_](?:[\w\u0300-\u036f]|(?<=[^\W\d_])['’ʼ](?=[^\W\d_]))*{SIGN_AFTER_NAME}")
_SENTENCE_OPENING = re.compile(r"(?:^|[.!?…:\n])[\s\"'«“„(\[—–\-*•]*$")
_MOST_MARKS = 40  # quotes, brackets and spaces between two sentences
_REMOVED_MARKS = str.maketrans("", "", "'’‘`ʼʿʾ\u0300\u0301\u0302\u0304\u0306\u0308\u0323")
_LONG_VOWELS = str.maketrans("āīūēōḥṣḍṭẓ", "aiueohsdtz")


@dataclass(frozen=True, slots=True)
class Word:
    """Word with its position; `stem` is empty for a stop word, `opens` marks the first word of a sentence."""

    low: str
    stem: str
    start: int
    end: int
    capital: bool
    opens: bool


def fold_text(text: str) -> str:
    """Fold a text to lower case, ё to е, accented letters to plain ones; the length and all offsets stay the same."""
    plain = text if text.isascii() else normalize_characters(text)
    folded = plain.lower()  # of some characters it makes two
    if len(folded) != len(plain):
        folded = "".join(low if len(low := c.lower()) == 1 else c for c in plain)
    return folded.replace("ё", "е")


@lru_cache(maxsize=1024)
def split_words(text: str) -> tuple[Word, ...]:
    """Split a text into words, in order. "America's" becomes "america", "Muʿāwiyah" becomes "muawiyah"."""
    low = fold_text(text)
    found = []
    for match in _WORD.finditer(low):
        folded = re.sub(r"['’]s$", "", match[0])
        folded = folded if re.search(r"n['’]t$", folded) else folded.translate(_LONG_VOWELS).translate(_REMOVED_MARKS)
        capital = text[match.start()].isupper()
        opens = capital and bool(_SENTENCE_OPENING.search(text, max(0, match.start() - _MOST_MARKS), match.start()))
        bare = "" if folded.endswith(("n't", "n’t")) or folded == "cannot" else stem(folded)
        found.append(Word(folded, bare, match.start(), match.end(), capital, opens))
    return tuple(found)


_ANTONYMS_FILE = Path(__file__).with_name("antonyms.txt")
_NEGATING_PREFIX = re.compile(r"^(?:не|без|бес)(?=[а-я]{4})|^(?:un|in|im|ir|il|dis|non|mis)(?=[a-z]{4})")
_NEGATING_SUFFIX = re.compile(r"(?<=[a-z]{3})less$")
_OPPOSITE_PREFIXES = [
    ("при", "у"), ("в", "вы"), ("за", "вы"), ("за", "от"), ("за", "рас"), ("до", "не"), ("под", "от"), ("по", "с"), ("с", "раз"), ("под", "с"),
    ("над", "под"), ("о", "рас"), ("пере", "недо"), ("pre", "post"), ("over", "under"), ("in", "out"), ("up", "down"), ("ex", "in"), ("as", "des"), ("in", "de"),
]  # fmt: skip
_LEAST_REST, _STEMMED_REST = 4, 6  # letters after a prefix: at least, and to compare only their stem


def _stem_or_keep(word: str) -> str:
    return stem(word) or word


@cache  # built with the first comparison: stemming the words takes 0.05 s
def _index_sides() -> dict[str, frozenset[tuple[int, int]]]:
    found: dict[str, set[tuple[int, int]]] = {}
    for n, row in enumerate(_ANTONYMS_FILE.read_text("utf-8").splitlines()[1:]):
        for side, words in enumerate(row.split(" / ")):
            for word in words.split():
                found.setdefault(_stem_or_keep(word), set()).add((n, side))
    return {word: frozenset(places) for word, places in found.items()}


@lru_cache(maxsize=20_000)
def list_sides(word: str) -> frozenset[tuple[int, int]]:
    """List the antonym rows and sides of a folded word: words of one side, "вырос" and "увеличился", are synonyms."""
    return _index_sides().get(_stem_or_keep(word), frozenset())


@lru_cache(maxsize=20_000)
def mark_opposition(word: str) -> Mapping[Key, object]:
    """Marks of a folded word, by row of antonyms and by root: of two antonyms one mark differs.

    A root is marked as negated or not ("legal", "illegal"), or with its prefix ("приехал", "уехал").
    """
    root = _stem_or_keep(word)
    marks: dict[Key, object] = {("pair", row): side for row, side in list_sides(word)}
    marks["negated", root] = False
    for pattern in (_NEGATING_PREFIX, _NEGATING_SUFFIX):
        marks.setdefault(("negated", pattern.sub("", root)), True)
    for pair in _OPPOSITE_PREFIXES:
        for prefix in pair:
            rest = word[len(prefix) :]
            if word.startswith(prefix) and len(rest) >= _LEAST_REST:
                marks["prefixed", (pair, _stem_or_keep(rest) if len(rest) >= _STEMMED_REST else rest)] = prefix
    return marks


def are_opposites(one: str, other: str) -> bool:
    """Check whether two folded words are antonyms: "вырос" and "снизился", "legal" and "illegal"."""
    if list_sides(one) & list_sides(other):
        return False
    marks = mark_opposition(other)
    return any(marks.get(key, mark) != mark for key, mark in mark_opposition(one).items())


_FLEETING_VOWEL = re.compile(r"(?<=[а-я]{2})[ое](?=[кцн]$)")  # "лодок" is a form of "лодка"
_MOST_COMPARED = 10  # distinct words per key; a passage of ordinary prose has fewer than ten
_NAME, _ALIKE = 0.95, 0.9
_KIN = 0.7  # stem similarity below which words count as different
_PREFIX, _STEM = 3, 4  # leading letters shared by forms of one word, and by related stems


@lru_cache(maxsize=20_000)
def likeness(one: str, stem: str, other: str, other_stem: str) -> float:
    """Similarity of two words, 0..1; both given as folded and as stemmed."""
    if stem == other_stem or _drop_fleeting_vowel(stem) == _drop_fleeting_vowel(other_stem):
        return 1.0
    if is_name_variant(one, other):
        return _NAME
    if list_sides(one) & list_sides(other):
        return _ALIKE
    return found if (found := measure_stem_similarity(stem, (other_stem,))) >= _KIN else 0.0


@lru_cache(maxsize=10_000)
def _drop_fleeting_vowel(stem: str) -> str:
    return _FLEETING_VOWEL.sub("", stem)


@lru_cache(maxsize=20_000)
def _make_keys(low: str, stem: str, *, sought: bool) -> frozenset[Key]:
    """Lookup keys of a word: shared with each similar word that it is `sought` among.

    By its sound a word is sought among those of the other script.
    """
    keys: set[Key] = {("stem", stem), ("form", low[:_PREFIX]), ("kin", stem[:_STEM])}
    keys |= {("side", side) for side in list_sides(low)}
    keys |= {("sound", (skeleton[:1], is_cyrillic(low) != sought)) for skeleton in skeletons(low)}
    return frozenset(keys)


_MAX_FOUND_WORDS = 200


class Vocabulary(tuple[Word, ...]):
    """Words in the order of their text, with an index of similar words, built on first use."""

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of the words."""
        return frozenset(word.stem for word in self)

    @cached_property
    def _found(self) -> dict[tuple[str, str], tuple[float, Word | None]]:
        return {}

    @cached_property
    def _index(self) -> dict[Key, list[int]]:
        return index_words(self, lambda word: _make_keys(word.low, word.stem, sought=False), _MOST_COMPARED)

    def nearest(self, word: Word) -> tuple[float, Word | None]:
        """Find the most similar word and its similarity, 0..1; of equal ones the first."""
        key = word.low, word.stem
        if (found := self._found.get(key)) is None:
            if len(self._found) >= _MAX_FOUND_WORDS:  # a sentence of a post is compared with claim after claim
                self._found.clear()
            alike = ((likeness(word.low, word.stem, o.low, o.stem), o) for o in self.candidates(word))
            best = max(alike, key=lambda one: one[0], default=(0.0, None))
            self._found[key] = found = best if best[0] else (0.0, None)
        return found

    def has(self, word: Word) -> bool:
        """Check whether the word is among these: in any form, or by a synonym."""
        return self.nearest(word)[0] >= SAME_WORD

    def candidates(self, word: Word) -> list[Word]:
        """Words that may be similar to this one, each once, in order."""
        return list_indexed_words(self, self._index, _make_keys(word.low, word.stem, sought=True))


def index_words(words: Sequence[Word], make_keys: Callable[[Word], Iterable[Key]], most: int) -> dict[Key, list[int]]:
    """Index the places of distinct words, by folded form and capitalisation, by their keys: the first `most` of each."""
    index: dict[Key, list[int]] = {}
    distinct = {(word.low, word.capital): place for place, word in reversed(list(enumerate(words)))}
    for place in sorted(distinct.values()):
        for key in make_keys(words[place]):
            listed = index.setdefault(key, [])
            if len(listed) < most:
                listed.append(place)
    return index


def list_indexed_words(words: Sequence[Word], index: Mapping[Key, Iterable[int]], keys: Iterable[Key]) -> list[Word]:
    """List the words that have any of the keys, each once, in order."""
    return [words[place] for place in sorted({place for key in keys for place in index.get(key, ())})]


def is_same_name(word: Word, other: Word) -> bool:
    """Check whether two words name the same: inflected, short ("Tim" of "Timothy"), or in another script."""
    if word.low == other.low or (other.stem and word.stem == other.stem):
        return True
    if not other.stem:
        return False
    short, long = sorted((word.low, other.low), key=len)
    if other.capital and len(short) >= 3 and short.isascii() and long.startswith(short) and len(long) - len(short) <= 5:
        return True
    return is_name_variant(word.low, other.low)
