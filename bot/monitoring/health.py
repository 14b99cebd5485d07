"""Health endpoints: /healthz (liveness), /readyz (readiness) and /metrics (Prometheus) on one port; spans.

The gauges of /metrics are computed when they are read.

Readiness names the part that does not work in fixed words, because the reasons of errors may name files.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import chain
from typing import Generic, TypeVar

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from bot import files
from bot.context import AppContext
from bot.http_listener import check_listen_host, refuse_foreign_pages, serve_http
from bot.monitoring.metrics import Meter, TelegramCallMetrics
from bot.settings import MonitoringSettings
from ingest.dedup import describe_fingerprint
from rag_core.engine import Engine
from rag_core.errors import RagError, SettingsWrong, translate_errors
from rag_core.storage import (
    Archive,
    channels,
    gaps,
    history,
    index_state,
    monitoring_stats,
    near_duplicates,
    posts,
    raw_updates,
)
from rag_core.storage.backups import get_backup_time, list_backups
from rag_core.storage.questions import VOTE_REASONS
from rag_core.tracing import Run

_NO_REASON = "none"
# Values counted row by row change slowly, and counting a million rows takes a tenth of a second or more.
_REFRESH_SECONDS = 300.0
_PART_TIMEOUT_SECONDS = 3.0  # for each part; Prometheus waits ten seconds for all

T = TypeVar("T")


def _make_gauge(name: str, description: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"citegram_{name}", description, labels=labels)


def _make_counter(name: str, description: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"citegram_{name}", description, labels=labels)


def _make_value_gauge(name: str, description: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"citegram_{name}", description, value=value)


class _CachedValue(Generic[T]):
    """Value that is recomputed after `_REFRESH_SECONDS`."""

    def __init__(self, work: Callable[[Archive], Awaitable[T]]) -> None:
        self._work = work
        self._known: tuple[float, T] | None = None

    async def __call__(self, archive: Archive) -> T:
        """Return the value, which may be a few minutes old."""
        now = time.monotonic()
        if self._known is None or now - self._known[0] >= _REFRESH_SECONDS:
            self._known = now, await self._work(archive)
        return self._known[1]


class StateCollector:
    """Prometheus collector of a bot's states. `context` returns its AppContext, None before it exists."""

    def __init__(self, context: Callable[[], AppContext | None], meter: Meter) -> None:
        self._get_context = context
        self._meter = meter
        self._seq: int | None = None  # of the last counted change
        self._change_counts: dict[tuple[str, str], int] = {}
        self._counting = asyncio.Lock()
        self._post_row_count, self._vote_counts = (
            _CachedValue(monitoring_stats.count_post_rows),
            _CachedValue(monitoring_stats.count_votes_by_reason),
        )

    async def read(self) -> list[Metric]:
        """Read all metrics; a part that fails is counted as a scrape failure."""
        began = time.perf_counter()
        await asyncio.sleep(0)
        lag = time.perf_counter() - began
        metrics = [_make_value_gauge("event_loop_lag_seconds", "How long the event loop took to come round.", lag)]
        silence = self._meter.wire.silence
        if silence is not None:
            description = "Since Telegram last answered for updates, or for the webhook that brings them."
            metrics.append(_make_value_gauge("telegram_silence_seconds", description, silence))
        context = self._get_context()
        parts = (self._lags, self._sizes, self._posts, self._line, self._waiting, self._votes, self._disk,
                 self._caches, self._jobs)  # fmt: skip
        part_metrics = await asyncio.gather(*(self._read_part(part, context) for part in parts)) if context else []
        info = _make_gauge("build_info", "The version, as a label.", "version")
        info.add_metric([version("citegram")], 1)
        return [info, *metrics, *chain.from_iterable(part_metrics)]

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
        lag = _make_gauge("index_lag_changes", "Changes that a leg has not taken in: words, vectors, copies.", "leg")
        lag.add_metric(["words"], max(0, await posts.get_last_seq(context.archive) - context.rag.lexical.watermark))
        lag.add_metric(
            ["copies"], await near_duplicates.count_uncompared_changes(context.archive, describe_fingerprint())
        )
        if context.rag.dense:
            lag.add_metric(
                ["vectors"],
                await index_state.count_unembedded_changes(context.archive, context.rag.dense.vectors.identity),
            )
        yield lag

    async def _sizes(self, context: AppContext) -> AsyncIterator[Metric]:
        size = _make_gauge("index_passages", "Passages that a leg can find.", "leg")
        size.add_metric(["words"], len(context.rag.lexical))
        if context.rag.dense:
            size.add_metric(["vectors"], await context.rag.dense.vectors.count())
        yield size

    async def _posts(self, context: AppContext) -> AsyncIterator[Metric]:
        """Count the stored posts, and the changes since the start: read from the last change on, whatever wrote it."""
        async with self._counting:  # two concurrent scrapes would count the same changes twice
            last = await posts.get_last_seq(context.archive)
            after = last if self._seq is None else self._seq
            for source, deleted, number in await monitoring_stats.count_changes_by_source(context.archive, after, last):
                key = source, "deleted" if deleted else "kept"
                self._change_counts[key] = self._change_counts.get(key, 0) + number
            self._seq = last
        changes = _make_counter("post_changes", "Posts that came, changed or went since the start.", "source", "change")
        for source in ("live", "import", "history"):
            for change in ("kept", "deleted"):
                changes.add_metric([source, change], self._change_counts.get((source, change), 0))
        yield changes
        yield _make_value_gauge("archive_posts", "Posts in the archive, deleted ones that are remembered among them.",
                     await self._post_row_count(context.archive))  # fmt: skip
        yield _make_value_gauge(
            "channels", "Channels that the archive knows.", len(await channels.load_channels(context.archive))
        )

    async def _line(self, context: AppContext) -> AsyncIterator[Metric]:
        queue = await monitoring_stats.fetch_queue_stats(context.archive)
        oldest = max(0.0, time.time() - queue.oldest) if queue.oldest else 0.0
        yield _make_value_gauge("questions_waiting", "Questions in the queue.", queue.waiting)
        yield _make_value_gauge("questions_running", "Questions that are worked on.", queue.running)
        yield _make_value_gauge("oldest_question_seconds", "How long the first in the queue has waited.", oldest)

    async def _waiting(self, context: AppContext) -> AsyncIterator[Metric]:
        quarantined = (await raw_updates.count_updates_by_state(context.archive))["poison"]
        yield _make_value_gauge("updates_quarantined", "Updates of Telegram's that could not be read.", quarantined)
        yield _make_value_gauge(
            "updates_waiting",
            "Updates that are kept and not worked in.",
            await monitoring_stats.count_unhandled_updates(context.archive),
        )
        gap_counts = [len(channel_gaps) for channel_gaps in (await gaps.list_open_gaps(context.archive)).values()]
        yield _make_value_gauge(
            "gaps_open", "Times in which posts may have been missed, in all channels.", sum(gap_counts)
        )
        running = sum(job.state == "running" for job in (await history.list_backfills(context.archive)).values())
        yield _make_value_gauge("history_running", "Channels whose earlier posts are being fetched.", running)
        yield _make_value_gauge("gap_channels", "Channels with such a time.", len(gap_counts))
        yield _make_value_gauge("channel_gaps_max", "The most such times of one channel.", max(gap_counts, default=0))

    async def _votes(self, context: AppContext) -> AsyncIterator[Metric]:
        votes = _make_gauge("feedback_votes", "Votes on answers; a vote can be changed.", "vote", "reason")
        number = {("good", _NO_REASON): 0, ("bad", _NO_REASON): 0, **{("bad", reason): 0 for reason in VOTE_REASONS}}
        number |= {
            ("good" if good else "bad", why or _NO_REASON): n
            for good, why, n in await monitoring_stats.count_votes_by_reason(context.archive)
        }
        for labels, count in number.items():
            votes.add_metric(labels, count)
        yield votes

    async def _disk(self, context: AppContext) -> AsyncIterator[Metric]:
        folder = context.archive.folder
        disk = await asyncio.to_thread(files.measure_disk_usage, folder)
        sizes = _make_gauge("disk_bytes", "What lies in the data folder: archive, indexes, backups.", "part")
        for part, size in (("archive", disk.archive), ("indexes", disk.indexes), ("backups", disk.backups)):
            sizes.add_metric([part], size)
        yield sizes
        yield _make_value_gauge("disk_free_bytes", "What is free beside them.", disk.free)
        if backups := await asyncio.to_thread(list_backups, folder):
            moment = get_backup_time(backups[0]).timestamp()
            yield _make_value_gauge("last_backup_timestamp_seconds", "When the last backup was made.", moment)

    async def _caches(self, context: AppContext) -> AsyncIterator[Metric]:
        caches = context.rag.caches
        requests = _make_counter("cache_requests", "Looks into a cache: hit, miss.", "cache", "result")
        for name, cache in (("plans", caches.plans), ("hits", caches.hits), ("verdicts", caches.verdicts)):
            requests.add_metric([name, "hit"], cache.hits)
            requests.add_metric([name, "miss"], cache.looks - cache.hits)
        yield requests

    async def _jobs(self, context: AppContext) -> AsyncIterator[Metric]:
        """Count the runs of scheduled jobs. The label is not "job", which Prometheus uses for its targets."""
        runs = _make_counter("job_runs", "Runs of work that goes by itself.", "task")
        failed = _make_counter("job_failures", "Runs that failed.", "task")
        failing = _make_gauge("job_failing", "1 where the last run failed.", "task")
        for job in [*context.indexing.job_log.jobs.values()]:
            runs.add_metric([job.name], job.runs)
            failed.add_metric([job.name], job.failures)
            failing.add_metric([job.name], job.failing)
        for metric in (runs, failed, failing):
            yield metric


OK, OFF = "ok", "off"
HEALTHY_STATES = {OK, OFF}
# A getUpdates request is held for 30 s, and is repeated after a pause if it failed. With a webhook, getWebhookInfo is
# called every minute.
_MAX_SILENCE_SECONDS, _MAX_WEBHOOK_SILENCE_SECONDS = 90.0, 200.0
_CHECK_TIMEOUT_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadinessCheck:
    """Readiness check of the bot's parts. `context` returns its AppContext, None before it exists."""

    context: Callable[[], AppContext | None]
    wire: TelegramCallMetrics

    async def look(self) -> dict[str, str]:
        """Check each part: "ok", "off" (started without it, which is fine too), or what is wrong."""
        context = self.context()
        if context is None:
            starting = "starting"
            return {"archive": starting, "words": starting, "vectors": starting, "telegram": self._check_telegram()}
        archive, vectors = await asyncio.gather(_check_archive(context), _check_vectors(context))
        jobs = context.indexing.job_log.jobs
        return {
            "archive": archive,
            "words": ("cannot be brought up to date" if "lexical" in jobs and jobs["lexical"].failing else OK),
            "vectors": vectors,
            "telegram": self._check_telegram(),
        }

    def _check_telegram(self) -> str:
        silence, most = (
            self.wire.silence,
            _MAX_WEBHOOK_SILENCE_SECONDS if self.wire.by_webhook else _MAX_SILENCE_SECONDS,
        )
        if silence is None:
            return "not reached yet"
        return OK if silence < most else f"silent for {silence:.0f} s"


async def _check_archive(context: AppContext) -> str:
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT_SECONDS):
            await monitoring_stats.check_writable(context.archive)
    except TimeoutError:
        return "busy"
    except RagError as exc:
        log.warning("not ready: %s", exc)
        return "cannot be written"
    return OK


async def _check_vectors(context: AppContext) -> str:
    if (
        context.rag.dense is None
    ):  # without a model vectors are not wanted; if wanted and not opened, there is a shortfall
        return "not opened" if any(short.stage == "dense" for short in context.rag.without) else OFF
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT_SECONDS):
            await context.rag.dense.vectors.count()
    except TimeoutError:
        return "busy"
    except RagError as exc:
        log.warning("not ready: %s", exc)
        return "cannot be searched"
    return OK


_CLOSE_TIMEOUT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _MetricsSnapshot:
    """Collected metrics in the interface that Prometheus' client expects."""

    metrics: list[Metric]

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        return self.metrics


@dataclass(frozen=True, slots=True)
class _MonitoringPages:
    meter: Meter
    states: StateCollector
    readiness: ReadinessCheck

    async def healthz(self, request: web.Request) -> web.Response:
        """Answer at all: this proves that the event loop runs."""
        return web.json_response({"alive": True})

    async def readyz(self, request: web.Request) -> web.Response:
        """Answer 200 if the bot can work, else 503; the body names the parts that cannot."""
        checks = await self.readiness.look()
        ready = all(state in HEALTHY_STATES for state in checks.values())
        return web.json_response({"ready": ready, "checks": checks}, status=200 if ready else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        """Answer all metrics in Prometheus' text format."""
        states = _MetricsSnapshot(await self.states.read())
        body = generate_latest(states) + generate_latest(self.meter.instruments.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


@asynccontextmanager
async def _serve_monitoring(
    settings: MonitoringSettings, meter: Meter, states: StateCollector, readiness: ReadinessCheck
) -> AsyncIterator[None]:
    """Serve on the configured port until the block ends; without a port do nothing. Raises SettingsWrong."""
    if not settings.port:
        yield
        return
    host = check_listen_host(settings.host, settings.public, "MONITORING__HOST")
    # A public port may be called by any host name; DNS rebinding only matters where a browser runs.
    guards = [] if settings.public else [refuse_foreign_pages]
    pages, app = _MonitoringPages(meter, states, readiness), web.Application(middlewares=guards)
    for name in ("healthz", "readyz", "metrics"):
        app.router.add_get(f"/{name}", getattr(pages, name))
    refusal = f"The port MONITORING__PORT={settings.port} cannot be opened ({{}}): choose another."
    async with AsyncExitStack() as opened:
        with translate_errors(SettingsWrong, OSError, say=refusal):
            await opened.enter_async_context(serve_http(app, host, settings.port, close_s=_CLOSE_TIMEOUT_SECONDS))
        log.info("watched on http://%s:%d/metrics", host, settings.port)
        yield


class Monitoring:
    """Monitoring of one bot: `meter` counts, `context` is set once the AppContext exists."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.context: AppContext | None = None


@asynccontextmanager
async def monitor_bot(settings: MonitoringSettings, rag: Engine) -> AsyncIterator[Monitoring]:
    """Count until the block ends. Raises SettingsWrong for a port that cannot or must not be opened."""
    monitoring, before, root = Monitoring(), rag.traced, logging.getLogger()

    readiness = ReadinessCheck(lambda: monitoring.context, monitoring.meter.wire)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(
            _serve_monitoring(
                settings, monitoring.meter, StateCollector(lambda: monitoring.context, monitoring.meter), readiness
            )
        )
        root.addHandler(monitoring.meter.lines)
        stack.callback(root.removeHandler, monitoring.meter.lines)
        trackers = [
            before,
            monitoring.meter.record_run,
            *await stack.enter_async_context(_open_span_exporters(settings.collector)),
        ]

        def report_run(run: Run) -> None:
            for track in trackers:
                track(run)

        rag.traced = report_run
        stack.callback(setattr, rag, "traced", before)
        yield monitoring


@asynccontextmanager
async def _open_span_exporters(address: str) -> AsyncIterator[list[Callable[[Run], None]]]:
    """Open the span exporters; none if no collector is configured or OpenTelemetry is not installed."""
    if not address:
        yield []
        return
    try:
        from bot.monitoring.opentelemetry_export import open_span_exporter
    except ImportError:
        log.warning("MONITORING__COLLECTOR needs OpenTelemetry: pip install 'citegram[otel]'; nothing is sent")
        yield []
        return
    spans = open_span_exporter(address)
    try:
        yield [spans.export_run]
    finally:
        await asyncio.to_thread(spans.close)
