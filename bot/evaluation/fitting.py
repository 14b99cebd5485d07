"""A logistic regression by hand, and how good it is on what it was not fitted on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Fit", "fit", "folds", "held_out"]

FOLDS = 5
_RIDGE = 5.0  # on standardised values: a few hundred pairs tell little about a rare feature
_STEPS = 40

Matrix = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Fit:
    """z = shift + values · features; above 0 is yes."""

    shift: float
    values: Matrix

    def z(self, features: Matrix) -> Matrix:
        """Log odds of rows of features, shape (rows,)."""
        found: Matrix = self.shift + features @ self.values
        return found


def fit(features: Matrix, yes: Flags) -> Fit:
    """Newton's method on standardised features, shape (rows, features); both classes count alike."""
    mean, spread = features.mean(0), features.std(0)
    spread = np.where(spread < 1e-9, 1.0, spread)
    rows = np.c_[np.ones(len(features)), (features - mean) / spread]
    share = max(1e-6, min(1 - 1e-6, float(yes.mean())))
    each = np.where(yes, 0.5 / share, 0.5 / (1 - share))
    ridge = np.r_[0.0, np.full(features.shape[1], _RIDGE)]
    weights = np.zeros(rows.shape[1])
    for _ in range(_STEPS):
        likely = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        slope = rows.T @ (each * (likely - yes)) + ridge * weights
        bend = (rows * (each * likely * (1 - likely))[:, None]).T @ rows + np.diag(ridge + 1e-9)
        weights = weights - np.linalg.solve(bend, slope)
    values = weights[1:] / spread
    return Fit(float(weights[0] - mean @ values), values)


def folds(groups: Sequence[Hashable]) -> NDArray[np.int64]:
    """The fold of each row: rows of one group are in one fold."""
    order = {group: n % FOLDS for n, group in enumerate(sorted(set(groups), key=str))}
    return np.array([order[group] for group in groups])


def held_out(features: Matrix, yes: Flags, fold: NDArray[np.int64]) -> Matrix:
    """The log odds of each row by a fit on the other folds."""
    z = np.zeros(len(yes))
    for n in range(FOLDS):
        test = fold == n
        if test.any():
            z[test] = fit(features[~test], yes[~test]).z(features[test])
    return z
