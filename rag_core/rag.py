"""The tray of opened doors, and the one place that opens them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rag_core.calibration import Calibration
from rag_core.dense import Dense, open_dense, open_reranking
from rag_core.doors.archive import Archive, posts
from rag_core.doors.lexical import Lexical
from rag_core.doors.rerank import Reranker
from rag_core.errors import ModelUnavailable, VectorsUnavailable
from rag_core.settings import RagSettings
from rag_core.stage import Run
from rag_core.types import Shortfall

__all__ = ["Rag", "index_folder", "load_lexical", "open_rag"]

T = TypeVar("T")
log = logging.getLogger(__name__)


def _logged(run: Run) -> None:
    log.info("answered %s", run.line())


@dataclass(frozen=True, slots=True)
class Rag:
    """What every stage may need. `traced` gets each finished run: tests and metrics hang on it."""

    settings: RagSettings
    archive: Archive
    lexical: Lexical
    calibration: Calibration
    dense: Dense | None = None
    reranker: Reranker | None = None
    without: tuple[Shortfall, ...] = ()  # what could not be opened, said with every answer
    traced: Callable[[Run], None] = _logged


@asynccontextmanager
async def open_rag(settings: RagSettings) -> AsyncIterator[Rag]:
    """Open the archive and load the saved index; what came since is added by `ingest.index`.

    Raises ArchiveUnavailable. An index that is missing, damaged or of another archive is no error: it begins
    empty, at watermark 0. Without a model, or where it cannot be loaded, posts are searched by words alone.
    """
    async with AsyncExitStack() as stack:
        archive = await Archive.open(settings.data.dir)
        stack.push_async_callback(archive.close)
        lexical = await load_lexical(archive)
        dense, said_dense = await _or_without("dense", open_dense(settings))
        if dense:
            stack.push_async_callback(dense.close)
        reranker, said_rerank = await _or_without("rerank", open_reranking(settings))
        if reranker:
            stack.push_async_callback(reranker.close)
        without = (*said_dense, *said_rerank)
        yield Rag(settings, archive, lexical, Calibration.load(settings), dense, reranker, without)


async def _or_without(stage: str, opening: Awaitable[T | None]) -> tuple[T | None, tuple[Shortfall, ...]]:
    """What was opened, or a shortfall that says why not: everything works without models."""
    try:
        return await opening, ()
    except (ModelUnavailable, VectorsUnavailable) as exc:
        log.error("%s is off: %s", stage, exc.reason)
        return None, (Shortfall(stage, exc.reason),)


async def load_lexical(archive: Archive) -> Lexical:
    """The saved index of this archive, or an empty one. To be called before anything is written to the archive.

    An index that knows of changes the archive has not had was made of a later state, and the archive was
    put back from a backup: the numbers it lacks will be given out again, to other posts.
    """
    lexical = await asyncio.to_thread(Lexical.load, index_folder(archive), archive.identity)
    if lexical is not None and lexical.watermark <= await posts.last_seq(archive):
        return lexical
    log.info("no saved index of this archive: it is built anew")
    return Lexical()


def index_folder(archive: Archive) -> Path:
    """Where the lexical leg is kept."""
    return archive.folder / "lexical"
