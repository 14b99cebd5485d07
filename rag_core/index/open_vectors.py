"""Vector store selection: opens the embedded store or the Qdrant collection that the settings name.

The store is derived: it holds vectors and passage references, no texts, and can be rebuilt from the archive. The
archive records which changes are in the store, under the store's `identity`.
"""

from __future__ import annotations

from pathlib import Path

from rag_core.index.vector_store import AsyncVectorStore, BlockingVectorStore, StoredPoint, VectorPoint, VectorStore
from rag_core.index.vectors_edge import EdgeVectorStore
from rag_core.settings import QdrantSettings

__all__ = ["StoredPoint", "VectorPoint", "VectorStore", "open_vector_store"]

_MAX_PARALLEL_REQUESTS = 4  # to a server; the embedded engine takes one at a time


async def open_vector_store(
    folder: Path, *, model: str, dimension: int, qdrant: QdrantSettings | None = None, patient: bool = False
) -> VectorStore:
    """Open or create the vector store for this embedding model: in `folder`, or as a collection on a Qdrant server.

    Raises VectorsUnavailable if another process holds the folder, the server does not answer, or the store
    was built with another model, dimension or number of shards. A damaged folder is no error: it is replaced by a
    new store. `patient`: an unreachable server is no error either, but tried again until it answers; until then
    every use raises QdrantGone. The url ":memory:" is qdrant-client's own scan in Python, for tests.
    """
    if qdrant is None or not qdrant.url:
        return await AsyncVectorStore.open(lambda: EdgeVectorStore.open(folder, model, dimension))
    # qdrant-client's local mode is not thread-safe
    threads = 1 if qdrant.url == ":memory:" else _MAX_PARALLEL_REQUESTS
    return await AsyncVectorStore.open(lambda: _open_qdrant_store(qdrant, (model, dimension), patient=patient), threads)


def _open_qdrant_store(qdrant: QdrantSettings, about: tuple[str, int], *, patient: bool) -> BlockingVectorStore:
    from rag_core.index.vectors_qdrant import QdrantVectorStore, ReconnectingVectorStore

    if not patient:
        return QdrantVectorStore.open(qdrant, about)
    return ReconnectingVectorStore(lambda: QdrantVectorStore.open(qdrant, about))
