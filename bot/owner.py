"""The data folder has one owner: the process that holds its lock file."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_core.errors import ArchiveUnavailable, raised_as

__all__ = ["owned"]

_FILE = "citegram.lock"


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold `folder`/citegram.lock. Raises ArchiveUnavailable where another process holds it.

    The kernel gives the lock back when the process ends, however it ends; the file stays.
    """
    with raised_as(ArchiveUnavailable, OSError, say=f"The folder {folder} cannot be used: {{}}."):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / _FILE).open("a+", encoding="ascii")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise ArchiveUnavailable(
                f"Another Citegram (process {holder}) works in the folder {folder}: stop it first, "
                "or choose another folder with DATA__DIR."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
