"""Fit of the coverage of brief questions: logistic regression with signs, and the bars, one channel held out at a time.

Every question is answered twice, as a sure and as a probable answer, so that any pair of bars can be judged afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from tqdm import tqdm

from bot.evaluation.index import IndexedDataset, answer_query
from bot.evaluation.scoring import JudgedAnswer
from bot.evaluation.threshold_fitting import FOLD_COUNT, Flags, Matrix, assign_folds
from rag_core.context.calibration import BRIEF_SIGNS, Calibration, Coverage
from rag_core.models.catalog import ModelSpec
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


async def collect_coverage(data: IndexedDataset) -> list[CoverageRow]:
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
