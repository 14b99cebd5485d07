"""Monitoring of a running bot: /healthz (liveness), /readyz (readiness), /metrics (Prometheus) on a port.

Never a text, a reader or a channel. Readiness names the part that does not work in fixed words, because the reasons of
errors may name files.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from itertools import product
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from bot import data_folder
from bot.app_context import AppContext
from bot.metrics import Meter, TelegramCallMetrics
from bot.settings import MonitoringSettings
from bot.telegram.updates import check_listen_host, refuse_foreign_pages, serve_http
from ingest.copies import describe_fingerprint
from rag_core.engine import Engine
from rag_core.errors import RagError, SettingsWrong, translate_errors
from rag_core.run import Run
from rag_core.storage import channel_history, channels, index_state, near_duplicates, posts, questions, raw_updates
from rag_core.storage.backups import get_backup_time, list_backups
from rag_core.storage.questions import VOTE_REASONS

log = logging.getLogger(__name__)

# Values counted row by row change slowly, and counting a million rows takes a tenth of a second or more.
_REFRESH_SECONDS = 300.0
_PART_TIMEOUT_SECONDS = 3.0  # for each part; Prometheus waits ten seconds for all


def _gauge(
    name: str,
    description: str,
    value: float | Mapping[Any, float],
    *labels: str,
    kind: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily,
) -> Metric:
    """Make a gauge, or a metric of another kind, with one value or a value for each combination of its labels."""
    metric = kind(f"citegram_{name}", description, labels=labels)
    for of, number in value.items() if isinstance(value, Mapping) else [((), value)]:
        metric.add_metric(of, number)
    return metric


_counter = partial(_gauge, kind=CounterMetricFamily)


class Monitoring:
    """Monitoring of one bot: `meter` counts, `context` is set once the AppContext exists; a Prometheus collector."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.context: AppContext | None = None
        self._seq: int | None = None  # of the last counted change
        self._change_counts = Counter[tuple[str, str]]()
        self._counting = asyncio.Lock()
        self._post_rows: tuple[float, int] | None = None  # when they were counted, and their number
        self._latest: list[Metric] = []

    def collect(self) -> list[Metric]:
        """Return the metrics that were read last, as Prometheus' client asks for them (`generate_latest`)."""
        return self._latest

    async def read(self) -> list[Metric]:
        """Read all metrics; a part that fails is counted as a scrape failure."""
        began = time.perf_counter()
        await asyncio.sleep(0)
        lag = time.perf_counter() - began
        metrics = [
            _gauge("build_info", "The version, as a label.", {(version("citegram"),): 1}, "version"),
            _gauge("event_loop_lag_seconds", "How long the event loop took to come round.", lag),
        ]
        if (silence := self.meter.wire.silence) is not None:
            description = "Since Telegram last answered for updates, or for the webhook that brings them."
            metrics.append(_gauge("telegram_silence_seconds", description, silence))
        if self.context:
            parts = (self._lags, self._sizes, self._posts, self._line, self._waiting, self._votes, self._disk,
                     self._caches, self._jobs)  # fmt: skip
            for found in await asyncio.gather(*(self._read_part(part, self.context) for part in parts)):
                metrics += found
        self._latest = metrics
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
            self.meter.instruments.scrape_failures.labels(name).inc()
            return []

    async def _lags(self, context: AppContext) -> AsyncIterator[Metric]:
        archive, rag = context.archive, context.rag
        lags = {
            ("words",): max(0, await posts.get_last_seq(archive) - rag.lexical.watermark),
            ("copies",): await near_duplicates.count_uncompared_changes(archive, describe_fingerprint()),
        }
        if rag.dense:
            identity = rag.dense.vectors.about.identity
            lags["vectors",] = await index_state.count_unembedded_changes(archive, identity)
        yield _gauge("index_lag_changes", "Changes that a leg has not taken in: words, vectors, copies.", lags, "leg")

    async def _sizes(self, context: AppContext) -> AsyncIterator[Metric]:
        sizes = {("words",): len(context.rag.lexical)}
        if context.rag.dense:
            sizes["vectors",] = await context.rag.dense.vectors.count()
        yield _gauge("index_passages", "Passages that a leg can find.", sizes, "leg")

    async def _posts(self, context: AppContext) -> AsyncIterator[Metric]:
        """Count the stored posts, and the changes since the start: read from the last change on, whatever wrote it."""
        archive = context.archive
        async with self._counting:  # two concurrent scrapes would count the same changes twice
            last = await posts.get_last_seq(archive)
            after = last if self._seq is None else self._seq
            for source, deleted, number in await posts.count_changes_by_source(archive, after, last):
                self._change_counts[source, "deleted" if deleted else "kept"] += number
            self._seq = last
        kinds = product(("live", "import", "history"), ("kept", "deleted"))
        changes = {kind: self._change_counts[kind] for kind in kinds}
        yield _counter("post_changes", "Posts that came, changed or went since the start.", changes, "source", "change")
        now = time.monotonic()
        if self._post_rows is None or now - self._post_rows[0] >= _REFRESH_SECONDS:
            self._post_rows = now, await posts.count_post_rows(archive)
        yield _gauge(
            "archive_posts", "Posts in the archive, deleted ones that are remembered among them.", self._post_rows[1]
        )
        yield _gauge("channels", "Channels that the archive knows.", len(await channels.load_channels(archive)))

    async def _line(self, context: AppContext) -> AsyncIterator[Metric]:
        queue = await questions.fetch_queue_stats(context.archive)
        oldest = max(0.0, time.time() - queue.oldest) if queue.oldest else 0.0
        yield _gauge("questions_waiting", "Questions in the queue.", queue.waiting)
        yield _gauge("questions_running", "Questions that are worked on.", queue.running)
        yield _gauge("oldest_question_seconds", "How long the first in the queue has waited.", oldest)

    async def _waiting(self, context: AppContext) -> AsyncIterator[Metric]:
        archive = context.archive
        quarantined = (await raw_updates.count_updates_by_state(archive))["poison"]
        yield _gauge("updates_quarantined", "Updates of Telegram's that could not be read.", quarantined)
        waiting = await raw_updates.count_unhandled_updates(archive)
        yield _gauge("updates_waiting", "Updates that are kept and not worked in.", waiting)
        gap_counts = [len(channel_gaps) for channel_gaps in (await channel_history.list_open_gaps(archive)).values()]
        yield _gauge("gaps_open", "Times in which posts may have been missed, in all channels.", sum(gap_counts))
        yield _gauge("gap_channels", "Channels with such a time.", len(gap_counts))
        yield _gauge("channel_gaps_max", "The most such times of one channel.", max(gap_counts, default=0))
        running = sum(job.state == "running" for job in (await channel_history.list_backfills(archive)).values())
        yield _gauge("history_running", "Channels whose earlier posts are being fetched.", running)

    async def _votes(self, context: AppContext) -> AsyncIterator[Metric]:
        votes = {("good", "none"): 0, ("bad", "none"): 0, **{("bad", reason): 0 for reason in VOTE_REASONS}}
        for good, why, number in await questions.count_votes_by_reason(context.archive):
            votes["good" if good else "bad", why or "none"] = number
        yield _gauge("feedback_votes", "Votes on answers; a vote can be changed.", votes, "vote", "reason")

    async def _disk(self, context: AppContext) -> AsyncIterator[Metric]:
        folder = context.archive.folder
        disk = await asyncio.to_thread(data_folder.measure_disk_usage, folder)
        sizes = {("archive",): disk.archive, ("indexes",): disk.indexes, ("backups",): disk.backups}
        yield _gauge("disk_bytes", "What lies in the data folder: archive, indexes, backups.", sizes, "part")
        yield _gauge("disk_free_bytes", "What is free beside them.", disk.free)
        if backups := await asyncio.to_thread(list_backups, folder):
            moment = get_backup_time(backups[0]).timestamp()
            yield _gauge("last_backup_timestamp_seconds", "When the last backup was made.", moment)

    async def _caches(self, context: AppContext) -> AsyncIterator[Metric]:
        caches, requests = context.rag.caches, dict[tuple[str, ...], float]()
        for name, cache in (("plans", caches.plans), ("hits", caches.hits)):
            requests |= {(name, "hit"): cache.hits, (name, "miss"): cache.looks - cache.hits}
        yield _counter("cache_requests", "Looks into a cache: hit, miss.", requests, "cache", "result")

    async def _jobs(self, context: AppContext) -> AsyncIterator[Metric]:
        """Count the runs of scheduled jobs. The label is not "job", which Prometheus uses for its targets."""
        jobs = context.indexing.job_log.jobs.values()
        runs, failures = {(job.name,): job.runs for job in jobs}, {(job.name,): job.failures for job in jobs}
        yield _counter("job_runs", "Runs of work that goes by itself.", runs, "task")
        yield _counter("job_failures", "Runs that failed.", failures, "task")
        failing = {(job.name,): job.failing for job in jobs}
        yield _gauge("job_failing", "1 where the last run failed.", failing, "task")


_OK, _OFF = "ok", "off"
# A getUpdates request is held for 30 s, and is repeated after a pause if it failed. With a webhook, getWebhookInfo is
# called every minute.
_MAX_SILENCE_SECONDS, _MAX_WEBHOOK_SILENCE_SECONDS = 90.0, 200.0
_CHECK_TIMEOUT_SECONDS = 5.0


async def check_readiness(context: AppContext | None, wire: TelegramCallMetrics) -> dict[str, str]:
    """Check each part: "ok", "off" (started without it, which is fine too), or what is wrong."""
    silence = wire.silence
    most = _MAX_WEBHOOK_SILENCE_SECONDS if wire.by_webhook else _MAX_SILENCE_SECONDS
    telegram = "not reached yet" if silence is None else _OK if silence < most else f"silent for {silence:.0f} s"
    if context is None:
        return dict.fromkeys(("archive", "words", "vectors"), "starting") | {"telegram": telegram}
    # without a model vectors are not wanted; if wanted and not opened, there is a shortfall
    dense, closed = context.rag.dense, any(short.stage == "dense" for short in context.rag.without)
    archive, vectors = await asyncio.gather(
        _try_part(index_state.check_writable(context.archive), "cannot be written"),
        _try_part(dense.vectors.count(), "cannot be searched")
        if dense
        else asyncio.sleep(0, "not opened" if closed else _OFF),
    )
    jobs = context.indexing.job_log.jobs
    words = "cannot be brought up to date" if "lexical" in jobs and jobs["lexical"].failing else _OK
    return {"archive": archive, "words": words, "vectors": vectors, "telegram": telegram}


async def _try_part(work: Awaitable[object], otherwise: str) -> str:
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT_SECONDS):
            await work
    except TimeoutError:
        return "busy"
    except RagError as exc:
        log.warning("not ready: %s", exc)
        return otherwise
    return _OK


@asynccontextmanager
async def monitor_bot(settings: MonitoringSettings, rag: Engine) -> AsyncIterator[Monitoring]:
    """Count until the block ends. Raises SettingsWrong for a port that cannot or must not be opened."""
    monitoring, before, root = Monitoring(), rag.traced, logging.getLogger()
    meter = monitoring.meter

    def report_run(run: Run) -> None:
        before(run)
        meter.record_run(run)

    async with AsyncExitStack() as stack:
        if settings.port:
            await _serve(settings, monitoring, stack)
        root.addHandler(meter)
        stack.callback(root.removeHandler, meter)
        rag.traced = report_run
        stack.callback(setattr, rag, "traced", before)
        yield monitoring


async def _serve(settings: MonitoringSettings, monitoring: Monitoring, stack: AsyncExitStack) -> None:
    """Serve on the configured port until the stack is closed. Raises SettingsWrong."""
    host = check_listen_host(settings.host, settings.public, "MONITORING__HOST")
    # A public port may be called by any host name; DNS rebinding only matters where a browser runs.
    app = web.Application(middlewares=[] if settings.public else [refuse_foreign_pages])

    async def healthz(request: web.Request) -> web.Response:
        return web.json_response({"alive": True})  # to answer at all proves that the event loop runs

    async def readyz(request: web.Request) -> web.Response:
        checks = await check_readiness(monitoring.context, monitoring.meter.wire)
        ready = all(state in {_OK, _OFF} for state in checks.values())
        return web.json_response({"ready": ready, "checks": checks}, status=200 if ready else 503)

    async def metrics(request: web.Request) -> web.Response:
        await monitoring.read()
        body = generate_latest(monitoring) + generate_latest(monitoring.meter.instruments.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    for page in (healthz, readyz, metrics):
        app.router.add_get(f"/{page.__name__}", page)
    refusal = f"The port MONITORING__PORT={settings.port} cannot be opened ({{}}): choose another."
    with translate_errors(SettingsWrong, OSError, say=refusal):
        await stack.enter_async_context(serve_http(app, host, settings.port, close_s=1.0))
    log.info("watched on http://%s:%d/metrics", host, settings.port)
