"""Metrics: counters and histograms of questions, stages and calls to Telegram.

Names follow https://prometheus.io/docs/practices/naming/. Labels hold words of the code alone: every value is a
series for as long as the bot runs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from aiogram import Bot, exceptions
from aiogram.client.session.middlewares.base import BaseRequestMiddleware, NextRequestMiddlewareType
from aiogram.methods import GetUpdates, GetWebhookInfo, Response, SetWebhook, TelegramMethod
from aiogram.methods.base import TelegramType
from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from bot import data_folder
from bot.app_context import AppContext
from ingest.copies import describe_fingerprint
from rag_core.errors import RagError
from rag_core.run import Run, begin_request
from rag_core.storage import channel_history, channels, index_state, near_duplicates, posts, questions, raw_updates
from rag_core.storage.backups import get_backup_time, list_backups
from rag_core.storage.questions import VOTE_REASONS, QuestionRow
from rag_core.types import Answer

# Buckets, in seconds: budgets of stages are 1 to 10; a question may take 90, and wait.
_STAGE_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_QUESTION_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 90, 180, 600)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_COUNTS = (1, 2, 3, 4, 6, 8, 12)

disable_created_metrics()  # type: ignore[no-untyped-call] # they would be a second series for each metric


class Instruments:
    """Counters and histograms of one bot; `registry` holds them and the metrics of the process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        counter, histogram = self._counter, self._histogram
        self.questions = counter(
            "questions", "Questions: answered, refused, trouble, stopped.", "kind", "recipe", "outcome"
        )
        self.took = histogram(
            "question_seconds", "From a worker's taking it to its delivery.", _QUESTION_SECONDS, "recipe"
        )
        self.waited = histogram(
            "queue_wait_seconds", "From asking to a worker's taking it, in seconds.", _QUESTION_SECONDS
        )
        self.steps = histogram("question_steps", "Steps of a recipe that goes by steps.", _COUNTS, "recipe")
        self.rounds = histogram("question_rounds", "Searches made for one question.", _COUNTS, "recipe")
        self.confidence = histogram(
            "confidence", "How much of a question its evidence covers, 0 to 1.", _SHARES, "recipe"
        )
        self.coverage = histogram(
            "citation_coverage", "Share of an answer's sentences that cite a post.", _SHARES, "recipe"
        )
        self.stage = histogram("stage_seconds", "How long a stage took, failed or not.", _STAGE_SECONDS, "stage")
        self.failures = counter("stage_failures", "Stages that failed: timeout, stopped, failed.", "stage", "why")
        self.without = counter("shortfalls", "What answers did without, by stage.", "stage")
        self.tool = histogram("tool_seconds", "How long a tool took, failed or not.", _STAGE_SECONDS, "tool")
        self.tools = counter("tool_calls", "Calls of tools: ok, timeout, failed.", "tool", "outcome")
        self.reflections = counter("reflections", "Drafts that a model judged: ok, failed.", "outcome")
        self.calls = counter("model_calls", "Generations asked of a language model.", "stage")
        self.tokens = counter("model_tokens", "Tokens that a model read or wrote.", "stage", "kind")
        self.telegram = counter(
            "telegram_calls", "Tries of Telegram's methods, by what came of them.", "method", "outcome"
        )
        self.telegram_took = histogram(
            "telegram_call_seconds", "How long tries took, but for those that wait for updates.", _STAGE_SECONDS
        )
        self.logged = counter("log_records", "Lines of the log: warning, error.", "level")
        self.scrape_failures = counter("scrape_failures", "Parts that a scrape could not tell.", "part")

    def _counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(f"citegram_{name}", description, labels, registry=self.registry)

    def _histogram(self, name: str, description: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"citegram_{name}", description, labels, registry=self.registry, buckets=buckets)


# The first match counts; network and server errors are TelegramAPIErrors too.
_OUTCOME_BY_ERROR: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.TelegramRetryAfter, "flood"),  # 429
    (exceptions.TelegramConflictError, "conflict"),  # 409: another program reads this bot's updates
    (exceptions.TelegramServerError, "server"),
    (exceptions.TelegramNetworkError, "network"),
    (exceptions.ClientDecodeError, "unreadable"),
    (exceptions.TelegramAPIError, "refused"),
)
# Methods about updates: fetching them, and checking every minute that Telegram still has the webhook.
_UPDATE_METHODS = (GetUpdates, SetWebhook, GetWebhookInfo)


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
    """Metrics recorder for questions (by the workers), runs (by `Engine.traced`), and warnings and errors of the log.

    `wire` counts Telegram calls.
    """

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
            if tokens:
                instruments.calls.labels(name).inc(float(span.counts.get("calls", 1)))
        for stage in {shortfall.stage for shortfall in run.shortfalls}:
            instruments.without.labels(stage).inc()
        names = [span.stage for span in run.spans]
        for stage, histogram in (("step", instruments.steps), ("recall", instruments.rounds)):
            if count := names.count(stage):  # `recall` is the first stage of every search
                histogram.labels(run.recipe).observe(count)


# Values counted row by row change slowly, and counting a million rows takes a tenth of a second or more.
_REFRESH_SECONDS = 300.0
_PART_TIMEOUT_SECONDS = 3.0  # for each part; Prometheus waits ten seconds for all

log = logging.getLogger(__name__)


def _make_metric(
    name: str,
    description: str,
    value: float | Mapping[Any, float],
    *labels: str,
    kind: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily,
) -> Metric:
    """Make a metric with one value, or with a value for each combination of its labels."""
    metric = kind(f"citegram_{name}", description, labels=labels)
    for of, number in value.items() if isinstance(value, Mapping) else [((), value)]:
        metric.add_metric(of, number)
    return metric


class StateCollector:
    """Prometheus collector of a bot's states. `context` returns its AppContext, None before it exists."""

    def __init__(self, context: Callable[[], AppContext | None], meter: Meter) -> None:
        self._get_context = context
        self._meter = meter
        self._seq: int | None = None  # of the last counted change
        self._change_counts: dict[tuple[str, str], int] = {}
        self._counting = asyncio.Lock()
        self._post_rows: tuple[float, int] | None = None  # when they were counted, and their number
        self.latest: list[Metric] = []

    def collect(self) -> list[Metric]:
        """Return the metrics that were read last, as Prometheus' client asks for them."""
        return self.latest

    async def read(self) -> list[Metric]:
        """Read all metrics; a part that fails is counted as a scrape failure."""
        began = time.perf_counter()
        await asyncio.sleep(0)
        lag = time.perf_counter() - began
        metrics = [
            _make_metric("build_info", "The version, as a label.", {(version("citegram"),): 1}, "version"),
            _make_metric("event_loop_lag_seconds", "How long the event loop took to come round.", lag),
        ]
        if (silence := self._meter.wire.silence) is not None:
            description = "Since Telegram last answered for updates, or for the webhook that brings them."
            metrics.append(_make_metric("telegram_silence_seconds", description, silence))
        if context := self._get_context():
            parts = (self._lags, self._sizes, self._posts, self._line, self._waiting, self._votes, self._disk,
                     self._caches, self._jobs)  # fmt: skip
            for found in await asyncio.gather(*(self._read_part(part, context) for part in parts)):
                metrics += found
        return metrics

    async def _read_part(
        self, part: Callable[[AppContext], AsyncIterator[Metric]], context: AppContext
    ) -> list[Metric]:
        name = part.__name__.removeprefix("_")
        try:
            async with asyncio.timeout(_PART_TIMEOUT_SECONDS):
                return [metric async for metric in part(context)]
        except (RagError, OSError, TimeoutError) as exc:
            log.info("the metrics of %s cannot be read: %s", name, exc)
            self._meter.instruments.scrape_failures.labels(name).inc()
            return []

    async def _lags(self, context: AppContext) -> AsyncIterator[Metric]:
        archive, rag = context.archive, context.rag
        lags = {
            ("words",): max(0, await posts.get_last_seq(archive) - rag.lexical.watermark),
            ("copies",): await near_duplicates.count_uncompared_changes(archive, describe_fingerprint()),
        }
        if rag.dense:
            identity = rag.dense.vectors.identity
            lags["vectors",] = await index_state.count_unembedded_changes(archive, identity)
        description = "Changes that a leg has not taken in: words, vectors, copies."
        yield _make_metric("index_lag_changes", description, lags, "leg")

    async def _sizes(self, context: AppContext) -> AsyncIterator[Metric]:
        sizes = {("words",): len(context.rag.lexical)}
        if context.rag.dense:
            sizes["vectors",] = await context.rag.dense.vectors.count()
        yield _make_metric("index_passages", "Passages that a leg can find.", sizes, "leg")

    async def _posts(self, context: AppContext) -> AsyncIterator[Metric]:
        """Count the stored posts, and the changes since the start: read from the last change on, whatever wrote it."""
        archive = context.archive
        async with self._counting:  # two concurrent scrapes would count the same changes twice
            last = await posts.get_last_seq(archive)
            after = last if self._seq is None else self._seq
            for source, deleted, number in await posts.count_changes_by_source(archive, after, last):
                key = source, "deleted" if deleted else "kept"
                self._change_counts[key] = self._change_counts.get(key, 0) + number
            self._seq = last
        changes = {
            (source, change): self._change_counts.get((source, change), 0)
            for source in ("live", "import", "history")
            for change in ("kept", "deleted")
        }
        description = "Posts that came, changed or went since the start."
        yield _make_metric("post_changes", description, changes, "source", "change", kind=CounterMetricFamily)
        now = time.monotonic()
        if self._post_rows is None or now - self._post_rows[0] >= _REFRESH_SECONDS:
            self._post_rows = now, await posts.count_post_rows(archive)
        description = "Posts in the archive, deleted ones that are remembered among them."
        yield _make_metric("archive_posts", description, self._post_rows[1])
        yield _make_metric("channels", "Channels that the archive knows.", len(await channels.load_channels(archive)))

    async def _line(self, context: AppContext) -> AsyncIterator[Metric]:
        queue = await questions.fetch_queue_stats(context.archive)
        oldest = max(0.0, time.time() - queue.oldest) if queue.oldest else 0.0
        yield _make_metric("questions_waiting", "Questions in the queue.", queue.waiting)
        yield _make_metric("questions_running", "Questions that are worked on.", queue.running)
        yield _make_metric("oldest_question_seconds", "How long the first in the queue has waited.", oldest)

    async def _waiting(self, context: AppContext) -> AsyncIterator[Metric]:
        """Count the waiting and quarantined updates, and the gaps in channels."""
        archive = context.archive
        quarantined = (await raw_updates.count_updates_by_state(archive))["poison"]
        yield _make_metric("updates_quarantined", "Updates of Telegram's that could not be read.", quarantined)
        waiting = await raw_updates.count_unhandled_updates(archive)
        yield _make_metric("updates_waiting", "Updates that are kept and not worked in.", waiting)
        gap_counts = [len(channel_gaps) for channel_gaps in (await channel_history.list_open_gaps(archive)).values()]
        description = "Times in which posts may have been missed, in all channels."
        yield _make_metric("gaps_open", description, sum(gap_counts))
        yield _make_metric("gap_channels", "Channels with such a time.", len(gap_counts))
        yield _make_metric("channel_gaps_max", "The most such times of one channel.", max(gap_counts, default=0))
        running = sum(job.state == "running" for job in (await channel_history.list_backfills(archive)).values())
        yield _make_metric("history_running", "Channels whose earlier posts are being fetched.", running)

    async def _votes(self, context: AppContext) -> AsyncIterator[Metric]:
        votes = {("good", "none"): 0, ("bad", "none"): 0, **{("bad", reason): 0 for reason in VOTE_REASONS}}
        for good, why, number in await questions.count_votes_by_reason(context.archive):
            votes["good" if good else "bad", why or "none"] = number
        yield _make_metric("feedback_votes", "Votes on answers; a vote can be changed.", votes, "vote", "reason")

    async def _disk(self, context: AppContext) -> AsyncIterator[Metric]:
        folder = context.archive.folder
        disk = await asyncio.to_thread(data_folder.measure_disk_usage, folder)
        sizes = {("archive",): disk.archive, ("indexes",): disk.indexes, ("backups",): disk.backups}
        description = "What lies in the data folder: archive, indexes, backups."
        yield _make_metric("disk_bytes", description, sizes, "part")
        yield _make_metric("disk_free_bytes", "What is free beside them.", disk.free)
        if backups := await asyncio.to_thread(list_backups, folder):
            moment = get_backup_time(backups[0]).timestamp()
            yield _make_metric("last_backup_timestamp_seconds", "When the last backup was made.", moment)

    async def _caches(self, context: AppContext) -> AsyncIterator[Metric]:
        caches, requests = context.rag.caches, dict[tuple[str, ...], float]()
        for name, cache in (("plans", caches.plans), ("hits", caches.hits), ("verdicts", caches.verdicts)):
            requests |= {(name, "hit"): cache.hits, (name, "miss"): cache.looks - cache.hits}
        description = "Looks into a cache: hit, miss."
        yield _make_metric("cache_requests", description, requests, "cache", "result", kind=CounterMetricFamily)

    async def _jobs(self, context: AppContext) -> AsyncIterator[Metric]:
        """Count the runs of scheduled jobs. The label is not "job", which Prometheus uses for its targets."""
        jobs = context.indexing.job_log.jobs.values()
        runs, failures = {(job.name,): job.runs for job in jobs}, {(job.name,): job.failures for job in jobs}
        yield _make_metric("job_runs", "Runs of work that goes by itself.", runs, "task", kind=CounterMetricFamily)
        yield _make_metric("job_failures", "Runs that failed.", failures, "task", kind=CounterMetricFamily)
        failing = {(job.name,): job.failing for job in jobs}
        yield _make_metric("job_failing", "1 where the last run failed.", failing, "task")
