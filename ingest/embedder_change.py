"""Change of the embedder: the posts are embedded with the next model beside the live vectors, which it then replaces.

Searches and new posts use the old model and its vectors until the swap, which is one transaction of the archive. The
next vectors follow the archive by sequence number, so posts that come, change or go meanwhile are in them, too. The
archive keeps how far they are: after a kill at any moment the next process goes on from there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from ingest.indexer import BatchSize, DenseIndexer, embed_posts
from rag_core.engine import Engine
from rag_core.errors import ModelUnavailable
from rag_core.models.active_models import DenseIndex, open_store_of, open_vectors_of
from rag_core.models.catalog import ModelSpec, find_models
from rag_core.storage import index_state, posts
from rag_core.storage.index_state import VectorState

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
        row = self._rag.next_embedder
        left = await index_state.load_next_vectors(self._archive)
        if left and (row is None or row.name != left.model):
            await self._abandon(left.model)
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
        index = await open_vectors_of(self._rag.settings, row)
        try:
            state = await index_state.load_next_vectors(self._archive)
            if state is None or state.identity != index.vectors.identity:
                if await index.vectors.count():  # of another state of the archive
                    await index.vectors.drop()
                    index = replace(index, vectors=await open_store_of(self._rag.settings, row))
                state = VectorState(row.name, index.vectors.identity, 0)
                await index_state.save_next_vectors(self._archive, state)
        except BaseException:
            await index.close()
            raise
        self._next, self._state = index, state

    async def _embed_batch(self, tell: Callable[[int, int], None] | None = None) -> bool:
        """Embed the next posts; False where there are none left."""
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
                done, last = await self._count(0, self._state.watermark), await posts.get_last_seq(self._archive)
                tell(done, done + await self._count(self._state.watermark, last))
        return bool(changes)

    async def _count(self, after: int, until: int) -> int:
        return await index_state.count_changed_posts(self._archive, None, after, until)

    async def _swap(self) -> None:
        assert self._next
        async with self._dense.paused():
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
        if self._rag.dense and self._rag.dense.model.name != state.replaced:
            await self._drop(state.replaced, self._old)
        self._old = None
        await index_state.forget_replaced_vectors(self._archive)

    async def _abandon(self, model: str) -> None:
        """Remove the store of a change that is no longer wanted."""
        index, self._next = self._next, None
        if self._rag.dense and self._rag.dense.model.name != model:
            await self._drop(model, index)
        await index_state.forget_next_vectors(self._archive)

    async def _drop(self, model: str, index: DenseIndex | None) -> None:
        try:
            store = index.vectors if index else await open_store_of(self._rag.settings, find_models(model)[0])
        except ModelUnavailable:  # a model that this version does not know
            return
        await store.drop()
        if index:
            await index.embedder.close()
