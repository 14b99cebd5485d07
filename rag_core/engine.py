"""Engine: archive, indexes, models, settings and caches; opened by rag_core/engine_factory.py.

Models can be replaced while the bot runs. Everything works without models: a model that cannot be opened becomes a
shortfall that is reported with every answer.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rag_core.caches import Caches, IndexVersion, VersionedCache
from rag_core.calibration import Calibration
from rag_core.index.lexical_index import LexicalIndex
from rag_core.llm.protocol import LanguageModel
from rag_core.models.active_models import DenseIndex
from rag_core.models.catalog import ModelSpec
from rag_core.models.reranker import Reranker
from rag_core.settings import RagSettings
from rag_core.stage_runner import Run
from rag_core.storage import Archive
from rag_core.types import Channel, Plan, Question, Shortfall

_MAX_BOILERPLATES, _BOILERPLATES_TTL_S = 500, 300.0  # a few lines each


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
    next_embedder: ModelSpec | None = None  # its vectors are made beside those of `dense`, whose place it then takes
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
