"""Vector store: cosine search over passages, in a folder (qdrant-edge) or on a Qdrant server.

What the two (`VectorBackend`) share is here, in `store_points.py` and `store_filter.py`: points and filters are
prepared, hits are ordered, and blocking calls run in threads.

The store is derived: it holds vectors and passage references, no texts, and can be rebuilt from the archive. The
archive records which changes are in the store, under the store's `identity`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rag_core.errors import VectorsUnavailable
from rag_core.index.bm25_postings import select_stable_top
from rag_core.index.reconnecting import Reconnecting
from rag_core.index.store_filter import make_store_filter
from rag_core.index.store_points import (
    StoredPoint,
    VectorArray,
    VectorPoint,
    hash_to_number,
    make_point_id,
    normalize_vector,
    prepare_batches,
    read_passage_ref,
    split_batches,
)
from rag_core.settings import QdrantSettings
from rag_core.types import PassageRef, PostKey, PostKeySet, SearchFilter

if TYPE_CHECKING:
    from rag_core.index.vectors_edge import EdgeVectorStore
    from rag_core.index.vectors_qdrant import QdrantVectorStore

T = TypeVar("T")

# Points of one read: 5 ms of an embedded store's time, while searches wait.
_PAGE_POINTS = 500


# Where vectors are kept: qdrant-edge in a folder, or a Qdrant server. Both have the same methods, which block, raise
# VectorsUnavailable, and may be repeated.
VectorBackend: TypeAlias = "EdgeVectorStore | QdrantVectorStore"


class VectorStore:
    """Vector store: cosine search. Every method raises VectorsUnavailable if the store cannot answer.

    Vectors are normalized to length 1 and stored in 16 bits: vectors read back differ in the third decimal.
    """

    def __init__(self, handle: Reconnecting[VectorBackend], threads: ThreadPoolExecutor) -> None:
        self._handle, self._threads = handle, threads
        self._closed = False
        # Grows after every write and removal, also a failed one: earlier results may be outdated then. Counts from the
        # opening of the store, and only changes by this process.
        self.revision = 0

    @classmethod
    async def open(cls, opening: Callable[[], VectorBackend], threads: int = 1) -> VectorStore:
        """Open the store by calling `opening` in a thread; `threads` is the number of parallel calls."""
        pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="vectors")
        handle = pool.submit(Reconnecting, opening)
        try:
            return cls(await asyncio.wrap_future(handle), pool)
        except BaseException:
            handle.add_done_callback(_close_opened_store)  # if cancelled, it may still open the store
            pool.shutdown(wait=False)
            raise

    async def _do(self, work: Callable[[VectorBackend], T]) -> T:
        if self._closed:
            raise VectorsUnavailable("The vector index is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._handle.do, work)

    @property
    def identity(self) -> str:
        """Random id given at the creation of the store; the archive records the store's content under it.

        Raises QdrantGone if the store is on a server that has not answered yet.
        """
        return self._handle.opened.about.identity

    @property
    def model(self) -> str:
        """Embedding model for which the store was created."""
        return self._handle.opened.about.model

    @property
    def dimension(self) -> int:
        """Dimension of the vectors."""
        return self._handle.opened.about.dimension

    async def upsert(self, points: Sequence[VectorPoint]) -> None:
        """Write points; each replaces the one with the same post and part.

        After the call they survive a kill -9; a power cut only after `flush`. Raises VectorRefused before
        anything is written if a vector is missing, not finite, zero or of the wrong length.
        """
        for batch in await asyncio.to_thread(prepare_batches, points, self.dimension):
            await self._change(lambda backend, batch=batch: backend.write(batch))  # type: ignore[misc]

    async def remove(self, keys: Iterable[PostKey], but: Iterable[PassageRef] = ()) -> None:
        """Remove all parts of these posts except those in `but`; unknown posts are no error."""
        kept = [make_point_id(place) for place in but]
        for part in split_batches(keys):
            posts = {chat: ids.tolist() for chat, ids in PostKeySet.of(part).by_chat.items()}
            await self._change(lambda backend, posts=posts: backend.remove(posts, kept))  # type: ignore[misc]

    async def _change(self, work: Callable[[VectorBackend], None]) -> None:
        def change(backend: VectorBackend) -> None:
            try:
                work(backend)
            finally:
                self.revision += 1  # in the store's thread: the work goes on if its caller is cancelled

        await self._do(change)

    async def search(
        self, vector: VectorArray, only: SearchFilter, n: int = 50, lang: str | None = None
    ) -> list[tuple[PassageRef, float]]:
        """Find the n nearest passages that the filter and the language allow, with their cosine, best first.

        Cosines and order are exact. On a server also which passages are found, unless it is configured to approximate
        (QDRANT__LINKS, QDRANT__QUANTIZATION); in a folder where no more than 768 are allowed, above that 99.5 % and
        more of the 50 nearest (`vector_sketch.py`). Raises VectorRefused; VectorsUnavailable also if the filter
        names more than `MAX_FILTER_POSTS` single posts, which would delay other searches.
        """
        asked, allowed = normalize_vector(vector, self.dimension), make_store_filter(only, lang)
        if not allowed["channels"] or allowed["posts"] == [] or n < 1:
            return []

        def nearest(backend: VectorBackend, most: int) -> list[tuple[PassageRef, float]]:
            return [(read_passage_ref(row), float(score)) for row, score in backend.search(asked, allowed, most)]

        return await self._do(lambda backend: select_stable_top(partial(nearest, backend), n))

    async def vectors_of(self, places: Sequence[PassageRef]) -> dict[PassageRef, VectorArray]:
        """Read the stored vectors of passages; those that are not in the store are left out."""
        found: dict[PassageRef, VectorArray] = {}
        for part in split_batches(places):
            ids = {place: make_point_id(place) for place in part}
            there = await self._do(lambda backend, ids=ids: backend.vectors(list(ids.values())))  # type: ignore[misc]
            found |= {place: there[name] for place, name in ids.items() if name in there}
        return found

    async def by_hash(self, hashes: Sequence[str]) -> dict[str, VectorArray]:
        """Read the stored vectors of texts with these hashes; unknown ones are left out."""
        found: dict[str, VectorArray] = {}
        for wanted in split_batches(dict.fromkeys(hashes)):
            left = set(wanted)
            while left:  # one text may occur in many posts and fill a page
                numbers = [hash_to_number(name) for name in left]
                page = await self._do(lambda backend, numbers=numbers: backend.vectors_by_hash(numbers))  # type: ignore[misc]
                fresh = {name: vector for name, vector in page if name in left}
                if not fresh:
                    break
                found |= fresh
                left -= fresh.keys()
        return found

    async def count(self) -> int:
        """Count the points."""
        return await self._do(lambda backend: backend.count())

    async def iterate_points(self) -> AsyncIterator[list[StoredPoint]]:
        """Iterate over the payloads of all points, page by page, each point once.

        Points written or removed meanwhile may be included or not.
        """
        after: str | None = None
        while True:
            rows, after = await self._do(lambda backend, after=after: backend.page(after, _PAGE_POINTS))  # type: ignore[misc]
            yield [
                StoredPoint(read_passage_ref(row), int(row["date"]), str(row["lang"]), str(row["text_hash"]))
                for row in rows
            ]
            if after is None:
                return

    async def flush(self) -> None:
        """Write everything to disk: after it a power cut loses nothing."""
        await self._do(lambda backend: backend.flush())

    async def drop(self) -> None:
        """Delete the store with all that is in it, and close."""
        await self._do(lambda backend: backend.drop())
        await self.close()

    async def close(self) -> None:
        """Flush and close. Closing twice is no error."""
        if not self._closed:
            self._closed = True  # later calls are refused; calls that wait for a thread are still served
            await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._threads.shutdown()
        self._handle.close()


def _close_opened_store(handle: Future[Reconnecting[VectorBackend]]) -> None:
    if not handle.cancelled() and handle.exception() is None:
        handle.result().close()


_MAX_PARALLEL_REQUESTS = 4  # to a server; the embedded engine takes one at a time


async def open_vector_store(
    folder: Path, *, model: str, dimension: int, qdrant: QdrantSettings | None = None
) -> VectorStore:
    """Open or create the vector store for this embedding model: in `folder`, or as a collection on a Qdrant server.

    Raises VectorsUnavailable if another process holds the folder, or the store was built with another model, dimension
    or number of shards. A damaged folder is no error: it is replaced by a new store. An unreachable server is no error
    either, but tried again until it answers; until then every use raises QdrantGone. The url ":memory:" is
    qdrant-client's own scan in Python, for tests.
    """
    if qdrant is None or not qdrant.url:
        from rag_core.index.vectors_edge import EdgeVectorStore

        return await VectorStore.open(lambda: EdgeVectorStore.open(folder, model, dimension))
    from rag_core.index.vectors_qdrant import QdrantVectorStore

    # qdrant-client's local mode is not thread-safe
    threads = 1 if qdrant.url == ":memory:" else _MAX_PARALLEL_REQUESTS
    return await VectorStore.open(lambda: QdrantVectorStore.open(qdrant, (model, dimension)), threads)
