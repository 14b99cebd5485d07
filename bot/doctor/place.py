"""The disk and the folder: room, a file system that locks, and who else may read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from bot.doctor.findings import Case, Finding
from bot.exposed import open_to_others
from bot.footprint import disk
from rag_core.doors.archive import census

__all__ = ["access", "ground", "room"]

_LEAST_FREE = 1 << 30  # bytes: logs, imports and models want room too
_MOUNTS = Path("/proc/mounts")
# SQLite's log beside the file needs shared memory and locks, which these do not do reliably:
# https://www.sqlite.org/wal.html, https://www.sqlite.org/faq.html#q5
_DISTANT = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.s3fs",
            "fuse.glusterfs", "fuse.rclone"}  # fmt: skip

_FULL = (
    "{folder} has {free:.1f} GB free, and a backup and a rebuild of the indexes need {need:.1f} GB: make room, or "
    "move the folder and set DATA__DIR."
)
_NETWORK = (
    "{folder} lies on a network file system ({kind}), where SQLite is not safe: move it to a local disk, and set "
    "DATA__DIR."
)
_NO_LOG = (
    "The archive cannot keep its log beside it, its journal mode is {mode}: move {folder} to a local disk, and set "
    "DATA__DIR."
)
_OTHERS = "{path} can be read by other users of this machine: run chmod {mode} {path}."


async def room(case: Case) -> AsyncIterator[Finding]:
    """Whether the next backup and the next rebuild have room, which lie beside what is there."""
    folder = case.settings.data.dir.resolve()
    used = await asyncio.to_thread(disk, folder)
    need = max(_LEAST_FREE, used.archive + used.indexes)
    if used.free < need:
        yield Finding(False, _FULL.format(folder=folder, free=used.free / 1e9, need=need / 1e9))
    else:
        yield Finding(True, f"{folder}: {used.free / 1e9:.1f} GB free")


async def ground(case: Case) -> AsyncIterator[Finding]:
    """Whether the file system is one on which SQLite keeps its word."""
    folder = case.settings.data.dir.resolve()
    kind = await asyncio.to_thread(_kind, folder)
    if kind in _DISTANT:
        yield Finding(False, _NETWORK.format(folder=folder, kind=kind))
    if case.archive is not None:
        mode = await census.journal(case.archive)
        if mode != "wal":
            yield Finding(False, _NO_LOG.format(folder=folder, mode=mode))


def _kind(folder: Path) -> str:
    """The file system a folder lies on, as the kernel calls it; "" where nobody says."""
    try:
        lines = [line.split() for line in _MOUNTS.read_text("utf-8", errors="replace").splitlines()]
    except OSError:
        return ""
    places = {line[1].replace("\\040", " "): line[2] for line in lines if len(line) > 2}
    above = (str(place) for place in (folder, *folder.parents))
    return next((places[place] for place in above if place in places), "")


async def access(case: Case) -> AsyncIterator[Finding]:
    """Whether others may read the token, or the posts."""
    for path, mode in ((case.env_file, "600"), (case.settings.data.dir, "700")):
        if open_to_others(path):
            yield Finding(False, _OTHERS.format(path=path, mode=mode))
