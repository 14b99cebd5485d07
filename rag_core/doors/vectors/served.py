"""The contract over a store that blocks: checks, batches, one order of hits, and threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, TypeVar

from rag_core.doors.best import best_in_order
from rag_core.doors.lexical import Filter, Place
from rag_core.doors.vectors.contract import Floats, Held, Point
from rag_core.doors.vectors.points import (
    About,
    Batch,
    Only,
    best_first,
    hash_number,
    held,
    point_id,
    prepared,
    slices,
    spelt_out,
    unit,
)
from rag_core.errors import VectorsUnavailable
from rag_core.types import PostKey

__all__ = ["Backing", "ServedVectors"]

# Points read at once: 5 ms of an embedded store's time, in which no search is answered.
_PAGE = 500

T = TypeVar("T")


class Backing(Protocol):
    """A store with blocking calls, which raise VectorsUnavailable; all of them may be repeated."""

    @property
    def about(self) -> About:
        """What the store was made for. Raises VectorsUnavailable where that is not known yet."""

    def write(self, batch: Batch) -> None:
        """Write points in place of those with the same ids."""

    def remove(self, posts: Mapping[int, list[int]], but: list[str]) -> None:
        """Take out all parts of posts, given as message ids by channel, but the points with these ids."""

    def search(self, vector: Floats, only: Only, n: int) -> list[tuple[Mapping[str, Any], float]]:
        """Payloads and cosines of the n nearest that are allowed."""

    def vectors(self, ids: list[str]) -> dict[str, Floats]:
        """The vectors of those ids that are there."""

    def hashed(self, numbers: list[int]) -> list[tuple[str, Floats]]:
        """Text hashes and vectors of points with these hash numbers, a page of them."""

    def count(self) -> int:
        """How many points there are."""

    def page(self, after: str | None, n: int) -> tuple[list[Mapping[str, Any]], str | None]:
        """The payloads of the next n points in the store's own order, and where to go on; None at the end."""

    def flush(self) -> None:
        """Bring everything to disk."""

    def close(self) -> None:
        """Flush and let go."""


class ServedVectors:
    """See `Vectors`."""

    def __init__(self, backing: Backing, threads: ThreadPoolExecutor) -> None:
        self._backing, self._threads = backing, threads
        self._closed = False
        self._revision = 0

    @classmethod
    async def open(cls, backing: Callable[[], Backing], threads: int = 1) -> ServedVectors:
        """Call `backing` off the event loop and serve what it returns, with so many requests at once."""
        pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="vectors")
        opening = pool.submit(backing)
        try:
            return cls(await asyncio.wrap_future(opening), pool)
        except BaseException:
            opening.add_done_callback(_let_go)  # cancelled, it may still open
            pool.shutdown(wait=False)
            raise

    async def _do(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise VectorsUnavailable("The vector index is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    @property
    def identity(self) -> str:
        """See `Vectors`."""
        return self._backing.about.identity

    @property
    def revision(self) -> int:
        """See `Vectors`."""
        return self._revision

    @property
    def model(self) -> str:
        """See `Vectors`."""
        return self._backing.about.model

    @property
    def dimension(self) -> int:
        """See `Vectors`."""
        return self._backing.about.dimension

    async def upsert(self, points: Sequence[Point]) -> None:
        """See `Vectors`."""
        for batch in await asyncio.to_thread(prepared, points, self.dimension):
            await self._changed(partial(self._backing.write, batch))

    async def remove(self, keys: Iterable[PostKey], but: Iterable[Place] = ()) -> None:
        """See `Vectors`."""
        kept = [point_id(place) for place in but]
        for part in slices(keys):
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
        self, vector: Floats, only: Filter, n: int = 50, lang: str | None = None
    ) -> list[tuple[Place, float]]:
        """See `Vectors`."""
        asked, allowed = unit(vector, self.dimension), spelt_out(only, lang)
        if not allowed["channels"] or allowed["posts"] == [] or n < 1:
            return []

        def nearest(most: int) -> list[tuple[Place, float]]:
            return best_first(self._backing.search(asked, allowed, most))

        return await self._do(partial(best_in_order, nearest, n))

    async def vectors_of(self, places: Sequence[Place]) -> dict[Place, Floats]:
        """See `Vectors`."""
        found: dict[Place, Floats] = {}
        for part in slices(places):
            ids = {place: point_id(place) for place in part}
            there = await self._do(partial(self._backing.vectors, list(ids.values())))
            found |= {place: there[name] for place, name in ids.items() if name in there}
        return found

    async def by_hash(self, hashes: Sequence[str]) -> dict[str, Floats]:
        """See `Vectors`. Asked again for those not found yet: one text may stand in many posts and fill a page."""
        found: dict[str, Floats] = {}
        for wanted in slices(dict.fromkeys(hashes)):
            left = set(wanted)
            while left:
                page = await self._do(partial(self._backing.hashed, [hash_number(name) for name in left]))
                fresh = {name: vector for name, vector in page if name in left}
                if not fresh:
                    break
                found |= fresh
                left -= fresh.keys()
        return found

    async def count(self) -> int:
        """See `Vectors`."""
        return await self._do(self._backing.count)

    async def held(self) -> AsyncIterator[list[Held]]:
        """See `Vectors`."""
        after: str | None = None
        while True:
            rows, after = await self._do(partial(self._backing.page, after, _PAGE))
            yield [held(row) for row in rows]
            if after is None:
                return

    async def flush(self) -> None:
        """See `Vectors`."""
        await self._do(self._backing.flush)

    async def close(self) -> None:
        """See `Vectors`."""
        if not self._closed:
            self._closed = True  # who comes later is refused; who waits for a thread is still served
            await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._threads.shutdown()
        self._backing.close()


def _let_go(opening: Future[Backing]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
