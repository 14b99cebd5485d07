"""Safe files: locks between processes, durable replacement, sizes, and reading of files that somebody else wrote.

A data folder copied from another machine holds files of others: only regular ones are read, no links followed, no
pipes waited for, the size limited.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

_MAX_SMALL_FILE_BYTES = 1 << 24  # lists, notes
_MAX_ID_LENGTH = 40  # characters of a process's id


class LockHeld(Exception):
    """Error: another process holds a lock; its text is the id of that process."""


def try_lock(file: int | IO[Any]) -> bool:
    """Lock an open file until it is closed or the process ends; False where another one holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def open_lock_file(file: Path) -> IO[str]:
    """Open a file for `hold_lock_file`. Raises OSError."""
    return file.open("a+", encoding="ascii", errors="replace")


def hold_lock_file(lock: IO[str]) -> None:
    """Lock an open file, and write the id of this process into it. Raises LockHeld, OSError."""
    if not try_lock(lock):
        lock.seek(0)
        raise LockHeld(lock.read(_MAX_ID_LENGTH).strip() or "unknown")
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()


def replace_durably(file: Path, content: bytes) -> None:
    """Replace a file: after a crash either the old or the new one is whole on the disk. Raises OSError."""
    staged = file.with_name(f"{file.name}.tmp")
    with staged.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    staged.replace(file)


def measure_size(path: Path) -> int:
    """Count the bytes of a file, or of all files below a folder; 0 where there is nothing."""
    total = 0
    for file in (path, *(Path(at, name) for at, _, names in os.walk(path) for name in names)):
        with suppress(OSError):  # a file may be deleted meanwhile
            total += file.stat().st_size if file.is_file() else 0
    return total


class IrregularFile(OSError):
    """Link, pipe or device instead of a regular file."""


def open_regular_file(file: Path, most: int) -> IO[bytes]:
    """Open a file for reading. Raises IrregularFile and other OSErrors, ValueError for more than `most` bytes."""
    try:
        # O_NONBLOCK: otherwise opening a pipe waits for its writer.
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        if exc.errno in {errno.ELOOP, errno.ENXIO}:  # a link, a socket
            raise IrregularFile(f"{file.name} is no regular file") from exc
        raise
    opened = os.fdopen(descriptor, "rb")
    try:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise IrregularFile(f"{file.name} is no regular file")
        if status.st_size > most:
            raise ValueError(f"{file.name} is too large")
    except BaseException:
        opened.close()
        raise
    return opened


def read_regular_file(file: Path, most: int = _MAX_SMALL_FILE_BYTES) -> str:
    """Read a small UTF-8 file. Raises OSError (also IrregularFile), ValueError where it is too large or no UTF-8."""
    with open_regular_file(file, most) as opened:
        return opened.read(most).decode("utf-8")
