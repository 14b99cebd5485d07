"""The folder of an embedded store: who holds it, what it was made for, and whether it is whole.

    lock                  held by the process that uses the store
    engine.lock           held by its engine, which may outlive it for a moment
    about.json            identity, model, dimension; written last, so that without it there is no store
    seal.json             the files of the shard at the last flush, and whether it was closed then
    shard-<identity>/     the engine's own
    engine.log            what the engine's process said

The engine opens a folder that lost its segments as an empty one, and one with a shortened id list with the
points that are left. The record of what is in the store would then be wrong, so the seal is compared first.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import time
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rag_core.doors.regular import IrregularFile, read_regular
from rag_core.doors.vectors.points import About
from rag_core.errors import VectorsUnavailable, raised_as

__all__ = ["Damaged", "Home"]

_FORMAT = 2
_READABLE = {1, _FORMAT}  # 1 has no slots: its engine sees that, and searches without them
_EDGE_BYTES = 65_536  # of each end of a file go into its checksum: reading a million vectors would take seconds
# After a kill -9 files differ from the seal. These only ever grow.
_GROWING = ("chunk_", "page_", "mutable_id_tracker.", "segment.json", "version.info")
# A process was killed: its engine notices and goes; with a million vectors it needs 2 s to flush.
_ORPHAN_PATIENCE_S = 15.0
_HELD = (
    "Another Citegram (process {holder}) uses the vector index in {folder}: stop it first, or choose another folder "
    "with DATA__DIR."
)
_UNUSABLE = "The vector index cannot use the folder {folder} ({{}}): check its permissions and the free space."


class Damaged(Exception):
    """The store cannot be trusted; what it says is why."""


class Home:
    """The folder, held until `release`. Blocking calls; VectorsUnavailable where it cannot be used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "engine.log"
        with self._usable():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # what channels say is for their readers only
            self._lock = (folder / "lock").open("a+", encoding="ascii")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.seek(0)
            holder = self._lock.read().strip() or "unknown"
            self._lock.close()
            raise VectorsUnavailable(_HELD.format(holder=holder, folder=folder)) from None
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()

    @contextmanager
    def engine_lock(self) -> Iterator[int]:
        """A file descriptor for the next engine to inherit, locked: for as long as that process lives.

        The engine's own lock is not enough. It lets go of it before its last files are written, and who opens
        the folder in that moment loses points.
        """
        with self._usable():
            lock = (self.folder / "engine.lock").open("ab")
        with lock:
            until = time.monotonic() + _ORPHAN_PATIENCE_S
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise VectorsUnavailable(
                            _HELD.format(holder="of an engine left behind", folder=self.folder)
                        ) from None
                time.sleep(0.02)
            yield lock.fileno()

    def _usable(self) -> AbstractContextManager[None]:
        return raised_as(VectorsUnavailable, OSError, say=_UNUSABLE.format(folder=self.folder))

    def release(self) -> None:
        """Let others have the folder."""
        self._lock.close()

    def about(self) -> About | None:
        """What the store here was made for; None where there is none. Raises Damaged."""
        with self._usable():
            if not (self.folder / "about.json").exists():
                if any(self.folder.glob("shard-*")):
                    raise Damaged("it was never finished")
                return None
        found = self._read("about.json")
        try:
            if found["format"] not in _READABLE:
                raise Damaged("it is of another version")
            return About(str(found["identity"]), str(found["model"]), int(found["dimension"]))
        except (KeyError, TypeError, ValueError, OverflowError) as exc:
            raise Damaged("about.json cannot be read") from exc

    def shard(self, about: About) -> Path:
        """Where the engine keeps its files. A folder of its own for each store: who comes late writes into none."""
        return self.folder / f"shard-{about.identity}"

    def cleared(self, model: str, dimension: int) -> About:
        """Remove what is here, and name a new store; it begins to be with `finish`."""
        about = About(secrets.token_hex(8), model, dimension)
        with self._usable():
            (self.folder / "about.json").unlink(missing_ok=True)
            (self.folder / "seal.json").unlink(missing_ok=True)
            for old in self.folder.glob("shard-*"):
                old.unlink() if old.is_symlink() else shutil.rmtree(old)
            self.shard(about).mkdir(mode=0o700)
        return about

    def finish(self, about: About) -> None:
        """From now on there is a store."""
        self.seal(about, closed=False)
        self._write("about.json", {"format": _FORMAT, **asdict(about)})

    def seal(self, about: About, *, closed: bool) -> None:
        """Record the files as they are; to be called after a flush, or after the engine has gone."""
        with self._usable():
            files = _files(self.shard(about), checksums=closed)
        self._write("seal.json", {"closed": closed, "files": files})

    def check(self, about: About) -> None:
        """Compare the files with the seal, and break it: from now on they change. Raises Damaged."""
        sealed = self._read("seal.json")
        try:
            closed, before = bool(sealed["closed"]), dict(sealed["files"])
            with self._usable():
                now = _files(self.shard(about), checksums=closed)
            wrong = _differing(before, now) if closed else _shrunk(before, now)
        except (LookupError, TypeError, ValueError) as exc:
            raise Damaged("seal.json cannot be read") from exc
        if wrong:
            raise Damaged(f"{wrong} is not as it was left")
        self._write("seal.json", {"closed": False, "files": before})

    def free(self) -> int:
        """Bytes free on the disk."""
        with self._usable():
            return shutil.disk_usage(self.folder).free

    def _read(self, name: str) -> dict[str, Any]:
        with self._usable():
            try:
                found = json.loads(read_regular(self.folder / name))
            except (FileNotFoundError, IrregularFile, ValueError, RecursionError) as exc:
                raise Damaged(f"{name} cannot be read") from exc
        if not isinstance(found, dict):
            raise Damaged(f"{name} cannot be read")
        return found

    def _write(self, name: str, content: dict[str, Any]) -> None:
        staged = self.folder / f"{name}.tmp"
        with self._usable():
            with staged.open("w", encoding="utf-8") as file:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
            staged.replace(self.folder / name)


def _files(shard: Path, *, checksums: bool) -> dict[str, list[int]]:
    """Name -> [size, checksum of both ends]. Without the write-ahead log, which checks itself."""
    found = {}
    for file in sorted(shard.rglob("*")):
        name = file.relative_to(shard).as_posix()
        if file.is_file() and not name.startswith("wal/"):
            size = file.stat().st_size
            found[name] = [size, _checksum(file, size) if checksums else 0]
    return found


def _checksum(file: Path, size: int) -> int:
    with file.open("rb") as data:
        head = zlib.crc32(data.read(_EDGE_BYTES))
        data.seek(max(0, size - _EDGE_BYTES))
        return zlib.crc32(data.read(_EDGE_BYTES), head)


def _differing(before: dict[str, list[int]], now: dict[str, list[int]]) -> str | None:
    return next((name for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)), None)


def _shrunk(before: dict[str, list[int]], now: dict[str, list[int]]) -> str | None:
    grows = [name for name in before if Path(name).name.startswith(_GROWING)]
    return next((name for name in grows if now.get(name, [-1])[0] < before[name][0]), None)
