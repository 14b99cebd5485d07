"""The archive opened with its indexes brought up to date, for commands that work beside or without the bot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress

from tqdm import tqdm

from bot.owner import owned
from bot.settings import Settings
from ingest.index import Indexer
from rag_core.doors.archive import Archive, posts
from rag_core.doors.lexical import Lexical
from rag_core.errors import ArchiveUnavailable
from rag_core.rag import Rag, open_rag

__all__ = ["caught_up", "opened"]


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Rag]:
    """The doors, with an index that knows the whole archive.

    Where the bot owns the folder the index is only brought up in memory: the bot keeps its own on disk.
    """
    async with open_rag(settings.rag()) as rag:
        await caught_up(settings, rag.archive, rag.lexical)
        yield rag


async def caught_up(settings: Settings, archive: Archive, lexical: Lexical) -> None:
    """Index what the archive has and the index has not; save it unless another process owns the folder."""
    indexer = Indexer(archive, lexical)
    behind = await posts.last_seq(archive) - lexical.watermark
    with ExitStack() as stack, tqdm(total=behind, desc="index", unit="post", delay=1, leave=False) as bar:
        mine = False
        with suppress(ArchiveUnavailable):
            stack.enter_context(owned(settings.data.dir))
            mine = True

        def moved(done: int) -> None:
            bar.update(done - bar.n)

        await indexer.catch_up(moved, save=mine)
        if mine:
            await indexer.save()
