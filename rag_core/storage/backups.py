"""Backups of the archive: made while it is in use, pruned by number, restored when it is damaged.

A backup is one file, readable by its owner only. It gets its final name only when it is complete and on the disk. A
backup is marked: when it is opened as the archive (restored by `citegram restore` or by hand) it gets another
identity, so that indexes of the old archive are not used for it, and the time since the backup is noted as a gap.

SQLite errors become one sentence that says what to do; for a damaged archive it names the last backup.
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
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import aiosqlite

from rag_core.errors import ArchiveUnavailable, BackupFailed
from rag_core.storage.schema import MIGRATIONS

__all__ = [
    "ARCHIVE_FILE",
    "CANNOT_OPEN_ARCHIVE",
    "RestoreResult",
    "WorkCancelled",
    "activate_backup",
    "copy_database",
    "get_backup_time",
    "get_backups_folder",
    "is_database_intact",
    "is_migration_backup",
    "list_backups",
    "make_backup",
    "make_backup_path",
    "make_damaged_error",
    "open_read_only",
    "prune_backups",
    "read_archive_version",
    "restore_backup",
    "run_cancellable",
    "translate_sqlite_errors",
]

T = TypeVar("T")

ARCHIVE_FILE = "citegram.db"  # of the archive, in its folder

_NAME_FORMAT = "citegram-%Y%m%d-%H%M%S"
# One that was made before the tables changed says so, with the version they had: it is kept until the next such one.
_NAME_PATTERN = re.compile(r"(citegram-\d{8}-\d{6})(-version\d+)?\.db")
_COPY_MARK = "copy "
# 2 MB at a time and a breath between: 135 MB take 0.7 s, and a write meanwhile waits 100 ms at most.
_PAGES_PER_STEP = 500
_STEP_PAUSE_S = 0.005


class WorkCancelled(Exception):
    """Whoever waited for the work has gone."""


def get_backups_folder(folder: Path) -> Path:
    """Where the backups of the archive in `folder` lie."""
    return folder / "backups"


def list_backups(folder: Path) -> list[Path]:
    """The backups of the archive in `folder`, the newest first.

    A name that lies in the future comes from a clock that was wrong: it counts as older than all others.
    """
    try:
        names = [
            file
            for file in get_backups_folder(folder).iterdir()
            if _NAME_PATTERN.fullmatch(file.name) and _parse_backup_time(file)
        ]
    except OSError:
        return []
    latest = datetime.now(UTC) + timedelta(days=1)
    return sorted(names, key=lambda file: (get_backup_time(file) <= latest, file.name), reverse=True)


def get_backup_time(backup: Path) -> datetime:
    """When a backup was made (UTC), by its name; the file's own time may be that of a copy."""
    return _parse_backup_time(backup) or datetime.fromtimestamp(backup.stat().st_mtime, UTC)


def is_migration_backup(backup: Path) -> bool:
    """Whether a backup was made because the tables were about to change."""
    matched = _NAME_PATTERN.fullmatch(backup.name)
    return bool(matched and matched[2])


def _parse_backup_time(file: Path) -> datetime | None:
    matched = _NAME_PATTERN.fullmatch(file.name)
    try:
        return datetime.strptime(matched[1], _NAME_FORMAT).replace(tzinfo=UTC) if matched else None
    except ValueError:
        return None


def make_backup_path(folder: Path, version: int = 0) -> Path:
    """The name of a backup that is made now; nothing lies there yet. `version`: of tables that are about to change."""
    moment, mark = datetime.now(UTC), f"-version{version}.db" if version else ".db"
    while (file := get_backups_folder(folder) / f"{moment.strftime(_NAME_FORMAT)}{mark}").exists():
        moment += timedelta(seconds=1)
    return file


async def run_cancellable(work: Callable[[threading.Event], T]) -> T:
    """Blocking work in a thread; it is told to stop, by its event, when nobody waits for it any more."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, stop)
    finally:
        stop.set()


@contextmanager
def open_read_only(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection of one's own that changes nothing. Raises sqlite3 errors."""
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)) as connection:
        yield connection


def is_database_intact(connection: sqlite3.Connection, stop: threading.Event) -> bool:
    """Whether every page of a database is in order: 0.2 s for 100 MB in memory, 2 s from a cold disk.

    Raises Stopped, and sqlite3 errors where it cannot even be read.
    """
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
    """Copy the archive `source` as it is now to the new file `target`, durably, marked as a backup.

    Blocking; others write meanwhile. Raises Stopped, sqlite3 errors, OSError.
    """

    def breathe(*_: int) -> None:
        if stop.is_set():
            raise WorkCancelled
        time.sleep(_STEP_PAUSE_S)

    target.touch(mode=0o600, exist_ok=False)  # what channels say is for their readers only
    with open_read_only(source) as reader, closing(sqlite3.connect(target, isolation_level=None)) as writer:
        # One moment is held from here on, or every write of others would make the copy begin again.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        writer.execute("PRAGMA synchronous = OFF")
        reader.backup(writer, pages=_PAGES_PER_STEP, progress=breathe)
        writer.execute("PRAGMA journal_mode = DELETE")  # so that it is one file
        if writer.execute("SELECT 1 FROM sqlite_master WHERE name = 'identity'").fetchone():
            writer.execute("UPDATE identity SET value = ?1 || value WHERE instr(value, ?1) = 0", (_COPY_MARK,))
    with target.open("rb") as file:
        os.fsync(file.fileno())


async def activate_backup(connection: aiosqlite.Connection, moment: int) -> bool:
    """Turn a marked backup into an archive of its own, in the caller's transaction; nothing where it is none.

    Its channels get a gap from the backup's last sign of life until `moment` (Unix seconds). Questions that
    waited when it was made are given up: they were answered since, or their readers have gone.
    """
    ((identity,),) = await connection.execute_fetchall("SELECT value FROM identity")
    if not identity.startswith(_COPY_MARK):
        return False
    await connection.execute("UPDATE identity SET value = lower(hex(randomblob(8)))")
    await connection.execute(
        "INSERT INTO gaps (chat_id, since, until, noted_at) "
        "SELECT chat_id, max(joined_at, coalesce((SELECT at FROM heartbeat), 0)) AS since, ?1, ?1 FROM channels "
        "WHERE joined_at IS NOT NULL AND left_at IS NULL AND since < ?1",
        (moment,),
    )
    await connection.execute("UPDATE heartbeat SET at = ?", (moment,))
    await connection.execute(
        "UPDATE questions SET state = 'failed', finished_at = ? WHERE state IN ('queued', 'running')", (moment,)
    )
    await connection.execute(
        "UPDATE rebuilds SET state = 'cancelled', finished_at = ? WHERE state = 'running'", (moment,)
    )
    await connection.execute("DELETE FROM dense")  # the vectors, too, are those of another state
    await connection.execute("DELETE FROM to_embed")
    return True


CANNOT_OPEN_ARCHIVE = "The archive {file} cannot be opened. Check that its folder exists and may be read and written."
_ARCHIVE_LOCKED = "The archive {file} is locked by another program. Close that program and try again."
_ARCHIVE_READ_ONLY = "The archive {file} cannot be written. Check the permissions of the file and its folder."
_DISK_FULL = "The disk that holds the archive {file} is full. Free some space and try again."
_DISK_FAILED = "The disk that holds the archive {file} cannot be read or written. Check the disk."
_ARCHIVE_DAMAGED = (
    "The archive {file} is damaged. Stop Citegram and run `citegram restore`: it puts back the backup of {moment} UTC."
)
_ARCHIVE_LOST = (
    "The archive {file} is damaged, and there is no backup of it. Move the file aside, start again, and import the "
    "exports of your channels."
)

# Primary result codes: https://www.sqlite.org/rescode.html
_MESSAGE_BY_CODE = {
    sqlite3.SQLITE_PERM: _ARCHIVE_READ_ONLY,
    sqlite3.SQLITE_BUSY: _ARCHIVE_LOCKED,
    sqlite3.SQLITE_LOCKED: _ARCHIVE_LOCKED,
    sqlite3.SQLITE_READONLY: _ARCHIVE_READ_ONLY,
    sqlite3.SQLITE_IOERR: _DISK_FAILED,
    sqlite3.SQLITE_CORRUPT: _ARCHIVE_DAMAGED,
    sqlite3.SQLITE_FULL: _DISK_FULL,
    sqlite3.SQLITE_CANTOPEN: CANNOT_OPEN_ARCHIVE,
    sqlite3.SQLITE_NOTADB: _ARCHIVE_DAMAGED,
}
# A quota and some file systems say "input/output error" where they mean "full".
_MIN_FREE_BYTES = 1 << 20  # bytes


@contextmanager
def translate_sqlite_errors(file: Path) -> Iterator[None]:
    """Translate what SQLite says about `file` into ArchiveUnavailable; wrong SQL is a bug and flies."""
    try:
        yield
    except sqlite3.DatabaseError as exc:
        # The low byte is the primary code; errors of the Python wrapper carry none.
        reason = _MESSAGE_BY_CODE.get(getattr(exc, "sqlite_errorcode", 0) & 0xFF)
        if reason is None:
            raise
        if reason is _ARCHIVE_DAMAGED:
            raise make_damaged_error(file) from exc
        if reason is _DISK_FAILED and _measure_free_bytes(file.parent) < _MIN_FREE_BYTES:
            reason = _DISK_FULL
        raise ArchiveUnavailable(reason.format(file=file)) from exc


def make_damaged_error(file: Path) -> ArchiveUnavailable:
    """The archive cannot be trusted any more; the sentence offers the last backup."""
    backups = list_backups(file.parent)
    if not backups:
        return ArchiveUnavailable(_ARCHIVE_LOST.format(file=file))
    return ArchiveUnavailable(
        _ARCHIVE_DAMAGED.format(file=file, moment=f"{get_backup_time(backups[0]):%Y-%m-%d %H:%M}")
    )


def _measure_free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:  # the disk is gone altogether
        return _MIN_FREE_BYTES


_RESERVED_BYTES = 64 << 20  # bytes that are left to the bot: a backup must not be what fills the disk

_NO_DISK_SPACE = (
    "There is no room for a backup: {need} MB must be free in {folder}, and {free} MB are. Free some space."
)
_NO_ARCHIVE = "There is no archive in {folder}. Check DATA__DIR."
_NO_BACKUP = "There is no backup in {folder} that is whole. Give the file of a backup: citegram restore FILE."
_NOT_A_BACKUP = "{file} is no whole archive of Citegram. Choose another backup."
_BACKUP_TOO_NEW = "{file} was written by a later version of Citegram. Update Citegram and try again."
_FOLDER_FAILED = "The folder {folder} cannot be read or written ({said}). Check the disk and its permissions."


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """What a restore did: the backup that is the archive now, and where the archive is kept that was there."""

    backup: Path
    aside: Path | None


def make_backup(folder: Path, stop: threading.Event, *, version: int = 0) -> Path:
    """Copy the archive in `folder` to a new backup; blocking, others write meanwhile. Returns its file.

    `version`: the tables have it and are about to change; the backup is then kept until the next such one.
    Raises BackupFailed; ArchiveUnavailable where the archive is damaged, then older backups are not touched;
    Stopped, where `stop` is set.
    """
    source = folder / ARCHIVE_FILE
    if not source.is_file():
        raise BackupFailed(_NO_ARCHIVE.format(folder=folder))
    with _translate_os_errors(folder), translate_sqlite_errors(source):
        get_backups_folder(folder).mkdir(mode=0o700, exist_ok=True)
        for left in get_backups_folder(folder).glob("citegram-*.part*"):  # of one that was cut short
            left.unlink(missing_ok=True)
        _check_free_space(source, get_backups_folder(folder))
        final = make_backup_path(folder, version)
        with _stage_file(final) as part:
            copy_database(source, part, stop)
            if not read_archive_version(part, stop):
                raise make_damaged_error(source)
    return final


def prune_backups(folder: Path, keep: int) -> int:
    """Take away all but the newest `keep` backups; at least one stays, and the last made before an update.

    Returns how many went. Raises BackupFailed.
    """
    there = list_backups(folder)
    kept = {*there[: max(1, keep)], *[backup for backup in there if is_migration_backup(backup)][:1]}
    old = [backup for backup in there if backup not in kept]
    with _translate_os_errors(folder):
        for backup in old:
            backup.unlink(missing_ok=True)
    return len(old)


def restore_backup(folder: Path, chosen: Path | None, stop: threading.Event) -> RestoreResult:
    """Make a backup the archive in `folder`: `chosen`, or the newest that is whole. Nobody may have it open.

    What was there is kept beside it. Raises BackupFailed, then nothing has changed.
    """
    archive = folder / ARCHIVE_FILE
    with _translate_os_errors(folder):
        backup = _choose_backup(folder, chosen, stop)
        (folder / f"{ARCHIVE_FILE}.part").unlink(missing_ok=True)
        with _stage_file(archive) as part, translate_sqlite_errors(backup):
            _check_free_space(backup, folder)
            copy_database(backup, part, stop)
            aside = _set_archive_aside(archive) if archive.exists() else None
    return RestoreResult(backup, aside)


def _choose_backup(folder: Path, chosen: Path | None, stop: threading.Event) -> Path:
    for backup in list_backups(folder) if chosen is None else [chosen]:
        version = read_archive_version(backup, stop)
        if version > len(MIGRATIONS):
            raise BackupFailed(_BACKUP_TOO_NEW.format(file=backup))
        if version:
            return backup
    raise BackupFailed(
        _NOT_A_BACKUP.format(file=chosen) if chosen else _NO_BACKUP.format(folder=get_backups_folder(folder))
    )


def read_archive_version(file: Path, stop: threading.Event) -> int:
    """The version of an archive or a backup, looked through; 0 where the file is none, or is damaged."""
    with suppress(sqlite3.Error), open_read_only(file) as connection:
        if is_database_intact(connection, stop):
            connection.execute("SELECT 1 FROM posts LIMIT 1")
            ((version,),) = connection.execute("PRAGMA user_version")
            return int(version)
    return 0


def _check_free_space(source: Path, folder: Path) -> None:
    with open_read_only(source) as connection:  # what is in the write-ahead log counts too
        ((pages,),), ((size,),) = (connection.execute(f"PRAGMA {name}") for name in ("page_count", "page_size"))
    need, free = pages * size + _RESERVED_BYTES, shutil.disk_usage(folder).free
    if free < need:
        raise BackupFailed(_NO_DISK_SPACE.format(need=need >> 20, free=free >> 20, folder=folder))


@contextmanager
def _stage_file(final: Path) -> Iterator[Path]:
    """A name to write under; it becomes `final` when the block ends well, and nothing when it does not."""
    part = final.with_name(f"{final.name}.part")
    try:
        yield part
        part.replace(final)
        folder = os.open(final.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # a rename is on the disk when its folder is
        finally:
            os.close(folder)
    finally:
        for left in final.parent.glob(f"{final.name}.part*"):
            left.unlink(missing_ok=True)


def _set_archive_aside(archive: Path) -> Path:
    """Keep the archive that is there under another name, its log with it; until it is replaced it has both names."""
    moment = datetime.now(UTC)
    aside = archive.with_name(f"citegram-before-{moment:%Y%m%d-%H%M%S}.db")
    aside.unlink(missing_ok=True)
    try:
        aside.hardlink_to(archive)
    except OSError:  # a file system without links
        shutil.copy2(archive, aside)
    log = archive.with_name(f"{archive.name}-wal")
    if log.exists():  # a log that meets another archive would spoil it
        log.replace(aside.with_name(f"{aside.name}-wal"))
    archive.with_name(f"{archive.name}-shm").unlink(missing_ok=True)
    return aside


@contextmanager
def _translate_os_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise BackupFailed(_FOLDER_FAILED.format(folder=folder, said=exc.strerror or exc)) from exc
