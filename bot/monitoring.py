"""Monitoring of a running bot: /healthz (liveness), /readyz (readiness), /metrics (Prometheus) on a port; spans.

Never a text, a reader or a channel. Readiness names the part that does not work in fixed words, because the reasons of
errors may name files.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from bot.app_context import AppContext
from bot.metrics import Meter, StateCollector, TelegramCallMetrics
from bot.settings import MonitoringSettings
from bot.telegram.updates import check_listen_host, refuse_foreign_pages, serve_http
from rag_core.engine import Engine
from rag_core.errors import RagError, SettingsWrong, translate_errors
from rag_core.run import Run, Span
from rag_core.storage import index_state

if TYPE_CHECKING:  # the extra `otel` may not be installed
    from opentelemetry.sdk.trace import SpanProcessor

log = logging.getLogger(__name__)


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
    app = web.Application(middlewares=guards)

    async def healthz(request: web.Request) -> web.Response:
        return web.json_response({"alive": True})  # to answer at all proves that the event loop runs

    async def readyz(request: web.Request) -> web.Response:
        checks = await readiness.look()
        ready = all(state in WORKING_STATES for state in checks.values())
        return web.json_response({"ready": ready, "checks": checks}, status=200 if ready else 503)

    async def metrics(request: web.Request) -> web.Response:
        states.latest = await states.read()
        body = generate_latest(states) + generate_latest(meter.instruments.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    for page in (healthz, readyz, metrics):
        app.router.add_get(f"/{page.__name__}", page)
    refusal = f"The port MONITORING__PORT={settings.port} cannot be opened ({{}}): choose another."
    async with AsyncExitStack() as opened:
        with translate_errors(SettingsWrong, OSError, say=refusal):
            await opened.enter_async_context(serve_http(app, host, settings.port, close_s=1.0))
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
    meter = monitoring.meter
    states = StateCollector(lambda: monitoring.context, meter)
    readiness = ReadinessCheck(lambda: monitoring.context, meter.wire)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(_serve_monitoring(settings, meter, states, readiness))
        root.addHandler(meter)
        stack.callback(root.removeHandler, meter)
        trackers = [before, meter.record_run]
        if exporter := _open_span_exporter(settings.collector):
            stack.push_async_callback(asyncio.to_thread, exporter.close)
            trackers.append(exporter.export_run)

        def report_run(run: Run) -> None:
            for track in trackers:
                track(run)

        rag.traced = report_run
        stack.callback(setattr, rag, "traced", before)
        yield monitoring


def _open_span_exporter(address: str) -> RunSpanExporter | None:
    """Open an exporter by OTLP over HTTP; None if no collector is configured or OpenTelemetry is not installed."""
    if not address:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        exporter = OTLPSpanExporter(endpoint=f"{address.rstrip('/')}/v1/traces", timeout=5.0)
        return RunSpanExporter(BatchSpanProcessor(exporter))
    except ImportError:
        log.warning("MONITORING__COLLECTOR needs OpenTelemetry: pip install 'citegram[otel]'; nothing is sent")
        return None


_OK, _OFF = "ok", "off"
WORKING_STATES = {_OK, _OFF}
# A getUpdates request is held for 30 s, and is repeated after a pause if it failed. With a webhook, getWebhookInfo is
# called every minute.
_MAX_SILENCE_SECONDS, _MAX_WEBHOOK_SILENCE_SECONDS = 90.0, 200.0
_CHECK_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ReadinessCheck:
    """Readiness check of the bot's parts. `context` returns its AppContext, None before it exists."""

    context: Callable[[], AppContext | None]
    wire: TelegramCallMetrics

    async def look(self) -> dict[str, str]:
        """Check each part: "ok", "off" (started without it, which is fine too), or what is wrong."""
        context = self.context()
        silence, most = (
            self.wire.silence,
            _MAX_WEBHOOK_SILENCE_SECONDS if self.wire.by_webhook else _MAX_SILENCE_SECONDS,
        )
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


_NANOSECONDS_PER_SECOND = 1_000_000_000


class RunSpanExporter:
    """Export the stages of finished runs as spans, with their original times. `close` flushes it; blocking.

    OpenTelemetry is imported only where a collector is configured: the extra `otel` installs it.
    """

    def __init__(self, processor: SpanProcessor) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider

        resource = Resource.create({"service.name": "citegram", "service.version": version("citegram")})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("citegram")

    def export_run(self, run: Run) -> None:
        """Create one span for the run and a child span for each stage: names, times, counts, error classes."""
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        if not run.spans:
            return
        began, ended = min(map(_compute_start_time, run.spans)), max(span.ended for span in run.spans)
        about = {"citegram.recipe": run.recipe, "citegram.request": run.trace_id}
        whole = self._tracer.start_span(run.recipe, start_time=int(began * _NANOSECONDS_PER_SECOND), attributes=about)
        inside = set_span_in_context(whole)
        for span in run.spans:
            counts = {f"citegram.{name}": value for name, value in span.counts.items()}
            started = int(_compute_start_time(span) * _NANOSECONDS_PER_SECOND)
            part = self._tracer.start_span(span.stage, inside, start_time=started, attributes=counts)
            if span.error:
                part.set_status(Status(StatusCode.ERROR, span.error))
            part.end(int(span.ended * _NANOSECONDS_PER_SECOND))
        whole.end(int(ended * _NANOSECONDS_PER_SECOND))

    def close(self) -> None:
        """Flush and shut down."""
        self._provider.shutdown()


def _compute_start_time(span: Span) -> float:
    return span.ended - span.took_ms / 1000
