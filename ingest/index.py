"""Archive to indexes: the only writer of the lexical leg. What an index lacks is told by its watermark."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ingest.chunk import passages
from rag_core.analysis import terms
from rag_core.doors.archive import Archive, channels, posts
from rag_core.doors.archive.posts import Change
from rag_core.doors.lexical import Entry, Lexical, Place
from rag_core.rag import index_folder
from rag_core.types import Channel, PostKey

__all__ = ["Indexer"]

_BATCH = 2000  # changes at a time: about half a second of work, after which a question finds them
_SAVE_AFTER = 5000  # changes: what a crash makes the next start do again, a few seconds

log = logging.getLogger(__name__)


class Indexer:
    """Brings the lexical leg up to the archive and keeps it on disk. One per process."""

    def __init__(self, archive: Archive, lexical: Lexical) -> None:
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
            while batch := await posts.changes(self._archive, self._lexical.watermark, _BATCH):
                known = await channels.known(self._archive)
                replying = [c.key for c in batch if c.post and c.post.reply_to]
                parents = await posts.parents(self._archive, replying)
                await _to_its_end(self._take, batch, known, parents)
                done += len(batch)
                if progress:
                    progress(done)
            if save and self._unsaved >= _SAVE_AFTER:
                await self._save()
        return done

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
        await _to_its_end(self._lexical.save, index_folder(self._archive), self._archive.identity)
        self._unsaved = 0

    def _take(self, batch: Sequence[Change], known: dict[int, Channel], parents: dict[PostKey, str]) -> None:
        self._lexical.remove(change.key for change in batch)
        entries = [
            Entry(Place(p.key, p.part, p.start, p.end), p.date, terms(f"{p.header}\n{p.text}"))
            for change in batch
            if change.post is not None
            for p in passages(change.post, _channel(change, known), parents.get(change.key))
        ]
        self._lexical.add(entries)
        # last: after a crash before this line the batch is taken in again, and removed first
        self._lexical.watermark = batch[-1].seq
        self._unsaved += len(batch)


async def _to_its_end(work: Callable[..., None], *given: object) -> None:
    """Work in a thread. A thread goes on when its task is cancelled: nobody may touch the index before it ends."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *given))
    try:
        await asyncio.shield(running)
    finally:
        await asyncio.wait({running})


def _channel(change: Change, known: dict[int, Channel]) -> Channel:
    return known.get(change.key.chat_id) or Channel(change.key.chat_id, "")
