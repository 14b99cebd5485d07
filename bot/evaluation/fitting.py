"""Fits from evaluation data: fusion of both retrievers, thresholds of answers, order of hits.

The fusion is chosen for the embedding model in use: all candidates are compared on the same two rankings of each
question.

Order of hits: listwise logistic regression (ListNet), one channel held out at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from bot.cli.progress_bar import iterate_with_progress_bar
from bot.evaluation.data import IndexedDataset
from bot.evaluation.logistic_regression import FOLD_COUNT, Matrix, assign_folds
from bot.evaluation.measures import build_question
from bot.evaluation.metrics import JudgedAnswer
from rag_core.calibration import Calibration
from rag_core.planning.plan import make_plan
from rag_core.retrieval.fusion import Fusion
from rag_core.retrieval.rerank import ORDER_WEIGHTS, HitFeatures, measure_hit_features
from rag_core.retrieval.search import build_retrieval_query, resolve_filter, search_dense, search_hybrid, search_lexical
from rag_core.run import Run, Stage
from rag_core.storage.post_lookup import fetch_passages
from rag_core.types import PassageRef, SearchFilter

_FUSION_WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_FUSION_CANDIDATES = tuple(Fusion(kind, weight) for kind in ("sum", "rrf") for weight in _FUSION_WEIGHTS)
DEPTHS = (1, 5, 20)
_MAX_RECALL_LOSS = 0.005  # of a recall, compared with lexical search alone: a smaller loss is noise
_TOP_HITS = 50  # hits of each retriever, as in an answer
_LEXICAL_ONLY = Fusion("sum", 0.0)

Ranking = list[tuple[PassageRef, float]]


@dataclass(frozen=True, slots=True)
class RetrieverRankings:
    """Rankings of both retrievers for one question, and its relevant documents."""

    lang: str
    relevant: frozenset[str]
    lexical: Ranking
    dense: Ranking
    names: dict[PassageRef, str]

    def recalls(self, fusion: Fusion) -> tuple[float, ...]:
        """Compute recall (1 or 0) at each depth, then the reciprocal rank within the first 10."""
        order = fusion(self.lexical, self.dense, _TOP_HITS)
        hits = [self.names[place] in self.relevant for place, _ in order]
        reciprocal = next((1 / n for n, hit in enumerate(hits[:10], 1) if hit), 0.0)
        return (*(float(any(hits[:depth])) for depth in DEPTHS), reciprocal)


async def run_both_retrievers(data: IndexedDataset) -> list[RetrieverRankings]:
    """Run both retrievers for every answerable question."""
    only = SearchFilter(data.viewer.channels)
    rows = []
    answerable = [query for query in data.dataset.queries if query.relevant]
    for query in iterate_with_progress_bar(answerable, "legs"):
        lexical = await search_lexical(query.text, only, _TOP_HITS, data.rag)
        dense, _ = await search_dense(query.text, only, _TOP_HITS, data.rag.dense)
        names = {place: data.id_of(place.key) for place, _ in [*lexical, *dense]}
        rows.append(RetrieverRankings(query.lang, query.relevant, lexical, dense, names))
    return rows


def choose_safest_fusions(rows: Sequence[RetrieverRankings]) -> dict[str, Fusion]:
    """Choose for each language the fusion with the best mean reciprocal rank that loses recall at no depth.

    If none is safe, lexical search alone; of equal ones the one with the smaller dense weight.
    """
    fusions = {}
    for lang in sorted({row.lang for row in rows}):
        in_language = [row for row in rows if row.lang == lang]
        base = _compute_mean_recalls(in_language, _LEXICAL_ONLY)
        means = {fusion: _compute_mean_recalls(in_language, fusion) for fusion in _FUSION_CANDIDATES}
        better = [
            fusion
            for fusion, mean in means.items()
            if mean[-1] > base[-1] and np.all(mean[:-1] >= base[:-1] - _MAX_RECALL_LOSS)
        ]
        fusions[lang] = max(better, key=lambda f: (round(float(means[f][-1]), 4), -f.dense), default=_LEXICAL_ONLY)
    return fusions


def _compute_mean_recalls(rows: Sequence[RetrieverRankings], fusion: Fusion) -> Matrix:
    means: Matrix = np.mean([row.recalls(fusion) for row in rows], axis=0)
    return means


_MAX_SURE_ANSWERS_WRONG = 0.08  # share of the sure answers


@dataclass(frozen=True, slots=True)
class FittedCalibration:
    """Fitted thresholds, and their effect on held-out questions (5-fold over groups; 95 % interval).

    `abstained` and `refused`: shares of the answerable and the unanswerable below `bar`; `wrong`: of those from `sure`.
    """

    calibration: Calibration
    abstained: tuple[float, float, float]
    refused: tuple[float, float, float]
    wrong: tuple[float, float, float]


def fit_calibration(rows: Sequence[JudgedAnswer], target: float, data: str) -> FittedCalibration:
    """Fit the thresholds of probable and of sure answers.

    `bar`: the greatest that refuses at most `target` of the answerable questions of each language; `sure`: the lowest
    from which at most _MAX_SURE_ANSWERS_WRONG of the answers are wrong.
    Source of the quantile with its finite-sample correction: Vovk et al., "Algorithmic Learning in a Random World"
    (2005), split conformal prediction. The rows must have been measured with a threshold of 0.
    """
    fold = assign_folds([row.group for row in rows])
    abstained, refused, wrong = [], [], []
    for n in range(FOLD_COUNT):
        train = [row for row, of in zip(rows, fold, strict=True) if of != n]
        bar, sure = _compute_bar(train, target), _compute_sure_bar(train)
        test = [row for row, of in zip(rows, fold, strict=True) if of == n]
        abstained += [row.confidence < bar for row in test if row.answerable]
        refused += [row.confidence < bar for row in test if not row.answerable]
        wrong += [not row.shown_right for row in test if row.confidence >= max(bar, sure)]
    bar = round(_compute_bar(rows, target), 4)
    calibration = Calibration(bar, max(bar, _compute_sure_bar(rows)), data, f"{datetime.now(UTC):%Y-%m-%d}")
    return FittedCalibration(calibration, *map(_compute_wilson_interval, (abstained, refused, wrong)))


def _compute_bar(rows: Sequence[JudgedAnswer], target: float) -> float:
    bars = []
    for lang in {row.lang for row in rows if row.answerable}:
        scores = sorted(row.confidence for row in rows if row.answerable and row.lang == lang)
        bars.append(scores[max(0, int(target * (len(scores) + 1)) - 1)])
    return min(bars, default=0.0)


def _compute_sure_bar(rows: Sequence[JudgedAnswer]) -> float:
    """Compute the lowest confidence from which few enough answers are wrong; 1 if there is none."""
    best, wrong = 1.0, 0
    for n, row in enumerate(sorted(rows, key=lambda row: -row.confidence), 1):
        wrong += not row.shown_right
        if wrong <= _MAX_SURE_ANSWERS_WRONG * n:
            best = round(row.confidence, 4)
    return best


def _compute_wilson_interval(flags: Sequence[bool]) -> tuple[float, float, float]:
    """Compute a share with its 95 % interval (Wilson 1927)."""
    n, z = len(flags), 1.96
    if not n:
        return (0.0, 0.0, 1.0)
    share = float(np.mean(flags))
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)))
    return (round(share, 4), round(middle - half, 4), round(middle + half, 4))


_ORDER_RIDGE = 0.002
_STEPS, _STEP_SIZE = 1500, 1.0
_ORDER_DOCUMENT_COUNT = 0.1  # as above


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
        first = list(dict.fromkeys(self.ids[n] for n in order))[:depth]
        return len(self.relevant.intersection(first)) / len(self.relevant)


async def collect_ranking(data: IndexedDataset, *, documents: bool = False) -> list[RankingRow]:
    """Search every question with a relevant post; those answered from filters alone are left out."""
    rows, rag = [], data.rag
    answerable = [query for query in data.dataset.queries if query.relevant]
    for query in iterate_with_progress_bar(answerable, "search"):
        question, run = build_question(query, data), Run(rag.settings.budgets, "search")
        plan = await run.require(Stage.PLAN, make_plan(question, rag, run))
        if not plan.queries:
            continue
        only = await resolve_filter(plan, question.viewer, rag)
        found = await search_hybrid(build_retrieval_query(plan, question, only), rag, run)
        passages = await fetch_passages(rag.archive, [place for place, _ in found.ranked])
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
