"""Opening of up-to-date indexes, for commands that hold the data folder alone: pending posts are indexed first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bot.cli.progress_bar import show_progress_bar
from bot.settings import Settings
from ingest.copies import CopyIndexer
from ingest.indexer import DenseIndexer, LexicalIndexer
from rag_core.engine import Engine, open_engine
from rag_core.storage import posts


@asynccontextmanager
async def open_up_to_date_engine(settings: Settings) -> AsyncIterator[Engine]:
    """Open the engine with indexes that cover the whole archive. The caller holds the data folder."""
    async with open_engine(settings.rag()) as rag:
        await catch_up_indexes(rag)
        yield rag


async def catch_up_indexes(rag: Engine) -> None:
    """Bring all indexes up to date with the archive. Can be interrupted: the next run continues."""
    await catch_up_lexical_index(rag)
    await catch_up_copies(rag)
    await catch_up_vectors(rag)


async def catch_up_lexical_index(rag: Engine) -> None:
    """Index the archive's pending changes in the lexical index, and save it; one of an earlier version is replaced."""
    lexical = rag.lexical.make_empty() if rag.lexical.outdated else rag.lexical
    indexer = LexicalIndexer(rag.archive, lexical)
    if behind := await posts.get_last_seq(rag.archive) - lexical.watermark:
        with show_progress_bar("index") as moved:
            await indexer.catch_up(lambda done: moved(done, behind), save=lexical is rag.lexical)
    if lexical is rag.lexical:
        await indexer.save()
    else:
        await LexicalIndexer(rag.archive, rag.lexical).put_in_place(lexical)


async def catch_up_copies(rag: Engine) -> None:
    """Find copies among all posts of the archive. Can be interrupted: the next run continues."""
    await _catch_up(CopyIndexer(rag.archive), "copies")


async def catch_up_vectors(rag: Engine) -> None:
    """Embed the archive's pending posts, if there is a dense index. Can be interrupted: the next run continues."""
    if rag.dense:
        await _catch_up(DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder), "embed")


async def _catch_up(indexer: CopyIndexer | DenseIndexer, name: str) -> None:
    if waiting := await indexer.waiting():
        with show_progress_bar(name) as moved:
            await indexer.catch_up(lambda done: moved(done, waiting))
