"""Data folder: its lock, disk and memory usage, and the permission check for files with secrets.

The data folder belongs to one process, which holds its lock file; the kernel releases the lock however the process
ends. Files that others on this machine may read are reported and not changed, as their owner may want it so.
"""

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rag_core.errors import ArchiveUnavailable, translate_errors
from rag_core.storage.backups import ARCHIVE_FILE, get_backups_folder

_OTHERS_MODE = stat.S_IRWXG | stat.S_IRWXO


def find_exposed_files(env_file: Path, folder: Path) -> Iterator[str]:
    """Warnings for `.env` and for the data folder's archive, where other users may read or change them."""
    if is_open_to_others(env_file):
        yield f"{env_file} holds the bot's token and others on this machine may read it: chmod 600 {env_file}"
    archive = folder / ARCHIVE_FILE
    if is_open_to_others(archive) and is_open_to_others(folder):
        yield f"{folder} holds what channels say and others on this machine may read it: chmod 700 {folder}"


def is_open_to_others(path: Path) -> bool:
    """Check whether anybody but the owner may read or change a file; false for a missing file."""
    try:
        return bool(path.stat().st_mode & _OTHERS_MODE)
    except OSError:
        return False


def open_private_file(file: Path) -> BinaryIO:
    """Open an empty file that only its owner may read, in place of an earlier one."""
    file.unlink(missing_ok=True)
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """Disk usage in bytes: archive, indexes, backups, and free space."""

    archive: int
    indexes: int
    backups: int
    free: int


def measure_disk_usage(folder: Path) -> DiskUsage:
    """Measure the disk usage of the data folder. Blocking."""
    archive = sum(_measure_file(file) for file in folder.glob(f"{ARCHIVE_FILE}*"))
    indexes = sum(
        _measure_file(file)
        for part in ("lexical*", "vectors")
        for each in folder.glob(part)
        for file in _list_files(each)
    )
    backups = sum(_measure_file(file) for file in _list_files(get_backups_folder(folder)))
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return DiskUsage(archive, indexes, backups, shutil.disk_usage(there).free)


def _list_files(folder: Path) -> list[Path]:
    """Files of a folder; none where it has just been deleted: rglob would raise."""
    return [Path(at, name) for at, _, names in os.walk(folder) for name in names]


def _measure_file(file: Path) -> int:
    with suppress(OSError):  # deleted meanwhile
        if file.is_file():
            return file.stat().st_size
    return 0


_LOCK_FILE = "citegram.lock"
_MAX_ID_LENGTH = 40  # characters


class FolderLocked(ArchiveUnavailable):
    """Another process holds the data folder: `process` is its id as it wrote it ("unknown" while it starts)."""

    def __init__(self, folder: Path, process: str) -> None:
        super().__init__(
            f"Another Citegram (process {process}) works in the folder {folder}: stop it first, "
            "or choose another folder with DATA__DIR."
        )
        self.process = process


@contextmanager
def lock_data_folder(folder: Path) -> Iterator[None]:
    """Lock the data folder, which is made where it is missing; the kernel releases the lock however the process ends.

    Raises FolderLocked where another process holds it, else ArchiveUnavailable.
    """
    with translate_errors(
        ArchiveUnavailable,
        OSError,
        say=f"The folder {folder} cannot be used ({{}}): check it, or choose another one with --data.",
    ):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # channel texts are for their readers only
        lock = (folder / _LOCK_FILE).open("a+", encoding="ascii", errors="replace")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise FolderLocked(folder, lock.read(_MAX_ID_LENGTH).strip() or "unknown") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
