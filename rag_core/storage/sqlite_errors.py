"""SQLite errors as one sentence each that says what to do; for a damaged archive it names the last backup."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_core.errors import ArchiveUnavailable
from rag_core.storage.backup_listing import get_backup_time, list_backups

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
        if code == "archive-damaged":
            raise make_damaged_error(file) from exc
        if code == "archive-disk-failed" and _measure_free_bytes(file.parent) < _MIN_FREE_BYTES:
            code = "archive-disk-full"
        raise make_archive_error(code, file=file) from exc


def make_archive_error(code: str, **values: object) -> ArchiveUnavailable:
    """Make the error with this code; `values` stand in its sentence."""
    return ArchiveUnavailable(_REASONS[code], code=code, **values)


def make_damaged_error(file: Path) -> ArchiveUnavailable:
    """Make the error for a damaged archive; its message names the last backup."""
    backups = list_backups(file.parent)
    if not backups:
        return make_archive_error("archive-lost", file=file)
    return make_archive_error("archive-damaged", file=file, moment=f"{get_backup_time(backups[0]):%Y-%m-%d %H:%M}")


def _measure_free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:  # the disk is not there at all: not "full"
        return _MIN_FREE_BYTES
