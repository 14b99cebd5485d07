"""Tracing of a question: request id, spans of its stages, and costs of the language model.

A trace holds names, timings, counts and errors, never texts of readers or posts. The request id is the same in the
trace and in every log line of the request.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter

from rag_core.errors import StageTimeout
from rag_core.llm.protocol import GenerationStats
from rag_core.stages import ACTION_STAGES

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
    """Calls, tokens and times of the language model in one stage. A cancelled call counts as a call.

    `figures` are the statistics of completed calls.
    """

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

    @property
    def timed_out(self) -> bool:
        """Whether its timeout ended it."""
        return self.error == StageTimeout.__name__ or bool(self.counts.get("late"))
