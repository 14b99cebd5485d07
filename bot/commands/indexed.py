"""The archive opened with its indexes brought up to date, for commands that hold the folder alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from tqdm import tqdm

from bot.settings import Settings
from ingest.copies import CopyIndexer
from ingest.dense import DenseIndexer
from ingest.index import Indexer
from rag_core.doors.archive import posts
from rag_core.rag import Rag, open_rag

__all__ = ["bar", "caught_up", "embedded", "grouped", "opened"]


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Rag]:
    """The doors, with indexes that know the whole archive. The folder is the caller's: bot/owner.py."""
    async with open_rag(settings.rag()) as rag:
        await caught_up(rag)
        await grouped(rag)
        await embedded(rag)
        yield rag


async def caught_up(rag: Rag) -> None:
    """Take what the archive has into the lexical leg, and save it."""
    indexer = Indexer(rag.archive, rag.lexical)
    behind = await posts.last_seq(rag.archive) - rag.lexical.watermark
    with bar("index") as moved:
        await indexer.catch_up(lambda done: moved(done, behind))
    await indexer.save()


async def grouped(rag: Rag) -> None:
    """Find the copies among the posts of the whole archive. May be interrupted: it goes on from there."""
    indexer = CopyIndexer(rag.archive)
    waiting = await indexer.waiting()
    with bar("copies") as moved:
        await indexer.catch_up(lambda done: moved(done, waiting))


async def embedded(rag: Rag) -> None:
    """Take the whole archive into the dense leg, where there is one. May be interrupted: it goes on from there."""
    if rag.dense is None:
        return
    indexer = DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder)
    waiting = await indexer.waiting()
    with bar("embed") as moved:
        await indexer.catch_up(lambda done: moved(done, waiting))


@contextmanager
def bar(name: str, unit: str = "post") -> Iterator[Callable[[int, int], None]]:
    """A progress bar that is told how much is done, and of how much; nothing is seen of work under a second."""
    with tqdm(desc=name, unit=unit, unit_scale=unit == "B", delay=1, leave=False) as shown:

        def moved(done: int, total: int) -> None:
            shown.total = total
            shown.update(done - shown.n)

        yield moved
