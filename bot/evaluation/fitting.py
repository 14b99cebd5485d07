"""Fits from evaluation data: fusion of both retrievers, and thresholds of answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from bot.cli.folder import iterate_with_progress_bar
from bot.evaluation.data import IndexedDataset
from bot.evaluation.metrics import JudgedAnswer, compute_wilson_interval
from rag_core.calibration import Calibration
from rag_core.retrieval.fusion import Fusion
from rag_core.retrieval.search import search_dense, search_lexical
from rag_core.types import PassageRef, SearchFilter

_FOLD_COUNT = 5
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
        means = {
            fusion: np.mean([row.recalls(fusion) for row in in_language], axis=0)
            for fusion in (_LEXICAL_ONLY, *_FUSION_CANDIDATES)
        }
        base = means[_LEXICAL_ONLY]
        better = [
            fusion
            for fusion, mean in means.items()
            if mean[-1] > base[-1] and np.all(mean[:-1] >= base[:-1] - _MAX_RECALL_LOSS)
        ]
        fusions[lang] = max(better, key=lambda f: (round(float(means[f][-1]), 4), -f.dense), default=_LEXICAL_ONLY)
    return fusions


_MAX_REFUSED = 0.07  # share of the answerable questions
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


def fit_calibration(rows: Sequence[JudgedAnswer], data: str) -> FittedCalibration:
    """Fit the thresholds of probable and of sure answers.

    `bar`: the greatest that refuses at most _MAX_REFUSED of the answerable questions of each language; `sure`: the
    lowest from which at most _MAX_SURE_ANSWERS_WRONG of the answers are wrong.
    Source of the quantile with its finite-sample correction: Vovk et al., "Algorithmic Learning in a Random World"
    (2005), split conformal prediction. The rows must have been measured with a threshold of 0.
    """
    # rows of one group share a fold
    fold_of = {group: n % _FOLD_COUNT for n, group in enumerate(sorted({row.group for row in rows}))}
    fold = [fold_of[row.group] for row in rows]
    abstained, refused, wrong = [], [], []
    for n in range(_FOLD_COUNT):
        train = [row for row, of in zip(rows, fold, strict=True) if of != n]
        bar, sure = _compute_bar(train), _compute_sure_bar(train)
        test = [row for row, of in zip(rows, fold, strict=True) if of == n]
        abstained += [row.confidence < bar for row in test if row.answerable]
        refused += [row.confidence < bar for row in test if not row.answerable]
        wrong += [not row.shown_right for row in test if row.confidence >= max(bar, sure)]
    bar = round(_compute_bar(rows), 4)
    calibration = Calibration(bar, max(bar, _compute_sure_bar(rows)), data, f"{datetime.now(UTC):%Y-%m-%d}")
    return FittedCalibration(calibration, *map(_measure_share, (abstained, refused, wrong)))


def _compute_bar(rows: Sequence[JudgedAnswer]) -> float:
    bars = []
    for lang in {row.lang for row in rows if row.answerable}:
        scores = sorted(row.confidence for row in rows if row.answerable and row.lang == lang)
        bars.append(scores[max(0, int(_MAX_REFUSED * (len(scores) + 1)) - 1)])
    return min(bars, default=0.0)


def _compute_sure_bar(rows: Sequence[JudgedAnswer]) -> float:
    """Compute the lowest confidence from which few enough answers are wrong; 1 if there is none."""
    best, wrong = 1.0, 0
    for n, row in enumerate(sorted(rows, key=lambda row: -row.confidence), 1):
        wrong += not row.shown_right
        if wrong <= _MAX_SURE_ANSWERS_WRONG * n:
            best = round(row.confidence, 4)
    return best


def _measure_share(flags: Sequence[bool]) -> tuple[float, float, float]:
    share = float(np.mean(flags)) if flags else 0.0
    low, high = compute_wilson_interval(share, len(flags)) if flags else (0.0, 1.0)
    return round(share, 4), round(low, 4), round(high, 4)
