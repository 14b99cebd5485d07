"""Logistic regression for the fits of the evaluation, and the folds that hold a part of the rows out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FOLD_COUNT = 5
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


def fit_logistic(
    features: Matrix, yes: Flags, counts: Matrix | None = None, ridge_penalty: float = 5.0, signs: Matrix | int = 0
) -> LogisticFit:
    """Fit by Newton's method with L2 on standardised features, shape (rows, features).

    `counts`: how much each row counts; without them both classes have equal weight. A value against its sign becomes 0.
    The penalty is high: a few hundred rows say little about a rare feature.
    """
    mean, spread = features.mean(0), features.std(0)
    spread = np.where(spread < 1e-9, 1.0, spread)
    rows = np.c_[np.ones(len(features)), (features - mean) / spread]
    if counts is None:
        share = max(1e-6, min(1 - 1e-6, float(yes.mean())))
        counts = np.where(yes, 0.5 / share, 0.5 / (1 - share))
    ridge = np.r_[1e-9, np.full(features.shape[1], ridge_penalty)]
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
            return LogisticFit(float(weights[0] - mean @ values), values)
        free &= ~wrong
        weights[~free] = 0.0


def assign_folds(groups: Sequence[Hashable]) -> NDArray[np.int64]:
    """Assign each row to a fold; rows of one group share a fold."""
    order = {group: n % FOLD_COUNT for n, group in enumerate(sorted(set(groups), key=str))}
    return np.array([order[group] for group in groups])
