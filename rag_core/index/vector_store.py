"""Vector store: cosine search over passages, in a folder (qdrant-edge) or on a Qdrant server.

What the two share is here: points and filters are prepared, hits are ordered, blocking calls run in
threads, and a server that was away is opened again. Point ids are made of the passage reference alone, so that writing
a passage twice stores it once.

The store is derived: it holds vectors and passage references, no texts, and can be rebuilt from the archive. The
archive records which changes are in the store, under the store's `identity`.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypedDict, TypeVar
from uuid import UUID, uuid5

import numpy as np
from numpy.typing import NDArray

from rag_core.errors import CollectionLost, QdrantGone, RagError, VectorRefused, VectorsUnavailable, translate_errors
from rag_core.types import PassageRef, PostKey, PostKeySet, SearchFilter

VectorArray = NDArray[np.float32]
T = TypeVar("T")

BATCH_POINTS = 256  # points of one write: 15 ms of a store's time, for which a search has to wait at most
REF_FIELDS = ("chat", "message", "part", "start", "end")  # payload fields of the passage reference
_POINT_ID_NAMESPACE = UUID("8f0ae19f-31c5-4a55-9a52-6b0c5d8f5a61")  # any fixed namespace: changing it means a reindex


def split_batches(items: Iterable[T], size: int = BATCH_POINTS) -> Iterator[list[T]]:
    """Split items into lists of at most `size`."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part


@lru_cache(maxsize=10_000)  # 80 passages of a question are read, in 1 ms
def make_point_id(place: PassageRef) -> str:
    """Make the point id of a passage: the same for the same post and part, in every store."""
    return str(uuid5(_POINT_ID_NAMESPACE, f"{place.key.chat_id}/{place.key.message_id}/{place.part}"))


def read_passage_ref(row: Mapping[str, Any]) -> PassageRef:
    """Decode the passage reference in a payload."""
    chat, message, part, start, end = (int(row[name]) for name in REF_FIELDS)
    return PassageRef(PostKey(chat, message), part, start, end)


@dataclass(frozen=True, slots=True, eq=False)
class VectorPoint:
    """Point to be stored: the vector of a passage; `text_hash` is the hash of the embedded text."""

    place: PassageRef
    date: datetime
    lang: str
    text_hash: str
    vector: VectorArray


class StoredPoint(NamedTuple):
    """Payload of a stored vector; the date is in Unix seconds."""

    place: PassageRef
    date: int
    lang: str
    text_hash: str


PAYLOAD_FIELDS = (*REF_FIELDS, "date", "lang", "text_hash")


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """Description of a store: its random identity, and the model and dimension it was made for."""

    identity: str
    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class PointBatch:
    """Batch of at most BATCH_POINTS checked points: ids, payloads, and a float32 matrix with a row for each."""

    ids: list[str]
    payloads: list[dict[str, int | str]]
    vectors: VectorArray


def hash_to_number(text_hash: str) -> int:
    """Reduce a text hash to 63 bits: an index over integers takes a third of the space of one over strings."""
    return int.from_bytes(blake2b(text_hash.encode(), digest_size=8).digest(), "big") >> 1


def normalize_vector(vector: object, dimension: int, what: str = "The vector") -> VectorArray:
    """Normalize a vector to length 1. Raises VectorRefused; `what` begins its message."""
    if vector is None:
        raise VectorRefused(f"{what} is missing.")
    with translate_errors(VectorRefused, TypeError, ValueError, say=f"{what} is not a row of numbers ({{}})."):
        row = np.asarray(vector, np.float64)
    if row.shape != (dimension,):
        raise VectorRefused(
            f"{what} has the shape {row.shape}, but this index holds vectors of {dimension} numbers: "
            "it was made by another embedding model."
        )
    length = float(np.linalg.norm(row))
    if not np.isfinite(length):
        raise VectorRefused(f"{what} holds values that are not numbers: the embedding model did not work.")
    if length == 0:
        raise VectorRefused(f"{what} is zero and has no direction: the embedding model did not work.")
    return np.asarray(row / length, np.float32)


def prepare_batches(points: Sequence[VectorPoint], dimension: int) -> list[PointBatch]:
    """Check and normalize points and split them into batches; of points with the same id the last counts."""
    batches = []
    for part in split_batches({make_point_id(point.place): point for point in points}.items()):
        payloads: list[dict[str, int | str]] = [
            {
                **dict(zip(REF_FIELDS, (*key, *span), strict=True)),
                "date": int(point.date.timestamp()),
                "lang": point.lang,
                "hash": hash_to_number(point.text_hash),
                "text_hash": point.text_hash,
            }
            for _, point in part
            for key, *span in (point.place,)
        ]
        vectors = [
            normalize_vector(point.vector, dimension, f"The vector of post {key.message_id} in {key.chat_id}")
            for _, point in part
            for key in (point.place.key,)
        ]
        batches.append(PointBatch([name for name, _ in part], payloads, np.stack(vectors)))
    return batches


MAX_FILTER_POSTS = 50_000  # most posts that a filter may name: 10 ms of the embedded store, more of a server


class StoreFilter(TypedDict):
    """Filter in plain values, as the stores use it in their queries; dates in whole Unix seconds."""

    channels: list[int]
    posts: list[tuple[int, list[int]]] | None  # pairs of one of `channels` and message ids; None: all posts
    since: int | None
    until: int | None
    lang: str | None


class VectorBackend(Protocol):
    """Open store of vectors. Its methods block, raise VectorsUnavailable, and may be repeated."""

    about: StoreInfo

    def write(self, batch: PointBatch) -> None:
        """Write points; they replace those with the same ids."""

    def remove(self, posts: Mapping[int, list[int]], but: list[str]) -> None:
        """Remove all parts of posts, given as message ids by channel, except the point ids in `but`."""

    def search(self, vector: VectorArray, only: StoreFilter, n: int) -> list[tuple[Mapping[str, Any], float]]:
        """Find the n nearest allowed points: payloads and cosines."""

    def vectors(self, ids: list[str]) -> dict[str, VectorArray]:
        """Read the vectors of the ids that exist."""

    def vectors_by_hash(self, numbers: list[int]) -> list[tuple[str, VectorArray]]:
        """Read one page of text hashes and vectors of points with these hash numbers."""

    def count(self) -> int:
        """Count the points."""

    def page(self, after: str | None, n: int) -> tuple[list[Mapping[str, Any]], str | None]:
        """Read the payloads of the next n points in the store's order, and the next `after`; None at the end."""

    def flush(self) -> None:
        """Write everything to disk."""

    def drop(self) -> None:
        """Delete the store; only `close` may follow."""

    def close(self) -> None:
        """Flush and close."""


_SCORE_DIGITS = 6  # decimal digits of a score: single precision has seven
_MAX_TIED_HITS = 20_000  # most hits that are read to put equal ones in order


def select_stable_top(
    nearest: Callable[[int], list[tuple[Mapping[str, Any], float]]], n: int
) -> list[tuple[PassageRef, float]]:
    """Select the n best hits of a search engine, best first, equal scores in the order of their passages.

    An engine may return hits of equal score in any order and cut among them, and that order can depend on points
    that its filter hides. So if the cut falls among equal scores, more hits are requested (`nearest` takes the
    number). Scores are rounded: the last bits of a sum of floats depend on where a point is stored.
    """
    most = n + 1
    while True:
        hits = [(read_passage_ref(row), round(float(score), _SCORE_DIGITS)) for row, score in nearest(most)]
        hits.sort(key=lambda hit: (-hit[1], hit[0]))
        if len(hits) < most or most >= _MAX_TIED_HITS or hits[-1][1] < hits[n - 1][1]:
            return hits[:n]
        most = min(_MAX_TIED_HITS, most * 4)


log = logging.getLogger(__name__)

RECONNECT_EVERY_S = 2.0  # until a server that was away is looked for again


# Points of one read: 5 ms of an embedded store's time, while searches wait.
_PAGE_POINTS = 500


class VectorStore:
    """Vector store: cosine search. Every method raises VectorsUnavailable if the store cannot answer.

    Vectors are normalized to length 1 and stored in 16 bits: vectors read back differ in the third decimal.
    """

    def __init__(self, opening: Callable[[], VectorBackend], threads: int) -> None:
        self._opening = opening
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="vectors")
        self._opened: VectorBackend | RagError = QdrantGone("The vector index is not open yet.")
        self._reopening: asyncio.Task[None] | None = None
        self._closed = False
        # Grows with every opening, write and removal, also a failed one: earlier results may be outdated then. Counts
        # changes by this process only.
        self.revision = 0

    @classmethod
    async def open(cls, opening: Callable[[], VectorBackend], threads: int = 1) -> VectorStore:
        """Open the store by calling `opening` in a thread, again while that raises QdrantGone; with parallel calls."""
        store = cls(opening, threads)
        try:
            await store._open()
        except QdrantGone as exc:
            store._reopen_after(exc)
        except BaseException:
            store._threads.shutdown(wait=False)
            raise
        return store

    async def _open(self) -> None:
        handle = self._threads.submit(self._opening)
        try:
            self._opened = await asyncio.wrap_future(handle)
            self.revision += 1  # it may be another store than before
        except asyncio.CancelledError:
            handle.add_done_callback(_close_opened)  # it may still open the store
            raise

    def _reopen_after(self, exc: RagError) -> None:
        """Begin to open the store again, every two seconds; until then every use raises the last reason at once."""

        async def reopen() -> None:
            while isinstance(self._opened, RagError):
                await asyncio.sleep(RECONNECT_EVERY_S)
                try:
                    await self._open()
                except RagError as exc:
                    if not isinstance(exc, QdrantGone):  # the server answers but cannot be used: an admin has to act
                        log.error("the Qdrant server cannot be used: %s", exc.reason)
                    self._opened = exc

        self._opened = exc
        self._reopening = asyncio.create_task(reopen())

    @property
    def about(self) -> StoreInfo:
        """Identity of the store, and its model. Raises QdrantGone if it is on a server that has not answered yet."""
        if isinstance(self._opened, RagError):
            raise self._opened
        return self._opened.about

    async def _do(self, work: Callable[[VectorBackend], T]) -> T:
        if self._closed:
            raise VectorsUnavailable("The vector index is closed.")
        if isinstance(backend := self._opened, RagError):
            raise backend
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, backend)
        except CollectionLost as exc:
            if self._opened is backend:  # the first of several calls that notice it
                self._reopen_after(exc)
                await asyncio.to_thread(backend.close)
            raise

    async def upsert(self, points: Sequence[VectorPoint]) -> None:
        """Write points; each replaces the one with the same post and part.

        After the call they survive a kill -9; a power cut only after `flush`. Raises VectorRefused before
        anything is written if a vector is missing, not finite, zero or of the wrong length.
        """
        for batch in await asyncio.to_thread(prepare_batches, points, self.about.dimension):
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
        asked, posts = normalize_vector(vector, self.about.dimension), None
        if only.keys is not None:
            named = sorted(only.keys.by_chat.items())
            posts = [(chat, ids.tolist()) for chat, ids in named if chat in only.channels and len(ids)]
            if sum(len(ids) for _, ids in posts) > MAX_FILTER_POSTS:
                raise VectorsUnavailable(
                    f"More than {MAX_FILTER_POSTS:,} posts fit the filter: they were searched by words only. "
                    "Ask about one channel to search by meaning too."
                )
        if not only.channels or posts == [] or n < 1:
            return []
        # rounded up: Telegram's dates have no fractions
        since, until = (None if one is None else math.ceil(one.timestamp()) for one in (only.since, only.until))
        allowed = StoreFilter(channels=sorted(only.channels), posts=posts, since=since, until=until, lang=lang)
        return await self._do(lambda backend: select_stable_top(partial(backend.search, asked, allowed), n))

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
        """Iterate over the payloads of all points, page by page, each once, with or without what changes meanwhile."""
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
        if self._closed:
            return
        self._closed = True  # later calls are refused; calls that wait for a thread are still served
        if self._reopening:
            self._reopening.cancel()
            await asyncio.wait([self._reopening])
        if not isinstance(self._opened, RagError):
            await asyncio.to_thread(self._threads.shutdown)
            await asyncio.to_thread(self._opened.close)
        else:
            self._threads.shutdown(wait=False)


def _close_opened(handle: Future[VectorBackend]) -> None:
    if not handle.cancelled() and handle.exception() is None:
        handle.result().close()
