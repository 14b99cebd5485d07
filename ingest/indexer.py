"""Index updates: bring the lexical index and the vector index up to the archive, each with its only writer.

A watermark says which changes the lexical index lacks. Vectors are made for the newest posts first; the lexical index
never waits for them.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from ingest.chunking import split_into_passages
from rag_core.engine import get_lexical_folder
from rag_core.index.bm25 import IndexEntry, PassageRef
from rag_core.index.open_vectors import StoredPoint, VectorPoint, VectorStore
from rag_core.index.open_words import LexicalIndex
from rag_core.models.embedder import Embedder
from rag_core.storage import Archive, channels, index_state, posts
from rag_core.storage.index_state import QueuedPost
from rag_core.storage.posts import PostChange
from rag_core.text.tokens import detect_language, normalize_characters, tokenize
from rag_core.types import Channel, Passage, PostKey

__all__ = [
    "ChangeBatch",
    "DenseIndexer",
    "LexicalIndexer",
    "PreparedPassage",
    "build_lexical_entry",
    "hash_embedded_text",
    "prepare_passage",
    "read_changes",
    "read_posts_again",
]

_BATCH_CHANGES = 2000  # changes at a time: about half a second of work, after which a question finds them
_SAVE_AFTER_CHANGES = 5000  # changes: what a crash makes the next start do again, a few seconds

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Changes, and what their headers are made of."""

    changes: Sequence[PostChange]
    known: dict[int, Channel]
    parents: dict[PostKey, str]

    def passages(self, change: PostChange) -> tuple[Passage, ...]:
        """The passages of a changed post; none where it is gone."""
        if change.post is None:
            return ()
        channel = self.known.get(change.key.chat_id) or Channel(change.key.chat_id, "")
        return split_into_passages(change.post, channel, self.parents.get(change.key))


async def read_changes(archive: Archive, after: int) -> ChangeBatch:
    """What changed next after the sequence number `after`. Raises ArchiveUnavailable."""
    batch = await posts.list_post_changes(archive, after, _BATCH_CHANGES)
    known = await channels.load_channels(archive) if batch else {}
    return ChangeBatch(
        batch, known, await posts.fetch_replied_texts(archive, [c.key for c in batch if c.post and c.post.reply_to])
    )


async def read_posts_again(archive: Archive, keys: Sequence[PostKey], seq: int = 0) -> ChangeBatch:
    """These posts as they are now, as if they had changed with the number `seq`. Raises ArchiveUnavailable."""
    stored = await posts.fetch_posts(archive, keys)
    replying = [key for key, post in stored.items() if post.reply_to]
    changes = [PostChange(seq, key, stored.get(key)) for key in keys]
    return ChangeBatch(
        changes, await channels.load_channels(archive), await posts.fetch_replied_texts(archive, replying)
    )


def build_lexical_entry(p: Passage) -> IndexEntry:
    """A passage as the lexical leg takes it."""
    return IndexEntry(PassageRef(p.key, p.part, p.start, p.end), p.date, tokenize(f"{p.header}\n{p.text}"))


class LexicalIndexer:
    """Brings the lexical leg up to the archive and keeps it on disk. One per process."""

    def __init__(self, archive: Archive, lexical: LexicalIndex) -> None:
        self._archive = archive
        self._lexical = lexical
        self._unsaved = 0
        self._turn = asyncio.Lock()

    async def catch_up(self, progress: Callable[[int], None] | None = None, *, save: bool = True) -> int:
        """Take in what changed since the watermark; returns how many posts changed.

        `progress` gets the number of changes done so far; without `save` nothing is written to disk, for a
        process that does not own the folder. Raises ArchiveUnavailable, IndexUnavailable.
        """
        done = 0
        async with self._turn:
            while (batch := await read_changes(self._archive, after := self._lexical.watermark)).changes:
                await _run_to_completion(self._take, batch, after)
                done += len(batch.changes)
                if progress:
                    progress(done)
            if save and self._unsaved >= _SAVE_AFTER_CHANGES:
                await self._save()
        return done

    @property
    def lexical(self) -> LexicalIndex:
        """The leg it writes."""
        return self._lexical

    @property
    def watermark(self) -> int:
        """The change up to which the lexical leg is complete."""
        return self._lexical.watermark

    async def save(self) -> None:
        """Write the index to disk if it changed since it was written. Raises IndexUnavailable."""
        async with self._turn:
            if self._unsaved:
                await self._save()

    async def _save(self) -> None:
        await _run_to_completion(self._lexical.save, get_lexical_folder(self._archive), self._archive.identity)
        self._unsaved = 0

    async def renew(self, keys: Sequence[PostKey]) -> None:
        """Take these posts in again as they are in the archive, or out where they are not to be found.

        Raises ArchiveUnavailable.
        """
        async with self._turn:
            after = self._lexical.watermark
            await _run_to_completion(self._take, await read_posts_again(self._archive, keys, after), after)

    async def put_in_place(self, fresh: LexicalIndex) -> None:
        """Bring another index of this archive up to date, write it to disk and let it be the one that is searched.

        Questions are answered from the old one until then, and from the old one for good where this fails.
        Raises ArchiveUnavailable, IndexUnavailable.
        """
        behind = LexicalIndexer(self._archive, fresh)
        await behind.catch_up(save=False)  # most of it while posts go on coming in
        async with self._turn:
            await behind.catch_up(save=False)
            await _run_to_completion(fresh.save, get_lexical_folder(self._archive), self._archive.identity)
            await _run_to_completion(self._lexical.adopt, fresh)
            self._unsaved = 1  # what the old one leaves behind is put in order by the next save

    def _take(self, batch: ChangeBatch, after: int) -> None:
        """Put in place what was read when the watermark was `after`."""
        # analysed first, which takes long, then put in place of the old ones at once
        entries = [build_lexical_entry(passage) for change in batch.changes for passage in batch.passages(change)]
        self._lexical.replace([change.key for change in batch.changes], entries)
        # last: after a crash before this line the batch is taken in again
        if self._lexical.watermark == after:  # else a server has lost all of it meanwhile: it is filled from 0
            self._lexical.watermark = batch.changes[-1].seq
        self._unsaved += len(batch.changes)


async def _run_to_completion(work: Callable[..., None], *given: object) -> None:
    """Work in a thread. A thread goes on when its task is cancelled: nobody may touch the index before it ends."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *given))
    try:
        await asyncio.shield(running)
    finally:
        await asyncio.wait({running})


_BATCH_POSTS = 32  # posts: about a second of embedding on a small machine, after which newer posts may come first


def hash_embedded_text(model: str, text: str) -> str:
    """What a vector is known by: the same model gives the same text the same vector."""
    return hashlib.sha256(f"{model}\0{text}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class PreparedPassage:
    """A passage on its way into the store: what is embedded, and what is written beside the vector."""

    text: str
    held: StoredPoint

    @property
    def mark(self) -> str:
        """What its vector is known by."""
        return self.held.text_hash


def prepare_passage(p: Passage, model: str) -> PreparedPassage:
    """A passage as the store is to hold it."""
    text = normalize_characters(f"{p.header}\n{p.text}")
    place = PassageRef(p.key, p.part, p.start, p.end)
    return PreparedPassage(
        text, StoredPoint(place, int(p.date.timestamp()), detect_language(p.text), hash_embedded_text(model, text))
    )


class DenseIndexer:
    """Brings the dense leg up to the archive. One per process."""

    def __init__(self, archive: Archive, vectors: VectorStore, embedder: Embedder) -> None:
        self._archive = archive
        self._vectors = vectors
        self._embedder = embedder
        self._turn = asyncio.Lock()
        self.computed = 0  # texts the model was given: what is stored already is not computed again

    @property
    def vectors(self) -> VectorStore:
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
            await index_state.queue_changed_posts(self._archive, self._vectors.identity)
            while most is None or done < most:
                batch = await index_state.list_queued_posts(
                    self._archive, _BATCH_POSTS if most is None else min(_BATCH_POSTS, most - done)
                )
                if not batch:
                    break
                await self._take(batch)
                await self._vectors.flush()  # or a power cut could take what the queue no longer knows
                await index_state.dequeue_posts(self._archive, batch)
                done += len(batch)
                if progress:
                    progress(done)
                await index_state.queue_changed_posts(
                    self._archive, self._vectors.identity
                )  # a post that came meanwhile goes first
        return done

    async def waiting(self) -> int:
        """How many changes are still to come."""
        return await index_state.count_unembedded_changes(self._archive, self._vectors.identity)

    async def _take(self, batch: Sequence[QueuedPost]) -> None:
        changed = await read_posts_again(self._archive, [one.key for one in batch])
        ready = [
            prepare_passage(p, self._embedder.name) for change in changed.changes for p in changed.passages(change)
        ]
        vectors = await self._vectors_for(ready)
        points = [_build_point(one.held, vectors[one.mark]) for one in ready if one.mark in vectors]
        # Written first and then the parts that are too many, so that no search misses a post in between.
        # A crash here leaves the posts in the queue.
        if points:
            await self._vectors.upsert(points)
        await self._vectors.remove([one.key for one in batch], but=[point.place for point in points])

    async def _vectors_for(self, ready: Sequence[PreparedPassage]) -> dict[str, NDArray[np.float32]]:
        """Vectors by mark: those that are stored already are used again. A text without meaning has none."""
        texts = {one.mark: one.text for one in ready}
        found = await self._vectors.by_hash(list(texts)) if texts else {}
        missing = [mark for mark in texts if mark not in found]
        if missing:
            rows = await self._embedder.passages([texts[mark] for mark in missing])
            found |= {mark: row for mark, row in zip(missing, rows, strict=True) if np.any(row)}
            self.computed += len(missing)
        return found


def _build_point(held: StoredPoint, vector: NDArray[np.float32]) -> VectorPoint:
    return VectorPoint(held.place, datetime.fromtimestamp(held.date, UTC), held.lang, held.text_hash, vector)
