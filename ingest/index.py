"""Archive to indexes: the only writer of the lexical leg. What an index lacks is told by its watermark."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ingest.chunk import passages
from rag_core.analysis import terms
from rag_core.doors.archive import Archive, channels, posts
from rag_core.doors.archive.posts import Change
from rag_core.doors.lexical import Entry, Place
from rag_core.doors.words import WordIndex
from rag_core.rag import index_folder
from rag_core.types import Channel, Passage, PostKey

__all__ = ["Batch", "Indexer", "again", "entry", "read"]

_BATCH = 2000  # changes at a time: about half a second of work, after which a question finds them
_SAVE_AFTER = 5000  # changes: what a crash makes the next start do again, a few seconds

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes, and what their headers are made of."""

    changes: Sequence[Change]
    known: dict[int, Channel]
    parents: dict[PostKey, str]

    def passages(self, change: Change) -> tuple[Passage, ...]:
        """The passages of a changed post; none where it is gone."""
        if change.post is None:
            return ()
        channel = self.known.get(change.key.chat_id) or Channel(change.key.chat_id, "")
        return passages(change.post, channel, self.parents.get(change.key))


async def read(archive: Archive, after: int) -> Batch:
    """What changed next after the sequence number `after`. Raises ArchiveUnavailable."""
    batch = await posts.changes(archive, after, _BATCH)
    known = await channels.known(archive) if batch else {}
    return Batch(batch, known, await posts.parents(archive, [c.key for c in batch if c.post and c.post.reply_to]))


async def again(archive: Archive, keys: Sequence[PostKey], seq: int = 0) -> Batch:
    """These posts as they are now, as if they had changed with the number `seq`. Raises ArchiveUnavailable."""
    stored = await posts.get(archive, keys)
    replying = [key for key, post in stored.items() if post.reply_to]
    changes = [Change(seq, key, stored.get(key)) for key in keys]
    return Batch(changes, await channels.known(archive), await posts.parents(archive, replying))


def entry(p: Passage) -> Entry:
    """A passage as the lexical leg takes it."""
    return Entry(Place(p.key, p.part, p.start, p.end), p.date, terms(f"{p.header}\n{p.text}"))


class Indexer:
    """Brings the lexical leg up to the archive and keeps it on disk. One per process."""

    def __init__(self, archive: Archive, lexical: WordIndex) -> None:
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
            while (batch := await read(self._archive, after := self._lexical.watermark)).changes:
                await _to_its_end(self._take, batch, after)
                done += len(batch.changes)
                if progress:
                    progress(done)
            if save and self._unsaved >= _SAVE_AFTER:
                await self._save()
        return done

    @property
    def lexical(self) -> WordIndex:
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
        await _to_its_end(self._lexical.save, index_folder(self._archive), self._archive.identity)
        self._unsaved = 0

    async def renew(self, keys: Sequence[PostKey]) -> None:
        """Take these posts in again as they are in the archive, or out where they are not to be found.

        Raises ArchiveUnavailable.
        """
        async with self._turn:
            after = self._lexical.watermark
            await _to_its_end(self._take, await again(self._archive, keys, after), after)

    async def put_in_place(self, fresh: WordIndex) -> None:
        """Bring another index of this archive up to date, write it to disk and let it be the one that is searched.

        Questions are answered from the old one until then, and from the old one for good where this fails.
        Raises ArchiveUnavailable, IndexUnavailable.
        """
        behind = Indexer(self._archive, fresh)
        await behind.catch_up(save=False)  # most of it while posts go on coming in
        async with self._turn:
            await behind.catch_up(save=False)
            await _to_its_end(fresh.save, index_folder(self._archive), self._archive.identity)
            await _to_its_end(self._lexical.adopt, fresh)
            self._unsaved = 1  # what the old one leaves behind is put in order by the next save

    def _take(self, batch: Batch, after: int) -> None:
        """Put in place what was read when the watermark was `after`."""
        # analysed first, which takes long, then put in place of the old ones at once
        entries = [entry(passage) for change in batch.changes for passage in batch.passages(change)]
        self._lexical.replace([change.key for change in batch.changes], entries)
        # last: after a crash before this line the batch is taken in again
        if self._lexical.watermark == after:  # else a server has lost all of it meanwhile: it is filled from 0
            self._lexical.watermark = batch.changes[-1].seq
        self._unsaved += len(batch.changes)


async def _to_its_end(work: Callable[..., None], *given: object) -> None:
    """Work in a thread. A thread goes on when its task is cancelled: nobody may touch the index before it ends."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *given))
    try:
        await asyncio.shield(running)
    finally:
        await asyncio.wait({running})
