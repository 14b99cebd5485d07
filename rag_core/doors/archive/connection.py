"""The one place that opens the SQLite file, begins and ends its transactions and translates its errors.

One writer connection, one transaction at a time; a reader beside it sees only what is committed (WAL).
Wrong SQL and broken constraints are bugs and fly; what a person can mend becomes `ArchiveUnavailable`.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiosqlite

from rag_core.doors.archive.backup import make
from rag_core.doors.archive.rows import now
from rag_core.doors.archive.schema import MIGRATIONS
from rag_core.doors.archive.sentences import NO_OPEN, damaged, said_plainly
from rag_core.doors.archive.snapshots import FILE, awaken, in_thread, readable, whole
from rag_core.errors import ArchiveTooNew, ArchiveUnavailable

__all__ = ["Archive"]

# Another process (an import, a backup) holds the lock for one slice, at most 200 ms; 10 s is far beyond that.
_PATIENCE_S = 10.0
_WRITER = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")

# A file up to here is looked through whenever it is opened: half a second, five from a cold disk.
LOOKED_THROUGH = 256 << 20  # bytes


class Archive:
    """An open archive. `folder` holds the database file and whatever belongs beside it.

    `identity` is the same for as long as the archive lives; a copy that is opened as the archive gets another.
    """

    def __init__(self, folder: Path, identity: str, writer: aiosqlite.Connection, reader: aiosqlite.Connection) -> None:
        self.folder = folder
        self.identity = identity
        self._writer = writer
        self._reader = reader
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, folder: Path, patience: float = _PATIENCE_S) -> Archive:
        """Open or create `folder`/citegram.db and bring its tables up to date, after a backup of it.

        `patience` is how many seconds a lock of another process is waited for. A file up to 256 MB is looked
        through for damage. Raises `ArchiveUnavailable`, `ArchiveTooNew` for a file of a later version of
        Citegram, `BackupFailed` where tables must change and there is no room for the backup.
        """
        file = folder / FILE
        await asyncio.to_thread(_make_folder, file)
        with said_plainly(file):
            writer = await _connected(file, patience, *_WRITER)
            try:
                await _looked_through(writer, file)
                await _saved(writer, folder)
                await _migrated(writer, file)
                ((identity,),) = await writer.execute_fetchall("SELECT value FROM identity")
                reader = await _connected(file, patience, "query_only=ON")
            except BaseException:
                await writer.close()
                raise
        return cls(folder, identity, writer, reader)

    @property
    def large(self) -> bool:
        """Whether opening the file does not look through it."""
        return (self.folder / FILE).stat().st_size > LOOKED_THROUGH

    async def look_through(self) -> None:
        """Look at every page, also of a large file, while others work on. Raises ArchiveUnavailable: damaged."""
        file = self.folder / FILE

        def work(stop: threading.Event) -> bool:
            with readable(file) as connection:
                return whole(connection, stop)

        with said_plainly(file):
            if not await in_thread(work):
                raise damaged(file)

    async def close(self) -> None:
        """Close both connections, after the transaction that runs now."""
        async with self._turn:
            await self._reader.close()
            await self._writer.close()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[aiosqlite.Connection]:
        """One transaction: committed at the end, rolled back by any exception. Others wait for their turn."""
        async with self._turn:
            with said_plainly(self.folder / FILE):
                async with _transaction(self._writer):
                    yield self._writer

    async def rows(self, sql: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        """What is committed now, as rows that know their column names."""
        with said_plainly(self.folder / FILE):
            return list(await self._reader.execute_fetchall(sql, values))


def _make_folder(file: Path) -> None:
    try:
        # What channels say is for their readers only.
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise ArchiveUnavailable(NO_OPEN.format(file=file)) from exc


@asynccontextmanager
async def _transaction(connection: aiosqlite.Connection) -> AsyncIterator[None]:
    try:
        await connection.execute("BEGIN IMMEDIATE")
        yield
        await connection.commit()
    except BaseException:
        # Also where it was cancelled while it waited for the lock of another: its thread may still get it.
        # Shielded: a second cancellation must not leave the transaction open for the next caller.
        await asyncio.shield(connection.rollback())
        raise


async def _connected(file: Path, patience: float, *pragmas: str) -> aiosqlite.Connection:
    connection = await aiosqlite.connect(file, timeout=patience, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        for pragma in pragmas:
            await connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        await connection.close()
        raise
    return connection


async def _looked_through(connection: aiosqlite.Connection, file: Path) -> None:
    if file.stat().st_size > LOOKED_THROUGH:
        return
    if [tuple(row) for row in await connection.execute_fetchall("PRAGMA quick_check(1)")] != [("ok",)]:
        raise damaged(file)


async def _saved(connection: aiosqlite.Connection, folder: Path) -> None:
    """Make a backup where the tables are about to change."""
    ((version,),) = await connection.execute_fetchall("PRAGMA user_version")
    if 0 < version < len(MIGRATIONS):
        await in_thread(partial(make, folder))


async def _migrated(connection: aiosqlite.Connection, file: Path) -> None:
    async with _transaction(connection):
        ((version,),) = await connection.execute_fetchall("PRAGMA user_version")
        if version > len(MIGRATIONS):
            raise ArchiveTooNew(
                f"The archive {file} was written by a later version of Citegram. Update Citegram and try again."
            )
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                await connection.execute(statement)
        await connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        await awaken(connection, now())
