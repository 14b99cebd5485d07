"""The C library's heap, for a process that runs for months: what is free in it goes back to the machine.

glibc gives every thread that allocates an arena of its own, up to eight for each processor, and keeps what was freed
between two blocks in use: the process takes more and more while nothing in it grows. Other C libraries need none of
this, and nothing happens there. https://man7.org/linux/man-pages/man3/mallopt.3.html
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache

__all__ = ["bounded", "give_back"]

# Of glibc's malloc.h.
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_ARENAS = 2  # threads mostly wait for each other: Python's lock, the archive, the model
# Left alone, glibc moves this up to 32 MB with the first large block that is freed, and puts such blocks in the heap.
_MAPPED_FROM = 1 << 20  # bytes


@cache
def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None


def bounded() -> None:
    """Few arenas from now on, and large blocks apart from the heap; for the beginning of a process."""
    if library := _glibc():
        library.mallopt(_M_ARENA_MAX, _ARENAS)
        library.mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM)


def give_back() -> bool:
    """Return what is free to the machine; whether there was anything. Blocking: some milliseconds."""
    library = _glibc()
    return bool(library and library.malloc_trim(0))
