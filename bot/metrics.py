"""Metrics: counters and histograms of questions, stages and calls to Telegram.

Names follow https://prometheus.io/docs/practices/naming/. Labels hold words of the code alone: every value is a
series for as long as the bot runs.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import prometheus_client as prometheus
from aiogram import Bot, exceptions
from aiogram.client.session.middlewares.base import BaseRequestMiddleware, NextRequestMiddlewareType
from aiogram.methods import DeleteWebhook, GetUpdates, GetWebhookInfo, Response, SetWebhook, TelegramMethod
from aiogram.methods.base import TelegramType

from rag_core.run import Run, begin_request
from rag_core.storage.questions import QuestionRow
from rag_core.types import Answer

# Buckets, in seconds: budgets of stages are 1 to 10; a question may take 90, and wait.
_STAGE_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_QUESTION_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 90, 180, 600)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_COUNTS = (1, 2, 3, 4, 6, 8, 12)

prometheus.disable_created_metrics()  # type: ignore[no-untyped-call] # they would be a second series for each metric


class Instruments:
    """Counters and histograms of one bot; `registry` holds them and the metrics of the process."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        for collector in (prometheus.ProcessCollector, prometheus.PlatformCollector, prometheus.GCCollector):
            collector(registry=self.registry)
        counter = partial(prometheus.Counter, namespace="citegram", registry=self.registry)
        histogram = partial(prometheus.Histogram, namespace="citegram", registry=self.registry)
        self.questions = counter(
            "questions", "Questions: answered, refused, trouble, stopped.", ("kind", "recipe", "outcome")
        )
        self.took = histogram(
            "question_seconds", "From a worker's taking it to its delivery.", ("recipe",), buckets=_QUESTION_SECONDS
        )
        self.waited = histogram(
            "queue_wait_seconds", "From asking to a worker's taking it, in seconds.", buckets=_QUESTION_SECONDS
        )
        self.steps = histogram("question_steps", "Steps of a recipe that goes by steps.", ("recipe",), buckets=_COUNTS)
        self.rounds = histogram("question_rounds", "Searches made for one question.", ("recipe",), buckets=_COUNTS)
        self.confidence = histogram(
            "confidence", "Probability that the best piece of the posts answers, 0 to 1.", ("recipe",), buckets=_SHARES
        )
        self.coverage = histogram(
            "citation_coverage", "Share of an answer's sentences that cite a post.", ("recipe",), buckets=_SHARES
        )
        self.stage = histogram(
            "stage_seconds", "How long a stage took, failed or not.", ("stage",), buckets=_STAGE_SECONDS
        )
        self.failures = counter("stage_failures", "Stages that failed: timeout, stopped, failed.", ("stage", "why"))
        self.without = counter("shortfalls", "What answers did without, by stage.", ("stage",))
        self.tool = histogram("tool_seconds", "How long a tool took, failed or not.", ("tool",), buckets=_STAGE_SECONDS)
        self.tools = counter("tool_calls", "Calls of tools: ok, timeout, failed.", ("tool", "outcome"))
        self.reflections = counter("reflections", "Drafts that a model judged: ok, failed.", ("outcome",))
        self.calls = counter("model_calls", "Generations asked of a language model.", ("stage",))
        self.tokens = counter("model_tokens", "Tokens that a model read or wrote.", ("stage", "kind"))
        self.telegram = counter(
            "telegram_calls", "Tries of Telegram's methods, by what came of them.", ("method", "outcome")
        )
        self.telegram_took = histogram(
            "telegram_call_seconds", "How long tries took, but for those that wait for updates.", buckets=_STAGE_SECONDS
        )
        self.logged = counter("log_records", "Lines of the log: warning, error.", ("level",))
        self.scrape_failures = counter("scrape_failures", "Parts that a scrape could not tell.", ("part",))


# The first match counts; network and server errors are TelegramAPIErrors too.
_OUTCOME_BY_ERROR: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.TelegramRetryAfter, "flood"),  # 429
    (exceptions.TelegramConflictError, "conflict"),  # 409: another program reads this bot's updates
    (exceptions.TelegramServerError, "server"),
    (exceptions.TelegramNetworkError, "network"),
    (exceptions.ClientDecodeError, "unreadable"),
    (exceptions.TelegramAPIError, "refused"),
)
# Methods about updates: fetching them (a quiet Telegram answers the first request after half a minute), taking the
# webhook away before, and checking every minute that Telegram still has it.
_UPDATE_METHODS = (GetUpdates, DeleteWebhook, SetWebhook, GetWebhookInfo)


class TelegramCallMetrics(BaseRequestMiddleware):
    """Request middleware that counts every try: must be the last of a session's middlewares.

    `by_webhook`: set while updates arrive by webhook, so that only the webhook is checked.
    """

    def __init__(self, instruments: Instruments) -> None:
        self.by_webhook = False
        self._instruments = instruments
        self._last_answer_at: float | None = None

    @property
    def silence(self) -> float | None:
        """Seconds since Telegram last answered a request for updates or about its webhook; None before that."""
        return None if self._last_answer_at is None else time.monotonic() - self._last_answer_at

    async def __call__(
        self, make_request: NextRequestMiddlewareType[TelegramType], bot: Bot, method: TelegramMethod[TelegramType]
    ) -> Response[TelegramType]:
        """Make the request and count its outcome."""
        began, polling, outcome = time.monotonic(), isinstance(method, GetUpdates), "stopped"
        try:
            response = await make_request(bot, method)
            outcome = "ok"
            if isinstance(method, _UPDATE_METHODS):
                self._last_answer_at = time.monotonic()
            return response
        except Exception as exc:
            outcome = next((name for kind, name in _OUTCOME_BY_ERROR if isinstance(exc, kind)), "failed")
            raise
        finally:
            self._instruments.telegram.labels(method.__api_method__, outcome).inc()
            if not polling:
                self._instruments.telegram_took.observe(time.monotonic() - began)


# Span counts of a model's work, mapped to the kind of token.
_TOKEN_KIND_BY_COUNT = {"tokens": "written", "evaluated": "read", "read": "read"}


@dataclass
class _QuestionOutcome:
    """One question in progress. Not frozen: its outcome is set when it is known."""

    outcome: str = ""
    recipe: str = "none"  # reached none
    answer: Answer | None = None


_CURRENT_QUESTION: ContextVar[_QuestionOutcome | None] = ContextVar("turn", default=None)


class Meter(logging.Handler):
    """Recorder of questions (by the workers), runs (by `Engine.traced`), warnings and errors; `wire` counts calls."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.instruments = Instruments()
        self.wire = TelegramCallMetrics(self.instruments)

    def emit(self, record: logging.LogRecord) -> None:
        """Count a line of the log."""
        self.instruments.logged.labels("error" if record.levelno >= logging.ERROR else "warning").inc()

    @contextmanager
    def turn(self, asked: QuestionRow) -> Iterator[str]:
        """Measure the work on one question, from its start by a worker; yields the request id."""
        began, turn, instruments = time.monotonic(), _QuestionOutcome(), self.instruments
        if asked.mode is None:  # a question that is asked again, deeper, keeps the time of the first asking
            waited = (datetime.now(UTC) - asked.asked_at).total_seconds()
            instruments.waited.observe(max(0.0, waited))  # Telegram's clock may differ from ours
        token = _CURRENT_QUESTION.set(turn)
        try:
            with begin_request() as request:
                yield request
        finally:
            _CURRENT_QUESTION.reset(token)
            if turn.outcome:
                instruments.questions.labels(asked.kind, turn.recipe, turn.outcome).inc()
                instruments.took.labels(turn.recipe).observe(time.monotonic() - began)
            if (answer := turn.answer) and turn.outcome in {"answered", "refused"}:
                instruments.confidence.labels(turn.recipe).observe(answer.confidence)
                if answer.sentences:
                    cited = sum(bool(sentence.citations) for sentence in answer.sentences)
                    instruments.coverage.labels(turn.recipe).observe(cited / len(answer.sentences))

    def count_question(self, outcome: str, answer: Answer | None = None) -> None:
        """Set the outcome of the current question; the last one set counts."""
        if current := _CURRENT_QUESTION.get():
            current.outcome = "refused" if outcome == "answered" and answer and answer.refused else outcome
            current.answer = answer
            if answer:
                current.recipe = answer.recipe

    def record_run(self, run: Run) -> None:
        """Count the stages of a finished run."""
        instruments = self.instruments
        if question := _CURRENT_QUESTION.get():
            question.recipe = run.recipe
        for span in run.spans:
            name, seconds = span.stage.removeprefix("tool."), span.took_ms / 1000
            if name != span.stage:  # a call of a tool
                instruments.tool.labels(name).observe(seconds)
                outcome = "timeout" if span.counts.get("late") else "failed" if span.error else "ok"
                instruments.tools.labels(name, outcome).inc()
                continue
            instruments.stage.labels(name).observe(seconds)
            if span.error:
                stopped = "stopped" if span.error == "CancelledError" else "failed"
                instruments.failures.labels(name, "timeout" if "Timeout" in span.error else stopped).inc()
            if name == "reflect":
                instruments.reflections.labels("failed" if span.error else "ok").inc()
            tokens = {kind: span.counts[key] for key, kind in _TOKEN_KIND_BY_COUNT.items() if key in span.counts}
            for kind, number in tokens.items():
                instruments.tokens.labels(name, kind).inc(float(number))
            if calls := span.counts.get("calls", bool(tokens)):
                instruments.calls.labels(name).inc(float(calls))
        for stage in {shortfall.stage for shortfall in run.shortfalls}:
            instruments.without.labels(stage).inc()
        names = [span.stage for span in run.spans]
        for stage, histogram in (("step", instruments.steps), ("lookup", instruments.rounds)):
            if count := names.count(stage):  # the first stage of every search
                histogram.labels(run.recipe).observe(count)
