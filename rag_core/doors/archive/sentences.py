"""What SQLite says about its file, as one sentence of what to do; a damaged archive names its last backup."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_core.doors.archive.snapshots import found, made_at
from rag_core.errors import ArchiveUnavailable

__all__ = ["NO_OPEN", "damaged", "said_plainly"]

NO_OPEN = "The archive {file} cannot be opened. Check that its folder exists and may be read and written."
_LOCKED = "The archive {file} is locked by another program. Close that program and try again."
_READ_ONLY = "The archive {file} cannot be written. Check the permissions of the file and its folder."
_FULL = "The disk that holds the archive {file} is full. Free some space and try again."
_DISK = "The disk that holds the archive {file} cannot be read or written. Check the disk."
_DAMAGED = (
    "The archive {file} is damaged. Stop Citegram and run `citegram restore`: it puts back the backup of {moment} UTC."
)
_DAMAGED_FOR_GOOD = (
    "The archive {file} is damaged, and there is no backup of it. Move the file aside, start again, and import the "
    "exports of your channels."
)

# Primary result codes: https://www.sqlite.org/rescode.html
_REASONS = {
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_IOERR: _DISK,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CANTOPEN: NO_OPEN,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
}
# A quota and some file systems say "input/output error" where they mean "full".
_HARDLY_ANY = 1 << 20  # bytes


@contextmanager
def said_plainly(file: Path) -> Iterator[None]:
    """Translate what SQLite says about `file` into ArchiveUnavailable; wrong SQL is a bug and flies."""
    try:
        yield
    except sqlite3.DatabaseError as exc:
        # The low byte is the primary code; errors of the Python wrapper carry none.
        reason = _REASONS.get(getattr(exc, "sqlite_errorcode", 0) & 0xFF)
        if reason is None:
            raise
        if reason is _DAMAGED:
            raise damaged(file) from exc
        if reason is _DISK and _free(file.parent) < _HARDLY_ANY:
            reason = _FULL
        raise ArchiveUnavailable(reason.format(file=file)) from exc


def damaged(file: Path) -> ArchiveUnavailable:
    """The archive cannot be trusted any more; the sentence offers the last backup."""
    backups = found(file.parent)
    if not backups:
        return ArchiveUnavailable(_DAMAGED_FOR_GOOD.format(file=file))
    return ArchiveUnavailable(_DAMAGED.format(file=file, moment=f"{made_at(backups[0]):%Y-%m-%d %H:%M}"))


def _free(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:  # the disk is gone altogether
        return _HARDLY_ANY
