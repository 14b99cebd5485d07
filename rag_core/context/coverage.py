"""Coverage: how well the evidence answers a question, which is the reason to answer or to refuse.

A few plain features of the question and the best post go through a logistic function. Its weights were fitted once on
questions whose answer is in the posts and questions whose answer is not (XQuAD with whole articles taken out, alone
and among Russian news; RuBQ over the news). The threshold for the result is calibrated (`citegram eval calibrate`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rag_core.index.postings import TermStatistics
from rag_core.text.answer_type import extract_name_stems
from rag_core.text.query_terms import QueryTerms, measure_stem_similarity
from rag_core.text.tokens import tokenize
from rag_core.writing.extract import ExtractCandidate

__all__ = ["Coverage", "measure_coverage"]

_TYPICAL_CHANCES = 2.9  # of a question about one of a few hundred posts, where the other weights were fitted


@dataclass(frozen=True, slots=True)
class Coverage:
    """The features.

    strength: the post's BM25 score over the weight of all the question's terms
    kin: share of the question's weight that only kindred words meet, 0..1
    names: share of the question's names that stand in the post, 0..1; 0.5 where it has none
    count: share of the question's terms that stand in the post, kindred words in part, 0..1
    length: logarithm of the number of the question's terms; chance meets a share of few terms more easily
    known: share of the question's weight that any post the asker may read meets; what others say and this
        post does not speaks against it
    chances: logarithm of the number of posts that hold a term of the question, each counted for each term; among
        many one fits by chance
    """

    strength: float = 0.0
    kin: float = 0.0
    names: float = 0.0
    count: float = 0.0
    length: float = 0.0
    known: float = 0.0
    chances: float = _TYPICAL_CHANCES

    @property
    def likely(self) -> float:
        """How likely the post answers the question, 0..1; the intercept is such that 0.5 is the project's bar."""
        z = (
            -11.2
            + 10.9 * self.strength
            + 10.9 * self.kin
            + 2.8 * self.names
            + 2.7 * self.count
            + 3.0 * self.length
            - 2.5 * self.known
            - 0.2 * (self.chances - _TYPICAL_CHANCES)
        )
        return 1 / (1 + math.exp(-max(-50.0, min(50.0, z))))


def measure_coverage(asked: QueryTerms, best: ExtractCandidate | None, statistics: TermStatistics) -> Coverage:
    """Measure a question against the post that the best piece stands in; `statistics` of what the asker may read."""
    if best is None or not asked.share:
        return Coverage()
    passage = best.source.passage
    words = tokenize(f"{passage.header}\n{passage.text}")
    there = frozenset(words)
    near = {term: 1.0 if term in there else measure_stem_similarity(term, there) for term in asked.share}
    names = extract_name_stems(asked.text) & asked.share.keys()
    return Coverage(
        strength=statistics.score(asked.order, words) / sum(map(statistics.weight, asked.share)),
        kin=asked.kin(there),
        names=sum(near[name] for name in names) / len(names) if names else 0.5,
        count=sum(near.values()) / len(near),
        length=math.log(len(asked.share)),
        chances=math.log1p(sum(map(statistics.frequency, asked.share))),
        known=sum(share for term, share in asked.share.items() if statistics.frequency(term)),
    )
