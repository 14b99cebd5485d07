"""Rank fusion: weighted min-max sum or reciprocal rank fusion of two rankings, and MMR over scores and vectors.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Fusion", "fuse_reciprocal_ranks", "fuse_weighted_sum", "select_by_mmr"]

T = TypeVar("T")
Ranking = Sequence[tuple[T, float]]  # best first
Vector = NDArray[np.float32]

RRF_K = 60  # Cormack, Clarke & Büttcher 2009


@dataclass(frozen=True, slots=True)
class Fusion:
    """How the legs are joined for one language. `dense` is the weight of the dense leg, 0..1.

    A weak dense leg must not be given a vote for every rank it fills: with it, RRF lost up to 10 points
    at rank 1 where the weighted sum never lost. Which one is safe for an embedding model is measured.
    """

    kind: str = "sum"
    dense: float = 0.3

    def __call__(self, lexical: Ranking[T], dense: Ranking[T], most: int = 0) -> list[tuple[T, float]]:
        """The items of both rankings, best first; the order of equals is that of the lexical leg.

        `most` is how many each leg was asked for: one that has fewer has told all it knows.
        """
        if self.kind == "rrf":
            return fuse_reciprocal_ranks(lexical, dense, self.dense)
        return fuse_weighted_sum(lexical, dense, self.dense, most)


def fuse_weighted_sum(lexical: Ranking[T], dense: Ranking[T], weight: float, most: int = 0) -> list[tuple[T, float]]:
    """Weighted sum of the scores, each leg's stretched to 0..1; what a leg does not know has its 0.

    The least of a ranking that was cut at `most` is about as good as what comes after it, and is 0; of one that is
    whole, the 0 is that of what was not found (the theoretical minimum of Bruch, Gai & Ingber 2023), or the last of
    two posts with a rare word would be worth nothing.
    """
    a, b = _scale_min_max(lexical, len(lexical) < most), _scale_min_max(dense, len(dense) < most)
    return _sort_by_score({item: (1 - weight) * a.get(item, 0.0) + weight * b.get(item, 0.0) for item in a | b})


def fuse_reciprocal_ranks(lexical: Ranking[T], dense: Ranking[T], weight: float) -> list[tuple[T, float]]:
    """Weighted reciprocal rank fusion; scores are 1 where both legs put an item first."""
    a, b = _compute_reciprocal_ranks(lexical), _compute_reciprocal_ranks(dense)
    scale = RRF_K + 1
    fused = {item: scale * ((1 - weight) * a.get(item, 0.0) + weight * b.get(item, 0.0)) for item in a | b}
    return _sort_by_score(fused)


def _scale_min_max(ranking: Ranking[T], whole: bool) -> dict[T, float]:
    if not ranking:
        return {}
    scores = [score for _, score in ranking]
    least = min(0.0, *scores) if whole else min(scores)
    span = max(scores) - least
    # one hit, or all alike: each is as good as the best
    return {item: (score - least) / span if span > 0 else 1.0 for item, score in ranking}


def _compute_reciprocal_ranks(ranking: Ranking[T]) -> dict[T, float]:
    return {item: 1 / (RRF_K + n) for n, (item, _) in enumerate(ranking, 1)}


def _sort_by_score(scores: Mapping[T, float]) -> list[tuple[T, float]]:
    return sorted(scores.items(), key=lambda pair: -pair[1])


def select_by_mmr(
    ranking: Ranking[T], vectors: Mapping[T, Vector], keep: int, balance: float = 0.5,
    alike: Callable[[T, T], float] | None = None,
) -> list[tuple[T, float]]:  # fmt: skip
    """Keep the `keep` items that maximal marginal relevance chooses, in the order they had.

    MMR (Carbonell & Goldstein 1998) decides who is left out, not who comes first: among hits for one
    question near-copies crowd out other sources, but the best stays the best. Likeness is the cosine of
    the stored vectors, or `alike` where one of the two has none.
    """
    if len(ranking) <= keep:
        return list(ranking)
    scores = np.array([score for _, score in ranking])
    span = float(scores.max() - scores.min()) or 1.0
    relevance = (scores - scores.min()) / span
    likeness = _compute_similarities([item for item, _ in ranking], vectors, alike)
    chosen = [0]
    nearest = likeness[0].copy()
    while len(chosen) < keep:
        worth = balance * relevance - (1 - balance) * nearest
        worth[chosen] = -np.inf
        best = int(np.argmax(worth))
        chosen.append(best)
        nearest = np.maximum(nearest, likeness[best])
    return [ranking[n] for n in sorted(chosen)]


def _compute_similarities(
    items: Sequence[T], vectors: Mapping[T, Vector], alike: Callable[[T, T], float] | None
) -> NDArray[np.float64]:
    """Pairwise likeness, 0..1 for texts that are alike at all."""
    known = [n for n, item in enumerate(items) if item in vectors]
    result = np.zeros((len(items), len(items)))
    if known:
        matrix = np.stack([vectors[items[n]] for n in known]).astype(np.float64)
        matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
        result[np.ix_(known, known)] = matrix @ matrix.T
    if alike is not None and len(known) < len(items):
        have = set(known)
        for a in range(len(items)):
            for b in range(a):
                if not (a in have and b in have):
                    result[a, b] = result[b, a] = alike(items[a], items[b])
    return result
