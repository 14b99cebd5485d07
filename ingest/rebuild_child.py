"""Index rebuild, child process: builds a new lexical index beside the one that is searched.

Text analysis is Python and would hold the interpreter of the bot; the child process has its own and runs with low
priority. The new index is saved now and then, so that a killed build is resumed:

    lexical.next/current.json  the index so far, tied to its rebuild
    lexical.next/walk.json     how far the archive has been read
    lexical.next/stock         what the vector store held at the start (`VectorInventory`), where there is one

The first line of standard input says where the words are kept (`LexicalIndex.told`; it may hold a key). The child
reports its progress in lines of JSON and waits for an answering line after each; the end of its input ends the build.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ingest.indexer import build_lexical_entry, read_changes
from ingest.integrity import VectorInventory
from rag_core.engine import load_or_make_lexical_index
from rag_core.errors import RagError
from rag_core.index.bm25_files import translate_write_errors
from rag_core.index.open_words import LexicalIndex, load_saved_lexical_index, make_lexical_index, parse_qdrant_settings
from rag_core.settings import QdrantSettings
from rag_core.storage import Archive, index_state, posts
from rag_core.types import Passage, PostKey

__all__ = [
    "SAVE_INTERVAL_SECONDS",
    "IndexBuild",
    "format_rebuild_identity",
    "get_next_index_folder",
    "get_vector_inventory_file",
    "main",
]

# Questions come first: on a contended core the build gets a thirtieth, not the hundredth that would let a busy model
# stop it; on an idle core it gets everything.
_NICENESS = 15
# Seconds between two saves, repeated after a kill. At most a tenth of the time is spent on saving.
SAVE_INTERVAL_SECONDS = 5.0
_SAVE_TIME_FACTOR = 10
_MAX_KEYS_PER_LINE = 2000  # keys per line
_PROGRESS_FILE_NAME = "walk.json"


def get_next_index_folder(archive: Path) -> Path:
    """Folder in the archive where the new index is built."""
    return archive / "lexical.next"


def get_vector_inventory_file(archive: Path) -> Path:
    """File with the inventory of the vector store."""
    return get_next_index_folder(archive) / "stock"


def format_rebuild_identity(archive: Archive, rebuild: int) -> str:
    """Identity under which an unfinished index is saved, so that neither another rebuild nor a start loads it."""
    return f"{archive.identity} rebuild {rebuild}"


class _ParentGone(Exception):
    """The parent process has ended."""


@dataclass(slots=True)
class IndexBuild:
    """Index under construction: it holds all posts up to `cursor`, of the channel `only` or of all channels."""

    archive: Archive
    rebuild: int
    lexical: LexicalIndex
    cursor: int = 0
    only: int | None = None

    @classmethod
    async def begun(
        cls, archive: Archive, rebuild: int, chat_id: int | None, qdrant: QdrantSettings | None = None
    ) -> IndexBuild:
        """Resume a saved build, or begin: with an empty index, or with the index in use without the channel."""
        return await cls._resume(archive, rebuild, qdrant) or await cls._begin(archive, rebuild, chat_id, qdrant)

    @classmethod
    async def _resume(cls, archive: Archive, rebuild: int, qdrant: QdrantSettings | None) -> IndexBuild | None:
        folder = get_next_index_folder(archive.folder)
        lexical = await asyncio.to_thread(
            load_saved_lexical_index, qdrant, folder, format_rebuild_identity(archive, rebuild)
        )
        if lexical is None:
            return None
        try:
            saved = json.loads((folder / _PROGRESS_FILE_NAME).read_text(encoding="utf-8"))
            build = cls(archive, rebuild, lexical, int(saved["cursor"]), saved["only"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if build.only is None and lexical.watermark < build.cursor:
            return None  # the server has lost its data
        last = await posts.get_last_seq(archive)  # smaller than before after a restored backup
        return build if max(build.cursor, lexical.watermark) <= last else None

    @classmethod
    async def _begin(
        cls, archive: Archive, rebuild: int, chat_id: int | None, qdrant: QdrantSettings | None
    ) -> IndexBuild:
        served = qdrant is not None and qdrant.words  # an index on a server cannot be copied: it is built anew
        if chat_id is None or served:
            lexical = await asyncio.to_thread(make_lexical_index, qdrant)
        else:
            lexical = await load_or_make_lexical_index(archive)
        if not lexical.watermark:
            chat_id = None  # an empty index has no channel to replace
        else:
            assert chat_id is not None
            lexical.remove_channel(chat_id)
        return cls(archive, rebuild, lexical, 0, chat_id)

    async def step(self) -> dict[PostKey, tuple[Passage, ...]] | None:
        """Index the next batch of posts; return their passages, or None at the end."""
        batch = await read_changes(self.archive, self.cursor)
        if not batch.changes:
            return None
        ours = [change for change in batch.changes if self.only in (None, change.key.chat_id)]
        ready = {change.key: batch.passages(change) for change in ours}
        self.lexical.replace(ready, [build_lexical_entry(p) for passages in ready.values() for p in passages])
        self.cursor = batch.changes[-1].seq
        if self.only is None:  # for one channel the watermark of the others stays
            self.lexical.watermark = self.cursor
        return ready

    def save(self) -> None:
        """Save the index and the progress. Raises IndexUnavailable."""
        folder = get_next_index_folder(self.archive.folder)
        self.lexical.save(folder, format_rebuild_identity(self.archive, self.rebuild))
        # After the index: if this write is lost, the last posts are merely indexed again.
        with translate_write_errors():
            staged = folder / f"{_PROGRESS_FILE_NAME}.tmp"
            staged.write_text(json.dumps({"cursor": self.cursor, "only": self.only}), encoding="utf-8")
            staged.replace(folder / _PROGRESS_FILE_NAME)


def _send_message(**message: object) -> None:
    try:
        print(json.dumps(message), flush=True)
    except BrokenPipeError:
        raise _ParentGone from None


async def _wait_for_parent() -> None:
    if not await asyncio.to_thread(sys.stdin.readline):
        raise _ParentGone


class _ProgressReporter:
    """Reporter of progress to the parent process; it also saves the build now and then."""

    def __init__(self, build: IndexBuild, done: int, total: int, save_every: float) -> None:
        self._build, self._done, self._total, self._save_every = build, done, total, save_every
        self._next_save = time.monotonic() + save_every

    async def tell(self, before: int, renew: Sequence[PostKey]) -> None:
        """Report the progress since `before` and the posts to embed again; save if it is time."""
        build = self._build
        self._done += await index_state.count_changed_posts(build.archive, build.only, before, build.cursor)
        self._total = max(self._done, self._total)
        for at in range(0, max(1, len(renew)), _MAX_KEYS_PER_LINE):
            _send_message(done=self._done, total=self._total, renew=renew[at : at + _MAX_KEYS_PER_LINE])
            await _wait_for_parent()
        if time.monotonic() > self._next_save:
            started = time.monotonic()
            build.save()
            took = time.monotonic() - started
            pause = max(self._save_every, _SAVE_TIME_FACTOR * took) if self._save_every else 0.0
            self._next_save = time.monotonic() + pause


async def _build_index(build: IndexBuild, inventory: VectorInventory | None, model: str, save_every: float) -> None:
    done = await index_state.count_changed_posts(build.archive, build.only, 0, build.cursor)
    total = done + await index_state.count_changed_posts(
        build.archive, build.only, build.cursor, await posts.get_last_seq(build.archive)
    )
    progress, before = _ProgressReporter(build, done, total, save_every), build.cursor
    await progress.tell(before, ())
    while (ready := await build.step()) is not None:
        await progress.tell(before, inventory.differing(ready, model) if inventory else ())
        before = build.cursor
    await progress.tell(before, inventory.surplus(build.lexical) if inventory else ())
    build.save()


async def _run_build(args: argparse.Namespace) -> None:
    qdrant = parse_qdrant_settings(await asyncio.to_thread(sys.stdin.readline))
    archive = await Archive.open(args.folder)
    try:
        build = await IndexBuild.begun(archive, args.rebuild, args.channel, qdrant)
        inventory = VectorInventory(get_vector_inventory_file(args.folder), build.only) if args.model else None
        await _build_index(build, inventory, args.model, args.save_every)
        _send_message(finished=True)
    except RagError as exc:
        _send_message(failed=exc.dump())
    finally:
        await archive.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the build and return the exit code; errors are reported to the parent."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("rebuild", type=int)
    parser.add_argument("--channel", type=int)
    parser.add_argument("--model", default="")
    parser.add_argument("--save-every", type=float, default=SAVE_INTERVAL_SECONDS, help="seconds at least; 0: always")
    args = parser.parse_args(argv)
    # The parent decides when to stop: a Ctrl-C in the terminal reaches both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    # A child that lost its parent ends at its next report; until then it holds the folder.
    with (args.folder / "rebuild.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            asyncio.run(_run_build(args))
        except _ParentGone:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
