"""Engine factory: opens archive, lexical index, vectors and models, and puts the engine together from them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

from rag_core.calibration import Calibration
from rag_core.engine import Engine
from rag_core.errors import ModelUnavailable, VectorsUnavailable
from rag_core.index.bm25_files import get_lexical_folder
from rag_core.index.lexical_index import Bm25Index, LexicalIndex
from rag_core.models.active_models import (
    LanguageModels,
    apply_model_choices,
    find_live_model,
    find_next_embedder,
    open_dense_index,
    open_language_models,
    open_selected_reranker,
)
from rag_core.planning.plan import plan_by_rules
from rag_core.settings import QdrantSettings, RagSettings
from rag_core.storage import Archive, posts
from rag_core.storage.chat_and_admin_settings import load_choices
from rag_core.types import Shortfall

T = TypeVar("T")

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_engine(settings: RagSettings, *, language: bool = True) -> AsyncIterator[Engine]:
    """Open the archive and load the saved index; later posts are added by `ingest.indexer`.

    Raises ArchiveUnavailable. An index that is missing, damaged or of another archive is no error: it starts
    empty, at watermark 0. Without an embedder, or where it cannot be loaded, posts are searched by words alone.
    `language`: also open writer and planner, which takes the load time and the memory of their models.
    """
    async with AsyncExitStack() as stack:
        archive = await Archive.open(settings.data.dir)
        stack.push_async_callback(archive.close)
        lexical = await load_or_make_lexical_index(archive, settings.qdrant)
        stack.callback(lexical.close)
        wanted = apply_model_choices(settings, await load_choices(archive))
        rag = Engine(settings, archive, lexical, Calibration.load(settings), plan_by_rules)
        stack.push_async_callback(_close_replaceable_models, rag)
        live = await find_live_model(settings, archive)
        rag.dense, dense_shortfalls = await _open_or_note_shortfall("dense", open_dense_index(wanted, live))
        rag.next_embedder = find_next_embedder(wanted, rag.dense) if rag.dense else None
        rag.reranker, rerank_shortfalls = await _open_or_note_shortfall("rerank", open_selected_reranker(wanted))
        models, write_shortfalls = (
            await _open_or_note_shortfall("write", open_language_models(wanted)) if language else (None, ())
        )
        if models:
            rag.writer, rag.planner = models.writer, models.planner
        rag.without = (*dense_shortfalls, *rerank_shortfalls, *write_shortfalls)
        yield rag


async def load_or_make_lexical_index(archive: Archive, qdrant: QdrantSettings | None = None) -> LexicalIndex:
    """Load the saved index of this archive, or make an empty one. Call it before anything is written to the archive.

    An index whose watermark is ahead of the archive is discarded: the archive was restored from a backup, and the
    missing sequence numbers will be used again, for other posts.
    """
    folder = get_lexical_folder(archive.folder)
    lexical = await asyncio.to_thread(load_saved_lexical_index, qdrant, folder, archive.identity)
    if lexical is not None and lexical.watermark <= await posts.get_last_seq(archive):
        return lexical
    log.info("no saved index of this archive: it is built anew")
    return await asyncio.to_thread(make_lexical_index, qdrant)


def make_lexical_index(qdrant: QdrantSettings | None = None) -> LexicalIndex:
    """Make an empty lexical index, in files or on Qdrant (QDRANT__WORDS). An unreachable server is no error: it is
    tried again.
    """
    if qdrant is None or not (qdrant.url and qdrant.words):
        return Bm25Index()
    from rag_core.index.sparse_qdrant import QdrantLexicalIndex  # imported here: it takes a second

    return QdrantLexicalIndex(qdrant)


def load_saved_lexical_index(qdrant: QdrantSettings | None, folder: Path, archive: str) -> LexicalIndex | None:
    """Load the lexical index saved in `folder` for this archive, as the settings say; None if there is none."""
    if qdrant is None or not (qdrant.url and qdrant.words):
        return Bm25Index.load(folder, archive)
    from rag_core.index.sparse_qdrant import QdrantLexicalIndex

    return QdrantLexicalIndex.load(qdrant, folder, archive)


async def _close_replaceable_models(rag: Engine) -> None:
    """Close the models that are in use at the end: they may have been replaced since the start."""
    await LanguageModels(rag.writer, rag.planner).close()
    if rag.reranker:
        await rag.reranker.close()
    if rag.dense:
        await rag.dense.close()


async def _open_or_note_shortfall(stage: str, opening: Awaitable[T | None]) -> tuple[T | None, tuple[Shortfall, ...]]:
    """Open a component, or note the shortfall: everything works without models."""
    try:
        return await opening, ()
    except (ModelUnavailable, VectorsUnavailable) as exc:
        log.error("%s is off: %s", stage, exc.reason)
        return None, (Shortfall(stage, exc.reason),)
