"""Morphology of Russian: dictionary forms and grammatical readings of words.

They come from pymorphy3 with the dictionary of OpenCorpora, which takes 0.15 s and 20 MB when the first Russian word
comes. Words that it does not hold have no dictionary forms here: guessing them takes a quarter of a millisecond each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pymorphy3 import MorphAnalyzer


_loading = Lock()  # threads that come first would each load it


def load_dictionary() -> MorphAnalyzer:
    """Load the dictionary, once: early, so that no question waits for it."""
    with _loading:
        return _create_analyzer()


@cache
def _create_analyzer() -> MorphAnalyzer:
    from pymorphy3 import MorphAnalyzer

    return MorphAnalyzer()


def list_dictionary_forms(word: str) -> tuple[str, ...]:
    """List the dictionary forms of a lower-case word, the likeliest first; none for a word not in the dictionary."""
    if not is_dictionary_word(word):
        return ()
    return tuple(dict.fromkeys(parse.normal_form for parse in load_dictionary().parse(word)))


def is_noun(word: str) -> bool:
    """Whether the likeliest reading of a lower-case dictionary word is a common noun."""
    return is_dictionary_word(word) and load_dictionary().parse(word)[0].tag.POS == "NOUN"


def is_dictionary_word(word: str) -> bool:
    """Whether the dictionary holds a lower-case word, in any form; it has none of Latin letters."""
    return not word.isascii() and load_dictionary().word_is_known(word)


@dataclass(frozen=True, slots=True)
class WordReading:
    """Grammatical reading of a word form, by the tags of OpenCorpora ("NOUN", "nomn", "masc"); "" where one has none."""

    lemma: str
    part: str
    case: str
    gender: str
    number: str
    person: str
    tense: str
    animate: bool
    name: bool


@lru_cache(maxsize=20_000)
def read_word(word: str) -> tuple[WordReading, ...]:
    """Read a lower-case Russian word, the likeliest reading first; words not in the dictionary by their endings."""
    try:
        parses = load_dictionary().parse(word)
    except ValueError:  # pymorphy3 asks for the name of each letter, and some letters have none
        return (WordReading(word, "", "", "", "", "", "", animate=False, name=False),)
    return tuple(
        WordReading(
            parse.normal_form,
            parse.tag.POS or "",
            parse.tag.case or "",
            parse.tag.gender or "",
            parse.tag.number or "",
            parse.tag.person or "",
            parse.tag.tense or "",
            parse.tag.animacy == "anim",
            bool({"Name", "Surn", "Patr"} & parse.tag.grammemes),
        )
        for parse in parses
    )
