"""One query through the legs: by words, by meaning, both beside each other, and the two rankings as one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rag_core.analysis import terms
from rag_core.doors.lexical import Filter, Place
from rag_core.errors import IndexUnavailable, RagError, StageTimeout
from rag_core.rag import Rag
from rag_core.route import HYBRID, LEXICAL_ONLY, MEANING_FIRST
from rag_core.stage import Run
from rag_core.types import Shortfall

__all__ = ["BOTH", "DENSE", "LEXICAL", "Query", "Ranked", "Ranking", "Vector", "by_both", "by_meaning", "by_words"]

LEXICAL, DENSE, BOTH = "lexical", "dense", "both"
_FEW = 3  # lexical hits below which the other leg is asked as well
# What the dense leg weighs more where a question is long and names nothing: its answer need not share its words.
# Not fitted: of the 1,800 questions at hand one is so.
_ABSTRACT = 1.5
_RIGHT_ANGLE = 1e-3  # 16-bit vectors of different languages are at right angles but for rounding

Ranked = list[tuple[Place, float]]
Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for; `legs` as a route says, `k` hits of each leg; words that `should` stand there help."""

    text: str
    legs: str
    k: int
    only: Filter
    lang: str
    should: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What the lexical leg looks for."""
        known = set(terms(self.text))
        return " ".join((self.text, *(word for word in self.should if not known.issuperset(terms(word)))))


@dataclass(frozen=True, slots=True)
class Ranking:
    """What was found, best first; which leg found it; the vector of the query, where the dense leg answered.

    `by_words` is false where the lexical leg failed and the dense one stands in for it.
    """

    ranked: Ranked
    legs: dict[Place, str]
    vector: Vector | None
    by_words: bool = True


async def by_both(query: Query, rag: Rag, run: Run, *, meaning: bool = True) -> Ranking:
    """One query through the legs it wants. Raises IndexUnavailable or StageTimeout where none has an answer.

    Each leg can stand in for the other. `meaning` false: the dense leg is not asked, whatever the route.
    """
    dense = rag.dense if meaning else None
    beside = asyncio.ensure_future(_meaning(query if dense else replace(query, legs=LEXICAL_ONLY), rag, run))
    failed: RagError | None = None
    try:
        try:
            lexical = await run.require("lexical", by_words(query.words, query.only, query.k, rag))
        except (IndexUnavailable, StageTimeout) as exc:
            lexical, failed = [], exc
        near, vector = await beside
    finally:
        beside.cancel()
    if dense and query.legs == LEXICAL_ONLY and len(lexical) < _FEW:
        near, vector = await _meaning(replace(query, legs=HYBRID), rag, run)
    if failed:
        if not near:
            raise failed
        run.shortfalls.append(Shortfall("lexical", failed.reason))
    legs = {place: LEXICAL for place, _ in lexical}
    legs |= {place: BOTH if place in legs else DENSE for place, _ in near}
    return Ranking(_fused(lexical, near, query, rag), legs, vector, failed is None)


async def _meaning(query: Query, rag: Rag, run: Run) -> tuple[Ranked, Vector | None]:
    if query.legs == LEXICAL_ONLY:
        return [], None
    return await run.attempt("dense", by_meaning(query.text, query.only, query.k, rag), ([], None))


async def by_words(query: str, only: Filter, n: int, rag: Rag) -> Ranked:
    """The lexical leg, best first."""
    # numpy lets go of the interpreter while it scores, so that a large index does not stop the bot
    return await asyncio.to_thread(rag.lexical.search, terms(query), only, n)


async def by_meaning(query: str, only: Filter, n: int, rag: Rag) -> tuple[Ranked, Vector | None]:
    """The dense leg, best first, and the vector of the query; nothing and None where there is no model.

    What is at right angles or worse has nothing in common with the question: it is no hit.
    """
    if rag.dense is None:
        return [], None
    vector = await rag.dense.embedder.query(query)
    if not vector.any():
        return [], None  # no word of it is known to the model
    found = await rag.dense.vectors.search(vector, only, n)
    return [(place, score) for place, score in found if score > _RIGHT_ANGLE], vector


def _fused(lexical: Ranked, near: Ranked, query: Query, rag: Rag) -> Ranked:
    if not near or rag.dense is None:
        return lexical
    fusion = rag.calibration.fusion(rag.dense.model, query.lang, rag.settings.retrieval.dense)
    if query.legs == MEANING_FIRST:
        fusion = replace(fusion, dense=min(1.0, _ABSTRACT * fusion.dense))
    return fusion(lexical, near, query.k)
