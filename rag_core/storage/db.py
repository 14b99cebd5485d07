"""SQLite connection: opens the archive, runs migrations and transactions, and translates errors.

One writer connection, one transaction at a time; a reader connection beside it sees only what is committed (WAL).
Wrong SQL and violated constraints are bugs and are not caught; a failure that a person can fix becomes
`ArchiveUnavailable`.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiosqlite

from rag_core.errors import ArchiveNotUpdated, ArchiveTooNew, ArchiveUnavailable, BackupFailed
from rag_core.storage.backups import (
    ARCHIVE_FILE,
    CANNOT_OPEN_ARCHIVE,
    activate_backup,
    is_database_intact,
    make_backup,
    make_damaged_error,
    open_read_only,
    run_cancellable,
    translate_sqlite_errors,
)
from rag_core.storage.rows import get_unix_time
from rag_core.storage.schema import MIGRATIONS

__all__ = ["Archive", "needs_migration"]

# Another process (an import, a backup) holds the lock for one slice, at most 200 ms; 10 s is far beyond that.
_LOCK_TIMEOUT_S = 10.0
_WRITER_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")

# A file up to here is looked through whenever it is opened: half a second, five from a cold disk.
MAX_CHECKED_BYTES = 256 << 20  # bytes

_BACKUP_NEEDED_FIRST = (
    "The archive {file} must be changed for this version of Citegram, and a backup comes first. {said}"
)
_MIGRATION_FAILED = (
    "The archive {file} could not be changed for this version of Citegram ({said}) and is as it was: go on with the "
    "version you had, and report this. Its backup is {backup}."
)

# What a migration that does not suit the rows meets; a full disk and the like have sentences of their own.
_MIGRATION_ERROR_CODES = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH)

log = logging.getLogger(__name__)


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
    async def open(cls, folder: Path, patience: float = _LOCK_TIMEOUT_S) -> Archive:
        """Open or create `folder`/citegram.db and bring its tables up to date, after a backup of it.

        `patience` is how many seconds a lock of another process is waited for. A file up to 256 MB is looked
        through for damage. Raises `ArchiveUnavailable`, `ArchiveTooNew` for a file of a later version of
        Citegram, `BackupFailed` where tables must change and there is no room for the backup of its posts,
        `ArchiveNotUpdated` where they could not be changed.
        """
        file = folder / ARCHIVE_FILE
        await asyncio.to_thread(_make_archive_folder, file)
        with translate_sqlite_errors(file):
            writer = await _open_connection(file, patience, *_WRITER_PRAGMAS)
            try:
                await _check_integrity(writer, file)
                saved = await _back_up_before_migration(writer, file)
                await _run_migrations(writer, file, saved)
                ((identity,),) = await writer.execute_fetchall("SELECT value FROM identity")
                reader = await _open_connection(file, patience, "query_only=ON")
            except BaseException:
                await writer.close()
                raise
        return cls(folder, identity, writer, reader)

    @property
    def large(self) -> bool:
        """Whether opening the file does not look through it."""
        return (self.folder / ARCHIVE_FILE).stat().st_size > MAX_CHECKED_BYTES

    async def look_through(self) -> None:
        """Look at every page, also of a large file, while others work on. Raises ArchiveUnavailable: damaged."""
        file = self.folder / ARCHIVE_FILE

        def work(stop: threading.Event) -> bool:
            with open_read_only(file) as connection:
                return is_database_intact(connection, stop)

        with translate_sqlite_errors(file):
            if not await run_cancellable(work):
                raise make_damaged_error(file)

    async def close(self) -> None:
        """Close both connections, after the transaction that runs now."""
        async with self._turn:
            await self._reader.close()
            await self._writer.close()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[aiosqlite.Connection]:
        """One transaction: committed at the end, rolled back by any exception. Others wait for their turn."""
        async with self._turn:
            with translate_sqlite_errors(self.folder / ARCHIVE_FILE):
                async with _run_transaction(self._writer):
                    yield self._writer

    async def rows(self, sql: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        """What is committed now, as rows that know their column names."""
        with translate_sqlite_errors(self.folder / ARCHIVE_FILE):
            return list(await self._reader.execute_fetchall(sql, values))


def needs_migration(folder: Path) -> bool:
    """Whether opening the archive of a folder would change its tables; blocking. What is no archive does not wait."""
    try:
        if not (folder / ARCHIVE_FILE).exists():
            return False
        with open_read_only(folder / ARCHIVE_FILE) as connection:
            ((version,),) = connection.execute("PRAGMA user_version")
            return 0 < int(version) < len(MIGRATIONS)
    except (OSError, sqlite3.Error):  # opening it says what is wrong
        return False


def _make_archive_folder(file: Path) -> None:
    try:
        # What channels say is for their readers only.
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise ArchiveUnavailable(CANNOT_OPEN_ARCHIVE.format(file=file)) from exc


@asynccontextmanager
async def _run_transaction(connection: aiosqlite.Connection) -> AsyncIterator[None]:
    try:
        await connection.execute("BEGIN IMMEDIATE")
        yield
        await connection.commit()
    except BaseException:
        # Also where it was cancelled while it waited for the lock of another: its thread may still get it.
        # Shielded: a second cancellation must not leave the transaction open for the next caller.
        await asyncio.shield(connection.rollback())
        raise


async def _open_connection(file: Path, patience: float, *pragmas: str) -> aiosqlite.Connection:
    connecting = aiosqlite.connect(file, timeout=patience, isolation_level=None)
    try:
        connection = await connecting
    except BaseException:
        # Its thread has yet to tell this loop that it stops, and must not find the loop closed (aiosqlite 0.22).
        await asyncio.to_thread(connecting._thread.join, 1.0)
        raise
    try:
        connection.row_factory = sqlite3.Row
        for pragma in pragmas:
            await _set_pragma(connection, pragma, patience)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _set_pragma(connection: aiosqlite.Connection, pragma: str, patience: float) -> None:
    """Going over to the write-ahead log asks no busy handler, so that two who do it at once must wait by themselves."""
    until = time.monotonic() + patience
    while True:
        try:
            await connection.execute(f"PRAGMA {pragma}")
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            await asyncio.sleep(0.02)
        else:
            return


async def _check_integrity(connection: aiosqlite.Connection, file: Path) -> None:
    if file.stat().st_size > MAX_CHECKED_BYTES:
        return
    if [tuple(row) for row in await connection.execute_fetchall("PRAGMA quick_check(1)")] != [("ok",)]:
        raise make_damaged_error(file)


async def _back_up_before_migration(connection: aiosqlite.Connection, file: Path) -> Path | None:
    """Make a backup where the tables are about to change; an archive without posts may go without."""
    ((version,),) = await connection.execute_fetchall("PRAGMA user_version")
    if not 0 < version < len(MIGRATIONS):
        return None
    try:
        made = await run_cancellable(partial(make_backup, file.parent, version=version))
    except BackupFailed as exc:
        if await connection.execute_fetchall("SELECT 1 FROM posts LIMIT 1"):
            raise BackupFailed(_BACKUP_NEEDED_FIRST.format(file=file, said=exc.reason)) from exc
        log.warning("no backup is made of an archive without posts: %s", exc.reason)
        return None
    log.info("the archive's tables change from version %d to %d; its backup is %s", version, len(MIGRATIONS), made)
    return made


async def _run_migrations(connection: aiosqlite.Connection, file: Path, saved: Path | None) -> None:
    """Change the tables in one transaction: all of it or nothing. `saved` is the backup."""
    async with _run_transaction(connection):
        ((version,),) = await connection.execute_fetchall("PRAGMA user_version")
        if version > len(MIGRATIONS):
            raise ArchiveTooNew(
                f"The archive {file} was written by a later version of Citegram. Update Citegram and try again."
            )
        try:
            for statements in MIGRATIONS[version:]:
                for statement in statements:
                    await connection.execute(statement)
        except sqlite3.DatabaseError as exc:
            if saved is None or getattr(exc, "sqlite_errorcode", 0) & 0xFF not in _MIGRATION_ERROR_CODES:
                raise
            raise ArchiveNotUpdated(_MIGRATION_FAILED.format(file=file, said=exc, backup=saved)) from exc
        await connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        await activate_backup(connection, get_unix_time())
