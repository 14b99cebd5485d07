"""Reranking by a cross-encoder: it scores the first hits within a time budget.

The reranker's scores and the fused scores are blended half and half: each uses evidence that the other lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_core.engine import Engine
from rag_core.retrieval.fusion import BOTH, Fusion
from rag_core.run import Run
from rag_core.types import Hit, Question

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
    blended = Fusion(dense=_RERANKER_WEIGHT)([(n, hit.score) for n, hit in enumerate(first)], reranked)
    # hits that were not reranked stay below: reranked ones score 1 to 2, the others at most 1
    top = max(hits[0].score, 1e-9)
    below = (replace(hit, score=min(1.0, hit.score / top)) for hit in hits[len(first) :])
    return (*(replace(first[n], score=1.0 + score) for n, score in blended), *below)
