"""Archive to vectors: the only writer of the dense leg. Newest posts first; the lexical leg never waits for it."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ingest.chunk import passages
from rag_core.analysis import language_of
from rag_core.doors.archive import Archive, backlog, channels, posts
from rag_core.doors.archive.backlog import Waiting
from rag_core.doors.embed import Embedder
from rag_core.doors.lexical import Place
from rag_core.doors.vectors import Point, Vectors
from rag_core.readable import readable
from rag_core.types import Channel, Passage, Post

__all__ = ["DenseIndexer", "text_hash"]

_BATCH = 32  # posts: about a second of embedding on a small machine, after which newer posts may come first

log = logging.getLogger(__name__)


def text_hash(model: str, text: str) -> str:
    """What a vector is known by: the same model gives the same text the same vector."""
    return hashlib.sha256(f"{model}\0{text}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A passage on its way into the store."""

    passage: Passage
    text: str
    mark: str


class DenseIndexer:
    """Brings the dense leg up to the archive. One per process."""

    def __init__(self, archive: Archive, vectors: Vectors, embedder: Embedder) -> None:
        self._archive = archive
        self._vectors = vectors
        self._embedder = embedder
        self._turn = asyncio.Lock()

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
        stored = await posts.get(self._archive, [one.key for one in batch])
        known = await channels.known(self._archive)
        parents = await posts.parents(self._archive, [key for key, post in stored.items() if post.reply_to])
        ready = [one for post in stored.values() for one in self._prepared(post, known, parents.get(post.key))]
        vectors = await self._vectors_for(ready)
        # Removed first: a shorter version has fewer parts. A crash here leaves the posts in the queue.
        await self._vectors.remove([one.key for one in batch])
        points = [_point(one, vectors[one.mark]) for one in ready if one.mark in vectors]
        if points:
            await self._vectors.upsert(points)

    def _prepared(self, post: Post, known: dict[int, Channel], parent: str | None) -> list[_Prepared]:
        channel = known.get(post.key.chat_id) or Channel(post.key.chat_id, "")
        texts = [(p, readable(f"{p.header}\n{p.text}")) for p in passages(post, channel, parent)]
        return [_Prepared(p, text, text_hash(self._embedder.name, text)) for p, text in texts]

    async def _vectors_for(self, ready: Sequence[_Prepared]) -> dict[str, NDArray[np.float32]]:
        """Vectors by mark: those that are stored already are used again. A text without meaning has none."""
        texts = {one.mark: one.text for one in ready}
        found = await self._vectors.by_hash(list(texts)) if texts else {}
        missing = [mark for mark in texts if mark not in found]
        if missing:
            rows = await self._embedder.passages([texts[mark] for mark in missing])
            found |= {mark: row for mark, row in zip(missing, rows, strict=True) if np.any(row)}
        return found


def _point(one: _Prepared, vector: NDArray[np.float32]) -> Point:
    p = one.passage
    return Point(Place(p.key, p.part, p.start, p.end), p.date, language_of(p.text), one.mark, vector)
