"""Engine: archive, indexes, models, settings and caches, and how it is opened.

Models can be replaced while the bot runs. Everything works without models: a model that cannot be opened becomes a
shortfall that is reported with every answer.

Caches hold recent plans, search hits and judgements, limited in number and age. The channels a viewer may read are
part of every key, and a change of an index empties the caches of what it may change. Hits are kept as passage
references and scores, never as texts: texts are read from the archive each time, so that an edit or a deletion shows
at once. SQLite reads the 40 posts of a question in 0.7 ms among 100,000; an answer takes 30 ms, these caches save 14.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from cachetools import TTLCache

from rag_core.calibration import Calibration
from rag_core.errors import ModelUnavailable, VectorsUnavailable
from rag_core.index.lexical_index import LexicalIndex, get_lexical_folder
from rag_core.models import active_models
from rag_core.models.active_models import DenseIndex, GgufFile, ModelSwitch, open_writer
from rag_core.models.catalog import ModelSpec
from rag_core.run import Budgets, Run
from rag_core.settings import RagSettings
from rag_core.storage import Archive, posts
from rag_core.storage.readers import load_choices, save_choice
from rag_core.types import Channel, DroppedSentence, PassageRef, Plan, PostKey, Question, Shortfall

if TYPE_CHECKING:
    from rag_core.llm.protocol import LanguageModel
    from rag_core.models.onnx_models import Reranker


V = TypeVar("V")
IndexVersion = tuple[Hashable, ...]
Clock = Callable[[], float]  # seconds, from any starting point

_MAX_PLANS, _PLANS_TTL_S = 1000, 600.0  # 1 kB each
_MAX_HITS, _HITS_TTL_S = 500, 300.0  # 11 kB each: 41 passage references on average
_MAX_DROPPED, _DROPPED_TTL_S = 200, 86_400.0  # answers, 1 kB each
_MAX_JUDGEMENTS, _JUDGEMENTS_TTL_S = 10_000, 86_400.0  # 300 bytes each, and seconds of a model


@dataclass(frozen=True, slots=True)
class CachedHit:
    """Hit without its text; `score`, `leg` and `likeness` as in `Hit`."""

    place: PassageRef
    score: float
    leg: str
    likeness: float


class VersionedCache(Generic[V]):
    """TTL cache limited to `most` values, all of one version of the indexes. Thread-safe.

    An index may change while a value is computed: a value is stored with the version at which its work began.
    """

    def __init__(self, most: int, seconds: float, clock: Clock) -> None:
        self._kept: TTLCache[Hashable, V] = TTLCache(most, seconds, timer=clock)
        self._version: IndexVersion | None = None
        self._lock = threading.Lock()  # cachetools does not lock
        self.looks = self.hits = 0

    def __len__(self) -> int:
        with self._lock:
            self._kept.expire()
            return len(self._kept)

    def get(self, key: Hashable, version: IndexVersion) -> V | None:
        """Look a value up; None where there is none. A new version empties the cache."""
        with self._lock:
            if version != self._version:
                self._kept.clear()
                self._version = version
            found = self._kept.get(key)
            self.looks += 1
            self.hits += found is not None
            return found

    def store(self, key: Hashable, version: IndexVersion, value: V) -> None:
        """Store a value, unless a lookup with another version came meanwhile."""
        with self._lock:
            if version == self._version:
                self._kept[key] = value

    def forget(self) -> None:
        """Drop everything."""
        with self._lock:
            self._kept.clear()


class Caches:
    """Caches of one engine, in memory only."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.plans: VersionedCache[Plan] = VersionedCache(_MAX_PLANS, _PLANS_TTL_S, clock)
        self.hits: VersionedCache[tuple[CachedHit, ...]] = VersionedCache(_MAX_HITS, _HITS_TTL_S, clock)
        # log odds by model and prompt, which is made of the question and of a quote that its reader may see
        self.judgements: VersionedCache[float] = VersionedCache(_MAX_JUDGEMENTS, _JUDGEMENTS_TTL_S, clock)
        # what a model wrote and is not shown, by trace id, for /why: it is kept nowhere else
        self.dropped: TTLCache[str, tuple[DroppedSentence, ...]] = TTLCache(_MAX_DROPPED, _DROPPED_TTL_S, timer=clock)

    def forget(self) -> None:
        """Drop everything: keys contain the texts of questions."""
        for cache in (self.plans, self.hits, self.judgements):
            cache.forget()
        self.dropped.clear()

    @property
    def counts(self) -> tuple[int, int]:
        """Number of hits and of lookups, of the caches that hold results of questions."""
        return self.plans.hits + self.hits.hits, self.plans.looks + self.hits.looks


def make_plan_key(question: Question, known: Mapping[int, Channel]) -> Hashable:
    """Key of a plan: text, language, day and time zone ("yesterday"), and the readable channels with their names."""
    asked, readable = question.asked_at, question.viewer.channels
    named = frozenset(question.viewer.select_readable(known).values())
    return question.text, question.lang, asked.date(), asked.tzinfo, readable, named


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

    async def forget_questions(self) -> None:
        """Drop what memory holds of questions: what was found for them, and the vectors of the last ones."""
        self.caches.forget()
        if self.dense:
            with suppress(ModelUnavailable):  # it is being closed
                await self.dense.embedder.forget_questions()


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
        wanted = active_models.apply_model_choices(settings, await load_choices(archive))
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
        rag.dense = await open_or_note_shortfall("dense", active_models.open_dense_index(wanted, archive))
        rag.next_embedder = active_models.find_next_embedder(wanted, rag.dense) if rag.dense else None
        rag.reranker = await open_or_note_shortfall("rerank", active_models.open_selected_reranker(wanted))
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
    use = active_models.resolve_model_use(given, wanted)
    async with _SWITCH_LOCK:
        active_models.check_choice_allowed(rag.settings, use, given)
        settings = active_models.apply_model_choices(rag.settings, {**await load_choices(rag.archive), use: given})
        if use == "writer":
            await _switch_writer(rag, settings)
        elif use == "reranker":
            old, rag.reranker = rag.reranker, await active_models.open_selected_reranker(settings)
            if old:
                task = asyncio.create_task(_close_later(old, 2 * rag.budgets.rerank))
                _CLOSING_TASKS.add(task)
                task.add_done_callback(_CLOSING_TASKS.discard)
        elif use == "embedder" and rag.dense:
            rag.next_embedder = active_models.find_next_embedder(settings, rag.dense)
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

    old, file = rag.writer, active_models.find_gguf(settings, settings.llm.model)
    assert old is None or isinstance(old, LocalModel)
    if old and file and old.path == file.path:
        return
    if old:
        await old.close()
    loaded = settings.model_copy(update={"llm": settings.llm.model_copy(update={"warm": True})})
    try:
        rag.writer = rag.planner = await active_models.open_gguf(file, loaded)
    except ModelUnavailable:
        again = GgufFile(old.path, old.name) if old else None
        rag.writer = rag.planner = await active_models.open_gguf(again, settings)
        raise
