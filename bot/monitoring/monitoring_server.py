"""Monitoring of a running bot: /healthz (liveness), /readyz (readiness), /metrics (Prometheus) on a port; spans."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from bot.app_context import AppContext
from bot.monitoring.health import WORKING_STATES, ReadinessCheck
from bot.monitoring.metrics import Meter
from bot.monitoring.state_gauges import StateCollector
from bot.settings import MonitoringSettings
from bot.telegram.updates import check_listen_host, refuse_foreign_pages, serve_http
from rag_core.engine import Engine
from rag_core.errors import SettingsWrong, translate_errors
from rag_core.run import Run

if TYPE_CHECKING:  # the extra `otel` may not be installed
    from bot.monitoring.opentelemetry_export import RunSpanExporter

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
        root.addHandler(meter.lines)
        stack.callback(root.removeHandler, meter.lines)
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
    """Open the span exporter; None if no collector is configured or OpenTelemetry is not installed."""
    if not address:
        return None
    try:
        from bot.monitoring.opentelemetry_export import open_span_exporter
    except ImportError:
        log.warning("MONITORING__COLLECTOR needs OpenTelemetry: pip install 'citegram[otel]'; nothing is sent")
        return None
    return open_span_exporter(address)
