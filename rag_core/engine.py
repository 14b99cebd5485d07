"""Engine: archive, indexes, models, settings and caches; opened by rag_core/engine_factory.py.

Models can be replaced while the bot runs. Everything works without models: a model that cannot be opened becomes a
shortfall that is reported with every answer.

Caches of recent plans, search hits, reranked pairs and verdicts are limited in number and age. The channels a viewer
may read are part of every key, and a change of an index empties the caches of what it may change. Hits are kept as
passage references and scores, never as texts: texts are read from the archive each time, so that an edit or a deletion
shows at once. Verdicts hold quotes, so the last change of the archive is part of their key. Posts are not cached:
SQLite reads the 40 posts of a question in 0.7 ms among 100,000, while an answer takes 30 ms and these caches save 14.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cachetools import TTLCache

from rag_core.calibration import Calibration
from rag_core.index.bm25 import Bm25Index, LexicalIndex
from rag_core.llm.protocol import LanguageModel
from rag_core.models.active_models import DenseIndex
from rag_core.models.reranker import Reranker
from rag_core.settings import QdrantSettings, RagSettings
from rag_core.storage import Archive, posts
from rag_core.tracing import Run
from rag_core.types import Channel, PassageRef, Plan, Question, Shortfall

if TYPE_CHECKING:
    from rag_core.verification.verdict_types import Verdict

V = TypeVar("V")
IndexVersion = tuple[Hashable, ...]
Clock = Callable[[], float]  # seconds, from any starting point

_MAX_PLANS, _PLANS_TTL_S = 1000, 600.0  # 1 kB each
_MAX_HITS, _HITS_TTL_S = 500, 300.0  # 11 kB each: 41 passage references on average
_MAX_VERDICTS, _VERDICTS_TTL_S = 500, 300.0  # 3 kB each
_MAX_PAIRS, _PAIRS_TTL_S = 10_000, 300.0  # 300 bytes each: 20 passages of 500 questions
_MAX_BOILERPLATES, _BOILERPLATES_TTL_S = 500, 300.0  # a few lines each


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
    """Caches of one engine, in memory only: plans, hits, reranked pairs, verdicts."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.plans: VersionedCache[Plan] = VersionedCache(_MAX_PLANS, _PLANS_TTL_S, clock)
        self.hits: VersionedCache[tuple[CachedHit, ...]] = VersionedCache(_MAX_HITS, _HITS_TTL_S, clock)
        self.verdicts: VersionedCache[Verdict] = VersionedCache(_MAX_VERDICTS, _VERDICTS_TTL_S, clock)
        # scores by reranker, question, channels and text: whatever else changes, they stay
        self.pairs: VersionedCache[float] = VersionedCache(_MAX_PAIRS, _PAIRS_TTL_S, clock)
        self._all: tuple[VersionedCache[Any], ...] = (self.plans, self.hits, self.verdicts, self.pairs)

    def forget(self) -> None:
        """Drop everything: keys contain the texts of questions."""
        for cache in self._all:
            cache.forget()

    @property
    def counts(self) -> tuple[int, int]:
        """Number of hits and of lookups, of the caches that hold results of questions."""
        of_questions = (self.plans, self.hits, self.verdicts)
        return sum(cache.hits for cache in of_questions), sum(cache.looks for cache in of_questions)


def make_plan_key(question: Question, known: Mapping[int, Channel]) -> Hashable:
    """Key of a plan: text, language, day and time zone ("yesterday"), and the readable channels with their names."""
    asked, readable = question.asked_at, question.viewer.channels
    named = frozenset(known[chat] for chat in readable if chat in known)
    return question.text, question.lang, asked.date(), asked.tzinfo, readable, named


def make_hits_key(plan: Plan, question: Question, change: int) -> Hashable:
    """Key of the hits: the plan (route, queries, filters), the language and the channels of the viewer.

    `change`: the archive's change number where the plan filters by archive fields (author, kind ...), else 0.
    """
    return plan, question.lang, question.viewer.channels, change


PlanFunction = Callable[[Question, Mapping[int, Channel]], Plan]  # a question, and the channels by id, to a plan

log = logging.getLogger(__name__)


def _log_run(run: Run) -> None:
    log.info("answered %s", run.line())


@dataclass(slots=True, eq=False)
class Engine:
    """Archive, indexes, models, caches and settings that every stage may use.

    Reranker, writer and planner may be replaced while the bot runs: a run that already uses the old one finishes with
    it. `traced` is called with each finished run, for tests and metrics. `plan` is the rule planner, unless another one
    is compared with it; `expands_plan`: spelling is corrected, and aliases are added to it. A copy made by `replace`
    has `caches` of its own, because other settings find other hits, and shares `boilerplate`, the repeated lines by
    channel. `recipe` answers where the chat has chosen none; "auto" chooses by question and load. `health` is the
    circuit breaker of the recipes.
    """

    settings: RagSettings
    archive: Archive
    lexical: LexicalIndex
    calibration: Calibration
    plan: PlanFunction
    dense: DenseIndex | None = None
    reranker: Reranker | None = None
    writer: LanguageModel | None = None
    planner: LanguageModel | None = None  # may be the writer
    without: tuple[Shortfall, ...] = ()  # components that could not be opened, reported with every answer
    traced: Callable[[Run], None] = _log_run
    expands_plan: bool = True
    recipe: str = "auto"
    show_results: bool = False  # each run keeps what its stages found, as texts, for the terminal that asked
    health: RecipeHealth = field(default_factory=lambda: RecipeHealth(time.monotonic))
    boilerplate: VersionedCache[frozenset[str]] = field(
        default_factory=lambda: VersionedCache(_MAX_BOILERPLATES, _BOILERPLATES_TTL_S, time.monotonic)
    )
    caches: Caches = field(init=False, default_factory=Caches)

    @property
    def version(self) -> IndexVersion:
        """Version of the indexes: it changes whenever a search may find something else."""
        vectors = self.dense and (self.dense.store, self.dense.vectors.revision)
        return self.lexical.watermark, self.lexical.revision, vectors


async def load_or_make_lexical_index(archive: Archive, qdrant: QdrantSettings | None = None) -> LexicalIndex:
    """Load the saved index of this archive, or make an empty one. Call it before anything is written to the archive.

    An index whose watermark is ahead of the archive is discarded: the archive was restored from a backup, and the
    missing sequence numbers will be used again, for other posts.
    """
    lexical = await asyncio.to_thread(load_saved_lexical_index, qdrant, get_lexical_folder(archive), archive.identity)
    if lexical is not None and lexical.watermark <= await posts.get_last_seq(archive):
        return lexical
    log.info("no saved index of this archive: it is built anew")
    return await asyncio.to_thread(make_lexical_index, qdrant)


def get_lexical_folder(archive: Archive) -> Path:
    """Folder of the saved lexical index."""
    return archive.folder / "lexical"


def make_lexical_index(qdrant: QdrantSettings | None = None) -> LexicalIndex:
    """Make an empty lexical index, in files or on Qdrant (QDRANT__WORDS). An unreachable server is no error: it is
    tried again.
    """
    if qdrant is None or not (qdrant.url and qdrant.words):
        return Bm25Index()
    from rag_core.index.sparse_qdrant import QdrantLexicalIndex  # imported here: it takes a second

    return QdrantLexicalIndex(qdrant)


def load_saved_lexical_index(qdrant: QdrantSettings | None, folder: Path, archive: str) -> LexicalIndex | None:
    """Load the lexical index saved in `folder` for this archive, as the settings say; None if there is none."""
    if qdrant is None or not (qdrant.url and qdrant.words):
        return Bm25Index.load(folder, archive)
    from rag_core.index.sparse_qdrant import QdrantLexicalIndex

    return QdrantLexicalIndex.load(qdrant, folder, archive)


_WINDOW_ANSWERS = 20  # last answers of a recipe that count
_MIN_ANSWERS = 4  # answers before a recipe can be left out: one failure is no rate
_PAUSE_SECONDS = 300.0  # before a trial


@dataclass
class RecipeHealth:
    """Circuit breaker for each recipe, by the outcomes of its last answers. `clock` gives seconds."""

    clock: Callable[[], float]
    _ended: dict[str, deque[bool]] = field(default_factory=dict)
    _resting: dict[str, float] = field(default_factory=dict)

    def record_outcome(self, recipe: str, *, well: bool, limit: float) -> None:
        """Record an outcome. `limit` is the share of failures (0-1) above which the recipe pauses."""
        last = self._ended.setdefault(recipe, deque(maxlen=_WINDOW_ANSWERS))
        last.append(well)
        if recipe in self._resting:  # this was the trial after the pause
            del self._resting[recipe]
            last.clear()
            last.append(well)
            if not well:
                self._resting[recipe] = self.clock()
        elif len(last) >= _MIN_ANSWERS and last.count(False) > limit * len(last):
            self._resting[recipe] = self.clock()

    def resting(self, recipe: str) -> bool:
        """Whether a recipe is paused now. After the pause one question is let through as a trial."""
        since = self._resting.get(recipe)
        if since is None:
            return False
        if self.clock() - since < _PAUSE_SECONDS:
            return True
        self._resting[recipe] = self.clock()  # other questions wait for the result of the trial
        return False

    def rates(self) -> dict[str, tuple[int, int]]:
        """Failures and answers in the window, by recipe."""
        return {name: (last.count(False), len(last)) for name, last in self._ended.items()}
