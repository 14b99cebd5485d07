"""Memory release: settings of glibc's malloc, and free memory and mapped pages returned to the system.

glibc gives every thread that allocates an arena of its own, up to eight for each processor, and keeps what was freed
between two blocks in use: a process that runs for months takes more and more memory although nothing in it grows. So
it gets few arenas, and freed memory is returned to the system. Other C libraries do not need this, and nothing happens
there. https://man7.org/linux/man-pages/man3/mallopt.3.html
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from pathlib import Path

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
