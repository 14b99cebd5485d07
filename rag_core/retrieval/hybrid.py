"""Hybrid search: one query through the lexical and the dense index, and the fusion of both rankings.

If one index fails, the other alone gives the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from rag_core.engine import Engine
from rag_core.errors import IndexUnavailable, RagError, StageTimeout
from rag_core.models.active_models import DenseIndex
from rag_core.retrieval.query_and_result import BOTH, DENSE, LEXICAL, RankedPlaces, RetrievalQuery, RetrievalResult
from rag_core.retrieval.stored_vectors import Vector, VectorReader
from rag_core.stage_runner import Run
from rag_core.stages import Stage
from rag_core.text.query_terms import QueryTerms
from rag_core.types import DENSE_FIRST, HYBRID, LEXICAL_ONLY, PassageRef, SearchFilter

_FEW_HITS = 3  # with fewer lexical hits, the dense index is searched as well
# Factor of the dense weight for a long question without names, whose answer may share few of its words.
# Not fitted: only one of the 1,800 evaluation questions is of this sort.
_DENSE_FIRST_FACTOR = 1.5
_MIN_COSINE = 1e-3  # 16-bit vectors of different languages are orthogonal up to rounding

T = TypeVar("T")


@contextmanager
def run_beside(work: Coroutine[Any, Any, T]) -> Iterator[asyncio.Task[T]]:
    """Run a coroutine beside the block, at whose end it is cancelled. Its error is raised only where it is awaited."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # else asyncio logs one never awaited
    try:
        yield task
    finally:
        task.cancel()


async def search_hybrid(query: RetrievalQuery, rag: Engine, run: Run) -> RetrievalResult:
    """Search the lexical and the dense index, as `query.legs` says, and fuse both rankings.

    If one index fails, the other alone gives the result. Raises IndexUnavailable or StageTimeout where neither gives
    hits.
    """
    failed: RagError | None = None
    dense = rag.dense  # another one may take its place meanwhile
    with run_beside(_search_dense_if_wanted(query, dense, run)) as searching:
        try:
            terms = search_lexical(query.words, query.only, query.k, rag, query.aliases)
            lexical = await run.require(Stage.LEXICAL, terms)
        except (IndexUnavailable, StageTimeout) as exc:
            lexical, failed = [], exc
        near, vector = await searching
    if dense and query.legs == LEXICAL_ONLY and len(lexical) < _FEW_HITS:
        near, vector = await _search_dense_if_wanted(replace(query, legs=HYBRID), dense, run)
    if failed:
        if not near:
            raise failed
        run.note_shortfall(Stage.LEXICAL, failed)
    found_by = {place: LEXICAL for place, _ in lexical}
    found_by |= {place: BOTH if place in found_by else DENSE for place, _ in near}
    vectors = VectorReader(dense.vectors, dense.embedder) if dense and vector is not None else None
    ranked = fuse_retrievers(lexical, near, query, rag)
    return RetrievalResult(ranked, found_by, vector, failed is None, dict(near), vectors)


async def _search_dense_if_wanted(
    query: RetrievalQuery, dense: DenseIndex | None, run: Run
) -> tuple[RankedPlaces, Vector | None]:
    if query.legs == LEXICAL_ONLY:
        return [], None
    return await run.attempt(Stage.DENSE, search_dense(query.text, query.only, query.k, dense), ([], None))


async def search_lexical(
    query: str, only: SearchFilter, n: int, rag: Engine, aliases: Sequence[tuple[str, str]] = ()
) -> RankedPlaces:
    """Search the lexical index for the words of a question, their synonyms and translations, best first."""
    asked = QueryTerms.of(query, rag.lexical.statistics(only.channels).weight, aliases)
    variants = asked.weigh_variants()
    terms = [*asked.order, *(phrase for phrase in variants if phrase not in asked.share)]
    # numpy releases the GIL while it scores, so a large index does not block the event loop
    return await asyncio.to_thread(rag.lexical.search, terms, only, n, variants)


async def search_dense(
    query: str, only: SearchFilter, n: int, dense: DenseIndex | None
) -> tuple[RankedPlaces, Vector | None]:
    """Search the dense index, best first; also returns the query vector. Empty and None without an embedding model.

    Passages with a cosine of 0 or below are dropped: they have nothing in common with the question.
    """
    if dense is None:
        return [], None
    vector = await dense.embedder.query(query)
    if not vector.any():
        return [], None  # the model knows no word of the query
    hits = await dense.vectors.search(vector, only, n)
    return [(place, score) for place, score in hits if score > _MIN_COSINE], vector


def measure_cosines(stored: Mapping[PassageRef, Vector], vector: Vector) -> dict[PassageRef, float]:
    """Cosine of each vector to that of a query; all are of unit length."""
    return {place: float(there @ vector) for place, there in stored.items()}


def rank_by_cosine(stored: Mapping[PassageRef, Vector], vector: Vector) -> RankedPlaces:
    """Rank passages by the cosine of their vectors to that of a query, best first."""
    scores = measure_cosines(stored, vector).items()
    return sorted((pair for pair in scores if pair[1] > _MIN_COSINE), key=lambda pair: -pair[1])


def fuse_retrievers(lexical: RankedPlaces, near: RankedPlaces, query: RetrievalQuery, rag: Engine) -> RankedPlaces:
    """Fuse the rankings of both searches, as fitted for the model and the question's language."""
    if not near or rag.dense is None:
        return lexical
    fusion = rag.calibration.fusion(rag.dense.model, query.lang, rag.settings.retrieval.dense)
    if query.legs == DENSE_FIRST:
        fusion = replace(fusion, dense=min(1.0, _DENSE_FIRST_FACTOR * fusion.dense))
    return fusion(lexical, near, query.k)
