"""Calibration: logistic regression, choice of the safest fusion, and the threshold for claims.

The fusion is chosen for the embedding model in use: all candidates are compared on the same two rankings of each
question. The threshold for claims keeps a promise: of unsupported claims at most the given share passes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from bot.evaluation.datasets import ClaimRow
from bot.evaluation.indexed_dataset import IndexedDataset
from rag_core.context.calibration import ClaimThreshold
from rag_core.errors import ImportRefused
from rag_core.retrieval.fusion import Fusion
from rag_core.retrieval.search import search_dense, search_lexical
from rag_core.types import PassageRef, SearchFilter
from rag_core.verification.entailment import assess_text
from rag_core.verification.types import Label

FOLD_COUNT = 5
_RIDGE_PENALTY = 5.0  # on standardised values: a few hundred pairs say little about a rare feature
_NEWTON_STEPS = 40

Matrix = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LogisticFit:
    """Logistic regression: z = shift + values · features; above 0 is yes."""

    shift: float
    values: Matrix

    def z(self, features: Matrix) -> Matrix:
        """Compute the log odds of rows of features, shape (rows,)."""
        odds: Matrix = self.shift + features @ self.values
        return odds


def fit_logistic(features: Matrix, yes: Flags) -> LogisticFit:
    """Fit by Newton's method on standardised features, shape (rows, features); both classes have equal weight."""
    mean, spread = features.mean(0), features.std(0)
    spread = np.where(spread < 1e-9, 1.0, spread)
    rows = np.c_[np.ones(len(features)), (features - mean) / spread]
    share = max(1e-6, min(1 - 1e-6, float(yes.mean())))
    each = np.where(yes, 0.5 / share, 0.5 / (1 - share))
    ridge = np.r_[0.0, np.full(features.shape[1], _RIDGE_PENALTY)]
    weights = np.zeros(rows.shape[1])
    for _ in range(_NEWTON_STEPS):
        likely = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        slope = rows.T @ (each * (likely - yes)) + ridge * weights
        bend = (rows * (each * likely * (1 - likely))[:, None]).T @ rows + np.diag(ridge + 1e-9)
        weights = weights - np.linalg.solve(bend, slope)
    values = weights[1:] / spread
    return LogisticFit(float(weights[0] - mean @ values), values)


def assign_folds(groups: Sequence[Hashable]) -> NDArray[np.int64]:
    """Assign each row to a fold; rows of one group share a fold."""
    order = {group: n % FOLD_COUNT for n, group in enumerate(sorted(set(groups), key=str))}
    return np.array([order[group] for group in groups])


_FUSION_WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_FUSION_CANDIDATES = tuple(Fusion(kind, weight) for kind in ("sum", "rrf") for weight in _FUSION_WEIGHTS)
_RECALL_DEPTHS = (1, 5, 20)
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
        return (*(float(any(hits[:depth])) for depth in _RECALL_DEPTHS), reciprocal)


async def run_both_retrievers(data: IndexedDataset) -> list[RetrieverRankings]:
    """Run both retrievers for every answerable question."""
    only = SearchFilter(data.viewer.channels)
    rows = []
    for query in tqdm([q for q in data.dataset.queries if q.relevant], desc="legs", delay=1, leave=False, disable=None):
        lexical = await search_lexical(query.text, only, _TOP_HITS, data.rag)
        dense, _ = await search_dense(query.text, only, _TOP_HITS, data.rag)
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
        safe = [(f, m) for f in _FUSION_CANDIDATES if _loses_nothing(m := _compute_mean_recalls(in_language, f), base)]
        better = [(f, m) for f, m in safe if m[-1] > base[-1]]
        best = max(better, key=lambda pair: (round(float(pair[1][-1]), 4), -pair[0].dense), default=None)
        fusions[lang] = best[0] if best else _LEXICAL_ONLY
    return fusions


def _compute_mean_recalls(
    rows: Sequence[RetrieverRankings], fusion: Fusion
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    means: np.ndarray[tuple[int], np.dtype[np.float64]] = np.mean([row.recalls(fusion) for row in rows], axis=0)
    return means


def _loses_nothing(
    means: np.ndarray[tuple[int], np.dtype[np.float64]], base: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> bool:
    return bool(np.all(means[:-1] >= base[:-1] - _MAX_RECALL_LOSS))


ScoredClaim = tuple[str, bool, float]  # language, whether it is supported, its probability by the checks


def fit_claim_bar(rows: Sequence[ClaimRow], target: float, data: str) -> ClaimThreshold:
    """Fit the lowest threshold that at most `target` of the unsupported claims reach, in each language.

    Split conformal prediction (Vovk et al. 2005): the quantile with its finite-sample correction holds for claims drawn
    like these. Raises ImportRefused if too few rows are unsupported.
    """
    scored = [_score_claim(row) for row in rows]
    bar = _compute_claim_bar(scored, target)
    if bar is None:
        raise ImportRefused(
            f"{data} holds too few claims that are not borne out for a promise of {target:.0%}: add some."
        )
    fold = assign_folds([row.group for row in rows])
    false_passed: list[bool] = []
    true_passed: list[bool] = []
    for n in range(FOLD_COUNT):
        other = _compute_claim_bar(
            [claim for claim, claim_fold in zip(scored, fold, strict=True) if claim_fold != n], target
        )
        for (_, borne_out, likely), claim_fold in zip(scored, fold, strict=True):
            if claim_fold == n:
                (true_passed if borne_out else false_passed).append(other is not None and likely >= other)
    return ClaimThreshold(
        bar, target, _compute_share(false_passed), _compute_share(true_passed), data, f"{datetime.now(UTC):%Y-%m-%d}"
    )


def _score_claim(row: ClaimRow) -> ScoredClaim:
    """Score a claim by its most likely support; only evidence labelled as supporting counts."""
    supports = [assess_text(row.claim, text, row.lang) for text in row.evidence]
    likely = max((s.likely for s in supports if s.label is Label.SUPPORTED), default=0.0)
    return row.lang, row.gold == "supported", likely


def _compute_claim_bar(scored: Sequence[ScoredClaim], target: float) -> float | None:
    """Compute the threshold just above the likelihood that a share of `target` of the unsupported claims reaches."""
    bars = []
    for lang in {lang for lang, _, _ in scored}:
        wrong = sorted(likely for claim_lang, borne_out, likely in scored if claim_lang == lang and not borne_out)
        place = int(np.ceil((1 - target) * (len(wrong) + 1))) - 1
        if place >= len(wrong):
            return None
        bars.append(wrong[place])
    return round(min(1.0, max(bars) + 0.0001), 4) if bars else None


def _compute_share(flags: Sequence[bool]) -> float:
    return round(float(np.mean(flags)), 4) if flags else 0.0
