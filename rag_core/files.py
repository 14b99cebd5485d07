"""Reading files of derived data without trusting them: no pipe is waited for, no link followed, no size believed.

Whoever copies a data folder from somewhere else brings files that somebody else wrote.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

__all__ = ["IrregularFile", "open_regular_file", "read_regular_file"]

_MAX_SMALL_FILE_BYTES = 1 << 24  # bytes of a small file: lists, notes


class IrregularFile(OSError):
    """A link, a pipe or a device in the place of a file."""


def open_regular_file(file: Path, most: int) -> IO[bytes]:
    """Open a file for reading. Raises IrregularFile and other OSErrors, ValueError for more than `most` bytes."""
    try:
        # O_NONBLOCK: to open a pipe would wait for somebody who writes into it.
        number = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        if exc.errno in {errno.ELOOP, errno.ENXIO}:  # a link, a socket
            raise IrregularFile(f"{file.name} is no regular file") from exc
        raise
    opened = os.fdopen(number, "rb")
    try:
        about = os.fstat(opened.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise IrregularFile(f"{file.name} is no regular file")
        if about.st_size > most:
            raise ValueError(f"{file.name} is too large")
    except BaseException:
        opened.close()
        raise
    return opened


def read_regular_file(file: Path, most: int = _MAX_SMALL_FILE_BYTES) -> str:
    """The text of a small file. Raises OSError, IrregularFile among them; ValueError for what is no such text."""
    with open_regular_file(file, most) as opened:
        return opened.read(most).decode("utf-8")
