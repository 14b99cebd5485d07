"""An export on its way into the archive, whatever its format.

Nothing is kept before the whole export was looked through. Keeping is idempotent and commits in short
slices, so an import that was killed is continued by running it again, and live posts get in between.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Protocol

from ingest.admission import Admitted, ImportOptions, admit
from ingest.albums import with_albums
from ingest.reading import Reading
from ingest.survey import Chat
from ingest.undated import Arrival
from rag_core.doors.archive import Archive, channels, gaps, posts
from rag_core.doors.archive.posts import Tally
from rag_core.doors.archive.stored import Stored, stored
from rag_core.errors import ImportRefused
from rag_core.types import Channel, Post, PostKey

__all__ = ["ImportReport", "Progress", "Source", "bring_in"]

# Seconds a transaction should hold the archive: half of what the design allows, for slow disks.
_SLICE_S = 0.1
_SLICE_LEAST, _SLICE_FIRST, _SLICE_MOST = 50, 200, 2000
# A full export may hold one's own messages only and does not say so: then most posts merely seem to be gone.
_BELIEVED = 0.5

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did. `disappeared`: posts gone from the channel; `notes`: sentences for a person."""

    tally: Tally
    channels: tuple[Channel, ...]
    disappeared: tuple[PostKey, ...]
    notes: tuple[str, ...]


class Source(Protocol):
    """An export to read, `size` bytes long, of which `consumed` were looked through.

    One that is `vague` does not say of itself which chat it is from nor when its posts were edited: what the
    archive knows of them is looked at before they are kept. All methods block; they run in a thread.
    """

    path: Path
    size: int
    vague: bool

    @property
    def consumed(self) -> int:
        """Bytes looked through so far."""

    def survey(self) -> list[Chat]:
        """Read it once. Raises `ImportRefused`."""

    def messages(self, chat: Chat, opened: ExitStack) -> Iterator[object]:
        """The messages of a chat, as result.json has them; to be asked for in the order of the chats."""

    def reading(self) -> AbstractContextManager[None]:
        """Say in one sentence what is wrong with it while it is read again. Raises `ImportRefused`."""

    def days(self, ids: Collection[int]) -> Mapping[int, date]:
        """The days of some of these messages, on whichever calendar."""

    def arrivals(self, found: Sequence[Post], known: Mapping[PostKey, Stored]) -> list[Arrival]:
        """Posts as they may be kept beside what is known of them."""

    def notes(self) -> Iterator[str]:
        """What a person should know of it, in sentences."""


async def bring_in(
    archive: Archive, source: Source, options: ImportOptions, known: Mapping[int, Channel], progress: Progress
) -> ImportReport:
    """Import an export. Raises `ImportRefused`, then nothing was changed."""
    work = _Import(archive, source, options, progress)
    chats = await work.look_through()
    admitted, work.notes = admit(source.path, chats, known, options)
    with ExitStack() as opened:
        for chat, entry in zip(chats, admitted, strict=True):
            messages = source.messages(chat, opened)
            if entry:
                await work.bring_in(entry, messages)
            else:
                await work.pass_over(messages)
            work.before += chat.messages
    work.notes += source.notes()
    work.tell(1.0)
    return work.report()


@dataclass(slots=True)
class _Import:
    """One import on its way. Not frozen: it is a notebook. `total` and `before` count entries of all chats."""

    archive: Archive
    source: Source
    options: ImportOptions
    progress: Progress
    total: int = 0
    before: int = 0
    tally: Tally = field(default_factory=Tally)
    channels: list[Channel] = field(default_factory=list)
    disappeared: list[PostKey] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def tell(self, part: float) -> None:
        """Say how much is done, 0..1: looking through is one half, keeping the other."""
        whole = 2 * self.source.size
        self.progress(int(whole * min(part, 1.0)), whole)

    async def look_through(self) -> list[Chat]:
        """Read the whole export once, so that a bad one is refused before anything is kept."""
        looking = asyncio.ensure_future(asyncio.to_thread(self.source.survey))
        try:
            while not (await asyncio.wait({looking}, timeout=0.2))[0]:
                self.tell(self.source.consumed / self.source.size / 2)
        finally:
            looking.cancel()
        chats = looking.result()
        self.total = sum(chat.messages for chat in chats)
        return chats

    async def bring_in(self, entry: Admitted, messages: Iterator[object]) -> None:
        """Import one chat."""
        channel, reading = entry.channel, Reading(entry.channel, self.options.zone)
        if self.source.vague:
            await self._recognise(channel)
        await channels.put(self.archive, channel)
        await channels.set_state(self.archive, channel.chat_id, channel.state)
        if entry.decided:
            await channels.set_visibility(self.archive, channel.chat_id, channel.visibility)
        await self._keep(with_albums(reading.posts(messages)), reading)
        await self._erase_missing(entry, reading)
        self.channels.append(channel)
        self.tally += Tally(skipped=reading.skipped())
        self.notes += reading.notes()

    async def pass_over(self, messages: Iterator[object]) -> None:
        """Leave out one chat."""
        with self.source.reading():
            await asyncio.to_thread(deque, messages, 0)

    async def _recognise(self, channel: Channel) -> None:
        """Refuse an export of another channel: a message's day never changes, but for the reader's time zone."""
        here = await posts.ids(self.archive, channel.chat_id)
        days = await asyncio.to_thread(self.source.days, here)
        keys = [PostKey(channel.chat_id, message_id) for message_id in days]
        known = await stored(self.archive, keys)
        other = sum(abs((known[key].post.date.date() - days[key.message_id]).days) > 1 for key in known)
        if other * 2 > len(known):
            raise ImportRefused(
                f"{self.source.path} is not from {channel.title}: its posts are of other days. Check --chat."
            )

    async def _keep(self, found: Iterator[Post], reading: Reading) -> None:
        size = _SLICE_FIRST
        while batch := await asyncio.to_thread(self._parsed, islice(found, size)):
            async with self.archive.writing() as connection:
                started = time.perf_counter()
                known = await stored(self.archive, [post.key for post in batch]) if self.source.vague else {}
                arrivals = self.source.arrivals(batch, known)
                self.tally += await posts.keep_each(connection, arrivals, source="import")
            took = time.perf_counter() - started
            size = max(_SLICE_LEAST, min(int(len(batch) * _SLICE_S / took), _SLICE_MOST))
            self.tell((1 + (self.before + reading.entries) / max(self.total, 1)) / 2)

    def _parsed(self, found: Iterator[Post]) -> list[Post]:
        # Looked through before; it can still change while it is read.
        with self.source.reading():
            return list(found)

    async def _erase_missing(self, entry: Admitted, reading: Reading) -> None:
        """Put tombstones for what lay between the first and the last entry and is not there any more."""
        channel = entry.channel
        gone = await posts.missing(self.archive, channel.chat_id, reading.seen)
        if doubts := list(_doubts(len(gone), entry.chat, reading)):
            self.notes += [f"{channel.title}: {doubt}" for doubt in doubts]
            return
        self.tally += Tally(deleted=await posts.erase(self.archive, gone, how="import"))
        self.disappeared += gone
        if entry.chat.whole:
            await gaps.covered(self.archive, channel.chat_id, reading.first, reading.last, whole=True)

    def report(self) -> ImportReport:
        """What was done."""
        return ImportReport(self.tally, tuple(self.channels), tuple(self.disappeared), tuple(self.notes))


def _doubts(gone: int, chat: Chat, reading: Reading) -> Iterator[str]:
    """Why posts that are not in the export may still be in the channel."""
    if lost := max(0, chat.messages - reading.entries):
        yield f"{lost} messages of the export are damaged and were left out. Export the chat again to have them."
    if gone and not chat.whole and gone > _BELIEVED * (gone + len(reading.seen)):
        yield (
            f"{gone} known posts are not in this full export, which may hold your own "
            "messages only; they were kept. Export the chat alone to have them removed."
        )
