"""Engine: the archive, the indexes, the models, the caches and the settings, and the function that opens them.

Models can be replaced while the bot runs. Everything works without models: a model that cannot be opened becomes a
shortfall that is reported with every answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from rag_core.caches import Caches, IndexVersion
from rag_core.context.calibration import Calibration
from rag_core.errors import ModelUnavailable, VectorsUnavailable
from rag_core.index.open_words import LexicalIndex, load_saved_lexical_index, make_lexical_index
from rag_core.llm import LanguageModel
from rag_core.models.reranker import Reranker
from rag_core.models.selection import (
    DenseIndex,
    LanguageModels,
    apply_model_choices,
    open_dense_index,
    open_language_models,
    open_selected_reranker,
)
from rag_core.planning import plan_by_rules
from rag_core.recipe_health import RecipeHealth
from rag_core.settings import QdrantSettings, RagSettings
from rag_core.storage import Archive, posts, users
from rag_core.tracing import Run
from rag_core.types import Channel, Plan, Question, Shortfall

__all__ = ["Engine", "PlanFunction", "get_lexical_folder", "load_or_make_lexical_index", "open_engine"]

T = TypeVar("T")
PlanFunction = Callable[[Question, Mapping[int, Channel]], Plan]  # a question, and the channels by id, to a plan

log = logging.getLogger(__name__)


def _log_run(run: Run) -> None:
    log.info("answered %s", run.line())


@dataclass(frozen=True, slots=True)
class Engine:
    """What every stage may need.

    `traced` gets each finished run: tests and metrics hang on it. `plan` is by rules unless something is compared
    with them. `clock` gives the seconds by which the caches forget; each tray has caches of its own, also one made
    of another by `replace`: with other doors or settings other things are found. `recipe` answers where the chat has
    chosen none; "auto" chooses by question and load. `health` remembers how the recipes fare.
    """

    settings: RagSettings
    archive: Archive
    lexical: LexicalIndex
    calibration: Calibration
    dense: DenseIndex | None = None
    reranker: Reranker | None = None
    writer: LanguageModel | None = None
    planner: LanguageModel | None = None  # may be the writer
    without: tuple[Shortfall, ...] = ()  # what could not be opened, said with every answer
    traced: Callable[[Run], None] = _log_run
    plan: PlanFunction = plan_by_rules
    clock: Callable[[], float] = time.monotonic
    recipe: str = "auto"
    health: RecipeHealth = field(default_factory=lambda: RecipeHealth(time.monotonic))
    caches: Caches = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "caches", Caches(self.clock))

    def exchange(self, **doors: object) -> None:
        """Put other doors on this tray while the bot runs. Who works with the old ones keeps them to the end."""
        for name, door in doors.items():
            object.__setattr__(self, name, door)

    @property
    def version(self) -> IndexVersion:
        """Changes whenever a search may find something else than before."""
        vectors = self.dense and (self.dense.store, self.dense.vectors.revision)
        return self.lexical.watermark, self.lexical.revision, vectors


@asynccontextmanager
async def open_engine(settings: RagSettings, *, language: bool = True) -> AsyncIterator[Engine]:
    """Open the archive and load the saved index; what came since is added by `ingest.indexer`.

    Raises ArchiveUnavailable. An index that is missing, damaged or of another archive is no error: it begins
    empty, at watermark 0. Without a model, or where it cannot be loaded, posts are searched by words alone.
    `language`: open a writer and a planner too, which takes the time and the memory of their models.
    """
    async with AsyncExitStack() as stack:
        archive = await Archive.open(settings.data.dir)
        stack.push_async_callback(archive.close)
        lexical = await load_or_make_lexical_index(archive, settings.qdrant)
        stack.callback(lexical.close)
        wanted = apply_model_choices(settings, await users.load_choices(archive))
        dense, said_dense = await _open_or_note_shortfall("dense", open_dense_index(wanted))
        if dense:
            stack.push_async_callback(dense.close)
        reranker, said_rerank = await _open_or_note_shortfall("rerank", open_selected_reranker(wanted))
        rag = Engine(settings, archive, lexical, Calibration.load(settings), dense, reranker)
        stack.push_async_callback(_close_replaceable_models, rag)
        models, said_write = (
            await _open_or_note_shortfall("write", open_language_models(wanted)) if language else (None, ())
        )
        if models:
            rag.exchange(writer=models.writer, planner=models.planner)
        rag.exchange(without=(*said_dense, *said_rerank, *said_write))
        yield rag


async def _close_replaceable_models(rag: Engine) -> None:
    """Close what may have been exchanged since it was opened."""
    await LanguageModels(rag.writer, rag.planner).close()
    if rag.reranker:
        await rag.reranker.close()


async def _open_or_note_shortfall(stage: str, opening: Awaitable[T | None]) -> tuple[T | None, tuple[Shortfall, ...]]:
    """What was opened, or a shortfall that says why not: everything works without models."""
    try:
        return await opening, ()
    except (ModelUnavailable, VectorsUnavailable) as exc:
        log.error("%s is off: %s", stage, exc.reason)
        return None, (Shortfall(stage, exc.reason),)


async def load_or_make_lexical_index(archive: Archive, qdrant: QdrantSettings | None = None) -> LexicalIndex:
    """The saved index of this archive, or an empty one. To be called before anything is written to the archive.

    An index that knows of changes the archive has not had was made of a later state, and the archive was
    put back from a backup: the numbers it lacks will be given out again, to other posts.
    """
    lexical = await asyncio.to_thread(load_saved_lexical_index, qdrant, get_lexical_folder(archive), archive.identity)
    if lexical is not None and lexical.watermark <= await posts.get_last_seq(archive):
        return lexical
    log.info("no saved index of this archive: it is built anew")
    return await asyncio.to_thread(make_lexical_index, qdrant)


def get_lexical_folder(archive: Archive) -> Path:
    """Where the lexical leg is kept."""
    return archive.folder / "lexical"
