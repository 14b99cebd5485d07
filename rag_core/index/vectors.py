"""Vector store protocol: points, filters, and an asynchronous adapter over blocking stores.

The adapter does what all stores share: it checks and normalizes vectors, splits them into batches, orders hits, and
runs the blocking calls in threads of its own. Point ids are made of the passage reference alone, so that writing a
passage twice stores it once.

Slots: a channel and a fortnight as one number, so that a filter by both is a filter by one. The embedded engine
gathers the points of one condition and checks the other conditions for each of them: where 150,000 of a million
points are of three channels and 250,000 of some months, that is 150,000 look-ups for the 37,500 points that match
both. An index over slots gives these 37,500 and the edges of the first and the last fortnight.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypedDict, TypeVar
from uuid import UUID, uuid5

import numpy as np
from numpy.typing import NDArray

from rag_core.errors import VectorRefused, VectorsUnavailable, translate_errors
from rag_core.index.bm25 import PassageRef, PostKeySet, SearchFilter
from rag_core.index.postings import select_stable_top
from rag_core.types import PostKey

__all__ = [
    "MAX_FILTER_POSTS",
    "PAYLOAD_FIELDS",
    "REF_FIELDS",
    "AsyncVectorStore",
    "BlockingVectorStore",
    "PointBatch",
    "StoreFilter",
    "StoreInfo",
    "StoredPoint",
    "VectorArray",
    "VectorPoint",
    "VectorStore",
    "compute_slot",
    "hash_to_number",
    "list_filter_slots",
    "make_point_id",
    "make_store_filter",
    "normalize_vector",
    "prepare_batches",
    "read_stored_point",
    "sort_vector_hits",
    "split_batches",
]

VectorArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class VectorPoint:
    """A passage's vector on its way into the store; `text_hash` names the text it was made of."""

    place: PassageRef
    date: datetime
    lang: str
    text_hash: str
    vector: VectorArray


class StoredPoint(NamedTuple):
    """What is known of a stored vector; the date is in Unix seconds."""

    place: PassageRef
    date: int
    lang: str
    text_hash: str


class VectorStore(Protocol):
    """Vectors of passages, searched by cosine; every method raises VectorsUnavailable where the store cannot answer.

    Vectors are brought to length 1 and kept in 16 bits: what comes back differs in the third decimal.
    """

    @property
    def identity(self) -> str:
        """A random id given when the store was created: what is known of its content hangs on it.

        Raises QdrantGone where the store is on a server that has not answered yet.
        """

    @property
    def revision(self) -> int:
        """Grows with every write and removal, after it, also where it failed half way: what was found may be old.

        It counts from the opening of the store, and only what this process does.
        """

    @property
    def model(self) -> str:
        """The embedding model the store was created for."""

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""

    async def upsert(self, points: Sequence[VectorPoint]) -> None:
        """Write points, each in place of the one with the same post and part.

        When it returns they survive a kill -9; a power cut only after `flush`. Raises VectorRefused before
        anything is written when a vector is missing, not finite, zero or of the wrong length.
        """

    async def remove(self, keys: Iterable[PostKey], but: Iterable[PassageRef] = ()) -> None:
        """Take out all parts of these posts `but` these; unknown posts are no error."""

    async def search(
        self, vector: VectorArray, only: SearchFilter, n: int = 50, lang: str | None = None
    ) -> list[tuple[PassageRef, float]]:
        """The n nearest passages among those the filter and the language allow, with their cosine, best first.

        Exact: the same as comparing with every allowed vector, unless a server was told to approximate
        (QDRANT__LINKS, QDRANT__QUANTIZATION). Raises VectorRefused; VectorsUnavailable also
        where the filter names so many single posts that the search would hold up others.
        """

    async def vectors_of(self, places: Sequence[PassageRef]) -> dict[PassageRef, VectorArray]:
        """The stored vectors of these posts' parts; places that are not in the store are left out."""

    async def by_hash(self, hashes: Sequence[str]) -> dict[str, VectorArray]:
        """The stored vectors of texts with these hashes; unknown ones are left out."""

    async def count(self) -> int:
        """How many points there are."""

    def held(self) -> AsyncIterator[list[StoredPoint]]:
        """All that is stored but the vectors, page by page, each point once.

        What is written or taken out meanwhile may be among it or not.
        """

    async def flush(self) -> None:
        """Bring everything to disk: after it a power cut loses nothing."""

    async def close(self) -> None:
        """Flush and let go. Closing twice is no error."""


# A fortnight keeps the edges small and the numbers few: 20 channels and two years are 1,060.
_SLOT_S = 14 * 86_400
_SLOTS_PER_CHAT = (
    2_048  # 78 years: 11 bits beside the 52 of a chat id. Two points may share a slot; filters are checked too.
)
_SLOT_MODULUS = 2**63
_MAX_FILTER_SLOTS = 1_000  # slots in a filter: 1 ms of the engine


def compute_slot(chat: int, date: int) -> int:
    """The slot of a post of that Unix second."""
    return _number_slot(chat, date // _SLOT_S)


def list_filter_slots(
    channels: Iterable[int], since: int | None, until: int | None, now: int
) -> tuple[list[int], int | None] | None:
    """The slots of a filter, and the second from which on posts count without one; None where slots are no help.

    A period that ends after `now` is spelt out up to the end of the next fortnight: posts from the future are
    there only by mistake, but they have to be found.
    """
    horizon = (now // _SLOT_S + 2) * _SLOT_S
    open_ended = until is None or until > horizon
    end = horizon if until is None else min(until, horizon)
    if since is None or since >= end:
        return None
    spans, named = range(since // _SLOT_S, (end - 1) // _SLOT_S + 1), [*channels]
    if len(spans) * len(named) > _MAX_FILTER_SLOTS:
        return None
    return [_number_slot(chat, span) for chat in named for span in spans], horizon if open_ended else None


def _number_slot(chat: int, span: int) -> int:
    return (chat * _SLOTS_PER_CHAT + span) % _SLOT_MODULUS


T = TypeVar("T")

BATCH_POINTS = 256  # points a store takes at once: 15 ms of its time, so that a search waits no longer than that
MAX_FILTER_POSTS = 50_000  # that a filter may name: 0.1 s of the embedded store, in which no other search is answered
REF_FIELDS = ("chat", "message", "part", "start", "end")  # of the payload: the place
PAYLOAD_FIELDS = (*REF_FIELDS, "date", "lang", "text_hash")
_POINT_ID_NAMESPACE = UUID("8f0ae19f-31c5-4a55-9a52-6b0c5d8f5a61")  # any fixed namespace: changing it means a reindex


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What a store was made for; `identity` is its own random name."""

    identity: str
    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class PointBatch:
    """At most BATCH points, checked: ids, payloads and a float32 matrix, row by row."""

    ids: list[str]
    payloads: list[dict[str, int | str]]
    vectors: VectorArray


class StoreFilter(TypedDict):
    """A filter in plain values, as the stores put it inside their query; dates in whole seconds.

    `posts`: where single posts are meant, pairs of a channel and its message ids; of no channel but `channels`.
    `slots`: of all points that the channels and dates allow, but those from `later` on. They bound nothing:
    a store may gather by them. None where they are no help.
    """

    channels: list[int]
    slots: list[int] | None
    later: int | None
    posts: list[tuple[int, list[int]]] | None
    since: int | None
    until: int | None
    lang: str | None


def split_batches(items: Iterable[T], size: int = BATCH_POINTS) -> Iterator[list[T]]:
    """The items in lists of at most `size`."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part


def make_point_id(place: PassageRef) -> str:
    """The id of a passage: the same for the same post and part, in every store."""
    return str(uuid5(_POINT_ID_NAMESPACE, f"{place.key.chat_id}/{place.key.message_id}/{place.part}"))


def hash_to_number(text_hash: str) -> int:
    """63 bits of a text's hash: an index over numbers takes a third of one over texts."""
    return int.from_bytes(blake2b(text_hash.encode(), digest_size=8).digest(), "big") >> 1


def normalize_vector(vector: object, dimension: int, what: str = "The vector") -> VectorArray:
    """The vector at length 1. Raises VectorRefused; `what` begins its sentence."""
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
    """Batches ready to be written, all of them checked; of points with the same id the last counts."""
    rows = {make_point_id(point.place): point for point in points}
    return [
        PointBatch(
            [name for name, _ in part],
            [_make_point_payload(point) for _, point in part],
            _normalize_points([point for _, point in part], dimension),
        )
        for part in split_batches(rows.items())
    ]


def _normalize_points(points: list[VectorPoint], dimension: int) -> VectorArray:
    """What `unit` makes of each, row by row; together they take a fifth of the time."""
    with suppress(TypeError, ValueError):  # not of one shape, or no numbers: one of them is refused below
        rows = np.array([point.vector for point in points], np.float64)
        if rows.shape == (len(points), dimension):
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            if (lengths > 0).all() and np.isfinite(lengths).all():
                return np.asarray(rows / lengths, np.float32)
    names = [f"The vector of post {p.place.key.message_id} in {p.place.key.chat_id}" for p in points]
    return np.stack([normalize_vector(p.vector, dimension, name) for p, name in zip(points, names, strict=True)])


def _make_point_payload(point: VectorPoint) -> dict[str, int | str]:
    place, date = point.place, int(point.date.timestamp())
    return {
        "chat": place.key.chat_id,
        "message": place.key.message_id,
        "part": place.part,
        "start": place.start,
        "end": place.end,
        "date": date,
        "slot": compute_slot(place.key.chat_id, date),
        "lang": point.lang,
        "hash": hash_to_number(point.text_hash),
        "text_hash": point.text_hash,
    }


def make_store_filter(only: SearchFilter, lang: str | None) -> StoreFilter:
    """The filter as the stores take it; Telegram's dates have no fractions, so bounds are rounded up.

    Raises VectorsUnavailable where it names too many posts.
    """
    since = None if only.since is None else math.ceil(only.since.timestamp())
    until = None if only.until is None else math.ceil(only.until.timestamp())
    named, later = list_filter_slots(only.channels, since, until, int(time.time())) or (None, None)
    return {
        "channels": sorted(only.channels),
        "slots": named,
        "later": later,
        "posts": None if only.keys is None else _list_filter_posts(only.keys, only.channels),
        "since": since,
        "until": until,
        "lang": lang,
    }


def _list_filter_posts(keys: PostKeySet, channels: frozenset[int]) -> list[tuple[int, list[int]]]:
    named = [(chat, ids.tolist()) for chat, ids in sorted(keys.by_chat.items()) if chat in channels and len(ids)]
    if sum(len(ids) for _, ids in named) > MAX_FILTER_POSTS:
        raise VectorsUnavailable(
            f"More than {MAX_FILTER_POSTS:,} posts fit the filter: they were searched by words only. "
            "Ask about one channel to search by meaning too."
        )
    return named


def sort_vector_hits(found: Iterable[tuple[Mapping[str, Any], float]]) -> list[tuple[PassageRef, float]]:
    """Payloads and cosines as places, in one order for equal cosines."""
    hits = [(_read_passage_ref(row), float(score)) for row, score in found]
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))


def read_stored_point(row: Mapping[str, Any]) -> StoredPoint:
    """What a payload says."""
    return StoredPoint(_read_passage_ref(row), int(row["date"]), str(row["lang"]), str(row["text_hash"]))


def _read_passage_ref(row: Mapping[str, Any]) -> PassageRef:
    chat, message, part, start, end = (int(row[name]) for name in REF_FIELDS)
    return PassageRef(PostKey(chat, message), part, start, end)


# Points read at once: 5 ms of an embedded store's time, in which no search is answered.
_PAGE_POINTS = 500


class BlockingVectorStore(Protocol):
    """A store with blocking calls, which raise VectorsUnavailable; all of them may be repeated."""

    @property
    def about(self) -> StoreInfo:
        """What the store was made for. Raises VectorsUnavailable where that is not known yet."""

    def write(self, batch: PointBatch) -> None:
        """Write points in place of those with the same ids."""

    def remove(self, posts: Mapping[int, list[int]], but: list[str]) -> None:
        """Take out all parts of posts, given as message ids by channel, but the points with these ids."""

    def search(self, vector: VectorArray, only: StoreFilter, n: int) -> list[tuple[Mapping[str, Any], float]]:
        """Payloads and cosines of the n nearest that are allowed."""

    def vectors(self, ids: list[str]) -> dict[str, VectorArray]:
        """The vectors of those ids that are there."""

    def hashed(self, numbers: list[int]) -> list[tuple[str, VectorArray]]:
        """Text hashes and vectors of points with these hash numbers, a page of them."""

    def count(self) -> int:
        """How many points there are."""

    def page(self, after: str | None, n: int) -> tuple[list[Mapping[str, Any]], str | None]:
        """The payloads of the next n points in the store's own order, and where to go on; None at the end."""

    def flush(self) -> None:
        """Bring everything to disk."""

    def close(self) -> None:
        """Flush and let go."""


class AsyncVectorStore:
    """See `VectorStore`."""

    def __init__(self, backing: BlockingVectorStore, threads: ThreadPoolExecutor) -> None:
        self._backing, self._threads = backing, threads
        self._closed = False
        self._revision = 0

    @classmethod
    async def open(cls, backing: Callable[[], BlockingVectorStore], threads: int = 1) -> AsyncVectorStore:
        """Call `backing` off the event loop and serve what it returns, with so many requests at once."""
        pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="vectors")
        opening = pool.submit(backing)
        try:
            return cls(await asyncio.wrap_future(opening), pool)
        except BaseException:
            opening.add_done_callback(_close_opened_store)  # cancelled, it may still open
            pool.shutdown(wait=False)
            raise

    async def _do(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise VectorsUnavailable("The vector index is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    @property
    def identity(self) -> str:
        """See `VectorStore`."""
        return self._backing.about.identity

    @property
    def revision(self) -> int:
        """See `VectorStore`."""
        return self._revision

    @property
    def model(self) -> str:
        """See `VectorStore`."""
        return self._backing.about.model

    @property
    def dimension(self) -> int:
        """See `VectorStore`."""
        return self._backing.about.dimension

    async def upsert(self, points: Sequence[VectorPoint]) -> None:
        """See `VectorStore`."""
        for batch in await asyncio.to_thread(prepare_batches, points, self.dimension):
            await self._changed(partial(self._backing.write, batch))

    async def remove(self, keys: Iterable[PostKey], but: Iterable[PassageRef] = ()) -> None:
        """See `VectorStore`."""
        kept = [make_point_id(place) for place in but]
        for part in split_batches(keys):
            posts: dict[int, list[int]] = {}
            for key in part:
                posts.setdefault(key.chat_id, []).append(key.message_id)
            await self._changed(partial(self._backing.remove, posts, kept))

    async def _changed(self, work: Callable[[], None]) -> None:
        def change() -> None:
            try:
                work()
            finally:
                self._revision += 1  # in the store's thread: the work goes on where its caller was cancelled

        await self._do(change)

    async def search(
        self, vector: VectorArray, only: SearchFilter, n: int = 50, lang: str | None = None
    ) -> list[tuple[PassageRef, float]]:
        """See `VectorStore`."""
        asked, allowed = normalize_vector(vector, self.dimension), make_store_filter(only, lang)
        if not allowed["channels"] or allowed["posts"] == [] or n < 1:
            return []

        def nearest(most: int) -> list[tuple[PassageRef, float]]:
            return sort_vector_hits(self._backing.search(asked, allowed, most))

        return await self._do(partial(select_stable_top, nearest, n))

    async def vectors_of(self, places: Sequence[PassageRef]) -> dict[PassageRef, VectorArray]:
        """See `VectorStore`."""
        found: dict[PassageRef, VectorArray] = {}
        for part in split_batches(places):
            ids = {place: make_point_id(place) for place in part}
            there = await self._do(partial(self._backing.vectors, list(ids.values())))
            found |= {place: there[name] for place, name in ids.items() if name in there}
        return found

    async def by_hash(self, hashes: Sequence[str]) -> dict[str, VectorArray]:
        """See `VectorStore`. Asked again for those not found yet: one text may stand in many posts and fill a page."""
        found: dict[str, VectorArray] = {}
        for wanted in split_batches(dict.fromkeys(hashes)):
            left = set(wanted)
            while left:
                page = await self._do(partial(self._backing.hashed, [hash_to_number(name) for name in left]))
                fresh = {name: vector for name, vector in page if name in left}
                if not fresh:
                    break
                found |= fresh
                left -= fresh.keys()
        return found

    async def count(self) -> int:
        """See `VectorStore`."""
        return await self._do(self._backing.count)

    async def held(self) -> AsyncIterator[list[StoredPoint]]:
        """See `VectorStore`."""
        after: str | None = None
        while True:
            rows, after = await self._do(partial(self._backing.page, after, _PAGE_POINTS))
            yield [read_stored_point(row) for row in rows]
            if after is None:
                return

    async def flush(self) -> None:
        """See `VectorStore`."""
        await self._do(self._backing.flush)

    async def close(self) -> None:
        """See `VectorStore`."""
        if not self._closed:
            self._closed = True  # who comes later is refused; who waits for a thread is still served
            await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._threads.shutdown()
        self._backing.close()


def _close_opened_store(opening: Future[BlockingVectorStore]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
