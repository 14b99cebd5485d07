"""Index rebuild, parent process: start the child process, restart it when it ends early, load the finished index."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ingest.indexer import DenseIndexer
from ingest.integrity import write_vector_inventory
from ingest.rebuild_child import (
    SAVE_INTERVAL_SECONDS,
    format_rebuild_identity,
    get_next_index_folder,
    get_vector_inventory_file,
)
from rag_core.errors import IndexUnavailable, RebuildRefused, translate_errors
from rag_core.index.bm25 import Bm25Index
from rag_core.index.bm25_files import translate_write_errors
from rag_core.index.open_words import LexicalIndex
from rag_core.storage import Archive, index_state
from rag_core.storage.index_state import Rebuild
from rag_core.types import PostKey

__all__ = ["SAVE_INTERVAL_SECONDS", "RebuildProgress", "build_next_index", "load_next_index", "remove_next_index"]

RebuildProgress = Callable[[int, int, int], Awaitable[None]]  # posts done, posts in all, posts to embed again

_MAX_LINE_BYTES = 1 << 20  # bytes; 2,000 keys take 60 kB
_MAX_TRIES = 3  # tries without progress: the same cause would end the child again
_CHILD_ENDED_TEXT = (
    "The process that builds the new index ended {tries} times ({how}). Check that memory is free, and begin again; "
    "its last words are in {log}."
)
_UNREADABLE_TEXT = "The new index cannot be read back from {folder}. Check the disk, and begin again."

log = logging.getLogger(__name__)


class _ChildEnded(Exception):
    """The child process ended before its work was done."""


async def build_next_index(
    archive: Archive,
    dense: DenseIndexer | None,
    rebuild: Rebuild,
    moved: RebuildProgress,
    save_every: float = SAVE_INTERVAL_SECONDS,
    like: LexicalIndex | None = None,
) -> None:
    """Build the new index on disk, or resume building it; posts with wrong vectors are queued meanwhile.

    The build is saved every `save_every` seconds or less often, with 0 at every step. A killed child is started again
    and resumes. `like` says where the lexical index is kept (default: the folder). When this is cancelled the child
    ends, and its last save stays. Raises RebuildRefused, IndexUnavailable, ArchiveUnavailable.
    """
    folder = get_next_index_folder(archive.folder)
    with translate_write_errors():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if dense:
        await write_vector_inventory(dense.vectors, get_vector_inventory_file(archive.folder))
    options = [f"--save-every={save_every}"]
    options += [f"--channel={rebuild.chat_id}"] if rebuild.chat_id is not None else []
    options += [f"--model={dense.model}"] if dense else []
    child = _RebuildChild(archive, [str(rebuild.id), *options], moved, "" if like is None else like.told)
    failed = 0
    while True:
        try:
            return await child.run()
        except _ChildEnded as exc:
            failed = 1 if child.came_further() else failed + 1
            log.warning("the process that builds the new index ended: %s", exc)
            if failed == _MAX_TRIES:
                raise RebuildRefused(
                    _CHILD_ENDED_TEXT, code="rebuild-child-ended", tries=_MAX_TRIES, how=exc, log=child.log
                ) from exc


async def load_next_index(archive: Archive, rebuild: Rebuild, like: LexicalIndex | None = None) -> LexicalIndex:
    """Load the index built by `build_next_index`, of the kind of `like`. Raises RebuildRefused."""
    folder = get_next_index_folder(archive.folder)
    kind = Bm25Index() if like is None else like  # not `like or ...`: an index without passages is falsy
    fresh = await asyncio.to_thread(kind.saved, folder, format_rebuild_identity(archive, rebuild.id))
    if fresh is None:
        raise RebuildRefused(_UNREADABLE_TEXT, code="rebuild-unreadable", folder=folder)
    return fresh


async def remove_next_index(archive: Archive) -> None:
    """Remove the new index and its files."""
    await asyncio.to_thread(shutil.rmtree, get_next_index_folder(archive.folder), ignore_errors=True)


class _RebuildChild:
    """Child process of one rebuild, started as often as needed."""

    def __init__(self, archive: Archive, options: Sequence[str], moved: RebuildProgress, told: str) -> None:
        self._archive, self._moved, self._told = archive, moved, told
        self.log: Path = get_next_index_folder(archive.folder) / "rebuild.log"
        # -P: the working directory must not shadow modules of the standard library
        self._command = [sys.executable, "-P", "-m", "ingest.rebuild_child", str(archive.folder), *options]
        self._done = self._before = 0
        self._renewed = 0

    def came_further(self) -> bool:
        """Check for progress since the last call."""
        further, self._before = self._done > self._before, self._done
        return further

    async def run(self) -> None:
        """Start the child and follow its reports until it is done.

        Raises _ChildEnded, RebuildRefused, IndexUnavailable, ArchiveUnavailable.
        """
        reason = "The process that builds an index cannot be started ({said})."
        starting = translate_errors(RebuildRefused, OSError, say=reason, code="rebuild-not-started")
        with starting, self.log.open("wb") as words:
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, stderr=words, limit=_MAX_LINE_BYTES
            )
        try:
            await self._follow_reports(process)
        finally:
            with suppress(ProcessLookupError):  # it has already ended
                process.kill()
            await asyncio.shield(process.wait())

    async def _follow_reports(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout
        assert process.stdin
        process.stdin.write(f"{self._told}\n".encode())  # not on the command line, which other users can read
        while line := await process.stdout.readline():
            message: dict[str, Any] = json.loads(line)
            if "failed" in message:
                raise IndexUnavailable.load(message["failed"])
            if "finished" in message:
                await process.wait()
                return
            keys = [PostKey(*key) for key in message["renew"]]
            self._renewed += await index_state.queue_posts(self._archive, keys) if keys else 0
            self._done = message["done"]
            await self._moved(self._done, message["total"], self._renewed)
            process.stdin.write(b"\n")  # only now: posts that are not queued yet must not be saved as done
        code = await process.wait()
        raise _ChildEnded(f"killed by signal {-code}" if code < 0 else f"with code {code}")
