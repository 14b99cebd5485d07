"""Embedded vector store, for a bot without a Qdrant server: qdrant-edge in a folder, in a worker process that is
restarted when it ends.

Blocking calls. Acknowledged writes are in the worker's write-ahead log, so that a restart loses nothing.

The folder:
    lock                  held by the process that uses the store
    engine.lock           held by its worker, which may outlive it for a moment
    store.json            identity, model and dimension, written last: a folder without it has no finished store;
                          sizes and checksums of the shard's files at the last flush, and whether it was closed then
    shard-<identity>/     the engine's own files, and the saved sketch (vector_sketch.py)
    engine.log            the output of the worker process

The engine opens a folder without its segments as an empty shard, and one with a truncated id list with the remaining
points. The archive's record of the store's content would then be wrong: so the files are compared with the list first.
"""

from __future__ import annotations

import json
import logging
import secrets
import shutil
import signal
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rag_core.errors import VectorsUnavailable, translate_errors
from rag_core.index.vector_store import PAYLOAD_FIELDS, PointBatch, StoreFilter, StoreInfo, VectorArray, VectorStore
from rag_core.processes import BlockingWorkerProcess, Message, WorkerExited
from rag_core.safe_files import (
    IrregularFile,
    LockHeld,
    hold_lock_file,
    open_lock_file,
    read_regular_file,
    replace_durably,
    try_lock,
)
from rag_core.settings import QdrantSettings

# Run as a program, and not imported: the engine's native code stays out of this process.
_WORKER_ARGUMENTS = ("-m", "rag_core.index.edge_shard_process")
# Far above the time of any call: a longer one means that the disk hangs.
EDGE_CALL_TIMEOUT_S = 120.0
# Opening reads all payload indexes and the log since the last flush: 3 s for a million vectors.
EDGE_OPEN_TIMEOUT_S = 900.0

# Errors of the environment, not of the shard: EPERM, EIO, EAGAIN, ENOMEM, EACCES, ENFILE, EMFILE, ENOSPC, EROFS,
# EDQUOT, or "WouldBlock" if another program has the log open. The engine reports errors as text only.
_ENVIRONMENT_CODES = (1, 5, 11, 12, 13, 23, 24, 28, 30, 122)
_ENVIRONMENT_ERRORS = ("WouldBlock", *(f"(os error {code})" for code in _ENVIRONMENT_CODES))


class EdgeWorkerRefused(Exception):
    """Error reported by the engine; `of_environment`: of the disk, permissions or memory, not of the shard."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.of_environment = any(words in said for words in _ENVIRONMENT_ERRORS)


_FOLDER_FORMAT = 4
_CHECKSUM_BYTES = 65_536  # bytes at each end of a file that are checksummed: reading a million vectors takes seconds
# After a kill -9 files differ from the list. Files with these names only ever grow; a segment's state, in JSON, has
# versions in it that are "null" first and 0 then, three characters less.
_GROWING_FILES = ("chunk_", "page_", "mutable_id_tracker.", "version.info")
_SEGMENT_STATE = "segment.json"
_SKETCH_FILE = "sketch.bin"  # of edge_shard_process.py, which checks it
# If this process was killed, its worker notices and ends; with a million vectors it needs 2 s to flush.
_ORPHAN_TIMEOUT_S = 15.0
_FOLDER_IN_USE = (
    "Another Citegram (process {holder}) uses the vector index in {folder}: stop it first, or choose another folder "
    "with DATA__DIR."
)
_FOLDER_UNUSABLE = "The vector index cannot use the folder {folder} ({{}}): check its permissions and the free space."


class StoreDamaged(Exception):
    """Error: the store is damaged; the message says why."""


class StoreFolder:
    """Folder of a store, locked until `lock` is closed. Blocking calls; they raise OSError if it is unusable."""

    def __init__(self, folder: Path) -> None:
        """Lock the folder, made if there is none. Raises VectorsUnavailable where another process has it."""
        self.folder, self.log, self._file = folder, folder / "engine.log", folder / "store.json"
        # owner only: posts are for the readers of their channels
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.lock = open_lock_file(folder / "lock")
        try:
            hold_lock_file(self.lock)
        except LockHeld as exc:
            self.lock.close()
            raise VectorsUnavailable(_FOLDER_IN_USE, holder=exc, folder=folder) from None

    @contextmanager
    def engine_lock(self) -> Iterator[int]:
        """Yield a locked file descriptor that the next worker inherits and holds for its lifetime.

        The engine's own lock is not enough: it is released before the last files are written, and a process that
        opens the folder in that moment loses points.
        """
        with (self.folder / "engine.lock").open("ab") as lock:
            until = time.monotonic() + _ORPHAN_TIMEOUT_S
            while not try_lock(lock):
                if time.monotonic() > until:
                    raise VectorsUnavailable(_FOLDER_IN_USE, holder="of an engine left behind", folder=self.folder)
                time.sleep(0.02)
            yield lock.fileno()

    def shard(self, about: StoreInfo) -> Path:
        """Folder of the engine's files, separate for each store: a worker left behind writes into no new store."""
        return self.folder / f"shard-{about.identity}"

    def reset(self, model: str, dimension: int) -> StoreInfo:
        """Remove the old store and prepare a new one, which exists after `seal`."""
        about = StoreInfo(secrets.token_hex(8), model, dimension)
        self._file.unlink(missing_ok=True)
        for old in self.folder.glob("shard-*"):
            old.unlink() if old.is_symlink() else shutil.rmtree(old)
        self.shard(about).mkdir(mode=0o700)
        return about

    def remove(self) -> None:
        """Remove the folder: first what says that there is a store, so that half of one is never opened."""
        self._file.unlink(missing_ok=True)
        shutil.rmtree(self.folder)

    def seal(self, about: StoreInfo, *, closed: bool, files: Mapping[str, list[int]] | None = None) -> None:
        """Record the present files, or others; to be called after a flush, or after the worker has ended."""
        files = _list_shard_files(self.shard(about), checksums=closed) if files is None else files
        sealed = {"format": _FOLDER_FORMAT, **asdict(about), "closed": closed, "files": files}
        replace_durably(self._file, json.dumps(sealed).encode())

    def unseal(self, model: str, dimension: int) -> StoreInfo | None:
        """Compare the files with the list, and mark the store as open, since they change from now on; None without one.

        Raises StoreDamaged; VectorsUnavailable for a store of another model.
        """
        if not self._file.exists():
            if any(self.folder.glob("shard-*")):
                raise StoreDamaged("it was never finished")
            return None
        sealed = _read_json(self._file)
        try:
            if sealed["format"] != _FOLDER_FORMAT:
                raise StoreDamaged("it is of another version")
            about = StoreInfo(str(sealed["identity"]), str(sealed["model"]), int(sealed["dimension"]))
            if (about.model, about.dimension) != (model, dimension):
                raise VectorsUnavailable(_OTHER_MODEL, folder=self.folder, made=about, model=model, size=dimension)
            before, shard = dict(sealed["files"]), self.shard(about)
            now = _list_shard_files(shard, checksums=sealed["closed"])
            if sealed["closed"]:
                wrong = [name for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)]
            else:
                grows = [name for name in before if Path(name).name.startswith(_GROWING_FILES)]
                wrong = [name for name in grows if now.get(name, [-1])[0] < before[name][0]]
                for name in before:
                    if Path(name).name == _SEGMENT_STATE:
                        _read_json(shard / name)
        except (LookupError, TypeError, ValueError, OverflowError) as exc:
            raise StoreDamaged(f"{self._file.name} cannot be read") from exc
        if wrong:
            raise StoreDamaged(f"{wrong[0]} is not as it was left")
        self.seal(about, closed=False, files=before)
        return about


def _read_json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_regular_file(file))
    except (FileNotFoundError, IrregularFile, ValueError, RecursionError) as exc:
        raise StoreDamaged(f"{file.name} cannot be read") from exc
    if not isinstance(found, dict):
        raise StoreDamaged(f"{file.name} cannot be read")
    return found


def _list_shard_files(shard: Path, *, checksums: bool) -> dict[str, list[int]]:
    """List the engine's files: name -> [size, checksum of both ends]. The write-ahead log has its own checksums."""
    files = {}
    for file in sorted(shard.rglob("*")):
        name = file.relative_to(shard).as_posix()
        if file.is_file() and not name.startswith("wal/") and name != _SKETCH_FILE:
            size, checksum = file.stat().st_size, 0
            with file.open("rb") as data:
                for at in (0, max(0, size - _CHECKSUM_BYTES)) if checksums else ():
                    data.seek(at)
                    checksum = zlib.crc32(data.read(_CHECKSUM_BYTES), checksum)
            files[name] = [size, checksum]
    return files


log = logging.getLogger(__name__)

# Opening after a kill replays the writes since the last flush: 20,000 points take 2 s. A flush takes 0.2 to 0.5 s,
# and searches wait meanwhile.
_FLUSH_EVERY_POINTS = 20_000
_MIN_FREE_BYTES = 64 * 2**20  # the engine maps files of 32 MB and crashes if the disk cannot back them
_CRASH_EXIT_CODES = {-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT, -signal.SIGILL, -signal.SIGFPE}

_STORE_FAILED = (
    "The vector index in {folder} failed ({said}). Restart Citegram; if it fails again, delete the folder: "
    "it is built anew from the archive."
)
_STORE_UNUSABLE = "The vector index in {folder} cannot be read or written ({said}). Check the disk and its permissions."
_WORKER_ENDED = (
    "The engine of the vector index in {folder} does not run (it ended with {exit}: {said}). "
    "Check that memory and disk space are free."
)
_DISK_FULL = "The disk that holds the vector index in {folder} is full. Free some space and try again."
_DAMAGED_IN_USE = (
    "The vector index in {folder} was damaged while it was in use ({said}). Restart Citegram: it is built anew."
)
_OTHER_MODEL = (
    "The vector index in {folder} was made for the model {made.model} ({made.dimension} numbers), not for {model} "
    "({size}). Choose that model again, or delete the folder: it is filled anew from the archive."
)


def _translate_folder_errors(folder: Path) -> AbstractContextManager[None]:
    return translate_errors(VectorsUnavailable, OSError, say=_FOLDER_UNUSABLE.format(folder=folder))


def _explain_failure(exc: EdgeWorkerRefused | WorkerExited, folder: Path) -> VectorsUnavailable:
    if isinstance(exc, WorkerExited):
        return VectorsUnavailable(
            _WORKER_ENDED, code="vectors-worker-ended", folder=folder, exit=exc.code, said=exc.said
        )
    if exc.of_environment:
        return VectorsUnavailable(_STORE_UNUSABLE, code="vectors-unusable", folder=folder, said=exc)
    return VectorsUnavailable(_STORE_FAILED, code="vectors-failed", folder=folder, said=exc)


class EdgeVectorStore:
    """Open embedded store. For one thread at a time; every method raises VectorsUnavailable if it fails."""

    def __init__(self, folder: Path, model: str, dimension: int) -> None:
        """Open the store in the folder, or create a new one if there is none or it is damaged."""
        self._unflushed = 0
        with _translate_folder_errors(folder), ExitStack() as on_failure:
            self._folder = StoreFolder(folder)
            on_failure.callback(self._folder.lock.close)
            self._open_or_make(model, dimension)
            on_failure.pop_all()

    def _open_or_make(self, model: str, dimension: int) -> None:
        try:
            if about := self._folder.unseal(model, dimension):
                self.about, self._engine = about, _start_worker(self._folder, about, make=False)
                return
        except StoreDamaged as exc:
            log.warning(
                "the vector index in %s is damaged (%s): it is built anew from the archive", self._folder.folder, exc
            )
        self.about = self._folder.reset(model, dimension)
        self._engine = _start_worker(self._folder, self.about, make=True)
        try:
            self._folder.seal(self.about, closed=False)
        except BaseException:
            self._engine.stop(EDGE_CALL_TIMEOUT_S)
            raise

    def write(self, batch: PointBatch) -> None:
        """Write points, and flush after every 20,000."""
        self._ask("upsert", {"ids": batch.ids, "payloads": batch.payloads}, batch.vectors.tobytes())
        self._unflushed += len(batch.ids)
        if self._unflushed >= _FLUSH_EVERY_POINTS:
            self.flush()

    def remove(self, posts: Mapping[int, list[int]], but: list[str]) -> None:
        """Remove all parts of posts, given as message ids by channel, except the point ids in `but`."""
        self._ask("remove", {"posts": list(posts.items()), "but": but})

    def search(self, vector: VectorArray, only: StoreFilter, n: int) -> list[tuple[Mapping[str, Any], float]]:
        """Find the n nearest allowed points: payloads and cosines."""
        reply, _ = self._ask("search", {"only": only, "n": n}, vector.tobytes())
        return [(payload, score) for payload, score in reply["hits"]]

    def vectors(self, ids: list[str]) -> dict[str, VectorArray]:
        """Read the vectors of the ids that exist."""
        reply, found = self._ask("vectors", {"ids": ids})
        return dict(zip(reply["ids"], found.reshape(-1, self.about.dimension), strict=True))

    def vectors_by_hash(self, numbers: list[int]) -> list[tuple[str, VectorArray]]:
        """Read one page of text hashes and vectors of points with these hash numbers."""
        reply, found = self._ask("vectors_by_hash", {"numbers": numbers})
        return list(zip(reply["hashes"], found.reshape(-1, self.about.dimension), strict=True))

    def count(self) -> int:
        """Count the points."""
        return int(self._ask("count", {})[0]["points"])

    def page(self, after: str | None, n: int) -> tuple[list[Mapping[str, Any]], str | None]:
        """Read the payloads of the next n points in the engine's order, and the next `after`; None at the end."""
        reply, _ = self._ask("page", {"after": after, "n": n, "fields": PAYLOAD_FIELDS})
        return reply["rows"], reply["after"]

    def flush(self) -> None:
        """Write everything to disk, and record the files in the seal."""
        self._ask("flush", {})
        with _translate_folder_errors(self._folder.folder):
            self._folder.seal(self.about, closed=False)
        self._unflushed = 0

    def _ask(self, do: str, fields: Mapping[str, object], raw: bytes = b"") -> tuple[Message, VectorArray]:
        """Send a request; if the worker has ended, restart it and send the request once more: all may be repeated."""
        try:
            try:
                return _request(self._engine, do, fields, raw)
            except WorkerExited as exc:
                log.warning("the vector engine ended with %s: it is started again", exc)
                self._engine = _start_worker(self._folder, self.about, make=False)
                return _request(self._engine, do, fields, raw)
        except (EdgeWorkerRefused, WorkerExited) as exc:
            raise _explain_failure(exc, self._folder.folder) from exc
        except StoreDamaged as exc:
            values = {"folder": self._folder.folder, "said": exc}
            raise VectorsUnavailable(_DAMAGED_IN_USE, code="vectors-damaged", **values) from exc

    def drop(self) -> None:
        """Delete the folder of the store; only `close` may follow."""
        self._engine.stop(EDGE_CALL_TIMEOUT_S)
        with _translate_folder_errors(self._folder.folder):
            self._folder.remove()

    def close(self) -> None:
        """Flush, stop the worker and release the folder."""
        if not self._folder.folder.exists():  # dropped
            self._folder.lock.close()
            return
        try:
            if self._engine.stop(EDGE_CALL_TIMEOUT_S) == 0:
                self._folder.seal(self.about, closed=True)
        except OSError as exc:  # nothing is lost: the next opening compares the older seal
            log.warning("the vector index in %s cannot be sealed: %s", self._folder.folder, exc)
        finally:
            self._folder.lock.close()


def _start_worker(store_folder: StoreFolder, about: StoreInfo, *, make: bool) -> BlockingWorkerProcess:
    """Start a worker and open the shard. Raises VectorsUnavailable; StoreDamaged if the shard is at fault."""
    folder, say = store_folder.folder, "The engine of the vector index cannot be started ({}): free some memory."
    with translate_errors(VectorsUnavailable, OSError, say=say), store_folder.engine_lock() as lock:
        engine = BlockingWorkerProcess(*_WORKER_ARGUMENTS, log=store_folder.log.open("w+b"), pass_fds=(lock,))
    try:
        shard = {"path": str(store_folder.shard(about)), "size": about.dimension, "make": make}
        _request(engine, "open", shard, b"", EDGE_OPEN_TIMEOUT_S)
        return engine
    except EdgeWorkerRefused as exc:
        engine.stop(EDGE_CALL_TIMEOUT_S)
        if not exc.of_environment and not make:
            raise StoreDamaged(str(exc)) from exc
        raise _explain_failure(exc, folder) from exc
    except WorkerExited as exc:
        if exc.code in _CRASH_EXIT_CODES and shutil.disk_usage(folder).free < _MIN_FREE_BYTES:
            raise VectorsUnavailable(_DISK_FULL, code="vectors-disk-full", folder=folder) from exc
        if exc.code in _CRASH_EXIT_CODES and not make:
            raise StoreDamaged(f"the vector engine ended with {exc}") from exc
        raise _explain_failure(exc, folder) from exc


def _request(
    engine: BlockingWorkerProcess, do: str, fields: Mapping[str, object], raw: bytes, timeout: float | None = None
) -> tuple[Message, VectorArray]:
    """Send a request: its reply, and the numbers behind it. Raises WorkerExited, EdgeWorkerRefused."""
    reply, out = engine.request({"do": do, **fields}, raw, timeout or EDGE_CALL_TIMEOUT_S)
    if "error" in reply:
        raise EdgeWorkerRefused(reply["error"])
    return reply, np.frombuffer(out, np.float32)


_MAX_PARALLEL_REQUESTS = 4  # to a server; the embedded engine takes one at a time


async def open_vector_store(
    folder: Path, *, model: str, dimension: int, qdrant: QdrantSettings | None = None, archive: str = ""
) -> VectorStore:
    """Open or create the vector store for this embedding model: in `folder`, or as a collection on a Qdrant server.

    `archive` (`Archive.origin`): collections of other archives are left alone. A damaged folder is replaced by a new
    store. A server is tried until it answers; until then every use raises QdrantGone. Raises VectorsUnavailable if
    another process holds the folder, or the store was built with another model, dimension or number of shards.
    """
    if qdrant is None or not qdrant.url:
        return await VectorStore.open(lambda: EdgeVectorStore(folder, model, dimension))
    from rag_core.index.vectors_qdrant import QdrantVectorStore  # its client takes a second to import

    return await VectorStore.open(
        lambda: QdrantVectorStore.open(qdrant, model, dimension, archive), _MAX_PARALLEL_REQUESTS
    )
