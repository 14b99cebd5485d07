"""The tray of opened doors, and the one place that opens them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from rag_core.caches import Caches, Version
from rag_core.calibration import Calibration
from rag_core.dense import Dense, open_dense, open_reranking
from rag_core.doors.archive import Archive, choices, posts
from rag_core.doors.llm import LanguageModel
from rag_core.doors.rerank import Reranker
from rag_core.doors.words import WordIndex, new_words, saved_words
from rag_core.errors import ModelUnavailable, VectorsUnavailable
from rag_core.health import Health
from rag_core.language import Language, chosen_by, open_language
from rag_core.plan import plan_by_rules
from rag_core.settings import QdrantSettings, RagSettings
from rag_core.stage import Run
from rag_core.types import Channel, Plan, Question, Shortfall

__all__ = ["Planner", "Rag", "index_folder", "load_lexical", "open_rag"]

T = TypeVar("T")
Planner = Callable[[Question, Mapping[int, Channel]], Plan]  # a question, and the channels by id, to a plan

log = logging.getLogger(__name__)


def _logged(run: Run) -> None:
    log.info("answered %s", run.line())


@dataclass(frozen=True, slots=True)
class Rag:
    """What every stage may need.

    `traced` gets each finished run: tests and metrics hang on it. `plan` is by rules unless something is compared
    with them. `clock` gives the seconds by which the caches forget; each tray has caches of its own, also one made
    of another by `replace`: with other doors or settings other things are found. `recipe` answers where the chat has
    chosen none; "auto" chooses by question and load. `health` remembers how the recipes fare.
    """

    settings: RagSettings
    archive: Archive
    lexical: WordIndex
    calibration: Calibration
    dense: Dense | None = None
    reranker: Reranker | None = None
    writer: LanguageModel | None = None
    planner: LanguageModel | None = None  # may be the writer
    without: tuple[Shortfall, ...] = ()  # what could not be opened, said with every answer
    traced: Callable[[Run], None] = _logged
    plan: Planner = plan_by_rules
    clock: Callable[[], float] = time.monotonic
    recipe: str = "auto"
    health: Health = field(default_factory=lambda: Health(time.monotonic))
    caches: Caches = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "caches", Caches(self.clock))

    def exchange(self, **doors: object) -> None:
        """Put other doors on this tray while the bot runs. Who works with the old ones keeps them to the end."""
        for name, door in doors.items():
            object.__setattr__(self, name, door)

    @property
    def version(self) -> Version:
        """Changes whenever a search may find something else than before."""
        vectors = self.dense and (self.dense.store, self.dense.vectors.revision)
        return self.lexical.watermark, self.lexical.revision, vectors


@asynccontextmanager
async def open_rag(settings: RagSettings, *, language: bool = True) -> AsyncIterator[Rag]:
    """Open the archive and load the saved index; what came since is added by `ingest.index`.

    Raises ArchiveUnavailable. An index that is missing, damaged or of another archive is no error: it begins
    empty, at watermark 0. Without a model, or where it cannot be loaded, posts are searched by words alone.
    `language`: open a writer and a planner too, which takes the time and the memory of their models.
    """
    async with AsyncExitStack() as stack:
        archive = await Archive.open(settings.data.dir)
        stack.push_async_callback(archive.close)
        lexical = await load_lexical(archive, settings.qdrant)
        stack.callback(lexical.close)
        wanted = chosen_by(settings, await choices.remembered(archive))
        dense, said_dense = await _or_without("dense", open_dense(wanted))
        if dense:
            stack.push_async_callback(dense.close)
        reranker, said_rerank = await _or_without("rerank", open_reranking(wanted))
        rag = Rag(settings, archive, lexical, Calibration.load(settings), dense, reranker)
        stack.push_async_callback(_close_exchangeable, rag)
        models, said_write = await _or_without("write", open_language(wanted)) if language else (None, ())
        if models:
            rag.exchange(writer=models.writer, planner=models.planner)
        rag.exchange(without=(*said_dense, *said_rerank, *said_write))
        yield rag


async def _close_exchangeable(rag: Rag) -> None:
    """Close what may have been exchanged since it was opened."""
    await Language(rag.writer, rag.planner).close()
    if rag.reranker:
        await rag.reranker.close()


async def _or_without(stage: str, opening: Awaitable[T | None]) -> tuple[T | None, tuple[Shortfall, ...]]:
    """What was opened, or a shortfall that says why not: everything works without models."""
    try:
        return await opening, ()
    except (ModelUnavailable, VectorsUnavailable) as exc:
        log.error("%s is off: %s", stage, exc.reason)
        return None, (Shortfall(stage, exc.reason),)


async def load_lexical(archive: Archive, qdrant: QdrantSettings | None = None) -> WordIndex:
    """The saved index of this archive, or an empty one. To be called before anything is written to the archive.

    An index that knows of changes the archive has not had was made of a later state, and the archive was
    put back from a backup: the numbers it lacks will be given out again, to other posts.
    """
    lexical = await asyncio.to_thread(saved_words, qdrant, index_folder(archive), archive.identity)
    if lexical is not None and lexical.watermark <= await posts.last_seq(archive):
        return lexical
    log.info("no saved index of this archive: it is built anew")
    return await asyncio.to_thread(new_words, qdrant)


def index_folder(archive: Archive) -> Path:
    """Where the lexical leg is kept."""
    return archive.folder / "lexical"
