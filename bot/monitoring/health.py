"""Health endpoints: /healthz (liveness), /readyz (readiness) and /metrics (Prometheus) on one port.

Readiness names the part that does not work in fixed words, because the reasons of errors may name files.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric

from bot.context import AppContext
from bot.monitoring.collectors import StateCollector
from bot.monitoring.metrics import Meter, TelegramCallMetrics
from bot.network import check_listen_host, refuse_foreign_pages, serve_http
from bot.settings import MonitoringSettings
from rag_core.engine import Engine
from rag_core.errors import RagError, SettingsWrong, translate_errors
from rag_core.storage import usage_stats
from rag_core.tracing import Run

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
        return {
            "archive": archive,
            "words": _check_lexical_index(context),
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
            await usage_stats.check_writable(context.archive)
    except TimeoutError:
        return "busy"
    except RagError as exc:
        log.warning("not ready: %s", exc)
        return "cannot be written"
    return OK


def _check_lexical_index(context: AppContext) -> str:
    jobs = context.indexing.ledger.jobs
    return "cannot be brought up to date" if "lexical" in jobs and jobs["lexical"].failing else OK


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
async def serve_monitoring(
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
            serve_monitoring(
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
