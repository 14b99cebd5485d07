"""Trends in what was sampled: a slope that odd samples do not move, how sure it is, and what is held against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

_POINTS = 200  # samples are thinned to so many: all pairs are looked at
_BLOCKS = 10
_DRAWS = 400
_WIDE = (2.5, 97.5)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Slope:
    """Per hour, with the interval that 95 of 100 draws fall into."""

    per_hour: float
    low: float
    high: float


def slope(seconds: Sequence[float], values: Sequence[float], seed: int = 1) -> Slope:
    """Theil and Sen's: the median of the slopes of all pairs. The interval is of a bootstrap of its residuals in
    blocks, because what is left over of one sample is like what is left of its neighbour.
    """
    hours, amounts = _thinned(np.asarray(seconds, float) / 3600, np.asarray(values, float))
    first, second = np.triu_indices(len(hours), 1)
    apart = hours[second] - hours[first]

    def theil_sen(amounts: Floats) -> float:
        return float(np.median((amounts[second] - amounts[first]) / apart))

    middle = theil_sen(amounts)
    straight = middle * hours
    rest = amounts - straight
    rng, length = np.random.default_rng(seed), max(1, len(rest) // _BLOCKS)
    starts = np.arange(len(rest) - length + 1)
    drawn = []
    for _ in range(_DRAWS):
        picked = rng.choice(starts, -(-len(rest) // length))
        again = np.concatenate([rest[start : start + length] for start in picked])[: len(rest)]
        drawn.append(theil_sen(straight + again))
    low, high = np.percentile(drawn, _WIDE)
    return Slope(round(middle, 2), round(float(low), 2), round(float(high), 2))


def _thinned(hours: Floats, amounts: Floats) -> tuple[Floats, Floats]:
    """Medians of neighbours."""
    if len(hours) <= _POINTS:
        return hours, amounts
    edges = np.linspace(0, len(hours), _POINTS + 1).astype(int)
    parts = [slice(begin, end) for begin, end in pairwise(edges)]
    return np.array([np.median(hours[p]) for p in parts]), np.array([np.median(amounts[p]) for p in parts])


def growth(values: Sequence[float]) -> float:
    """By how much the median of the last third is above that of the first."""
    third = max(1, len(values) // 3)
    return float(np.median(values[-third:]) - np.median(values[:third]))


def drift(values: Sequence[float], percentile: float = 95) -> float:
    """By which share that percentile of the last third is above that of the first; 0.1 is ten in a hundred."""
    third = max(1, len(values) // 3)
    before, after = (float(np.percentile(part, percentile)) for part in (values[:third], values[-third:]))
    return after / before - 1
