"""Queries, rankings and their fusion: weighted min-max sum, reciprocal ranks, MMR over stored vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rag_core.types import PassageRef, SearchFilter

if TYPE_CHECKING:
    from rag_core.index.vector_store import VectorStore
    from rag_core.models.onnx_models import Embedder

LEXICAL, DENSE, BOTH = "lexical", "dense", "both"

RankedPlaces = list[tuple[PassageRef, float]]


@dataclass(frozen=True, slots=True)
class RetrievalQuery:
    """Retrieval query: `legs` as in `Plan`, `k` hits of each retriever; `should` are preferred words,
    `aliases` as in the plan."""

    text: str
    legs: str
    k: int
    only: SearchFilter
    lang: str
    should: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """Retrieval result: ranked places, the retriever of each, and the query vector where the dense search answered.

    `found_by` says lexical, dense or both. `by_words` is false where the lexical search failed and only dense hits are
    returned; `cosines` are those of the dense hits, and `vectors` reads stored vectors for those who go on with the
    query vector.
    """

    ranked: RankedPlaces
    found_by: dict[PassageRef, str]
    vector: Vector | None
    by_words: bool = True
    cosines: Mapping[PassageRef, float] = field(default_factory=dict)
    vectors: VectorReader | None = None


Vector = NDArray[np.float32]


@dataclass(slots=True, eq=False)
class VectorReader:
    """Reader of stored vectors for one question, each once; `embedder`, of the same model, is for further queries."""

    store: VectorStore
    embedder: Embedder
    known: dict[PassageRef, Vector] = field(default_factory=dict)

    async def read(self, places: Sequence[PassageRef]) -> dict[PassageRef, Vector]:
        """Read the stored vectors of passages; those without one are left out. Raises VectorsUnavailable."""
        if unknown := [place for place in places if place not in self.known]:
            self.known |= await self.store.vectors_of(unknown)
        return {place: self.known[place] for place in places if place in self.known}


T = TypeVar("T")
Ranking = Sequence[tuple[T, float]]  # best first

RRF_K = 60  # Cormack, Clarke & Büttcher 2009


@dataclass(frozen=True, slots=True)
class Fusion:
    """Fusion method for one language; `dense` is the weight of the dense ranking, 0..1.

    With a weak embedding model RRF lost up to 10 points at rank 1, because each rank gets a vote whatever its
    score; the weighted sum never lost. The method of each embedding model is chosen by measurement.
    """

    kind: str = "sum"
    dense: float = 0.3

    def __call__(self, lexical: Ranking[T], dense: Ranking[T], most: int = 0) -> list[tuple[T, float]]:
        """Fuse both rankings, best first; ties keep the lexical order. An item missing in a ranking has 0 there.

        `most` is the number of hits asked of each retriever: a shorter ranking is complete.
        """
        if self.kind == "rrf":
            rankings = [[item for item, _ in ranking] for ranking in (lexical, dense)]
            return fuse_rankings(rankings, (1 - self.dense, self.dense))
        # The lowest score of a ranking truncated at `most` becomes 0, as the next item would be about as good. In a
        # complete ranking 0 is the theoretical minimum (Bruch, Gai & Ingber 2023): otherwise the second of two posts
        # with a rare word would be worth nothing.
        fused: dict[T, float] = {}
        for ranking, share in ((lexical, 1 - self.dense), (dense, self.dense)):
            scores = [score for _, score in ranking]
            least = min(scores, default=0.0)
            least = min(0.0, least) if len(ranking) < most else least
            span = max(scores, default=0.0) - least
            for item, score in ranking:  # one hit, or equal scores: each counts as the best
                fused[item] = fused.get(item, 0.0) + share * ((score - least) / span if span > 0 else 1.0)
        return sorted(fused.items(), key=lambda pair: -pair[1])


def fuse_rankings(
    rankings: Sequence[Sequence[T]], weights: Sequence[float] = (), k: int = RRF_K
) -> list[tuple[T, float]]:
    """Fuse rankings by reciprocal rank; `weights` sum to 1, equal by default. An item first in all has score 1."""
    scores: dict[T, float] = {}
    weights = weights or [1 / len(rankings) for _ in rankings]
    for ranking, weight in zip(rankings, weights, strict=True):
        for n, item in enumerate(ranking, 1):
            scores[item] = scores.get(item, 0.0) + weight / (k + n)
    ranked = sorted(scores.items(), key=lambda pair: -pair[1])
    return [(item, score * (k + 1)) for item, score in ranked]


def select_by_mmr(
    ranking: Ranking[T], vectors: Mapping[T, Vector], keep: int, balance: float = 0.5,
    alike: NDArray[np.floating[Any]] | None = None,
) -> list[tuple[T, float]]:  # fmt: skip
    """Select `keep` items by maximal marginal relevance, in their original order.

    MMR (Carbonell & Goldstein 1998) only decides which items are dropped, not their order: near-copies displace
    other sources, but the best hit stays first. Similarity is the cosine of the stored vectors, or that of `alike`, a
    matrix in the order of the ranking, where one of two items has no vector.
    """
    if len(ranking) <= keep:
        return list(ranking)
    scores = np.array([score for _, score in ranking])
    span = float(scores.max() - scores.min()) or 1.0
    relevance = (scores - scores.min()) / span
    known = [n for n, (item, _) in enumerate(ranking) if item in vectors]
    likeness = np.zeros((len(ranking), len(ranking)))  # of each pair; cosines may be below 0
    if alike is not None and len(known) < len(ranking):
        likeness[:] = alike
        np.fill_diagonal(likeness, 0.0)
    if known:
        matrix = np.stack([vectors[ranking[n][0]] for n in known]).astype(np.float64)
        matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
        likeness[np.ix_(known, known)] = matrix @ matrix.T
    chosen = [0]
    nearest = likeness[0].copy()
    while len(chosen) < keep:
        worth = balance * relevance - (1 - balance) * nearest
        worth[chosen] = -np.inf
        best = int(np.argmax(worth))
        chosen.append(best)
        nearest = np.maximum(nearest, likeness[best])
    return [ranking[n] for n in sorted(chosen)]
