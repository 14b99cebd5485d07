"""Index rebuild: the lexical index in a worker process, the vectors of another embedder beside the live ones.

Text analysis is Python and would hold the interpreter of the bot; the worker has its own and runs with low priority. It
builds the index in lexical.next, where it also finds what the vector store held at the start (`VectorInventory`); after
a kill it begins anew: a million posts take minutes. The worker reports its progress and waits for a message after each
report.

Another embedder: searches and new posts use the old model and its vectors until the swap, which is one transaction of
the archive. The next vectors follow the archive by sequence number; the archive keeps how far they are, so that after
a kill at any moment the next process goes on from there.
"""

import asyncio
import fcntl
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from ingest.indexer import BatchSize, DenseIndexer, build_lexical_entry, embed_posts, read_changes
from ingest.integrity import VectorInventory, write_vector_inventory
from rag_core.engine import Engine, load_or_make_lexical_index
from rag_core.errors import IndexUnavailable, ModelUnavailable, RagError, RebuildRefused, translate_errors
from rag_core.index.lexical_index import LexicalIndex, translate_write_errors
from rag_core.models.active_models import DenseIndex, open_store_of, open_vectors_of, remove_other_spaces
from rag_core.models.catalog import ModelSpec, find_models
from rag_core.processes import WorkerExited, WorkerProcess, open_parent_pipes, read_message, write_message
from rag_core.storage import Archive, index_state, posts
from rag_core.storage.index_state import Rebuild, VectorState
from rag_core.types import PostKey

# Questions come first: on a contended core the build gets a thirtieth, not the hundredth that would let a busy model
# stop it; on an idle core it gets everything.
_NICENESS = 15
_MAX_KEYS_PER_LINE = 2000
_INVENTORY_FILE_NAME = "stock"


def get_next_index_folder(archive: Path) -> Path:
    """Folder in the archive where the new index is built."""
    return archive / "lexical.next"


def format_rebuild_identity(archive: Archive, rebuild: int) -> str:
    """Identity under which a built index is saved, so that neither another rebuild nor a start loads it."""
    return f"{archive.identity} rebuild {rebuild}"


class _ParentGone(Exception):
    """The parent process has ended."""


_EXIT_SECONDS = 60.0  # from its last report to its exit

log = logging.getLogger(__name__)


async def build_next_index(
    archive: Archive,
    dense: DenseIndexer | None,
    rebuild: Rebuild,
    on_progress: Callable[[int, int, int], Awaitable[None]],
) -> None:
    """Build the new index on disk; posts with wrong vectors are queued meanwhile.

    `on_progress` gets the numbers of posts done, posts in all, and posts to embed again. When this is cancelled the
    worker ends. Raises RebuildRefused, IndexUnavailable, ArchiveUnavailable.
    """
    folder = get_next_index_folder(archive.folder)
    with translate_write_errors():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if dense:
        await write_vector_inventory(dense.vectors, folder / _INVENTORY_FILE_NAME)
    model = dense.embedder.name if dense else ""
    order = {"folder": str(archive.folder), "rebuild": rebuild.id, "channel": rebuild.chat_id, "model": model}
    log_file, reason = folder / "rebuild.log", "The process that builds an index cannot be started ({said})."
    starting = translate_errors(RebuildRefused, OSError, say=reason, code="rebuild-not-started")
    with starting, log_file.open("w+b") as words:
        worker = await WorkerProcess.start("-m", "ingest.rebuild", json.dumps(order), log=words)
    renewed = 0
    try:
        while "finished" not in (report := await worker.receive()):
            if "failed" in report:
                raise IndexUnavailable.load(report["failed"])
            keys = [PostKey(*key) for key in report["renew"]]
            renewed += await index_state.queue_posts(archive, keys) if keys else 0
            await on_progress(report["done"], report["total"], renewed)
            worker.send({})
        await worker.stop(_EXIT_SECONDS)
    except WorkerExited as exc:
        how = f"killed by signal {-exc.code}" if exc.code and exc.code < 0 else f"with code {exc.code}"
        said = (
            "The process that builds the new index ended ({how}). "
            "Check that memory is free, and begin again; its last words are in {log}."
        )
        raise RebuildRefused(said, code="rebuild-child-ended", how=how, log=log_file) from exc
    finally:
        worker.kill()
        await worker.stop()


async def load_next_index(archive: Archive, rebuild: Rebuild) -> LexicalIndex:
    """Load the index built by `build_next_index`. Raises RebuildRefused."""
    folder = get_next_index_folder(archive.folder)
    fresh = await asyncio.to_thread(LexicalIndex.load, folder, format_rebuild_identity(archive, rebuild.id))
    if fresh is None:
        said = "The new index cannot be read back from {folder}. Check the disk, and begin again."
        raise RebuildRefused(said, code="rebuild-unreadable", folder=folder)
    return fresh


async def remove_next_index(archive: Archive) -> None:
    """Remove the new index and its files."""
    await asyncio.to_thread(shutil.rmtree, get_next_index_folder(archive.folder), ignore_errors=True)


async def _run_build(order: Mapping[str, Any], requests: BinaryIO, replies: BinaryIO) -> None:
    """Build an empty index up to the archive, or the index in use with one channel read anew."""
    archive = await Archive.open(Path(order["folder"]))
    try:
        folder = get_next_index_folder(archive.folder)
        channel, model = order["channel"], order["model"]
        lexical = LexicalIndex() if channel is None else await load_or_make_lexical_index(archive)
        only = channel if lexical.watermark else None  # an empty index has no channel to replace
        if only is not None:
            lexical.remove_channel(only)
        inventory = VectorInventory(folder / _INVENTORY_FILE_NAME, only) if model else None
        count = partial(index_state.count_changed_posts, archive, only)
        done, cursor, total = 0, 0, await count(0, await posts.get_last_seq(archive))

        def report_progress(renew: Sequence[PostKey] = ()) -> None:
            """Report the progress and the posts to embed again to the parent, and wait for its reply."""
            for at in range(0, max(1, len(renew)), _MAX_KEYS_PER_LINE):
                keys = renew[at : at + _MAX_KEYS_PER_LINE]
                try:
                    write_message(replies, {"done": done, "total": max(done, total), "renew": keys})
                except BrokenPipeError:
                    raise _ParentGone from None
                if read_message(requests) is None:
                    raise _ParentGone

        await asyncio.to_thread(report_progress)
        while (batch := await read_changes(archive, cursor)).changes:
            wanted = (change for change in batch.changes if only in (None, change.key.chat_id))
            ready = {change.key: batch.passages(change) for change in wanted}
            lexical.replace(ready, [build_lexical_entry(p) for passages in ready.values() for p in passages])
            before, cursor = cursor, batch.changes[-1].seq
            if only is None:  # for one channel the watermark of the others stays
                lexical.watermark = cursor
            done += await count(before, cursor)
            await asyncio.to_thread(report_progress, inventory.find_differing(ready, model) if inventory else ())
        if inventory:
            await asyncio.to_thread(report_progress, inventory.find_surplus(lexical))
        lexical.save(folder, format_rebuild_identity(archive, order["rebuild"]))
        write_message(replies, {"finished": True})
    except RagError as exc:
        write_message(replies, {"failed": exc.dump()})
    finally:
        await archive.close()


_SAVE_SECONDS = 5.0  # embedded again after a kill, unless the store has it


class EmbedderChange:
    """Change of the embedder of an engine, whose live vectors `dense` brings up to date. One per process.

    `grace`: seconds for which questions that were asked before the swap may use the old vectors.
    """

    def __init__(self, rag: Engine, dense: DenseIndexer, grace: float = 0.0) -> None:
        self._rag, self._dense, self._grace = rag, dense, grace
        self._archive, self._batch = rag.archive, BatchSize()
        self._next: DenseIndex | None = None
        self._old: DenseIndex | None = None
        self._state = VectorState("", "", 0)
        self._saved_at = 0.0

    async def run(self, tell: Callable[[int, int], None] | None = None) -> None:
        """Embed all posts with the engine's next embedder and swap; without one, remove what is left of another.

        `tell` gets the posts done and in all. Raises ModelUnavailable, VectorsUnavailable, ArchiveUnavailable; the
        next call goes on. Returns before the swap while an index is rebuilt.
        """
        await self._remove_replaced()
        if live := self._rag.dense:
            await asyncio.to_thread(remove_other_spaces, self._rag.settings, live.model)
        row = self._rag.next_embedder
        left = await index_state.load_next_vectors(self._archive)
        if left and (row is None or row.name != left.model):  # of a change that is no longer wanted
            index, self._next = self._next, None
            await self._drop(left.model, index)
            await index_state.forget_next_vectors(self._archive)
        if row is None:
            return
        await self._open(row)
        while await self._embed_batch(tell):
            if self._rag.next_embedder is not row:
                return
        if await index_state.find_running_rebuild(self._archive) is None:
            await self._swap()
            await asyncio.sleep(self._grace)
            await self._remove_replaced()

    async def close(self) -> None:
        """Close what is open; the next process goes on."""
        for index in (self._next, self._old):
            if index:
                await index.close()
        self._next = self._old = None

    async def _open(self, row: ModelSpec) -> None:
        if self._next:
            return
        index = await open_vectors_of(self._rag.settings, row, self._archive)
        try:
            state = await index_state.load_next_vectors(self._archive)
            if state is None or state.identity != index.vectors.about.identity:
                if await index.vectors.count():  # of another state of the archive
                    await index.vectors.drop()
                    index = replace(index, vectors=await open_store_of(self._rag.settings, row, self._archive))
                state = VectorState(row.name, index.vectors.about.identity, 0)
                await index_state.save_next_vectors(self._archive, state)
        except BaseException:
            await index.close()
            raise
        self._next, self._state = index, state

    async def _embed_batch(self, tell: Callable[[int, int], None] | None = None) -> bool:
        assert self._next
        changes = await posts.list_post_changes(self._archive, self._state.watermark, self._batch.posts)
        if changes:
            keys = [change.key for change in changes]
            self._batch.adapt(await embed_posts(self._archive, self._next.vectors, self._next.embedder, keys))
            self._state = replace(self._state, watermark=changes[-1].seq)
        if not changes or time.monotonic() - self._saved_at > _SAVE_SECONDS:
            await self._next.vectors.flush()  # first: a power cut must not lose what is said to be done
            await index_state.save_next_vectors(self._archive, self._state)
            self._saved_at = time.monotonic()
            if tell:
                count = partial(index_state.count_changed_posts, self._archive, None)
                done, last = await count(0, self._state.watermark), await posts.get_last_seq(self._archive)
                tell(done, done + await count(self._state.watermark, last))
        return bool(changes)

    async def _swap(self) -> None:
        assert self._next
        async with self._dense.turn:
            while await self._embed_batch():  # what came since the last look
                pass
            await index_state.install_next_vectors(self._archive, self._state)
            self._dense.vectors, self._dense.embedder = self._next.vectors, self._next.embedder
            self._old, self._rag.dense = self._rag.dense, self._next
            self._next = self._rag.next_embedder = None

    async def _remove_replaced(self) -> None:
        """Remove the store that the live one replaced, after a swap or, after a kill, at the next start."""
        state = await index_state.load_vector_state(self._archive)
        if state is None or not state.replaced:
            return
        await self._drop(state.replaced, self._old)
        self._old = None
        await index_state.forget_replaced_vectors(self._archive)

    async def _drop(self, model: str, index: DenseIndex | None) -> None:
        if self._rag.dense is None or self._rag.dense.model.name == model:
            return
        try:
            row = find_models(model)[0]
            store = index.vectors if index else await open_store_of(self._rag.settings, row, self._archive)
        except ModelUnavailable:  # a model that this version does not know
            return
        await store.drop()
        if index:
            await index.embedder.close()


def main(order: Mapping[str, Any]) -> int:
    """Run the worker and return the exit code; errors are reported to the parent."""
    pipes = open_parent_pipes()
    os.nice(_NICENESS)
    # A worker that lost its parent ends at its next report; until then it holds the folder.
    with Path(order["folder"], "rebuild.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            asyncio.run(_run_build(order, *pipes))
        except _ParentGone:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
