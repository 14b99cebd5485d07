"""The one place that opens the SQLite file, begins and ends its transactions and translates its errors.

One writer connection, one transaction at a time; a reader beside it sees only what is committed (WAL).
Wrong SQL and broken constraints are bugs and fly; what a person can mend becomes `ArchiveUnavailable`.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiosqlite

from rag_core.doors.archive.schema import MIGRATIONS
from rag_core.errors import ArchiveTooNew, ArchiveUnavailable

__all__ = ["Archive"]

_FILE = "citegram.db"
# Another process (an import, a backup) holds the lock for one slice, at most 200 ms; 10 s is far beyond that.
_PATIENCE_S = 10.0
_WRITER = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")

_DAMAGED = "The archive {file} is damaged. Stop Citegram and put back the last backup of the file."
_LOCKED = "The archive {file} is locked by another program. Close that program and try again."
_READ_ONLY = "The archive {file} cannot be written. Check the permissions of the file and its folder."
_NO_OPEN = "The archive {file} cannot be opened. Check that its folder exists and may be read and written."
_FULL = "The disk that holds the archive {file} is full. Free some space and try again."
_DISK = "The disk that holds the archive {file} cannot be read or written. Check the disk."

# Primary result codes: https://www.sqlite.org/rescode.html
_REASONS = {
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_IOERR: _DISK,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CANTOPEN: _NO_OPEN,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
}


@contextmanager
def _said_plainly(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as exc:
        # The low byte is the primary code; errors of the Python wrapper carry none.
        reason = _REASONS.get(getattr(exc, "sqlite_errorcode", 0) & 0xFF)
        if reason is None:
            raise
        raise ArchiveUnavailable(reason.format(file=file)) from exc


class Archive:
    """An open archive. `folder` holds the database file and whatever belongs beside it.

    `identity` is the same for as long as the archive lives and for its copies; no other archive has it.
    """

    def __init__(self, folder: Path, identity: str, writer: aiosqlite.Connection, reader: aiosqlite.Connection) -> None:
        self.folder = folder
        self.identity = identity
        self._writer = writer
        self._reader = reader
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, folder: Path, patience: float = _PATIENCE_S) -> Archive:
        """Open or create `folder`/citegram.db and bring its tables up to date.

        `patience` is how many seconds a lock of another process is waited for. Raises
        `ArchiveUnavailable`, and `ArchiveTooNew` for a file of a later version of Citegram.
        """
        file = folder / _FILE
        await asyncio.to_thread(_make_folder, file)
        with _said_plainly(file):
            writer = await _connected(file, patience, *_WRITER)
            try:
                await _migrated(writer, file)
                ((identity,),) = await writer.execute_fetchall("SELECT value FROM identity")
                reader = await _connected(file, patience, "query_only=ON")
            except BaseException:
                await writer.close()
                raise
        return cls(folder, identity, writer, reader)

    async def close(self) -> None:
        """Close both connections, after the transaction that runs now."""
        async with self._turn:
            await self._reader.close()
            await self._writer.close()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[aiosqlite.Connection]:
        """One transaction: committed at the end, rolled back by any exception. Others wait for their turn."""
        async with self._turn:
            with _said_plainly(self.folder / _FILE):
                async with _transaction(self._writer):
                    yield self._writer

    async def rows(self, sql: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        """What is committed now, as rows that know their column names."""
        with _said_plainly(self.folder / _FILE):
            return list(await self._reader.execute_fetchall(sql, values))


def _make_folder(file: Path) -> None:
    try:
        # What channels say is for their readers only.
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise ArchiveUnavailable(_NO_OPEN.format(file=file)) from exc


@asynccontextmanager
async def _transaction(connection: aiosqlite.Connection) -> AsyncIterator[None]:
    await connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        await connection.commit()
    except BaseException:
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
