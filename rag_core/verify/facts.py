"""What a text states that can be checked: numbers, dates, times, names, denials, what may and must be. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from rag_core.sentences import sentences, windows
from rag_core.verify.moments import Moment, moments_of
from rag_core.verify.numerals import Number, numbers_of
from rag_core.verify.scopes import Scope, denials, modals
from rag_core.verify.vocabulary import Vocabulary
from rag_core.verify.words import Word, folded, words_of

__all__ = ["LONGEST_STATED", "Name", "Stated", "links_in", "stated", "stated_by_sentence", "without_links"]

# Of any scheme; those there are have at most twenty letters. A name of a host has parts of at most 63 letters
# (RFC 1035), and without an end to them a long text of dots would be searched from each of them to its end.
_LINK = re.compile(
    r"(?:[a-z][a-z0-9+.-]{0,19}://|@)\S+|(?<![\w@])[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}\.[a-zа-я]{2,}(?:/\S*)?|#\w+", re.I
)
_UNIT = re.compile(
    r"(?:тыс|тысяч\w*|млн|миллион\w*|млрд|миллиард\w*|трлн|триллион\w*|thousands?|millions?|billions?|trillions?|hundreds?|процент\w*|percent\w*|"
    r"проц|руб\w*|год(?:а|у|ом)?|г|year|years)$"
)
# Characters of a sentence that are held against a claim at once. What is longer is taken in windows that overlap by
# half, so that every check, though it compares words with words, costs in proportion to the text.
LONGEST_STATED = 600
_SHOUTED = 0.75  # of the words with a capital: a heading, whose capitals tell nothing


@dataclass(frozen=True, slots=True)
class Name:
    """A word with a capital letter; `weak` where it may be no name: it begins the sentence, or all are capitals."""

    word: Word
    weak: bool


@dataclass(frozen=True, slots=True)
class Stated:
    """A sentence as it can be checked; `words` are those of meaning, without numbers and dates; `all_words` every one.

    `initials` are the first letters of the words that are no stop words.
    """

    text: str
    start: int
    all_words: Vocabulary
    words: Vocabulary
    numbers: tuple[Number, ...]
    moments: tuple[Moment, ...]
    names: tuple[Name, ...]
    denied: tuple[Scope, ...]
    modal: tuple[Scope, ...]
    links: frozenset[str]
    initials: str = ""

    @property
    def stems(self) -> frozenset[str]:
        """The stems of its words of meaning."""
        return self.words.stems


def links_in(text: str) -> frozenset[str]:
    """Every address, @name and #tag of a text, whole."""
    return _addresses(_LINK.finditer(folded(text)))


def without_links(text: str) -> str:
    """The text with a space in place of each of them."""
    return _LINK.sub(" ", text)


def _addresses(links: Iterable[re.Match[str]]) -> frozenset[str]:
    return frozenset(link[0].rstrip(".,;:!?…)»\"”'") for link in links)


@lru_cache(maxsize=2048)
def stated(text: str, lang: str, start: int = 0) -> Stated:
    """What one sentence states; `start` is where it stands in its post. Of a longer text the first `LONGEST_STATED`."""
    text = text[:LONGEST_STATED]
    low = folded(text)
    everything = Vocabulary(words_of(text))
    links = list(_LINK.finditer(low))
    plain = _blanked(low, [link.span() for link in links], " ")
    moments = tuple(moments_of(plain, text))
    rest = _blanked(plain, [(moment.start, moment.end) for moment in moments], "·")
    numbers = tuple(numbers_of(rest, lang))
    taken = [*((m.start, m.end) for m in moments), *((n.start, n.end) for n in numbers if not n.weak)]
    free_text = _blanked(low, [*taken, *(link.span() for link in links)], "\0")
    free = [word for word in everything if free_text[word.start] != "\0"]
    words = Vocabulary(word for word in free if word.stem and not word.stem.isdigit() and not _UNIT.match(word.low))
    return Stated(
        text, start, everything, words, numbers, moments, _names(free, everything), tuple(denials(low, everything)),
        tuple(modals(low, everything)), _addresses(links), "".join(word.low[0] for word in everything if word.stem),
    )  # fmt: skip


def _blanked(text: str, spans: Iterable[tuple[int, int]], blank: str) -> str:
    """The text with a sign in place of each character of the spans."""
    letters = list(text)
    for start, end in spans:
        letters[start:end] = blank * (end - start)
    return "".join(letters)


def _names(free: list[Word], everything: Sequence[Word]) -> tuple[Name, ...]:
    capitals = sum(word.capital for word in everything)
    shouted = len(everything) > 3 and capitals > _SHOUTED * len(everything)
    followed = {a.start for a, b in pairwise(everything) if b.capital and b.start - a.end == 1}
    return tuple(
        Name(word, shouted or (word.opens and word.start not in followed))
        for word in free
        if word.capital and word.stem and word.end - word.start > 1
    )


@lru_cache(maxsize=512)
def stated_by_sentence(text: str, lang: str) -> tuple[Stated, ...]:
    """What a post states, sentence by sentence."""
    parts = (part for span in sentences(text) for part in windows(text, span, LONGEST_STATED))
    return tuple(stated(text[start:end], lang, start) for start, end in parts)
