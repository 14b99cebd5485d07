"""Fit of the order of hits: listwise logistic regression (ListNet), one channel held out at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from bot.evaluation.index import IndexedDataset, build_question
from bot.evaluation.threshold_fitting import Matrix
from rag_core.retrieval.filters import resolve_filter
from rag_core.retrieval.hybrid import search_hybrid
from rag_core.retrieval.ranking import ORDER_WEIGHTS, HitFeatures, measure_hit_features
from rag_core.retrieval.search import build_retrieval_query, fetch_passages
from rag_core.steps import make_plan
from rag_core.tracing import Run, Stage

_RIDGE_PENALTY = 0.002
_STEPS, _STEP_SIZE = 1500, 1.0
_DOCUMENT_COUNT = 0.1  # how much a question about documents counts in the fit: few people ask like that
DEPTHS = (1, 5, 20)


@dataclass(frozen=True, slots=True)
class RankingRow:
    """A question: the features of its first hits, their documents, the relevant ones, and the channel of these."""

    features: Matrix
    ids: tuple[str, ...]
    relevant: frozenset[str]
    channel: str
    count: float = 1.0

    @property
    def target(self) -> Matrix:
        """Probability of each hit: the relevant ones share it."""
        flags = np.array([name in self.relevant for name in self.ids], np.float64)
        shares: Matrix = flags / max(1.0, flags.sum())
        return shares

    def recall(self, weights: Matrix, depth: int) -> float:
        """Share of the relevant documents among the first of the order by these weights."""
        order = np.argsort(-(self.features @ weights), kind="stable")
        return len(self.relevant.intersection(list(dict.fromkeys(self.ids[n] for n in order))[:depth])) / len(
            self.relevant
        )


async def collect_ranking(data: IndexedDataset, *, documents: bool = False) -> list[RankingRow]:
    """Search every question with a relevant post; those answered from filters alone are left out."""
    rows, rag = [], data.rag
    for query in tqdm(
        [q for q in data.dataset.queries if q.relevant], desc="search", delay=1, leave=False, disable=None
    ):
        question, run = build_question(query, data), Run(rag.settings.budgets, "search")
        plan = await run.require(Stage.PLAN, make_plan(question, rag, run))
        if not plan.queries:
            continue
        only = await resolve_filter(plan, question.viewer, rag)
        found = await search_hybrid(build_retrieval_query(plan, question, only), rag, run)
        passages = await fetch_passages([place for place, _ in found.ranked], rag)
        statistics = rag.lexical.statistics(question.viewer.channels)
        measured = measure_hit_features(found, passages, plan, question, statistics)
        ids = tuple(data.id_of(place.key) for place, _ in measured)
        if 0 < sum(name in query.relevant for name in ids) < len(ids):
            channel = min(query.relevant).rpartition("-")[0] or query.group
            count = _DOCUMENT_COUNT if documents else 1.0
            features = np.array([values for _, values in measured])
            rows.append(RankingRow(features, ids, query.relevant, f"{data.dataset.name}/{channel}", count))
    return rows


def fit_order(rows: Sequence[RankingRow]) -> Matrix:
    """Fit weights, none below 0, by projected gradient descent with L2; that of the fused score is 1."""
    most = max(len(row.ids) for row in rows)
    features, target = np.zeros((len(rows), most, len(HitFeatures._fields))), np.zeros((len(rows), most))
    hidden, counts = np.full((len(rows), most), -np.inf), np.array([row.count for row in rows])
    for n, row in enumerate(rows):
        features[n, : len(row.ids)], target[n, : len(row.ids)], hidden[n, : len(row.ids)] = row.features, row.target, 0
    weights: NDArray[np.float64] = np.ones(features.shape[2])
    for _ in range(_STEPS):
        scores = features @ weights + hidden
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        slope = np.einsum("qhf,qh,q->f", features, shares - target, counts) / counts.sum() + _RIDGE_PENALTY * weights
        weights = np.maximum(0.0, weights - _STEP_SIZE * slope)
    return weights / (weights[0] or 1.0)


@dataclass(frozen=True, slots=True)
class FittedRanking:
    """Fitted weights, and recall on channels that were held out: of the fusion, of the weights in use, and fitted."""

    weights: HitFeatures
    fused: tuple[float, ...]
    used: tuple[float, ...]
    held_out: tuple[float, ...]


def fit_ranking(rows: Sequence[RankingRow], documents: Sequence[RankingRow] = ()) -> FittedRanking:
    """Fit the weights on all rows; recall is that of `rows`, each with weights fitted without its channel."""
    channels = sorted({row.channel for row in rows})
    fitted = {one: fit_order([row for row in [*rows, *documents] if row.channel != one]) for one in channels}
    fused, used = np.eye(len(HitFeatures._fields))[0], np.array(ORDER_WEIGHTS)
    return FittedRanking(
        HitFeatures(*fit_order([*rows, *documents]).round(2).tolist()),
        *(
            tuple(
                round(float(np.mean([row.recall(weigh.get(row.channel, default), depth) for row in rows])), 3)
                for depth in DEPTHS
            )
            for weigh, default in (({}, fused), ({}, used), (fitted, used))
        ),
    )
