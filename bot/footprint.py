"""What the bot takes of its machine: memory and disk."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rag_core.doors.archive.snapshots import FILE, shelf

__all__ = ["Disk", "disk", "memory"]


@dataclass(frozen=True, slots=True)
class Disk:
    """Bytes: of the archive, the indexes, the backups, and what is free beside them."""

    archive: int
    indexes: int
    backups: int
    free: int


def disk(folder: Path) -> Disk:
    """What lies in the data folder; blocking."""
    archive = sum(_size(file) for file in folder.glob(f"{FILE}*"))
    indexes = sum(_size(file) for part in ("lexical*", "vectors") for each in folder.glob(part) for file in _all(each))
    backups = sum(_size(file) for file in _all(shelf(folder)))
    return Disk(archive, indexes, backups, shutil.disk_usage(folder).free)


def _all(folder: Path) -> list[Path]:
    """Its files; a folder that is gone meanwhile has none, and rglob would raise."""
    return [Path(at, name) for at, _, names in os.walk(folder) for name in names]


def _size(file: Path) -> int:
    with suppress(OSError):  # gone meanwhile
        if file.is_file():
            return file.stat().st_size
    return 0


def memory() -> int:
    """Bytes of memory the process has now; where the system does not tell, the most it ever had."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * resource.getpagesize()
