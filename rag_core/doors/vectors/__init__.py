"""The dense leg: vectors of passages, filtered by channel, date and language inside the query.

The store is derived: it holds vectors and places, no texts, and can be rebuilt from the archive. Embedded it
is qdrant-edge in a folder, with a process of its own; with a URL it is a collection on a Qdrant server. What
of the archive is in it is recorded elsewhere, under the store's `identity`.
"""

from __future__ import annotations

from pathlib import Path

from rag_core.doors.vectors.contract import Held, Point, Vectors
from rag_core.doors.vectors.served import Backing, ServedVectors
from rag_core.doors.vectors.store import Store
from rag_core.settings import QdrantSettings

__all__ = ["Held", "Point", "Vectors", "open_vectors"]

_REQUESTS_AT_ONCE = 4  # to a server; the folder's engine takes one at a time


async def open_vectors(
    folder: Path, *, model: str, dimension: int, qdrant: QdrantSettings | None = None, patient: bool = False
) -> Vectors:
    """Open or create the store for this embedding model: in `folder`, or as a collection of the server of `qdrant`.

    Raises VectorsUnavailable when another process holds the folder, the server does not answer, or the store
    was built with another model, dimension or number of shards. A damaged folder is no error: a new store takes
    its place. `patient`: a server that does not answer is no error either, but looked for until it does; until
    then every use raises QdrantGone. The url ":memory:" is qdrant-client's own scan in Python, for tests.
    """
    if qdrant is None or not qdrant.url:
        return await ServedVectors.open(lambda: Store.open(folder, model, dimension))
    # qdrant-client's local mode bears one thread only
    threads = 1 if qdrant.url == ":memory:" else _REQUESTS_AT_ONCE
    return await ServedVectors.open(lambda: _collection(qdrant, (model, dimension), patient=patient), threads)


def _collection(qdrant: QdrantSettings, about: tuple[str, int], *, patient: bool) -> Backing:
    from rag_core.doors.vectors.remote import Remote  # a second to import, and seldom needed
    from rag_core.doors.vectors.server import Collection

    if not patient:
        return Collection.open(qdrant, about)
    return Remote(lambda: Collection.open(qdrant, about))
