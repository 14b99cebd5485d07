"""The archive as files: the names and order of its backups, how one is made while others write, how one wakes up.

A backup is marked. Whoever opens it as the archive (put back by `citegram restore` or by hand) thereby gets another
archive: indexes of the old one are not taken for its own, and what came after the backup is noted as a gap.
"""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import aiosqlite

__all__ = ["FILE", "Stopped", "awaken", "before_update", "copied", "found", "in_thread", "made_at", "named",
           "readable", "shelf", "whole"]  # fmt: skip

T = TypeVar("T")

FILE = "citegram.db"  # of the archive, in its folder

_NAME = "citegram-%Y%m%d-%H%M%S"
# One that was made before the tables changed says so, with the version they had: it is kept until the next such one.
_PATTERN = re.compile(r"(citegram-\d{8}-\d{6})(-version\d+)?\.db")
_MARK = "copy "
# 2 MB at a time and a breath between: 135 MB take 0.7 s, and a write meanwhile waits 100 ms at most.
_PAGES = 500
_BREATH_S = 0.005


class Stopped(Exception):
    """Whoever waited for the work has gone."""


def shelf(folder: Path) -> Path:
    """Where the backups of the archive in `folder` lie."""
    return folder / "backups"


def found(folder: Path) -> list[Path]:
    """The backups of the archive in `folder`, the newest first.

    A name that lies in the future comes from a clock that was wrong: it counts as older than all others.
    """
    try:
        names = [file for file in shelf(folder).iterdir() if _PATTERN.fullmatch(file.name) and _moment(file)]
    except OSError:
        return []
    latest = datetime.now(UTC) + timedelta(days=1)
    return sorted(names, key=lambda file: (made_at(file) <= latest, file.name), reverse=True)


def made_at(backup: Path) -> datetime:
    """When a backup was made (UTC), by its name; the file's own time may be that of a copy."""
    return _moment(backup) or datetime.fromtimestamp(backup.stat().st_mtime, UTC)


def before_update(backup: Path) -> bool:
    """Whether a backup was made because the tables were about to change."""
    matched = _PATTERN.fullmatch(backup.name)
    return bool(matched and matched[2])


def _moment(file: Path) -> datetime | None:
    matched = _PATTERN.fullmatch(file.name)
    try:
        return datetime.strptime(matched[1], _NAME).replace(tzinfo=UTC) if matched else None
    except ValueError:
        return None


def named(folder: Path, version: int = 0) -> Path:
    """The name of a backup that is made now; nothing lies there yet. `version`: of tables that are about to change."""
    moment, mark = datetime.now(UTC), f"-version{version}.db" if version else ".db"
    while (file := shelf(folder) / f"{moment.strftime(_NAME)}{mark}").exists():
        moment += timedelta(seconds=1)
    return file


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Blocking work in a thread; it is told to stop, by its event, when nobody waits for it any more."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, stop)
    finally:
        stop.set()


@contextmanager
def readable(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection of one's own that changes nothing. Raises sqlite3 errors."""
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)) as connection:
        yield connection


def whole(connection: sqlite3.Connection, stop: threading.Event) -> bool:
    """Whether every page of a database is in order: 0.2 s for 100 MB in memory, 2 s from a cold disk.

    Raises Stopped, and sqlite3 errors where it cannot even be read.
    """
    connection.set_progress_handler(stop.is_set, 10_000)
    try:
        return connection.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
    except sqlite3.OperationalError:
        if stop.is_set():
            raise Stopped from None
        raise
    finally:
        connection.set_progress_handler(None, 0)


def copied(source: Path, target: Path, stop: threading.Event) -> None:
    """Copy the archive `source` as it is now to the new file `target`, durably, marked as a backup.

    Blocking; others write meanwhile. Raises Stopped, sqlite3 errors, OSError.
    """

    def breathe(*_: int) -> None:
        if stop.is_set():
            raise Stopped
        time.sleep(_BREATH_S)

    target.touch(mode=0o600, exist_ok=False)  # what channels say is for their readers only
    with readable(source) as reader, closing(sqlite3.connect(target, isolation_level=None)) as writer:
        # One moment is held from here on, or every write of others would make the copy begin again.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        writer.execute("PRAGMA synchronous = OFF")
        reader.backup(writer, pages=_PAGES, progress=breathe)
        writer.execute("PRAGMA journal_mode = DELETE")  # so that it is one file
        if writer.execute("SELECT 1 FROM sqlite_master WHERE name = 'identity'").fetchone():
            writer.execute("UPDATE identity SET value = ?1 || value WHERE instr(value, ?1) = 0", (_MARK,))
    with target.open("rb") as file:
        os.fsync(file.fileno())


async def awaken(connection: aiosqlite.Connection, moment: int) -> bool:
    """Turn a marked backup into an archive of its own, in the caller's transaction; nothing where it is none.

    Its channels get a gap from the backup's last sign of life until `moment` (Unix seconds). Questions that
    waited when it was made are given up: they were answered since, or their readers have gone.
    """
    ((identity,),) = await connection.execute_fetchall("SELECT value FROM identity")
    if not identity.startswith(_MARK):
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
