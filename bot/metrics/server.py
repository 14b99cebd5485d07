"""The port for whoever watches: /healthz (it lives), /readyz (it can work), /metrics (Prometheus)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric

from bot.listening import allowed_host, refuse_foreign_pages, serve
from bot.metrics.meter import Meter
from bot.metrics.ready import FINE, Readiness
from bot.metrics.states import States
from bot.settings import WatchSettings
from rag_core.errors import SettingsWrong, raised_as

__all__ = ["listening"]

_CLOSE_S = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read, as Prometheus' client wants it."""

    metrics: list[Metric]

    def collect(self) -> Iterable[Metric]:
        """The metrics."""
        return self.metrics


@dataclass(frozen=True, slots=True)
class _Pages:
    meter: Meter
    states: States
    readiness: Readiness

    async def healthz(self, request: web.Request) -> web.Response:
        """An answer is the proof: the event loop turns."""
        return web.json_response({"alive": True})

    async def readyz(self, request: web.Request) -> web.Response:
        """200 where the bot can work, else 503; which part of it cannot stands in the answer."""
        checks = await self.readiness.look()
        ready = all(said in FINE for said in checks.values())
        return web.json_response({"ready": ready, "checks": checks}, status=200 if ready else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        """Everything, in Prometheus' text format."""
        states = _Read(await self.states.read())
        told = generate_latest(states) + generate_latest(self.meter.instruments.registry)
        return web.Response(body=told, headers={"Content-Type": CONTENT_TYPE_LATEST})


@asynccontextmanager
async def listening(settings: WatchSettings, meter: Meter, states: States, readiness: Readiness) -> AsyncIterator[None]:
    """Answer on the port of the settings until the block ends; without one do nothing. Raises SettingsWrong."""
    if not settings.port:
        yield
        return
    host = allowed_host(settings.host, settings.public, "WATCH__HOST")
    # A public port has whatever name others call it by; DNS rebinding is of use only where a browser runs.
    guards = [] if settings.public else [refuse_foreign_pages]
    pages, app = _Pages(meter, states, readiness), web.Application(middlewares=guards)
    for name in ("healthz", "readyz", "metrics"):
        app.router.add_get(f"/{name}", getattr(pages, name))
    said = f"The port WATCH__PORT={settings.port} cannot be opened ({{}}): choose another."
    async with AsyncExitStack() as opened:
        with raised_as(SettingsWrong, OSError, say=said):
            await opened.enter_async_context(serve(app, host, settings.port, close_s=_CLOSE_S))
        log.info("watched on http://%s:%d/metrics", host, settings.port)
        yield
