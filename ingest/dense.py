"""Archive to vectors: the only writer of the dense leg. Newest posts first; the lexical leg never waits for it."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from ingest.index import again
from rag_core.analysis import language_of
from rag_core.doors.archive import Archive, backlog
from rag_core.doors.archive.backlog import Waiting
from rag_core.doors.embed import Embedder
from rag_core.doors.lexical import Place
from rag_core.doors.vectors import Held, Point, Vectors
from rag_core.readable import readable
from rag_core.types import Passage

__all__ = ["DenseIndexer", "Prepared", "prepared", "text_hash"]

_BATCH = 32  # posts: about a second of embedding on a small machine, after which newer posts may come first

log = logging.getLogger(__name__)


def text_hash(model: str, text: str) -> str:
    """What a vector is known by: the same model gives the same text the same vector."""
    return hashlib.sha256(f"{model}\0{text}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A passage on its way into the store: what is embedded, and what is written beside the vector."""

    text: str
    held: Held

    @property
    def mark(self) -> str:
        """What its vector is known by."""
        return self.held.text_hash


def prepared(p: Passage, model: str) -> Prepared:
    """A passage as the store is to hold it."""
    text = readable(f"{p.header}\n{p.text}")
    place = Place(p.key, p.part, p.start, p.end)
    return Prepared(text, Held(place, int(p.date.timestamp()), language_of(p.text), text_hash(model, text)))


class DenseIndexer:
    """Brings the dense leg up to the archive. One per process."""

    def __init__(self, archive: Archive, vectors: Vectors, embedder: Embedder) -> None:
        self._archive = archive
        self._vectors = vectors
        self._embedder = embedder
        self._turn = asyncio.Lock()
        self.computed = 0  # texts the model was given: what is stored already is not computed again

    @property
    def vectors(self) -> Vectors:
        """The store it fills."""
        return self._vectors

    @property
    def model(self) -> str:
        """The model whose vectors it stores."""
        return self._embedder.name

    async def catch_up(self, progress: Callable[[int], None] | None = None, *, most: int | None = None) -> int:
        """Take in up to `most` posts (default: all that wait); returns how many. `progress` gets the same number.

        Raises ArchiveUnavailable, VectorsUnavailable, ModelUnavailable; what was done stays done.
        """
        done = 0
        async with self._turn:
            await backlog.follow(self._archive, self._vectors.identity)
            while most is None or done < most:
                batch = await backlog.newest(self._archive, _BATCH if most is None else min(_BATCH, most - done))
                if not batch:
                    break
                await self._take(batch)
                await self._vectors.flush()  # or a power cut could take what the queue no longer knows
                await backlog.settle(self._archive, batch)
                done += len(batch)
                if progress:
                    progress(done)
                await backlog.follow(self._archive, self._vectors.identity)  # a post that came meanwhile goes first
        return done

    async def waiting(self) -> int:
        """How many changes are still to come."""
        return await backlog.waiting(self._archive, self._vectors.identity)

    async def _take(self, batch: Sequence[Waiting]) -> None:
        changed = await again(self._archive, [one.key for one in batch])
        ready = [prepared(p, self._embedder.name) for change in changed.changes for p in changed.passages(change)]
        vectors = await self._vectors_for(ready)
        points = [_point(one.held, vectors[one.mark]) for one in ready if one.mark in vectors]
        # Written first and then the parts that are too many, so that no search misses a post in between.
        # A crash here leaves the posts in the queue.
        if points:
            await self._vectors.upsert(points)
        await self._vectors.remove([one.key for one in batch], but=[point.place for point in points])

    async def _vectors_for(self, ready: Sequence[Prepared]) -> dict[str, NDArray[np.float32]]:
        """Vectors by mark: those that are stored already are used again. A text without meaning has none."""
        texts = {one.mark: one.text for one in ready}
        found = await self._vectors.by_hash(list(texts)) if texts else {}
        missing = [mark for mark in texts if mark not in found]
        if missing:
            rows = await self._embedder.passages([texts[mark] for mark in missing])
            found |= {mark: row for mark, row in zip(missing, rows, strict=True) if np.any(row)}
            self.computed += len(missing)
        return found


def _point(held: Held, vector: NDArray[np.float32]) -> Point:
    return Point(held.place, datetime.fromtimestamp(held.date, UTC), held.lang, held.text_hash, vector)
