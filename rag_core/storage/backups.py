"""Backups of the archive: made while it is in use, pruned, restored; and SQLite's errors as sentences.

A backup is one file, readable by its owner only. It gets its final name only when it is complete and on the disk. A
backup is marked: when it is opened as the archive (restored by `citegram restore` or by hand) it gets another
identity, so that indexes of the old archive are not used for it, and the time since the backup is noted as a gap.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import TypeVar

import aiosqlite

from rag_core.errors import ArchiveUnavailable, ArchiveVersionUnknown, BackupFailed
from rag_core.safe_files import try_lock
from rag_core.storage import schema

NAME_FORMAT = "citegram-%Y%m%d-%H%M%S"
# A backup made before a migration has the old schema version in its name: it is kept until the next such backup.
_NAME_PATTERN = re.compile(r"(citegram-\d{8}-\d{6})(-version\d+)?\.db")


def get_backups_folder(folder: Path) -> Path:
    """Folder with the backups of the archive in `folder`."""
    return folder / "backups"


def list_backups(folder: Path) -> list[Path]:
    """List the backups, the newest first; one dated in the future, by a wrong clock, counts as the oldest."""
    try:
        found = [file for file in get_backups_folder(folder).iterdir() if _parse_backup_time(file)]
    except OSError:
        return []
    latest = datetime.now(UTC) + timedelta(days=1)
    return sorted(found, key=lambda file: (get_backup_time(file) <= latest, file.name), reverse=True)


def get_backup_time(backup: Path) -> datetime:
    """Time of a backup (UTC) from its name; the modification time of the file may be that of a copy."""
    return _parse_backup_time(backup) or datetime.fromtimestamp(backup.stat().st_mtime, UTC)


def _parse_backup_time(file: Path) -> datetime | None:
    matched = _NAME_PATTERN.fullmatch(file.name)
    try:
        return datetime.strptime(matched[1], NAME_FORMAT).replace(tzinfo=UTC) if matched else None
    except ValueError:
        return None


# Sentences by their code, and codes by SQLite's primary result code: https://www.sqlite.org/rescode.html
_REASONS = {
    "archive-not-opened": "The archive {file} cannot be opened. Check that its folder exists and may be read and "
    "written.",
    "archive-locked": "The archive {file} is locked by another program. Close that program and try again.",
    "archive-read-only": "The archive {file} cannot be written. Check the permissions of the file and its folder.",
    "archive-disk-full": "The disk that holds the archive {file} is full. Free some space and try again.",
    "archive-disk-failed": "The disk that holds the archive {file} cannot be read or written. Check the disk.",
    "archive-damaged": "The archive {file} is damaged. Stop Citegram and run `citegram restore`: it puts back the "
    "backup of {moment} UTC.",
    "archive-lost": "The archive {file} is damaged, and there is no backup of it. Move the file aside, start again, "
    "and import the exports of your channels.",
}
_CODE_BY_SQLITE_CODE = {
    sqlite3.SQLITE_PERM: "archive-read-only",
    sqlite3.SQLITE_BUSY: "archive-locked",
    sqlite3.SQLITE_LOCKED: "archive-locked",
    sqlite3.SQLITE_READONLY: "archive-read-only",
    sqlite3.SQLITE_IOERR: "archive-disk-failed",
    sqlite3.SQLITE_CORRUPT: "archive-damaged",
    sqlite3.SQLITE_FULL: "archive-disk-full",
    sqlite3.SQLITE_CANTOPEN: "archive-not-opened",
    sqlite3.SQLITE_NOTADB: "archive-damaged",
}
# Quotas and some file systems report "input/output error" when the disk is full.
_MIN_FREE_BYTES = 1 << 20


@contextmanager
def translate_sqlite_errors(file: Path) -> Iterator[None]:
    """Translate SQLite errors about `file` into ArchiveUnavailable; wrong SQL is a bug and is raised as it is."""
    try:
        yield
    except sqlite3.DatabaseError as exc:
        # The low byte is the primary code; errors of the Python wrapper have no code.
        code = _CODE_BY_SQLITE_CODE.get(getattr(exc, "sqlite_errorcode", 0) & 0xFF)
        if code is None:
            raise
        if code == "archive-disk-failed":
            with suppress(OSError):  # the disk is not there at all: not "full"
                if shutil.disk_usage(file.parent).free < _MIN_FREE_BYTES:
                    code = "archive-disk-full"
        raise make_archive_error(file, code) from exc


def make_archive_error(file: Path, code: str = "archive-damaged") -> ArchiveUnavailable:
    """Make the error with this code; that for a damaged archive names the last backup."""
    values: dict[str, object] = {"file": file}
    if code == "archive-damaged" and (backups := list_backups(file.parent)):
        values["moment"] = f"{get_backup_time(backups[0]):%Y-%m-%d %H:%M}"
    elif code == "archive-damaged":
        code = "archive-lost"
    return ArchiveUnavailable(_REASONS[code], code=code, **values)


def make_version_error(file: Path, version: int) -> ArchiveVersionUnknown:
    """Make the error for an archive of a schema version that this Citegram does not read."""
    if version < schema.FIRST_VERSION:
        said = f"The archive {file} was made before version 0.1.0. Move it aside and import your channels' exports."
        return ArchiveVersionUnknown(said)
    return ArchiveVersionUnknown(
        f"The archive {file} was written by a later version of Citegram. Update Citegram, or put back a backup from "
        "before the update: citegram restore FILE."
    )


T = TypeVar("T")

ARCHIVE_FILE = "citegram.db"  # file name of the archive in its folder

_COPY_MARK = "copy "
# 2 MB a step with a pause between steps: 135 MB take 0.7 s, and a write meanwhile waits 100 ms at most.
_PAGES_PER_STEP = 500
_STEP_PAUSE_S = 0.005


class WorkCancelled(Exception):
    """Cancellation: the caller no longer waits for the work."""


async def run_cancellable(work: Callable[[threading.Event], T]) -> T:
    """Run blocking work in a thread; its event is set when the caller is cancelled, so that it can stop."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, stop)
    finally:
        stop.set()


def open_read_only(file: Path) -> closing[sqlite3.Connection]:
    """Open a separate read-only connection, to be closed at the end of the block. Raises sqlite3 errors."""
    return closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None))


def is_database_intact(connection: sqlite3.Connection, stop: threading.Event) -> bool:
    """Check every page: 0.2 s for 100 MB in memory, 2 s from a cold disk. Raises WorkCancelled, sqlite3 errors."""
    connection.set_progress_handler(stop.is_set, 10_000)
    try:
        return connection.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
    except sqlite3.OperationalError:
        if stop.is_set():
            raise WorkCancelled from None
        raise
    finally:
        connection.set_progress_handler(None, 0)


def copy_database(source: Path, target: Path, stop: threading.Event) -> None:
    """Copy an archive as it is now to a new file, marked as a backup.

    Raises WorkCancelled, ArchiveVersionUnknown, sqlite3 errors, OSError.
    """

    def pause(*_: int) -> None:
        if stop.is_set():
            raise WorkCancelled
        time.sleep(_STEP_PAUSE_S)

    target.touch(mode=0o600, exist_ok=False)  # owner only: posts are for the readers of their channels
    with open_read_only(source) as reader, closing(sqlite3.connect(target, isolation_level=None)) as writer:
        # A read transaction: without it every write by another connection would restart the copy.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        writer.execute("PRAGMA synchronous = OFF")
        writer.execute("PRAGMA trusted_schema = OFF")
        reader.backup(writer, pages=_PAGES_PER_STEP, progress=pause)
        writer.execute("PRAGMA journal_mode = DELETE")  # a single file, without a write-ahead log
        ((version,),) = writer.execute("PRAGMA user_version")
        if version > schema.get_schema_version():  # its triggers are not known here, and would be taken out below
            raise make_version_error(source, version)
        # Triggers and views that no version of Citegram made would act on every later write.
        listing = "SELECT type, name, sql FROM sqlite_master WHERE type IN ('trigger', 'view')"
        with closing(sqlite3.connect(":memory:")) as own:
            for statement in chain.from_iterable(schema.MIGRATIONS[: max(0, version - schema.FIRST_VERSION + 1)]):
                own.execute(statement)
            expected = set(own.execute(listing))
        for kind, name, _ in set(writer.execute(listing)) - expected:
            writer.execute('DROP {} "{}"'.format(kind, name.replace('"', '""')))
        if writer.execute("SELECT 1 FROM sqlite_master WHERE name = 'identity'").fetchone():
            writer.execute("UPDATE identity SET value = ?1 || value WHERE instr(value, ?1) = 0", (_COPY_MARK,))
    with target.open("rb") as file:
        os.fsync(file.fileno())


async def activate_backup(connection: aiosqlite.Connection, moment: int) -> None:
    """Turn a marked backup into an archive with its own identity, in the caller's transaction.

    Changes nothing if the file is no backup. Its channels get a gap from its last heartbeat until `moment` (Unix
    seconds). Questions that were waiting in it are failed: they were answered since, or their readers no longer wait.
    """
    ((identity,),) = await connection.execute_fetchall("SELECT value FROM identity")
    if not identity.startswith(_COPY_MARK):
        return
    origin = identity.removeprefix(_COPY_MARK).rpartition("/")[2]  # the vectors on a server are known by it
    await connection.execute("UPDATE identity SET value = lower(hex(randomblob(8))) || '/' || ?", (origin,))
    await connection.execute(
        "INSERT INTO gaps (chat_id, since, until, noted_at) "
        "SELECT chat_id, max(joined_at, coalesce((SELECT at FROM heartbeat), 0)) AS since, ?1, ?1 FROM channels "
        "WHERE joined_at IS NOT NULL AND left_at IS NULL AND since < ?1",
        (moment,),
    )
    await connection.execute("UPDATE heartbeat SET at = ?", (moment,))
    sql = "UPDATE questions SET state = 'failed', finished_at = ? WHERE state IN ('queued', 'running')"
    await connection.execute(sql, (moment,))
    sql = "UPDATE rebuilds SET state = 'cancelled', finished_at = ? WHERE state = 'running'"
    await connection.execute(sql, (moment,))
    # The vector index belongs to another state of the archive; which model made it is kept.
    await connection.execute("UPDATE dense SET identity = '', watermark = 0")
    await connection.execute("DELETE FROM next_vectors")
    await connection.execute("DELETE FROM to_embed")


_TURN_PAUSE_S = 0.1  # until a backup looks whether another one has ended
_RESERVED_BYTES = 64 << 20  # left free for the bot: a backup must not fill the disk


def make_backup(folder: Path, stop: threading.Event, *, version: int = 0) -> Path:
    """Copy the archive in `folder` to a new backup and return its file. Blocking; others may write meanwhile.

    `version`: the schema version before a migration; such a backup is kept until the next one of its kind. Raises
    BackupFailed; ArchiveUnavailable if the archive is damaged; WorkCancelled if `stop` is set.
    """
    source = folder / ARCHIVE_FILE
    if not source.is_file():
        raise BackupFailed(f"There is no archive in {folder}. Check DATA__DIR.")
    with _translate_os_errors(folder), translate_sqlite_errors(source):
        get_backups_folder(folder).mkdir(mode=0o700, exist_ok=True)
        with _wait_for_turn(get_backups_folder(folder), stop):
            for left in get_backups_folder(folder).glob("citegram-*.part*"):  # left by an interrupted backup
                left.unlink(missing_ok=True)
            _check_free_space(source, get_backups_folder(folder))
            moment, mark = datetime.now(UTC), f"-version{version}.db" if version else ".db"
            while (final := get_backups_folder(folder) / f"{moment.strftime(NAME_FORMAT)}{mark}").exists():
                moment += timedelta(seconds=1)
            with _stage_file(final) as part:
                copy_database(source, part, stop)
                if not read_archive_version(part, stop):
                    raise make_archive_error(source)
    return final


@contextmanager
def _wait_for_turn(backups: Path, stop: threading.Event) -> Iterator[None]:
    """Hold the lock of the folder: of two backups at once each would take the other's file for a left one."""
    opened = os.open(backups, os.O_RDONLY)
    try:
        while not try_lock(opened):
            if stop.wait(_TURN_PAUSE_S):
                raise WorkCancelled
        yield
    finally:
        os.close(opened)


def prune_backups(folder: Path, keep: int) -> int:
    """Delete all but the newest `keep` backups (at least one) and the last one before a migration; returns how many."""
    backups = list_backups(folder)
    of_migrations = [backup for backup in backups if "-version" in backup.name]
    old = set(backups) - {*backups[: max(1, keep)], *of_migrations[:1]}
    with _translate_os_errors(folder):
        for backup in old:
            backup.unlink(missing_ok=True)
    return len(old)


def restore_backup(folder: Path, chosen: Path | None, stop: threading.Event) -> tuple[Path, Path | None]:
    """Restore a backup as the archive in `folder`: `chosen`, or the newest intact one. Nobody may have it open.

    Returns the backup, and the file that keeps the previous archive. Raises BackupFailed: nothing has changed then.
    """
    archive, aside = folder / ARCHIVE_FILE, None
    with _translate_os_errors(folder):
        for backup in [chosen] if chosen else list_backups(folder):
            if version := read_archive_version(backup, stop):
                break
        else:
            if chosen:
                raise BackupFailed(f"{chosen} is no whole archive of Citegram. Choose another backup.")
            where = f"There is no backup in {get_backups_folder(folder)} that is whole."
            raise BackupFailed(f"{where} Give the file of a backup: citegram restore FILE.")
        if not schema.FIRST_VERSION <= version <= schema.get_schema_version():
            raise BackupFailed(
                f"{backup} was written by another version of Citegram. Update Citegram, or name another backup: "
                "citegram restore FILE."
            )
        (folder / f"{ARCHIVE_FILE}.part").unlink(missing_ok=True)
        with _stage_file(archive) as part, translate_sqlite_errors(backup):
            _check_free_space(backup, folder)
            copy_database(backup, part, stop)
            if archive.exists():
                aside = _set_archive_aside(archive)
    return backup, aside


def read_archive_version(file: Path, stop: threading.Event) -> int:
    """Read the schema version of an archive or a backup after an integrity check; 0 if it is neither, or damaged."""
    with suppress(sqlite3.Error), open_read_only(file) as connection:
        if is_database_intact(connection, stop):
            connection.execute("SELECT 1 FROM posts LIMIT 1")
            ((version,),) = connection.execute("PRAGMA user_version")
            return int(version)
    return 0


def _check_free_space(source: Path, folder: Path) -> None:
    with open_read_only(source) as connection:  # SQLite's own page count includes the write-ahead log
        ((pages,),), ((size,),) = (connection.execute(f"PRAGMA {name}") for name in ("page_count", "page_size"))
    need, free = pages * size + _RESERVED_BYTES, shutil.disk_usage(folder).free
    if free < need:
        raise BackupFailed(
            f"There is no room for a backup: {need >> 20} MB must be free in {folder}, and {free >> 20} MB are. "
            "Free some space."
        )


@contextmanager
def _stage_file(final: Path) -> Iterator[Path]:
    """Yield a temporary path; it is renamed to `final` if the block succeeds, and deleted if not."""
    part = final.with_name(f"{final.name}.part")
    try:
        yield part
        part.replace(final)
        folder = os.open(final.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # a rename is durable once its folder is synced
        finally:
            os.close(folder)
    finally:
        for left in final.parent.glob(f"{final.name}.part*"):
            left.unlink(missing_ok=True)


def _set_archive_aside(archive: Path) -> Path:
    """Keep the present archive and its log under another name; until it is replaced the file has both names."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(archive)) as last:
        last.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # a kill before the end leaves the file without its log
    aside = archive.with_name(f"citegram-before-{datetime.now(UTC):%Y%m%d-%H%M%S}.db")
    aside.unlink(missing_ok=True)
    try:
        aside.hardlink_to(archive)
    except OSError:  # a file system without links
        shutil.copy2(archive, aside)
    log = archive.with_name(f"{archive.name}-wal")
    if log.exists():  # a log beside another archive would corrupt it
        log.replace(aside.with_name(f"{aside.name}-wal"))
    archive.with_name(f"{archive.name}-shm").unlink(missing_ok=True)
    return aside


@contextmanager
def _translate_os_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        said = f"The folder {folder} cannot be read or written ({exc.strerror or exc})."
        raise BackupFailed(f"{said} Check the disk and its permissions.") from exc
