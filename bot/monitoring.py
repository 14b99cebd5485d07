"""Monitoring of a running bot: /healthz (liveness), /readyz (readiness), /metrics (Prometheus) on a port.

Never a text, a reader or a channel. Readiness names the part that does not work in fixed words, because the reasons of
errors may name files.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from bot.app_context import AppContext
from bot.metrics import Meter, StateCollector, TelegramCallMetrics
from bot.settings import MonitoringSettings
from bot.telegram.updates import check_listen_host, refuse_foreign_pages, serve_http
from rag_core.engine import Engine
from rag_core.errors import RagError, SettingsWrong, translate_errors
from rag_core.run import Run
from rag_core.storage import index_state

log = logging.getLogger(__name__)


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
    meter = monitoring.meter
    states = StateCollector(lambda: monitoring.context, meter)
    readiness = ReadinessCheck(lambda: monitoring.context, meter.wire)

    async def healthz(request: web.Request) -> web.Response:
        return web.json_response({"alive": True})  # to answer at all proves that the event loop runs

    async def readyz(request: web.Request) -> web.Response:
        checks = await readiness.look()
        ready = all(state in {_OK, _OFF} for state in checks.values())
        return web.json_response({"ready": ready, "checks": checks}, status=200 if ready else 503)

    async def metrics(request: web.Request) -> web.Response:
        states.latest = await states.read()
        body = generate_latest(states) + generate_latest(meter.instruments.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    for page in (healthz, readyz, metrics):
        app.router.add_get(f"/{page.__name__}", page)
    refusal = f"The port MONITORING__PORT={settings.port} cannot be opened ({{}}): choose another."
    with translate_errors(SettingsWrong, OSError, say=refusal):
        await stack.enter_async_context(serve_http(app, host, settings.port, close_s=1.0))
    log.info("watched on http://%s:%d/metrics", host, settings.port)


_OK, _OFF = "ok", "off"
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
        context, silence = self.context(), self.wire.silence
        most = _MAX_WEBHOOK_SILENCE_SECONDS if self.wire.by_webhook else _MAX_SILENCE_SECONDS
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
