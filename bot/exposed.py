"""Files with secrets that others on this machine may read: said, not mended, as their owner may mean it."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from rag_core.doors.archive.snapshots import FILE

__all__ = ["exposed", "open_to_others"]

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def exposed(env_file: Path, folder: Path) -> Iterator[str]:
    """A sentence for `.env` and one for the data folder's archive, where others may read or change them."""
    if open_to_others(env_file):
        yield f"{env_file} holds the bot's token and others on this machine may read it: chmod 600 {env_file}"
    archive = folder / FILE
    if open_to_others(archive) and open_to_others(folder):
        yield f"{folder} holds what channels say and others on this machine may read it: chmod 700 {folder}"


def open_to_others(path: Path) -> bool:
    """Whether anybody but its owner may read or change it; what is not there is open to nobody."""
    try:
        return bool(path.stat().st_mode & _OTHERS)
    except OSError:
        return False
