"""Operating system: safe reading of files that somebody else wrote, and glibc malloc settings.

A data folder copied from another machine holds files of others: only regular ones are read, no links followed, no
pipes waited for, the size limited.

glibc gives every thread that allocates an arena of its own, up to eight for each processor, and keeps what was freed
between two blocks in use: a process that runs for months takes more and more memory although nothing in it grows. So
it gets few arenas, and freed memory is returned to the system. Other C libraries do not need this, and nothing happens
there. https://man7.org/linux/man-pages/man3/mallopt.3.html
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
from functools import cache
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


# Constants of glibc's malloc.h and, in the second line, of Linux's mman.h.
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_MADV_DONTNEED = 4
_MAX_ARENAS = 2  # threads mostly wait for each other: Python's lock, the archive, the model
# By default glibc raises this threshold up to 32 MB when large blocks are freed, and then puts such blocks in the heap.
_MMAP_THRESHOLD_BYTES = 1 << 20


@cache
def _load_glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None


def limit_malloc_arenas() -> None:
    """Limit malloc to a few arenas and keep large blocks out of the heap. Call it at the start of a process."""
    if library := _load_glibc():
        library.mallopt(_M_ARENA_MAX, _MAX_ARENAS)
        library.mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)


def release_free_memory() -> bool:
    """Return free memory to the system; whether there was any. Blocks for some milliseconds."""
    library = _load_glibc()
    return bool(library and library.malloc_trim(0))


def release_mapped_pages(folder: str) -> None:
    """Return the pages of mapped files in a folder to the system, which keeps in its cache what was written.

    Only for files mapped as shared: nothing of them is lost, and a page comes back when it is used again.
    """
    library = _load_glibc()
    if not library:
        return
    with Path("/proc/self/maps").open(encoding="utf-8", errors="replace") as maps:
        for line in maps:
            addresses, rights, *_, path = line.split(maxsplit=5)
            if rights.endswith("s") and path.startswith(folder):
                first, last = (int(address, 16) for address in addresses.split("-"))
                library.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_DONTNEED)
