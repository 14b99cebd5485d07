"""Term statistics over what one viewer may see: document frequency, idf, BM25 of any one passage.

Whoever weighs the words of a question gets them from here. Counted over all channels, a weight would tell
an outsider whether a word stands in a channel that is closed to them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["K1", "B", "TermStatistics", "idf"]

# Posts are short and of uneven length, so that length should count little: the values Anserini uses
# for passages (Yang et al. 2017). On XQuAD paragraphs among news posts they gain 3 points at rank 1
# over rank-bm25's 1.5 and 0.75.
K1, B = 0.9, 0.4
# Passages that `weight` assumes at least. A reader of one small channel has the thresholds of verification and coverage
# that were fitted on thousands of posts: of 40 claims over two channels with 200 posts 34 are right, without it 32.
_LEAST = 1000


def idf(count: int, frequency: int) -> float:
    """Inverse document frequency, smoothed as in Lucene: above 0 for every term, greatest for one never seen."""
    return math.log1p((max(count - frequency, 0) + 0.5) / (frequency + 0.5))


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """Statistics of the passages in some channels, at one moment.

    count: how many passages there are, BM25's N
    average_length: their mean length in terms
    frequency: from a term to the number of passages that hold it
    """

    count: int
    average_length: float
    frequency: Callable[[str], int]

    def weight(self, term: str) -> float:
        """The idf of a term, as if there were `_LEAST` passages at least: of a few, one cannot tell what is rare."""
        return idf(max(_LEAST, self.count), self.frequency(term))

    def score(self, query: Sequence[str], passage: Sequence[str]) -> float:
        """The BM25 score of any one passage, given by its terms, with `weight` as idf."""
        times = Counter(passage)
        norm = K1 * (1 - B + B * len(passage) / (self.average_length or 1))
        return sum(self.weight(t) * times[t] * (K1 + 1) / (times[t] + norm) for t in query if t in times)
