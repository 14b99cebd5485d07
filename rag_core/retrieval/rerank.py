"""Reranking: first by features, a linear model for both languages, then by a cross-encoder.

Everyday questions ask how things are now and name the kind of the answer: the newest of several posts about a price
holds, and a post with a price answers. The weights are fitted by listwise logistic regression (ListNet, Cao et al.
2007) on everyday questions about channels, one channel held out at a time.

The cross-encoder scores the first hits within a time budget. The reranker's scores and the fused scores are blended
half and half: each uses evidence that the other lacks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import mul
from typing import NamedTuple

from rag_core.engine import Engine
from rag_core.index.bm25_postings import TermStatistics
from rag_core.retrieval.fusion import BOTH, RetrievalResult, fuse_weighted_sum
from rag_core.run import Run
from rag_core.text.answer_type import AnswerType, contains_answer_type
from rag_core.text.query_terms import QueryTerms
from rag_core.text.sentences import tokenize_sentences
from rag_core.text.tokens import tokenize
from rag_core.types import Hit, Passage, PassageRef, Plan, Question

_MAX_MEASURED = 40  # hits; the others keep their order below them
_RECENCY_DAYS = 365.0  # after so many days a post's bonus has fallen to 1/e
# Words that ask for what was: then the newest post has no bonus.
_PAST = re.compile(
    r"\b(?:(?:19|20)\d\d|перв\w+|раньше|был[аио]?|прошл\w+|first|last (?:year|month|time)|used to|were|was|did)\b", re.I
)


class HitFeatures(NamedTuple):
    """Features of a hit, each 0..1.

    score: of the fusion, as a share of the best
    terms, beginning: weight share of the question's terms in the passage, and in its header and first sentence
    recency: `terms`, less the older the post; 0 for a question about the past
    likeness: cosine of the dense search, 0 for a hit that it did not find
    wanted: `terms` near a sentence that holds the wanted kind of answer
    """

    score: float
    terms: float
    beginning: float
    recency: float
    likeness: float
    wanted: float

    def weigh(self, weights: HitFeatures) -> float:
        """Weighted sum."""
        total: float = sum(map(mul, weights, self))
        return total


# Of the order, fitted as above, with `terms` raised until nothing was lost on XQuAD.
ORDER_WEIGHTS = HitFeatures(score=1.0, terms=0.75, beginning=0.35, recency=1.15, likeness=0.43, wanted=0.4)
# Of the scores that later steps read. The extract weighs how new a post is by itself (`superseded`, series): with the
# scores of the order recency counted twice, and 2.4 points less of the sample answers were shown.
_RELEVANCE = HitFeatures(score=1.0, terms=0.75, beginning=0.3, recency=0.45, likeness=0.0, wanted=0.35)


def rerank_by_features(
    found: RetrievalResult, passages: Mapping[PassageRef, Passage], plan: Plan, question: Question,
    statistics: TermStatistics,
) -> list[tuple[PassageRef, float]]:  # fmt: skip
    """Rerank the hits of the question's own query; hits without a passage are left out.

    The scores fall with the order; the best is 1.
    """
    asked = QueryTerms.of(plan.asked or plan.queries[0], statistics.weight, plan.aliases)
    present = not (plan.since or plan.until or _PAST.search(question.text))
    top = max((score for _, score in found.ranked), default=0.0) or 1.0
    known = [(place, score) for place, score in found.ranked if place in passages]
    measured = []
    for place, score in known[:_MAX_MEASURED]:
        passage = passages[place]
        header, split = frozenset(tokenize(passage.header)), tokenize_sentences(passage.text)
        terms = [stems for _, stems in split]
        met = asked.matched_share(header.union(*terms))
        age = max(0.0, (question.asked_at - passage.date).total_seconds() / 86_400)
        wanted = 0.0
        if asked.want is not AnswerType.ANYTHING:
            # the terms near the best sentence with the wanted kind of answer: "Bread. 90 a loaf."; the kind takes
            # longer to look for than the terms: best first, up to the first that has it
            near = [(asked.matched_share(header.union(*terms[max(0, n - 1) : n + 1])), n) for n in range(len(split))]
            texts = ((share, passage.text[slice(*split[n][0])]) for share, n in sorted(near, reverse=True) if share)
            holding = (share for share, text in texts if contains_answer_type(asked.want, text, question.text))
            wanted = next(holding, 0.0)
        features = HitFeatures(
            score=score / top,
            terms=met,
            beginning=asked.matched_share(header.union(*terms[:1])),
            recency=met * math.exp(-age / _RECENCY_DAYS) if present else 0.0,
            likeness=found.cosines.get(place, 0.0),
            wanted=wanted,
        )
        measured.append((place, features))
    measured.sort(key=lambda hit: -hit[1].weigh(ORDER_WEIGHTS))
    ordered, least = [], math.inf
    for place, features in measured:
        least = min(least, features.weigh(_RELEVANCE))
        ordered.append((place, least))
    ordered += [(place, least * score / top) for place, score in known[_MAX_MEASURED:]]
    return [(place, score / (ordered[0][1] or 1.0)) for place, score in ordered]


MAX_RERANKED = 20  # passages: more would take too long, and the answer is seldom beyond them
_FEW_HITS = 20  # among so few a clear lead in one ranking is enough
_MIN_RERANKED = 2
_RERANKER_WEIGHT = 0.5  # weight of the reranker in the blend
_CLEAR_LEAD = 0.35  # lead of the first hit over the second, relative to its score: reranking would not change it
_USABLE_BUDGET_SHARE = 0.8  # share of the budget that is planned: text length and machine load vary


def is_decisive(hits: Sequence[Hit]) -> bool:
    """Whether the first hit leads so clearly that reranking is not worth the wait; among many hits in both rankings."""
    if len(hits) < _MIN_RERANKED:
        return True
    top = hits[0].score or 1.0
    trusted = hits[0].leg == BOTH or len(hits) <= _FEW_HITS
    return trusted and (hits[0].score - hits[1].score) / top > _CLEAR_LEAD


async def rerank_hits(question: Question, hits: tuple[Hit, ...], rag: Engine, run: Run) -> tuple[Hit, ...]:
    """Rerank the first hits, as many as the budget allows; the rest keep their order.

    Unchanged without a reranker, for a language it does not know, and where the first hit is decisive.
    Raises ModelUnavailable, StageTimeout; the caller then falls back to the fused order.
    """
    reranker = rag.reranker
    if reranker is None or question.lang not in reranker.languages or is_decisive(hits):
        return hits
    affordable = int(rag.budgets.rerank * _USABLE_BUDGET_SHARE / max(reranker.pair_s, 1e-6))
    first = hits[: min(MAX_RERANKED, affordable)]
    run.note(reranked=len(first) if len(first) >= _MIN_RERANKED else 0)
    if len(first) < _MIN_RERANKED:
        return hits
    texts = [f"{hit.passage.header}\n{hit.passage.text}" for hit in first]
    reranked = sorted(enumerate(await reranker.scores(question.text, texts)), key=lambda pair: -pair[1])
    blended = fuse_weighted_sum([(n, hit.score) for n, hit in enumerate(first)], reranked, _RERANKER_WEIGHT)
    # hits that were not reranked stay below: reranked ones score 1 to 2, the others at most 1
    top = max(hits[0].score, 1e-9)
    below = (replace(hit, score=min(1.0, hit.score / top)) for hit in hits[len(first) :])
    return (*(replace(first[n], score=1.0 + score) for n, score in blended), *below)
