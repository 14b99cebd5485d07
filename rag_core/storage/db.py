"""SQLite connection: opens the archive, runs migrations and transactions, translates errors, and numbers changes.

Each change of a post gets the next number of one sequence; the indexes read what is after their watermarks.

One writer connection, one transaction at a time; a reader connection beside it sees only what is committed (WAL).
Wrong SQL and violated constraints are bugs, and not caught; a failure that a person can fix is `ArchiveUnavailable`.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from rag_core.storage import backups, schema
from rag_core.storage.post_rows import get_unix_time
from rag_core.types import PostKey

# Another process (an import, a backup) holds the lock for one batch, at most 200 ms; 10 s is far above that.
_LOCK_TIMEOUT_S = 10.0
_WRITER_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")

# Files up to this size are checked whenever they are opened: 0.5 s, 5 s from a cold disk.
MAX_CHECKED_BYTES = 256 << 20

T = TypeVar("T")

log = logging.getLogger(__name__)


class Archive:
    """Open archive in `folder`. `identity` never changes; a backup that is opened as the archive gets another."""

    def __init__(self, folder: Path, identity: str, writer: aiosqlite.Connection, reader: aiosqlite.Connection) -> None:
        self.folder, self._file = folder, folder / backups.ARCHIVE_FILE
        self.identity = identity
        self._writer = writer
        self._reader = reader
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, folder: Path, patience: float = _LOCK_TIMEOUT_S) -> Archive:
        """Open or create `folder`/citegram.db and bring its tables up to date, after a backup of it.

        `patience` is the number of seconds to wait for a lock of another process. A file up to 256 MB is checked
        for damage. Raises `ArchiveUnavailable`; `ArchiveVersionUnknown` for a file of an unknown version;
        `BackupFailed` if a migration is needed and there is no space for the backup before it.
        """
        file = folder / backups.ARCHIVE_FILE
        try:
            # owner only: posts are for the readers of their channels
            await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise backups.make_archive_error(file, "archive-not-opened") from exc
        with backups.translate_sqlite_errors(file):
            writer = await _open_connection(file, patience, *_WRITER_PRAGMAS)
            try:
                if file.stat().st_size <= MAX_CHECKED_BYTES:
                    checked = await writer.execute_fetchall("PRAGMA quick_check(1)")
                    if [tuple(row) for row in checked] != [("ok",)]:
                        raise backups.make_archive_error(file)
                ((version,),) = await writer.execute_fetchall("PRAGMA user_version")
                if schema.FIRST_VERSION <= version < schema.get_schema_version():
                    saved = await backups.run_cancellable(partial(backups.make_backup, folder, version=version))
                    log.info("the archive's tables change from version %d; its backup is %s", version, saved)
                await _run_migrations(writer, file)
                ((identity,),) = await writer.execute_fetchall("SELECT value FROM identity")
                reader = await _open_connection(file, patience, "query_only=ON")
            except BaseException:
                await writer.close()
                raise
        return cls(folder, identity, writer, reader)

    @property
    def origin(self) -> str:
        """Identity of the archive that this one is a backup of, or its own."""
        return self.identity.rpartition("/")[2]

    @property
    def large(self) -> bool:
        """Whether the file is too large to be checked when it is opened."""
        return self._file.stat().st_size > MAX_CHECKED_BYTES

    async def check_pages(self) -> None:
        """Check every page, of large files too, while others go on working. Raises ArchiveUnavailable if damaged."""

        def work(stop: threading.Event) -> bool:
            with backups.open_read_only(self._file) as connection:
                return backups.is_database_intact(connection, stop)

        with backups.translate_sqlite_errors(self._file):
            if not await backups.run_cancellable(work):
                raise backups.make_archive_error(self._file)

    async def close(self) -> None:
        """Close both connections, after the running transaction."""
        # one after the other: the last to close writes the log into the file, and of two at once neither is the last
        async with self._turn:
            await self._reader.close()
            await self._writer.close()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[aiosqlite.Connection]:
        """Run one write transaction: committed at the end, rolled back by any exception; others wait for it."""
        async with self._turn:
            with backups.translate_sqlite_errors(self._file):
                async with _commit_or_roll_back(self._writer):
                    await self._writer.execute("BEGIN IMMEDIATE")
                    yield self._writer

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run one write transaction in the writer's thread: all or nothing, also if the caller is cancelled."""

        def begin_and_work(connection: sqlite3.Connection) -> T:
            connection.execute("BEGIN IMMEDIATE")
            return work(connection)

        async with self._turn:
            with backups.translate_sqlite_errors(self._file):
                async with _commit_or_roll_back(self._writer):
                    result: T = await self._writer._execute(begin_and_work, self._writer._conn)  # type: ignore[no-untyped-call]
                return result

    async def execute(self, sql: str, values: Sequence[object] = ()) -> int:
        """Run one statement in a transaction of its own; returns the number of changed rows."""
        return await self.write(lambda connection: connection.execute(sql, values).rowcount)

    async def change(self, sql: str, values: Sequence[object] | Mapping[str, object] = ()) -> sqlite3.Row | None:
        """Run one statement with RETURNING in a transaction of its own; returns the first changed row, or None."""
        rows = await self.write(lambda connection: connection.execute(sql, values).fetchall())
        return rows[0] if rows else None

    async def execute_many(self, sql: str, rows: Iterable[Sequence[object]]) -> int:
        """Run one statement for each row, in one transaction; returns the number of changed rows."""
        return await self.write(lambda connection: connection.executemany(sql, rows).rowcount)

    async def rows(self, sql: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        """Run a query on the committed state; rows can be read by column name."""
        with backups.translate_sqlite_errors(self._file):
            return list(await self._reader.execute_fetchall(sql, values))

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run several queries on the committed state in the reader's thread, with one way there and back."""
        with backups.translate_sqlite_errors(self._file):
            result: T = await self._reader._execute(work, self._reader._conn)  # type: ignore[no-untyped-call]
            return result

    async def value(self, sql: str, values: Sequence[object] = ()) -> Any:
        """Run a query for one value: the first column of its first row, None without rows."""
        rows = await self.rows(sql, values)
        return rows[0][0] if rows else None

    async def column(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Run a query for the first column of its rows."""
        return [row[0] for row in await self.rows(sql, values)]

    async def save_rows(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Save rows, given by column, in place of those with the same key."""
        for columns in [tuple(row) for row in rows[:1]]:
            sql = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
            await self.execute_many(sql, [tuple(row.values()) for row in rows])


def needs_migration(folder: Path) -> bool:
    """Whether opening the archive of a folder would run a migration; blocking. False if there is no archive."""
    try:
        with backups.open_read_only(folder / backups.ARCHIVE_FILE) as connection:
            ((version,),) = connection.execute("PRAGMA user_version")
            return bool(version and schema.list_missing_migrations(version))
    except (OSError, ValueError, sqlite3.Error):  # there is none, or opening it will raise the proper error
        return False


@asynccontextmanager
async def _commit_or_roll_back(connection: aiosqlite.Connection) -> AsyncIterator[None]:
    try:
        yield
        await connection.commit()
    except BaseException:
        # Also if cancelled while waiting for the lock of another process: the thread may still get the lock.
        # Shielded: a second cancellation must not leave the transaction open for the next caller.
        await asyncio.shield(connection.rollback())
        raise


async def _open_connection(file: Path, patience: float, *pragmas: str) -> aiosqlite.Connection:
    connecting = aiosqlite.connect(file, timeout=patience, isolation_level=None)
    try:
        connection = await connecting
    except BaseException:
        # The connection's thread still has to report its end to this loop, which must not be closed (aiosqlite 0.22).
        await asyncio.to_thread(connecting._thread.join, 1.0)
        raise
    try:
        connection.row_factory = sqlite3.Row
        until = time.monotonic() + patience
        for pragma in ("trusted_schema=OFF", *pragmas):
            while True:  # the switch to WAL does not call the busy handler
                try:
                    await connection.execute(f"PRAGMA {pragma}")
                    break
                except sqlite3.OperationalError as exc:
                    if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                        raise
                    await asyncio.sleep(0.02)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _run_migrations(connection: aiosqlite.Connection, file: Path) -> None:
    """Run the missing migrations in one transaction."""
    async with _commit_or_roll_back(connection):
        await connection.execute("BEGIN IMMEDIATE")
        ((version,),) = await connection.execute_fetchall("PRAGMA user_version")
        try:
            missing = schema.list_missing_migrations(version)
        except ValueError:
            raise backups.make_version_error(file, version) from None
        for statement in chain.from_iterable(missing):
            await connection.execute(statement)
        if missing:
            await connection.execute(f"PRAGMA user_version = {schema.get_schema_version()}")
        await backups.activate_backup(connection, get_unix_time())


async def assign_sequence_numbers(connection: aiosqlite.Connection, keys: Sequence[PostKey], **columns: object) -> None:
    """Give posts the next sequence numbers, so that the indexes read them again, and set columns of theirs."""
    ((seq,),) = await connection.execute_fetchall("SELECT value FROM sequence")
    changes = "".join(f"{name} = ?, " for name in columns)
    sql = f"UPDATE posts SET {changes}seq = ? WHERE chat_id = ? AND message_id = ?"
    await connection.executemany(sql, [(*columns.values(), seq + n, *key) for n, key in enumerate(keys, 1)])
    await connection.execute("UPDATE sequence SET value = ?", (seq + len(keys),))
