"""Hybrid search: one query through the lexical and the dense index, and the fusion of both rankings.

Each index can stand in for the other when it fails.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rag_core.engine import Engine
from rag_core.errors import IndexUnavailable, RagError, StageTimeout
from rag_core.index.bm25 import PassageRef, SearchFilter
from rag_core.planning.router import DENSE_FIRST, HYBRID, LEXICAL_ONLY
from rag_core.text.tokens import tokenize
from rag_core.tracing import Run
from rag_core.types import Shortfall

__all__ = [
    "BOTH",
    "DENSE",
    "LEXICAL",
    "RankedPlaces",
    "RetrievalQuery",
    "RetrievalResult",
    "Vector",
    "search_dense",
    "search_hybrid",
    "search_lexical",
]

LEXICAL, DENSE, BOTH = "lexical", "dense", "both"
_FEW_HITS = 3  # lexical hits below which the other leg is asked as well
# What the dense leg weighs more where a question is long and names nothing: its answer need not share its words.
# Not fitted: of the 1,800 questions at hand one is so.
_DENSE_FIRST_FACTOR = 1.5
_MIN_COSINE = 1e-3  # 16-bit vectors of different languages are at right angles but for rounding

RankedPlaces = list[tuple[PassageRef, float]]
Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RetrievalQuery:
    """What is searched for; `legs` as a route says, `k` hits of each leg; words that `should` stand there help."""

    text: str
    legs: str
    k: int
    only: SearchFilter
    lang: str
    should: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What the lexical leg looks for."""
        known = set(tokenize(self.text))
        return " ".join((self.text, *(word for word in self.should if not known.issuperset(tokenize(word)))))


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """What was found, best first; which leg found it; the vector of the query, where the dense leg answered.

    `search_lexical` is false where the lexical leg failed and the dense one stands in for it.
    """

    ranked: RankedPlaces
    legs: dict[PassageRef, str]
    vector: Vector | None
    by_words: bool = True


async def search_hybrid(query: RetrievalQuery, rag: Engine, run: Run, *, meaning: bool = True) -> RetrievalResult:
    """One query through the legs it wants. Raises IndexUnavailable or StageTimeout where none has an answer.

    Each leg can stand in for the other. `meaning` false: the dense leg is not asked, whatever the route.
    """
    dense = rag.dense if meaning else None
    beside = asyncio.ensure_future(
        _search_dense_if_wanted(query if dense else replace(query, legs=LEXICAL_ONLY), rag, run)
    )
    failed: RagError | None = None
    try:
        try:
            lexical = await run.require("lexical", search_lexical(query.words, query.only, query.k, rag))
        except (IndexUnavailable, StageTimeout) as exc:
            lexical, failed = [], exc
        near, vector = await beside
    finally:
        beside.cancel()
    if dense and query.legs == LEXICAL_ONLY and len(lexical) < _FEW_HITS:
        near, vector = await _search_dense_if_wanted(replace(query, legs=HYBRID), rag, run)
    if failed:
        if not near:
            raise failed
        run.shortfalls.append(Shortfall("lexical", failed.reason))
    legs = {place: LEXICAL for place, _ in lexical}
    legs |= {place: BOTH if place in legs else DENSE for place, _ in near}
    return RetrievalResult(_fuse_rankings(lexical, near, query, rag), legs, vector, failed is None)


async def _search_dense_if_wanted(query: RetrievalQuery, rag: Engine, run: Run) -> tuple[RankedPlaces, Vector | None]:
    if query.legs == LEXICAL_ONLY:
        return [], None
    return await run.attempt("dense", search_dense(query.text, query.only, query.k, rag), ([], None))


async def search_lexical(query: str, only: SearchFilter, n: int, rag: Engine) -> RankedPlaces:
    """The lexical leg, best first."""
    # numpy lets go of the interpreter while it scores, so that a large index does not stop the bot
    return await asyncio.to_thread(rag.lexical.search, tokenize(query), only, n)


async def search_dense(query: str, only: SearchFilter, n: int, rag: Engine) -> tuple[RankedPlaces, Vector | None]:
    """The dense leg, best first, and the vector of the query; nothing and None where there is no model.

    What is at right angles or worse has nothing in common with the question: it is no hit.
    """
    if rag.dense is None:
        return [], None
    vector = await rag.dense.embedder.query(query)
    if not vector.any():
        return [], None  # no word of it is known to the model
    found = await rag.dense.vectors.search(vector, only, n)
    return [(place, score) for place, score in found if score > _MIN_COSINE], vector


def _fuse_rankings(lexical: RankedPlaces, near: RankedPlaces, query: RetrievalQuery, rag: Engine) -> RankedPlaces:
    if not near or rag.dense is None:
        return lexical
    fusion = rag.calibration.fusion(rag.dense.model, query.lang, rag.settings.retrieval.dense)
    if query.legs == DENSE_FIRST:
        fusion = replace(fusion, dense=min(1.0, _DENSE_FIRST_FACTOR * fusion.dense))
    return fusion(lexical, near, query.k)
