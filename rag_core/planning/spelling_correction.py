"""Spelling correction: a word that no post knows is read as a near word that posts, or our table, know.

Edit distance counts an exchange of neighbours as one edit (optimal string alignment, by rapidfuzz). A word typed in the
other keyboard layout ("ghbdtn") is read in the right one. Left alone are words of the Russian dictionary, English words
of the vocabulary of the embedding model (all without a model), and surnames that posts have in another form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from rag_core.text.names import list_surname_stems, transliterate_word
from rag_core.text.query_terms import is_table_word, list_table_stems
from rag_core.text.tokens import STOP_WORDS, is_dictionary_word, stem

_MAX_SOUGHT_WORDS = 5  # unknown words that are looked for in the vocabulary: 20 ms each among 150,000
_SHORT_WORD = 5  # letters
_MIN_LENGTH, _MAX_LENGTH = 4, 30  # letters of a word that is corrected; in four only an exchange of two
_LONG_WORD, _LONG_STEM, _EDITS_OF_LONG_WORD = 8, 6, 2  # letters and edits; in a shorter word one edit
_MAX_CUT = 4  # letters by which a word may be cut off: "postgres" for "PostgreSQL"
_TABLE_FREQUENCY = 3  # posts that a word of our table counts for beside those of the posts
_MIN_TERM = 3  # letters of a term that is read
_MIN_SWITCHED = 3  # letters of a word in the other keyboard layout
_MAX_TEXT = 500  # characters of a question that are corrected: a longer one is no typing on the go
_TYPED = re.compile(r"[^\s!?()«»\"“”]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_LATIN_KEYS, _RUSSIAN_KEYS = "`qwertyuiop[]asdfghjkl;'zxcvbnm,.", "ёйцукенгшщзхъфывапролджэячсмитьбю"
_TO_RUSSIAN, _TO_LATIN = str.maketrans(_LATIN_KEYS, _RUSSIAN_KEYS), str.maketrans(_RUSSIAN_KEYS, _LATIN_KEYS)


def correct_spelling(
    text: str,
    list_vocabulary: Callable[[], Sequence[str]],
    frequency: Callable[[str], int],
    is_asking_word: Callable[[str], bool] = lambda word: False,
    is_english_word: Callable[[str], bool] | None = None,
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Correct the words of a question that neither the posts nor a table or dictionary know: the text, and (typed, read as).

    `list_vocabulary` gives terms; those whose `frequency` in the posts that the asker may read is 0 are not used.
    `is_asking_word`: whether a word asks, such as "запостили" or "почом"; posts seldom have them.
    `is_english_word` of a lower-case word; without it English words are left alone.
    """
    read, sought = dict[str, str](), dict[str, str]()

    def is_word(word: str) -> bool:
        term = stem(word)
        known = not term or frequency(term) > 0
        return known or is_table_word(word) or is_dictionary_word(word) or is_asking_word(word)

    def is_known(word: str) -> bool:
        """Whether a word is one, or posts have it in the other script, or a surname in any form: "Торосов"."""
        if is_word(word) or (word.isascii() and (is_english_word is None or is_english_word(word))):
            return True
        terms = (*(stem(spelt) for spelt in transliterate_word(word)), *list_surname_stems(word.capitalize()))
        return any(frequency(term) for term in terms if term)

    def switch_layout(found: re.Match[str]) -> str:
        typed = found[0].lower()
        if len(typed) < _MIN_SWITCHED or any(is_known(word) for word in _LETTERS.findall(typed)):
            return found[0]
        for table in (_TO_RUSSIAN, _TO_LATIN):
            other = typed.translate(table)
            if _LETTERS.fullmatch(other) and other.isascii() != typed.isascii() and is_word(other):
                read[found[0]] = other
                return other
        return found[0]

    def correct(found: re.Match[str]) -> str:
        word = found[0].lower()
        if word not in sought:
            if len(sought) >= _MAX_SOUGHT_WORDS or not _MIN_LENGTH <= len(word) <= _MAX_LENGTH or is_known(word):
                return found[0]
            sought[word] = _find_nearest_term(word, list_vocabulary(), frequency)
        if sought[word]:
            read[found[0]] = sought[word]
        return sought[word] or found[0]

    head = text[:_MAX_TEXT]
    return _LETTERS.sub(correct, _TYPED.sub(switch_layout, head)) + text[_MAX_TEXT:], tuple(read.items())


def _find_nearest_term(word: str, vocabulary: Sequence[str], frequency: Callable[[str], int]) -> str:
    """Find the term of the posts, the table or the stop words with the fewest edits; a frequent one wins a tie."""
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    long = len(word) >= _LONG_WORD
    low, high = len(stem(word)) - 1 - long, len(word) + 1 + long
    beginnings = [term for term in vocabulary if long and term.startswith(word) and len(term) <= len(word) + _MAX_CUT]
    vocabulary = [term for term in vocabulary if low <= len(term) <= high]
    ranked = [(1, True, False, -frequency(term), term) for term in beginnings if frequency(term)]
    forms = (word, stem(word), f"{word[:-1]}i" if word.endswith("y") else word)
    for choices, ours in ((vocabulary, False), (list_table_stems(), True), (_STOP_WORDS, True)):
        for typed in dict.fromkeys(forms):
            # a short stem of a long word ("comun" of "comunity") is near to anything
            most = _EDITS_OF_LONG_WORD if long and len(typed) >= _LONG_STEM else 1
            for term, edits, _ in process.extract(typed, choices, scorer=OSA.distance, score_cutoff=most, limit=None):
                swapped, same_start = sorted(term) == sorted(typed), term[:1] == typed[:1]
                # the first letter of a short word is seldom mistyped
                likely = len(typed) > _MIN_LENGTH and (same_start or (edits <= 1 and len(word) > _SHORT_WORD))
                count = _TABLE_FREQUENCY if ours else frequency(term)
                if (swapped or likely) and count and len(term) >= _MIN_TERM and term.isascii() == typed.isascii():
                    ranked.append((edits, not swapped, not same_start, -count, term))
    term = min(ranked)[-1] if ranked else ""
    if term.startswith(word):
        return term
    ending = word[len(stem(word)) :] if word.startswith(stem(word)) else ""
    endings = (f"{term[:-1]}y" if term.endswith("i") else "", term + ending if term and ending else "")
    return next((full for full in endings if full and stem(full) in {term, stem(term)}), term)


_STOP_WORDS = tuple(sorted(word for word in STOP_WORDS if len(word) >= _MIN_LENGTH))


@lru_cache(maxsize=20_000)
def is_misspelt(one: str, other: str) -> bool:
    """Check whether one of two folded Russian words is the other with one letter wrong; of two known words neither is."""
    if one.isascii() or other.isascii():
        return False
    if max(len(one), len(other)) < _SHORT_WORD or abs(len(one) - len(other)) > 1 or one[0] != other[0]:
        return False
    from rapidfuzz.distance import OSA

    if OSA.distance(one, other, score_cutoff=1) > 1:
        return False
    return not (is_dictionary_word(one) and is_dictionary_word(other))
