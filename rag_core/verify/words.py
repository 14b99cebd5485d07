"""The words of a text as the checks see them: folded, stemmed, with their places."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from rag_core.analysis import stem
from rag_core.readable import readable

__all__ = ["Word", "folded", "words_of"]

_WORD = re.compile(r"[^\W_](?:[\w\u0300-\u036f]|(?<=[^\W\d_])['’ʼ](?=[^\W\d_]))*")
_OPENS = re.compile(r"(?:^|[.!?…:\n])[\s\"'«“„(\[—–\-*•]*$")
_MOST_MARKS = 40  # quotes, brackets and spaces between the end of a sentence and the next
_MARKS = str.maketrans("", "", "'’‘`ʼʿʾ\u0300\u0301\u0302\u0304\u0306\u0308\u0323")
_LONG = str.maketrans("āīūēōḥṣḍṭẓ", "aiueohsdtz")


@dataclass(frozen=True, slots=True)
class Word:
    """One word; `stem` is empty for a stop word, `opens` says that it begins a sentence."""

    low: str
    stem: str
    start: int
    end: int
    capital: bool
    opens: bool


def folded(text: str) -> str:
    """Lower case, ё as е, dressed letters plain: of the same length, so that places stay right."""
    plain = text if text.isascii() else readable(text)
    return "".join(low if len(low := c.lower()) == 1 else c for c in plain).replace("ё", "е")


@lru_cache(maxsize=1024)
def words_of(text: str) -> tuple[Word, ...]:
    """The words in order. "America's" is "america", "Muʿāwiyah" is "muawiyah"."""
    low = folded(text)
    found = []
    for match in _WORD.finditer(low):
        said = re.sub(r"['’]s$", "", match[0])
        said = said if re.search(r"n['’]t$", said) else said.translate(_LONG).translate(_MARKS)
        capital = text[match.start()].isupper()
        opens = capital and bool(_OPENS.search(text, max(0, match.start() - _MOST_MARKS), match.start()))
        bare = "" if said.endswith(("n't", "n’t")) or said == "cannot" else stem(said)
        found.append(Word(said, bare, match.start(), match.end(), capital, opens))
    return tuple(found)
