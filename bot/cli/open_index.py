"""Engine opening for commands that hold the data folder alone: the indexes are brought up to date first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from tqdm import tqdm

from bot.settings import Settings
from ingest.dedup import CopyIndexer
from ingest.indexer import DenseIndexer, LexicalIndexer
from rag_core.engine import Engine, open_engine
from rag_core.storage import posts

__all__ = [
    "catch_up_copies",
    "catch_up_lexical_index",
    "catch_up_vectors",
    "open_up_to_date_engine",
    "show_progress_bar",
]


@asynccontextmanager
async def open_up_to_date_engine(settings: Settings) -> AsyncIterator[Engine]:
    """The doors, with indexes that know the whole archive. The folder is the caller's: bot/owner.py."""
    async with open_engine(settings.rag()) as rag:
        await catch_up_lexical_index(rag)
        await catch_up_copies(rag)
        await catch_up_vectors(rag)
        yield rag


async def catch_up_lexical_index(rag: Engine) -> None:
    """Take what the archive has into the lexical leg, and save it."""
    indexer = LexicalIndexer(rag.archive, rag.lexical)
    behind = await posts.get_last_seq(rag.archive) - rag.lexical.watermark
    with show_progress_bar("index") as moved:
        await indexer.catch_up(lambda done: moved(done, behind))
    await indexer.save()


async def catch_up_copies(rag: Engine) -> None:
    """Find the copies among the posts of the whole archive. May be interrupted: it goes on from there."""
    indexer = CopyIndexer(rag.archive)
    waiting = await indexer.waiting()
    with show_progress_bar("copies") as moved:
        await indexer.catch_up(lambda done: moved(done, waiting))


async def catch_up_vectors(rag: Engine) -> None:
    """Take the whole archive into the dense leg, where there is one. May be interrupted: it goes on from there."""
    if rag.dense is None:
        return
    indexer = DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder)
    waiting = await indexer.waiting()
    with show_progress_bar("embed") as moved:
        await indexer.catch_up(lambda done: moved(done, waiting))


@contextmanager
def show_progress_bar(name: str, unit: str = "post") -> Iterator[Callable[[int, int], None]]:
    """A progress bar that is told how much is done, and of how much; nothing is seen of work under a second."""
    with tqdm(desc=name, unit=unit, unit_scale=unit == "B", delay=1, leave=False) as shown:

        def moved(done: int, total: int) -> None:
            shown.total = total
            shown.update(done - shown.n)

        yield moved
