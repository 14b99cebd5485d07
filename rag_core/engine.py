"""Engine: archive, indexes, models, settings and caches, and how it is opened.

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
from typing import TYPE_CHECKING, TypeVar

from rag_core.caches import Caches, IndexVersion, VersionedCache
from rag_core.calibration import Calibration
from rag_core.errors import ModelUnavailable, VectorsUnavailable
from rag_core.index.lexical_index import LexicalIndex, get_lexical_folder
from rag_core.models.active_models import (
    DenseIndex,
    GgufFile,
    ModelSwitch,
    apply_model_choices,
    check_choice_allowed,
    find_gguf,
    find_next_embedder,
    open_dense_index,
    open_gguf,
    open_selected_reranker,
    open_writer,
    resolve_model_use,
)
from rag_core.models.catalog import ModelSpec
from rag_core.run import Budgets, Run
from rag_core.settings import RagSettings
from rag_core.storage import Archive, posts
from rag_core.storage.readers import load_choices, save_choice
from rag_core.types import Channel, Plan, PostKey, Question, Shortfall

if TYPE_CHECKING:
    from rag_core.llm.protocol import LanguageModel
    from rag_core.models.onnx_models import Reranker

_MAX_BOILERPLATES, _BOILERPLATES_TTL_S = 500, 300.0  # a few lines each


PlanFunction = Callable[[Question, Mapping[int, Channel]], Plan]  # a question, and the channels by id, to a plan

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Engine:
    """Archive, indexes, models, caches and settings that every stage may use.

    Reranker and writer may be replaced while the bot runs: a run that already uses the old one finishes with it.
    `traced` is called with each finished run. `plan` is compared with the planner by rules; `expands_plan`: spelling is
    corrected, and aliases are added. A copy made by `replace` has `caches` of its own, because other settings find
    other hits, and shares `boilerplate`, the repeated lines by channel. `recipe` answers where the chat has chosen
    none; "auto" chooses by question and load. `budgets` to `dense_weight` are no settings: deeper answers, evaluation
    and tests give others.
    """

    settings: RagSettings
    archive: Archive
    lexical: LexicalIndex
    calibration: Calibration
    dense: DenseIndex | None = None
    next_embedder: ModelSpec | None = None  # its vectors are made beside those of `dense`, whose place it then takes
    reranker: Reranker | None = None
    writer: LanguageModel | None = None
    planner: LanguageModel | None = None  # the writer, or none where plans are made by rules alone
    without: tuple[Shortfall, ...] = ()  # components that could not be opened, reported with every answer
    traced: Callable[[Run], None] = lambda run: log.info("answered %s", run.line())
    expands_plan: bool = True
    plan: PlanFunction | None = None
    recipe: str = "auto"
    show_results: bool = False  # each run keeps what its stages found, as texts, for the terminal that asked
    budgets: Budgets = field(default_factory=Budgets)
    keep: int = 40  # passages kept of both legs; the rest are too alike
    passed: frozenset[PostKey] = frozenset()  # posts that the reader wants no more: those of the answer before
    rounds: int = 1  # 2: search once more, wider, before an answer is refused
    dense_weight: float | None = None  # of the search by meaning; None: as calibrated for the model
    boilerplate: VersionedCache[frozenset[str]] = field(
        default_factory=lambda: VersionedCache(_MAX_BOILERPLATES, _BOILERPLATES_TTL_S, time.monotonic)
    )
    caches: Caches = field(init=False, default_factory=Caches)

    @property
    def version(self) -> IndexVersion:
        """Version of the indexes: it changes whenever a search may find something else."""
        return *self.version_of_posts, self.dense and (self.dense.vectors, self.dense.vectors.revision)

    @property
    def version_of_posts(self) -> IndexVersion:
        """Version of the posts and their words alone, whatever vectors there are."""
        return self.lexical.watermark, self.lexical.revision


T = TypeVar("T")


@asynccontextmanager
async def open_engine(settings: RagSettings, *, language: bool = True) -> AsyncIterator[Engine]:
    """Open the archive and load the saved index; later posts are added by `ingest.indexer`.

    Raises ArchiveUnavailable. An index that is missing, damaged or of another archive is no error: it starts
    empty, at watermark 0. Without an embedder, or where it cannot be loaded, posts are searched by words alone.
    `language`: also open the writer, which takes the load time and the memory of its model.
    """
    async with AsyncExitStack() as stack:
        archive = await Archive.open(settings.data.dir)
        stack.push_async_callback(archive.close)
        lexical = await load_or_make_lexical_index(archive)
        wanted = apply_model_choices(settings, await load_choices(archive))
        rag = Engine(settings, archive, lexical, Calibration.load(settings))
        rag.budgets = Budgets(question=settings.question_s)

        async def close_models() -> None:  # those that are in use at the end
            opened = (rag.writer, rag.reranker, rag.dense)
            await asyncio.gather(*(one.close() for one in opened if one))

        async def open_or_note_shortfall(stage: str, opening: Awaitable[T | None]) -> T | None:
            try:
                return await opening
            except (ModelUnavailable, VectorsUnavailable) as exc:
                log.error("%s is off: %s", stage, exc.reason)
                rag.without = (*rag.without, Shortfall(stage, exc.reason))
                return None

        stack.push_async_callback(close_models)
        rag.dense = await open_or_note_shortfall("dense", open_dense_index(wanted, archive))
        rag.next_embedder = find_next_embedder(wanted, rag.dense) if rag.dense else None
        rag.reranker = await open_or_note_shortfall("rerank", open_selected_reranker(wanted))
        if language:
            rag.writer = rag.planner = await open_or_note_shortfall("write", open_writer(wanted))
        yield rag


async def load_or_make_lexical_index(archive: Archive) -> LexicalIndex:
    """Load the saved index of this archive, or make an empty one. Call it before anything is written to the archive.

    An index whose watermark is ahead of the archive is discarded: the archive was restored from a backup, and the
    missing sequence numbers will be used again, for other posts.
    """
    folder = get_lexical_folder(archive.folder)
    lexical = await asyncio.to_thread(LexicalIndex.load, folder, archive.identity)
    if lexical is not None and lexical.watermark <= await posts.get_last_seq(archive):
        return lexical
    log.info("no saved index of this archive: it is built anew")
    return LexicalIndex()


_STAGE_BY_USE = {"writer": "write", "reranker": "rerank"}
_CLOSING_TASKS: set[asyncio.Task[None]] = set()  # close old models; asyncio itself holds only weak references
_SWITCH_LOCK = asyncio.Lock()


async def switch_model(rag: Engine, given: str, wanted: str = "") -> ModelSwitch:
    """Switch to a model (a catalog name, a path, auto, or none) at once and for every restart.

    What is asked of the writer meanwhile is answered without it; where the new one cannot be loaded the old one stays.
    Another embedder takes its place once its vectors are made, beside the old ones (`Engine.next_embedder`). Raises
    ModelUnavailable.
    """
    use = resolve_model_use(given, wanted)
    async with _SWITCH_LOCK:
        check_choice_allowed(rag.settings, use, given)
        settings = apply_model_choices(rag.settings, {**await load_choices(rag.archive), use: given})
        if use == "writer":
            await _switch_writer(rag, settings)
        elif use == "reranker":
            old, rag.reranker = rag.reranker, await open_selected_reranker(settings)
            if old:
                task = asyncio.create_task(_close_later(old, 2 * rag.budgets.rerank))
                _CLOSING_TASKS.add(task)
                task.add_done_callback(_CLOSING_TASKS.discard)
        elif use == "embedder" and rag.dense:
            rag.next_embedder = find_next_embedder(settings, rag.dense)
        if use in _STAGE_BY_USE:
            rag.without = tuple(each for each in rag.without if each.stage != _STAGE_BY_USE[use])
        await save_choice(rag.archive, use, given)
    if use != "embedder":
        return ModelSwitch(use, given, now=True)
    return ModelSwitch(use, given, now=rag.dense is not None and not rag.next_embedder, beside=bool(rag.next_embedder))


async def _close_later(old: Reranker, seconds: float) -> None:
    """Close a reranker, after a question that already uses it has finished its stage."""
    try:
        await asyncio.sleep(seconds)
    finally:
        await old.close()


async def _switch_writer(rag: Engine, settings: RagSettings) -> None:
    """Load another writer; where that fails the old one again. The old is closed first: memory may not hold both."""
    from rag_core.llm.local import LocalModel

    old, file = rag.writer, find_gguf(settings, settings.llm.model)
    assert old is None or isinstance(old, LocalModel)
    if old and file and old.path == file.path:
        return
    if old:
        await old.close()
    loaded = settings.model_copy(update={"llm": settings.llm.model_copy(update={"warm": True})})
    try:
        rag.writer = rag.planner = await open_gguf(file, loaded)
    except ModelUnavailable:
        rag.writer = rag.planner = await open_gguf(GgufFile(old.path, old.name), settings) if old else None
        raise
