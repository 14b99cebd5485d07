"""Backups of the archive: made while it is in use, kept in number, put back when it is damaged.

A backup is one file, readable by its owner only. It has its final name only when it is whole and on the disk.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rag_core.doors.archive.schema import MIGRATIONS
from rag_core.doors.archive.sentences import damaged, said_plainly
from rag_core.doors.archive.snapshots import FILE, before_update, copied, found, named, readable, shelf, whole
from rag_core.errors import BackupFailed

__all__ = ["PutBack", "make", "prune", "put_back", "version_of"]

_RESERVE = 64 << 20  # bytes that are left to the bot: a backup must not be what fills the disk

_NO_ROOM = "There is no room for a backup: {need} MB must be free in {folder}, and {free} MB are. Free some space."
_NO_ARCHIVE = "There is no archive in {folder}. Check DATA__DIR."
_NO_BACKUP = "There is no backup in {folder} that is whole. Give the file of a backup: citegram restore FILE."
_NO_COPY = "{file} is no whole archive of Citegram. Choose another backup."
_TOO_NEW = "{file} was written by a later version of Citegram. Update Citegram and try again."
_FAILED = "The folder {folder} cannot be read or written ({said}). Check the disk and its permissions."


@dataclass(frozen=True, slots=True)
class PutBack:
    """What a restore did: the backup that is the archive now, and where the archive is kept that was there."""

    backup: Path
    aside: Path | None


def make(folder: Path, stop: threading.Event, *, version: int = 0) -> Path:
    """Copy the archive in `folder` to a new backup; blocking, others write meanwhile. Returns its file.

    `version`: the tables have it and are about to change; the backup is then kept until the next such one.
    Raises BackupFailed; ArchiveUnavailable where the archive is damaged, then older backups are not touched;
    Stopped, where `stop` is set.
    """
    source = folder / FILE
    if not source.is_file():
        raise BackupFailed(_NO_ARCHIVE.format(folder=folder))
    with _said(folder), said_plainly(source):
        shelf(folder).mkdir(mode=0o700, exist_ok=True)
        for left in shelf(folder).glob("citegram-*.part*"):  # of one that was cut short
            left.unlink(missing_ok=True)
        _check_room(source, shelf(folder))
        final = named(folder, version)
        with _staged(final) as part:
            copied(source, part, stop)
            if not version_of(part, stop):
                raise damaged(source)
    return final


def prune(folder: Path, keep: int) -> int:
    """Take away all but the newest `keep` backups; at least one stays, and the last made before an update.

    Returns how many went. Raises BackupFailed.
    """
    there = found(folder)
    kept = {*there[: max(1, keep)], *[backup for backup in there if before_update(backup)][:1]}
    old = [backup for backup in there if backup not in kept]
    with _said(folder):
        for backup in old:
            backup.unlink(missing_ok=True)
    return len(old)


def put_back(folder: Path, chosen: Path | None, stop: threading.Event) -> PutBack:
    """Make a backup the archive in `folder`: `chosen`, or the newest that is whole. Nobody may have it open.

    What was there is kept beside it. Raises BackupFailed, then nothing has changed.
    """
    archive = folder / FILE
    with _said(folder):
        backup = _chosen(folder, chosen, stop)
        (folder / f"{FILE}.part").unlink(missing_ok=True)
        with _staged(archive) as part, said_plainly(backup):
            _check_room(backup, folder)
            copied(backup, part, stop)
            aside = _set_aside(archive) if archive.exists() else None
    return PutBack(backup, aside)


def _chosen(folder: Path, chosen: Path | None, stop: threading.Event) -> Path:
    for backup in found(folder) if chosen is None else [chosen]:
        version = version_of(backup, stop)
        if version > len(MIGRATIONS):
            raise BackupFailed(_TOO_NEW.format(file=backup))
        if version:
            return backup
    raise BackupFailed(_NO_COPY.format(file=chosen) if chosen else _NO_BACKUP.format(folder=shelf(folder)))


def version_of(file: Path, stop: threading.Event) -> int:
    """The version of an archive or a backup, looked through; 0 where the file is none, or is damaged."""
    with suppress(sqlite3.Error), readable(file) as connection:
        if whole(connection, stop):
            connection.execute("SELECT 1 FROM posts LIMIT 1")
            ((version,),) = connection.execute("PRAGMA user_version")
            return int(version)
    return 0


def _check_room(source: Path, folder: Path) -> None:
    with readable(source) as connection:  # what is in the write-ahead log counts too
        ((pages,),), ((size,),) = (connection.execute(f"PRAGMA {name}") for name in ("page_count", "page_size"))
    need, free = pages * size + _RESERVE, shutil.disk_usage(folder).free
    if free < need:
        raise BackupFailed(_NO_ROOM.format(need=need >> 20, free=free >> 20, folder=folder))


@contextmanager
def _staged(final: Path) -> Iterator[Path]:
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


def _set_aside(archive: Path) -> Path:
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
def _said(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise BackupFailed(_FAILED.format(folder=folder, said=exc.strerror or exc)) from exc
