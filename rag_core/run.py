"""Run of one question: its stages with budgets, spans, fallbacks, costs, and its sessions with the language model."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rag_core.errors import ModelLeftAlone, ModelTooSlow, RagError, StageTimeout
from rag_core.types import Action, Draft, DroppedSentence, Sentence, Shortfall

if TYPE_CHECKING:  # of the model's modules an import needs none
    from rag_core.llm.protocol import (
        DecodingParams,
        GenerationStats,
        LanguageModel,
        LlmSession,
        Prompt,
        QueuePositionCallback,
    )
    from rag_core.llm.turns import TimedSession
    from rag_core.models.onnx_models import PassageSimilarity


@dataclass(frozen=True, slots=True)
class Budgets:
    """Seconds that a question and its stages may take. `question` is the setting ANSWER__SECONDS.

    No search of a million passages came near a second: the rest is for a machine that does much else, on which a reader
    rather waits than gets less. The stages of a model end so that a reader still waits, and a stage that is late is
    replaced by its fallback. Tests and evaluation give others.
    """

    question: float = 90.0
    plan: float = 10.0
    rewrite: float = 5.0
    search: float = 8.0  # one leg
    fusion: float = 5.0
    fetch: float = 8.0
    rerank: float = 6.0  # as many passages as fit are looked at
    write: float = 60.0
    verify: float = 10.0
    map: float = 40.0  # posts read one by one
    judge: float = 10.0
    tool: float = 4.0  # of the recipe react


class Stage(StrEnum):
    """Stage of a question. `budget` is the field of `Budgets` that limits it."""

    budget: str

    def __new__(cls, name: str, budget: str = "") -> Self:
        """Make a member from its name in traces and its budget."""
        stage = str.__new__(cls, name)
        stage._value_, stage.budget = name, budget
        return stage

    PLAN = "plan", "plan"
    SEARCH = "search", "search"
    CHRONICLE = "chronicle", "search"
    AGAIN = "again", "search"
    QUERIES = "queries", "search"
    FURTHER = "further", "search"
    LEXICAL = "lexical", "search"
    DENSE = "dense", "search"
    ORDER = "order", "fusion"
    DIVERSE = "diverse", "fusion"
    FETCH = "fetch", "fetch"
    MEMORY = "memory", "fetch"
    CHOOSE = "choose", "fetch"
    FILTER = "filter", "fetch"
    LOOKUP = "lookup", "fetch"
    CITE = "cite", "fetch"
    COPIES = "copies", "fetch"
    SUCCESSOR = "successor", "fetch"
    CURRENT = "current", "fetch"
    RERANK = "rerank", "rerank"
    COMPARE = "compare", "rerank"
    WRITE = "write", "write"
    RANK = "rank", "write"
    EXTRACT = "extract", "write"
    VERIFY = "verify", "verify"
    CLAIM = "claim", "write"
    CONFLICTS = "conflicts", "verify"
    REWRITE = "rewrite", "rewrite"
    HYDE = "hyde", "rewrite"
    FOLLOWUP = "followup", "rewrite"
    MAP = "map", "map"
    PREDICT = "predict", "map"
    JUDGE = "judge", "judge"
    STEP = "step", "judge"
    REFLECT = "reflect", "judge"
    PARTS = "parts", "judge"


# Stages that do what a tool does; the others are parts of them.
ACTION_STAGES = frozenset(
    {Stage.PLAN, Stage.REWRITE, Stage.HYDE, Stage.LEXICAL, Stage.DENSE, Stage.QUERIES, Stage.FURTHER, Stage.RERANK,
     Stage.MAP, Stage.JUDGE, Stage.PREDICT, Stage.EXTRACT, Stage.WRITE, Stage.VERIFY, Stage.PARTS, Stage.REFLECT}
)  # fmt: skip

RETRIEVER_STAGES = frozenset({Stage.LEXICAL, Stage.DENSE})  # one that was late is not one that is down

# Stages that may wait long for a model, and further searches: others come after them.
MODEL_STAGES = frozenset(
    {Stage.PLAN, Stage.REWRITE, Stage.HYDE, Stage.FOLLOWUP, Stage.MAP, Stage.PREDICT, Stage.JUDGE, Stage.STEP,
     Stage.REFLECT, Stage.PARTS, Stage.WRITE, Stage.FURTHER}
)  # fmt: skip


_REQUEST_ID: ContextVar[str] = ContextVar("request", default="")


def get_request_id() -> str:
    """Id of the current request; "" outside of a request."""
    return _REQUEST_ID.get()


def get_or_make_request_id() -> str:
    """Id of the current request, or a new one of twelve hexadecimal digits."""
    return _REQUEST_ID.get() or secrets.token_hex(6)


@contextmanager
def begin_request() -> Iterator[str]:
    """Begin a request and yield its id; tasks started inside belong to it."""
    outer = _REQUEST_ID.set(secrets.token_hex(6))
    try:
        yield _REQUEST_ID.get()
    finally:
        _REQUEST_ID.reset(outer)


@dataclass
class LlmCosts:
    """Calls, also cancelled ones, tokens and times of a model in one stage; `figures`: those of completed calls."""

    calls: int = 0
    figures: list[GenerationStats] = field(default_factory=list)
    _began: float = field(default_factory=perf_counter)
    _first: float | None = None

    def begin(self) -> None:
        """Start the clock, when the model is acquired."""
        self._began = perf_counter()

    def note_first_sentence(self) -> None:
        """Record the time of the first sentence; later calls do nothing."""
        if self._first is None:
            self._first = perf_counter() - self._began

    def to_counts(self) -> dict[str, float]:
        """Figures for the trace; tokens per second are those of generation, without reading the prompt."""
        tokens = sum(one.tokens for one in self.figures)
        writing = sum(max(0.0, one.took_ms - one.first_ms) for one in self.figures) / 1000
        figures: dict[str, float] = {
            "calls": self.calls,
            "tokens": tokens,
            "prompt_tokens": sum(one.prompt_tokens for one in self.figures),
            "evaluated": sum(one.evaluated for one in self.figures),
        }
        if writing > 0:
            figures["tokens_per_s"] = round(tokens / writing, 1)
        if self._first is not None:
            figures["first_sentence_ms"] = round(self._first * 1000, 1)
        return figures


@dataclass(frozen=True, slots=True)
class Span:
    """Span of one stage: name, duration, counts and error; `ended` in Unix seconds."""

    stage: str
    took_ms: float
    counts: dict[str, float | str]
    error: str | None = None
    ended: float = field(default_factory=time.time, compare=False)

    @property
    def is_action(self) -> bool:
        """Whether this is a tool, or a stage that does what a tool does, and was begun."""
        return self.stage.startswith("tool.") or (self.stage in ACTION_STAGES and "skipped" not in self.counts)


T = TypeVar("T")

# Reserve of a recipe's time that no stage may use: fallbacks and the end of a recipe take a moment.
_MAX_RESERVE_S, _RESERVE_SHARE = 1.0, 0.1  # seconds, but at most this share of the recipe's time
# Further reserve that models and the searches after them may not use: conflicts and copies are looked for afterwards.
_MAX_MODEL_RESERVE_S, _MODEL_RESERVE_SHARE = 3.0, 0.1
_STAGES_THAT_TELL = {*MODEL_STAGES, "recipe"}  # their shortfalls say that the model failed
MIN_STAGE_S = 0.01  # least budget of a stage
_NESTED_STAGE_S = 0.05  # by which a stage within a stage ends earlier where the recipe ends

# Stages may run concurrently: each has its own counts.
_STAGE_COUNTS: ContextVar[dict[str, float | str]] = ContextVar("counts")
_STAGE_TIMEOUTS: ContextVar[tuple[asyncio.Timeout, ...]] = ContextVar("clocks")
_IS_IN_MODEL_STAGE: ContextVar[bool] = ContextVar("model_stage", default=False)


@contextmanager
def _translate_timeout(clock: asyncio.Timeout, late: RagError) -> Iterator[None]:
    """Raise `late` where this clock ran out; a TimeoutError of a library passes unchanged."""
    try:
        yield
    except TimeoutError as exc:
        if not clock.expired():
            raise
        raise late from exc


@dataclass
class Run:
    """State of one question while it is answered: budgets, spans, shortfalls and callbacks."""

    budgets: Budgets
    recipe: str
    trace_id: str = field(default_factory=get_or_make_request_id)
    spans: list[Span] = field(default_factory=list)
    shortfalls: list[Shortfall] = field(default_factory=list)
    on_place: QueuePositionCallback | None = None  # called while other questions are before this one
    on_sentence: Callable[[Sentence], None] | None = None  # called with each sentence once it is written and cited
    on_extract: Callable[[Draft], Awaitable[None]] | None = None  # called with the extract, before a model is asked
    on_stage: Callable[[str], None] | None = None  # called with the name of each stage that begins
    dropped: list[DroppedSentence] = field(default_factory=list)  # what a model wrote and is not shown: never logged
    similarities: dict[tuple[str, str], PassageSimilarity] = field(default_factory=dict)  # by question and post's text
    results: list[tuple[str, list[str]]] | None = None  # of the stages, as texts: for the terminal alone, else None
    clock: asyncio.Timeout | None = None  # timeout of the current recipe
    after: float = 0.0  # seconds by which its stages end before the recipe's timeout
    after_models: float = 0.0  # seconds by which models end before it

    def note(self, **counts: float | str) -> None:
        """Add counts to the span of the current stage, where there is one. Never texts of readers or posts."""
        _STAGE_COUNTS.get({}).update(counts)

    def show(self, stage: str, lines: Iterable[str]) -> None:
        """Show the result of a stage where the terminal asked for it. It is neither logged nor stored."""
        if self.results is not None:
            self.results.append((stage, list(lines)))

    @asynccontextmanager
    async def stage(self, name: Stage | str) -> AsyncIterator[None]:
        """Run a stage with its timeout and span; the only timeout of the package. Raises StageTimeout.

        A library's own TimeoutError is not mistaken for the stage's.
        """
        started, error = time.perf_counter(), None
        budget = Stage(name).budget
        seconds: float = getattr(self.budgets, budget)
        in_model = _IS_IN_MODEL_STAGE.set(_IS_IN_MODEL_STAGE.get() or name in MODEL_STAGES)
        if (left := max(MIN_STAGE_S, self.stage_time_left)) < seconds:
            seconds, budget = left, "question"
        clock = asyncio.timeout(seconds)
        clocks = _STAGE_TIMEOUTS.set((*_STAGE_TIMEOUTS.get(()), clock))
        counts: dict[str, float | str] = {}
        outer = _STAGE_COUNTS.set(counts)
        if self.on_stage:
            self.on_stage(name)
        remedy = "ask again, or raise ANSWER__SECONDS" if budget == "question" else "ask again"
        late = StageTimeout(f"The stage {name} took longer than {seconds:.3g} s: {remedy}.")
        try:
            with _translate_timeout(clock, late):
                async with clock:
                    yield
        except ModelTooSlow:  # no error: it was not begun
            counts.setdefault("skipped", seconds)
            raise
        except BaseException as exc:
            error = type(exc).__name__
            raise
        finally:
            took = (time.perf_counter() - started) * 1000
            self.spans.append(Span(name, round(took, 3), counts, error))
            _STAGE_COUNTS.reset(outer)
            _STAGE_TIMEOUTS.reset(clocks)
            _IS_IN_MODEL_STAGE.reset(in_model)

    @property
    def stage_time_left(self) -> float:
        """Seconds of the current recipe that the current stages may still use."""
        return self.left - (self.after_models if _IS_IN_MODEL_STAGE.get() else self.after)

    @property
    def left(self) -> float:
        """Seconds left for the current recipe."""
        when = self.clock.when() if self.clock else None
        return math.inf if when is None else when - asyncio.get_running_loop().time()

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        """Limit a recipe to so many seconds, without waiting for the model. Raises StageTimeout.

        Its stages end a little earlier, so that their fallbacks can still be used.
        """
        clock, outer = asyncio.timeout(seconds), (self.clock, self.after, self.after_models)
        late = StageTimeout(f"The answer took longer than {seconds:.0f} s: ask again, or raise ANSWER__SECONDS.")
        try:
            with _translate_timeout(clock, late):
                async with clock:
                    self.clock, self.after = clock, min(_MAX_RESERVE_S, _RESERVE_SHARE * seconds)
                    self.after_models = self.after + min(_MAX_MODEL_RESERVE_S, _MODEL_RESERVE_SHARE * seconds)
                    yield
        finally:
            self.clock, self.after, self.after_models = outer

    @asynccontextmanager
    async def open_session(self, model: LanguageModel, reader: int) -> AsyncIterator[TimedSession]:
        """Acquire a session with the model. Waiting for it counts for the recipe, not for the current stages.

        They end with the time that the recipe leaves to models, early enough for their fallbacks, and after half of it:
        what comes after a model is done as without one. One that hung lately is left alone, and one that hung before is
        not waited for until it is loaded. Raises GenerationFailed.
        """
        from rag_core.llm.turns import MIN_PATIENCE_S, TimedSession

        end, stages = None, _STAGE_TIMEOUTS.get(())
        if not math.isinf(self.left):
            left = min(self.left - self.after_models, (self.left - self.after) / 2)
            end = asyncio.get_running_loop().time() + left
        resume = _pause_timeouts(stages, end)
        try:
            async with AsyncExitStack() as stack:
                model.breaker.require_closed()
                clock = asyncio.timeout(MIN_PATIENCE_S if model.breaker.hangs else None)
                with _translate_timeout(clock, ModelLeftAlone(f"{model.name} is not ready yet.")):
                    async with clock:
                        session = await stack.enter_async_context(model.turn(reader, self.on_place))
                model.breaker.require_closed()  # it may have hung while this question waited
                resume()
                yield TimedSession(session, model, stages, self.note)
        finally:
            resume()

    async def ask_model(
        self,
        model: LanguageModel,
        reader: int,
        prompt: Prompt | Callable[[LlmSession], Awaitable[Prompt]],
        decoding: DecodingParams,
        *,
        grammar: str | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> str:
        """Ask a model in a session of its own, inside a stage, which gets the costs. Raises GenerationFailed.

        A prompt that is fitted into the model's context is a function, which counts tokens in the session.
        """
        from rag_core.llm.protocol import Prompt, collect_generation

        costs = LlmCosts(calls=1)
        async with self.open_session(model, reader) as session:
            prompt = prompt if isinstance(prompt, Prompt) else await prompt(session)
            end = await collect_generation(session.stream(prompt, decoding, grammar=grammar, schema=schema))
        costs.figures.append(end.figures)
        self.note(**costs.to_counts())
        return end.text

    @asynccontextmanager
    async def use_separate_budgets(self) -> AsyncIterator[None]:
        """Run stages with budgets of their own, which do not count against the current stages."""
        resume = _pause_timeouts(_STAGE_TIMEOUTS.get(()))
        outer = _STAGE_TIMEOUTS.set(())
        try:
            yield
        finally:
            _STAGE_TIMEOUTS.reset(outer)
            resume()

    async def require(self, name: Stage | str, work: Awaitable[T]) -> T:
        """Run a stage that has no fallback."""
        async with self.stage(name):
            return await work

    async def attempt(self, name: Stage | str, work: Awaitable[T], otherwise: T | Callable[[], T]) -> T:
        """Run a stage; if it raises RagError, note the shortfall and return the fallback."""
        try:
            async with self.stage(name):
                return await work
        except RagError as exc:
            # too slow by the measured rates, it was never begun: the answer lacks nothing that was promised
            if not isinstance(exc, ModelTooSlow):
                self.note_shortfall(name, exc)
            return otherwise() if callable(otherwise) else otherwise

    def note_shortfall(self, name: Stage | str, failed: RagError) -> None:
        """Note that a stage failed; of a retriever, whether it was only late; of a model that is left alone, once."""
        told = any(one.stage in _STAGES_THAT_TELL for one in self.shortfalls)
        if told and isinstance(failed, ModelLeftAlone):
            return
        late = name in RETRIEVER_STAGES and isinstance(failed, StageTimeout)
        self.shortfalls.append(Shortfall(f"{name}-late" if late else name, failed.reason))

    def list_actions(self) -> tuple[Action, ...]:
        """List the stages and tools that were begun, for programs and admins."""
        acts = (span for span in self.spans if span.is_action)
        return tuple(Action(span.stage.removeprefix("tool."), span.took_ms, span.error is None) for span in acts)

    def line(self) -> str:
        """Format the run as one line: stage timings and shortfalls."""
        spans = " ".join(f"{s.stage}={s.took_ms / 1000:.3f}s" for s in self.spans)
        return f"{self.trace_id} {self.recipe} {spans} without={[s.stage for s in self.shortfalls]}"


def _pause_timeouts(clocks: Sequence[asyncio.Timeout], until: float | None = None) -> Callable[[], None]:
    """Pause timeouts, at most until a time of the loop, the inner ones before the outer ones."""
    now = asyncio.get_running_loop().time
    # those that another session of the stage has paused are resumed by it
    ends, began = [(clock, end) for clock in clocks if (end := clock.when()) is not None], now()
    limits = [None if until is None else until - _NESTED_STAGE_S * depth for depth in range(len(ends))]
    for (clock, _), limit in zip(ends, limits, strict=True):
        clock.reschedule(limit)

    def resume() -> None:
        for (clock, end), limit in zip(ends, limits, strict=False):
            later = end + now() - began
            if not clock.expired():
                clock.reschedule(later if limit is None else min(later, limit))
        ends.clear()

    return resume
