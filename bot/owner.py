"""The data folder has one owner: the process that holds its lock file."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_core.errors import ArchiveUnavailable, raised_as

__all__ = ["FolderHeld", "owned"]

_FILE = "citegram.lock"


class FolderHeld(ArchiveUnavailable):
    """Another process holds the folder: `process` is its number, as it wrote it ("unknown" while it starts)."""

    def __init__(self, folder: Path, process: str) -> None:
        super().__init__(
            f"Another Citegram (process {process}) works in the folder {folder}: stop it first, "
            "or choose another folder with DATA__DIR."
        )
        self.process = process


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold `folder`/citegram.lock. Raises FolderHeld where another process holds it, else ArchiveUnavailable.

    The kernel gives the lock back when the process ends, however it ends; the file stays.
    """
    with raised_as(ArchiveUnavailable, OSError, say=f"The folder {folder} cannot be used: {{}}."):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # what channels say is for their readers only
        lock = (folder / _FILE).open("a+", encoding="ascii", errors="replace")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise FolderHeld(folder, lock.read(20).strip() or "unknown") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
