"""Untrusted files: safe reading of files that somebody else wrote.

A data folder copied from another machine holds files of others: only regular ones are read, no links followed, no
pipes waited for, the size limited.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

_MAX_SMALL_FILE_BYTES = 1 << 24  # lists, notes


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
