"""Fits of the coverage of brief questions and of the order of hits, one channel held out at a time.

Coverage: logistic regression with signs, and the bars. Every question is answered twice, as a sure and as a probable
answer, so that any pair of bars can be judged afterwards.

Order of hits: listwise logistic regression (ListNet).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from bot.evaluation.indexed_dataset import IndexedDataset, answer_query, build_question
from bot.evaluation.scoring import JudgedAnswer
from bot.evaluation.threshold_fitting import FOLD_COUNT, Flags, Matrix, assign_folds
from rag_core.context.calibration import Calibration
from rag_core.context.coverage import BRIEF_SIGNS, Coverage
from rag_core.models.catalog import ModelSpec
from rag_core.recipe_steps import make_plan
from rag_core.retrieval.hybrid import search_hybrid
from rag_core.retrieval.rerank import ORDER_WEIGHTS, HitFeatures, measure_hit_features
from rag_core.retrieval.search import build_retrieval_query, fetch_passages, resolve_filter
from rag_core.tracing import Run, Stage
from rag_core.types import Certainty

_RIDGE_PENALTY = 8.0  # on standardised values: a few hundred questions
_NEWTON_STEPS = 30
_DOCUMENT_COUNT = 0.4  # how much a question about documents counts in the fit: few people ask like that
_MAX_SURE_WRONG = 0.1
# Of the unanswerable; above the goal (0.6) by two standard errors of some fifty: unseen channels are harder.
_MIN_REFUSED = 0.7
_BARS = np.arange(0.2, 0.96, 0.01)


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """A brief question: its features, the channel of the best post, and its answer in both degrees."""

    features: tuple[float, ...]
    channel: str
    as_sure: JudgedAnswer
    as_probable: JudgedAnswer


@dataclass(frozen=True, slots=True)
class _RecordingCalibration(Calibration):
    """Calibration that shows everything, and records the coverage of the questions in `seen`."""

    seen: list[Coverage] = field(default_factory=list)

    def likely(self, coverage: Coverage, cosine: float, model: ModelSpec | None, lang: str) -> float:
        """Record the coverage; its probability is as usual."""
        self.seen.append(coverage)
        return Calibration.likely(self, coverage, cosine, model, lang)


async def collect_coverage(data: IndexedDataset, *, documents: bool = False) -> list[CoverageRow]:
    """Answer every question as sure and as probable; questions that are not brief are left out."""
    fusions = data.rag.calibration.fusions
    seen: list[Coverage] = []
    sure, probable = (
        IndexedDataset(replace(data.rag, calibration=calibration), data.dataset, data.viewer)
        for calibration in (_RecordingCalibration(0.0, bar, fusions=fusions, seen=seen) for bar in (0.0, 2.0))
    )
    rows = []
    for query in tqdm(data.dataset.queries, desc="ask", delay=1, leave=False, disable=None):
        seen.clear()
        as_sure, as_probable = await answer_query(query, sure), await answer_query(query, probable)
        if seen and seen[-1].brief:
            channel = min(query.relevant, default=query.group).rpartition("-")[0] or query.group
            rows.append(CoverageRow(seen[-1].brief_features, f"{data.dataset.name}/{channel}", as_sure, as_probable))
    return rows


def fit_signed_logistic(features: Matrix, yes: Flags, counts: Matrix) -> tuple[float, Matrix]:
    """Fit by Newton's method with L2 on standardised features; a weight against BRIEF_SIGNS is set to 0.

    `counts`: how much each row counts. Returns the shift and the weights.
    """
    signs = np.array(list(BRIEF_SIGNS.values()))
    mean, spread = features.mean(0), features.std(0)
    spread = np.where(spread < 1e-9, 1.0, spread)
    rows = np.c_[np.ones(len(features)), (features - mean) / spread]
    ridge = np.r_[1e-9, np.full(features.shape[1], _RIDGE_PENALTY)]
    weights, free = np.zeros(rows.shape[1]), np.ones(rows.shape[1], dtype=bool)
    while True:
        for _ in range(_NEWTON_STEPS):
            likely = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
            slope = rows.T @ (counts * (likely - yes)) + ridge * weights
            bend = (rows * (counts * likely * (1 - likely))[:, None]).T @ rows + np.diag(ridge)
            weights[free] -= np.linalg.solve(bend[np.ix_(free, free)], slope[free])
        wrong = free & np.r_[False, weights[1:] * signs < 0]
        if not wrong.any():
            values = weights[1:] / spread
            return float(weights[0] - mean @ values), values
        free &= ~wrong
        weights[~free] = 0.0


@dataclass(frozen=True, slots=True)
class FittedCoverage:
    """Fitted weights and bars of brief questions, and what they did to questions of channels that were held out.

    `shares`: for each degree of certainty, the number of questions and the share of them that is shown something right.
    """

    shift: float
    weights: dict[str, float]
    bar: float
    sure: float
    auc: float
    shown: float
    refused: float
    shares: dict[Certainty, tuple[int, float]]


def fit_coverage(rows: Sequence[CoverageRow], documents: Sequence[CoverageRow] = ()) -> FittedCoverage:
    """Fit the weights on all rows, and choose the bars by the held-out scores of `rows`."""
    every = [*rows, *documents]
    features, yes = np.array([row.features for row in every]), np.array([row.as_sure.shown_right for row in every])
    counts = np.array([1.0] * len(rows) + [_DOCUMENT_COUNT] * len(documents))
    fold, held_out = assign_folds([row.channel for row in every]), np.zeros(len(every))
    for n in range(FOLD_COUNT):
        train = fold != n
        shift, values = fit_signed_logistic(features[train], yes[train], counts[train])
        held_out[~train] = shift + features[~train] @ values
    likely = 1 / (1 + np.exp(-held_out[: len(rows)]))
    may_be_sure = np.array([row.as_sure.certainty is Certainty.SURE for row in rows])
    answerable = np.array([row.as_sure.answerable for row in rows])
    right = yes[: len(rows)]
    sure = next((b for b in _BARS if _mean(~right[may_be_sure & (likely >= b)]) <= _MAX_SURE_WRONG), 1.0)
    bar = next((b for b in _BARS if _mean(likely[~answerable] < b) >= _MIN_REFUSED), 1.0)
    degrees = {
        Certainty.SURE: may_be_sure & (likely >= sure),
        Certainty.PROBABLE: (likely >= bar) & ~(may_be_sure & (likely >= sure)),
        Certainty.NONE: likely < bar,
    }
    as_probable = np.array([row.as_probable.shown_right for row in rows])
    shown = np.where(degrees[Certainty.SURE], right, as_probable)
    shift, values = fit_signed_logistic(features, yes, counts)
    return FittedCoverage(
        shift=round(shift, 2),
        weights=dict(zip(BRIEF_SIGNS, values.round(2).tolist(), strict=True)),
        bar=round(float(bar), 2),
        sure=round(float(sure), 2),
        auc=_mean(likely[right][:, None] > likely[~right][None, :]),
        shown=_mean((shown & (likely >= bar))[answerable]),
        refused=_mean(likely[~answerable] < bar),
        shares={degree: (int(which.sum()), _mean(shown[which])) for degree, which in degrees.items()},
    )


def _mean(flags: Flags) -> float:
    return round(float(flags.mean()), 3) if flags.size else 0.0


_ORDER_RIDGE = 0.002
_STEPS, _STEP_SIZE = 1500, 1.0
_ORDER_DOCUMENT_COUNT = 0.1  # as above
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
            count = _ORDER_DOCUMENT_COUNT if documents else 1.0
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
        slope = np.einsum("qhf,qh,q->f", features, shares - target, counts) / counts.sum() + _ORDER_RIDGE * weights
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
