"""Counts while the bot works: what became of questions, and what the stages of their runs took."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime

from bot.metrics.instruments import Instruments
from bot.metrics.wire import Wire
from rag_core.doors.archive.questions import Asked
from rag_core.request import requested
from rag_core.stage import Run, Span
from rag_core.types import Answer

__all__ = ["Meter"]

_NONE = "none"  # the recipe of what never came to one
_TOOL = "tool."  # stages of this name are calls of tools
# What stages note of a model's work, and what it counts as.
_TOKENS = {"tokens": "written", "evaluated": "read", "read": "read"}


@dataclass
class _Turn:
    """One question while it is worked on. Not frozen: what becomes of it is noted as it becomes known."""

    outcome: str = ""
    recipe: str = _NONE
    answer: Answer | None = None


_TURN: ContextVar[_Turn | None] = ContextVar("turn", default=None)


class _Lines(logging.Handler):
    """Counts the lines of the log that say that something is wrong."""

    def __init__(self, instruments: Instruments) -> None:
        super().__init__(logging.WARNING)
        self._instruments = instruments

    def emit(self, record: logging.LogRecord) -> None:
        self._instruments.logged.labels("error" if record.levelno >= logging.ERROR else "warning").inc()


class Meter:
    """Told of questions by the workers and of runs by `Rag.traced`; `wire` is told of calls, `lines` of the log."""

    def __init__(self) -> None:
        self.instruments = Instruments()
        self.wire = Wire(self.instruments)
        self.lines: logging.Handler = _Lines(self.instruments)

    @contextmanager
    def turn(self, asked: Asked) -> Iterator[str]:
        """The work on one question, from a worker's taking it: one request, whose id it yields."""
        began, turn = time.monotonic(), _Turn()
        waited = (datetime.now(UTC) - asked.asked_at).total_seconds()
        self.instruments.waited.observe(max(0.0, waited))  # Telegram's clock is not ours
        token = _TURN.set(turn)
        try:
            with requested() as request:
                yield request
        finally:
            _TURN.reset(token)
            if turn.outcome:
                self._ended(asked.kind, turn, time.monotonic() - began)

    def noted(self, outcome: str, answer: Answer | None = None) -> None:
        """What became of the question that is worked on; what is noted last counts."""
        if turn := _TURN.get():
            turn.outcome = "refused" if outcome == "answered" and answer and answer.refused else outcome
            turn.answer = answer
            if answer:
                turn.recipe = answer.recipe

    def _ended(self, kind: str, turn: _Turn, took: float) -> None:
        instruments, answer = self.instruments, turn.answer
        recipe = instruments.recipe_name(turn.recipe)
        instruments.questions.labels(kind, recipe, turn.outcome).inc()
        instruments.took.labels(recipe).observe(took)
        if answer and turn.outcome in {"answered", "refused"}:
            instruments.confidence.labels(recipe).observe(answer.confidence)
            if answer.sentences:
                cited = sum(bool(sentence.citations) for sentence in answer.sentences)
                instruments.coverage.labels(recipe).observe(cited / len(answer.sentences))

    def traced(self, run: Run) -> None:
        """Count what the stages of a finished run took."""
        recipe = self.instruments.recipe_name(run.recipe)
        if turn := _TURN.get():
            turn.recipe = run.recipe
        for span in run.spans:
            if span.stage.startswith(_TOOL):
                self._tool(span, self.instruments.tool_name(span.stage.removeprefix(_TOOL)))
            else:
                self._stage(span, self.instruments.stage_name(span.stage))
        for stage in {shortfall.stage for shortfall in run.shortfalls}:
            self.instruments.without.labels(self.instruments.stage_name(stage)).inc()
        names = [span.stage for span in run.spans]
        if steps := names.count("step"):
            self.instruments.steps.labels(recipe).observe(steps)
        if rounds := names.count("recall"):  # with which every search begins
            self.instruments.rounds.labels(recipe).observe(rounds)

    def _stage(self, span: Span, name: str) -> None:
        instruments = self.instruments
        instruments.stage.labels(name).observe(span.took_ms / 1000)
        if span.error:
            instruments.failures.labels(name, _why(span.error)).inc()
        if name == "reflect":
            instruments.reflections.labels("failed" if span.error else "ok").inc()
        tokens = {kind: span.counts[key] for key, kind in _TOKENS.items() if key in span.counts}
        for kind, number in tokens.items():
            instruments.tokens.labels(name, kind).inc(float(number))
        if tokens:
            instruments.calls.labels(name).inc(float(span.counts.get("calls", 1)))

    def _tool(self, span: Span, name: str) -> None:
        instruments = self.instruments
        instruments.tool.labels(name).observe(span.took_ms / 1000)
        outcome = "timeout" if span.counts.get("late") else "failed" if span.error else "ok"
        instruments.tools.labels(name, outcome).inc()


def _why(error: str) -> str:
    """The kind of a failure, by the class of the exception."""
    if "Timeout" in error:
        return "timeout"
    return "stopped" if error == "CancelledError" else "failed"
