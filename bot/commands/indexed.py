"""The archive opened with its indexes brought up to date, for commands that work beside or without the bot."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress

from tqdm import tqdm

from bot.owner import owned
from bot.settings import Settings
from ingest.dense import DenseIndexer
from ingest.index import Indexer
from rag_core.doors.archive import Archive, posts
from rag_core.doors.lexical import Lexical
from rag_core.errors import ArchiveUnavailable
from rag_core.rag import Rag, open_rag

__all__ = ["caught_up", "embedded", "opened"]


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Rag]:
    """The doors, with indexes that know the whole archive.

    Where the bot owns the folder the lexical index is only brought up in memory, and posts are searched by
    words alone: the bot keeps both indexes on disk.
    """
    async with open_rag(settings.rag()) as rag:
        await caught_up(settings, rag.archive, rag.lexical)
        await embedded(rag)
        yield rag


async def caught_up(settings: Settings, archive: Archive, lexical: Lexical) -> None:
    """Index what the archive has and the index has not; save it unless another process owns the folder."""
    indexer = Indexer(archive, lexical)
    behind = await posts.last_seq(archive) - lexical.watermark
    with ExitStack() as stack:
        mine = False
        with suppress(ArchiveUnavailable):
            stack.enter_context(owned(settings.data.dir))
            mine = True
        await indexer.catch_up(stack.enter_context(_bar("index", behind)), save=mine)
        if mine:
            await indexer.save()


async def embedded(rag: Rag) -> None:
    """Take the whole archive into the dense leg, where there is one. May be interrupted: it goes on from there."""
    if rag.dense is None:
        return
    indexer = DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder)
    with _bar("embed", await indexer.waiting()) as moved:
        await indexer.catch_up(moved)


@contextmanager
def _bar(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar that is told how much is done in all; nothing is seen of work under a second."""
    with tqdm(total=total, desc=name, unit="post", delay=1, leave=False) as bar:

        def moved(done: int) -> None:
            bar.update(done - bar.n)

        yield moved
