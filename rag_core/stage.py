"""One wrapper gives every stage its budget, its timing, its line in the trace, and its stand-in.

Doing without is a value, not an exception: `attempt` is the only place that turns a planned-for
failure into a `Shortfall`. Bugs fly. A trace holds names, timings, counts and errors, never texts.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from rag_core.errors import RagError, StageTimeout, raised_as
from rag_core.settings import Budgets
from rag_core.types import Shortfall

__all__ = ["Run", "Span"]

T = TypeVar("T")
# Stages that share another's budget; every other stage has one of its own name.
_BUDGETS = {
    "chronicle": "search",
    "lexical": "search",
    "dense": "search",
    "diverse": "search",
    "cite": "fetch",
    "copies": "fetch",
    "nearest": "fetch",
}

# Stages may run beside each other: each notes into its own.
_COUNTS: ContextVar[dict[str, float | str]] = ContextVar("counts")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Span:
    """One stage of one run: what it was, how long it took, and what went wrong."""

    stage: str
    took_ms: float
    counts: dict[str, float | str]
    error: str | None = None


@dataclass
class Run:
    """One question on its way. Not frozen: it is the notebook the stages write into."""

    budgets: Budgets
    recipe: str
    trace_id: str = field(default_factory=lambda: secrets.token_hex(6))
    spans: list[Span] = field(default_factory=list)
    shortfalls: list[Shortfall] = field(default_factory=list)

    def note(self, **counts: float | str) -> None:
        """Add figures to the trace line of the stage that runs now. Never texts of readers or posts."""
        _COUNTS.get().update(counts)

    @asynccontextmanager
    async def stage(self, name: str) -> AsyncIterator[None]:
        """The only timeout of the package: StageTimeout. A library's own TimeoutError is not mistaken for ours."""
        started, error = time.perf_counter(), None
        budget = _BUDGETS.get(name, name)
        seconds: float = getattr(self.budgets, budget)
        clock = asyncio.timeout(seconds)
        late = f"The stage {name} took longer than {seconds:g} s: ask again, or raise BUDGETS__{budget.upper()}."
        counts: dict[str, float | str] = {}
        outer = _COUNTS.set(counts)
        try:
            with raised_as(StageTimeout, TimeoutError, say=late, when=clock.expired):
                async with clock:
                    yield
        except BaseException as exc:
            error = type(exc).__name__
            raise
        finally:
            took = (time.perf_counter() - started) * 1000
            self.spans.append(Span(name, round(took, 3), counts, error))
            _COUNTS.reset(outer)

    async def require(self, name: str, work: Awaitable[T]) -> T:
        """Run a stage that has no stand-in."""
        async with self.stage(name):
            return await work

    async def attempt(self, name: str, work: Awaitable[T], otherwise: T | Callable[[], T]) -> T:
        """Run a stage; if it fails in a planned-for way, note the shortfall and use the stand-in."""
        try:
            return await self.require(name, work)
        except RagError as exc:
            self.shortfalls.append(Shortfall(name, exc.reason))
            return otherwise() if callable(otherwise) else otherwise

    def line(self) -> str:
        """The run on one line: stage timings and what was done without."""
        spans = " ".join(f"{s.stage}={s.took_ms / 1000:.3f}s" for s in self.spans)
        return f"{self.trace_id} {self.recipe} {spans} without={[s.stage for s in self.shortfalls]}"
