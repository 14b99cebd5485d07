"""Telegram Desktop's result.json into the archive: one chat or a full export, as a stream.

Nothing is kept before the whole file was looked through. Keeping is idempotent and commits in short
slices, so an import that was killed is continued by running it again, and live posts get in between.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import ijson

from ingest.admission import Admitted, ImportOptions, admit
from ingest.albums import with_albums
from ingest.reading import Reading
from ingest.repair import Repaired
from ingest.survey import Chat, parsing, survey
from rag_core.doors.archive import Archive, channels, posts
from rag_core.doors.archive.posts import Tally
from rag_core.errors import ImportRefused
from rag_core.types import Channel, Post, PostKey

__all__ = ["ImportOptions", "ImportReport", "import_export"]

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


async def import_export(
    archive: Archive, path: Path, options: ImportOptions, progress: Progress | None = None
) -> ImportReport:
    """Import a result.json, or the folder that holds one. Raises `ImportRefused`, then nothing was changed.

    `progress` is called with bytes done and bytes in all, from the event loop.
    """
    file, size = await asyncio.to_thread(_found, path)
    work = _Import(archive, file, size, options, progress or _silent)
    chats = await work.look_through()
    admitted, work.notes = admit(file, chats, await channels.known(archive), options)
    with ExitStack() as opened:
        streams = {place: _stream(opened, file, place) for place in {chat.place for chat in chats}}
        for chat, entry in zip(chats, admitted, strict=True):
            messages = islice(streams[chat.place], chat.messages)
            if entry:
                await work.bring_in(entry, messages)
            else:
                await work.pass_over(messages)
            work.before += chat.messages
    work.tell(1.0)
    return work.report()


def _silent(done: int, total: int) -> None:
    """For those who do not watch."""


def _found(path: Path) -> tuple[Path, int]:
    """The file to read and its size in bytes."""
    file = path
    try:
        file = path / "result.json" if path.is_dir() else path
        if not file.is_file():
            raise ImportRefused(f"There is no file {file}. Give the result.json of an export, or its folder.")
        with file.open("rb") as opened:
            head = opened.read(4)
        size = file.stat().st_size
    except OSError as exc:
        raise ImportRefused(f"{file} cannot be read ({exc.strerror}). Check its permissions.") from exc
    if not head:
        raise ImportRefused(f"{file} is empty. Export the chat again, or copy the whole file.")
    if head.startswith(b"PK"):
        raise ImportRefused(f"{file} is a zip archive. Unpack it and give the result.json inside.")
    return file, size


def _stream(opened: ExitStack, file: Path, place: str) -> Iterator[object]:
    """The messages at a place of the file, one after another; not the file but what is read of it is in memory."""
    messages: Iterator[object] = ijson.items(Repaired(opened.enter_context(file.open("rb"))), place, use_float=True)
    return messages


@dataclass(slots=True)
class _Import:
    """One import on its way. Not frozen: it is a notebook. `total` and `before` count entries of all chats."""

    archive: Archive
    file: Path
    size: int
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
        self.progress(int(2 * self.size * part), 2 * self.size)

    async def look_through(self) -> list[Chat]:
        """Read the whole file once, so that a bad one is refused before anything is kept."""
        with self.file.open("rb") as file:
            source = Repaired(file)
            looking = asyncio.ensure_future(asyncio.to_thread(survey, self.file, source))
            try:
                while not (await asyncio.wait({looking}, timeout=0.2))[0]:
                    self.tell(source.consumed / self.size / 2)
            finally:
                looking.cancel()
        chats = looking.result()
        self.total = sum(chat.messages for chat in chats)
        return chats

    async def bring_in(self, entry: Admitted, messages: Iterator[object]) -> None:
        """Import one chat."""
        channel, reading = entry.channel, Reading(entry.channel, self.options.zone)
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
        with parsing(self.file):
            await asyncio.to_thread(deque, messages, 0)

    async def _keep(self, found: Iterator[Post], reading: Reading) -> None:
        size = _SLICE_FIRST
        while batch := await asyncio.to_thread(self._parsed, islice(found, size)):
            async with self.archive.writing() as connection:
                started = time.perf_counter()
                self.tally += await posts.keep_in(connection, batch, source="import")
            took = time.perf_counter() - started
            size = max(_SLICE_LEAST, min(int(len(batch) * _SLICE_S / took), _SLICE_MOST))
            self.tell((1 + (self.before + reading.entries) / self.total) / 2)

    def _parsed(self, found: Iterator[Post]) -> list[Post]:
        # Looked through before; it can still change while it is read.
        with parsing(self.file):
            return list(found)

    async def _erase_missing(self, entry: Admitted, reading: Reading) -> None:
        """Put tombstones for what lay between the first and the last entry and is not there any more."""
        channel = entry.channel
        gone = await posts.missing(self.archive, channel.chat_id, reading.seen)
        if gone and not entry.chat.whole and len(gone) > _BELIEVED * (len(gone) + len(reading.seen)):
            self.notes.append(
                f"{channel.title}: {len(gone)} known posts are not in this full export, which may hold your own "
                "messages only; they were kept. Export the chat alone to have them removed."
            )
            return
        self.tally += Tally(deleted=await posts.erase(self.archive, gone, how="import"))
        self.disappeared += gone

    def report(self) -> ImportReport:
        """What was done."""
        return ImportReport(self.tally, tuple(self.channels), tuple(self.disappeared), tuple(self.notes))
