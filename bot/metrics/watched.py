"""Hangs the meter on a bot: on its runs and its log, and opens the port for whoever watches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from bot.desk import Desk
from bot.metrics.meter import Meter
from bot.metrics.ready import Readiness
from bot.metrics.server import listening
from bot.metrics.states import States
from bot.settings import WatchSettings
from rag_core.rag import Rag
from rag_core.stage import Run

__all__ = ["Watched", "watched"]

log = logging.getLogger(__name__)


class Watched:
    """What is watched of one bot: `meter` counts, `desk` is set as soon as there is one."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.desk: Desk | None = None


@asynccontextmanager
async def watched(settings: WatchSettings, rag: Rag) -> AsyncIterator[Watched]:
    """Count until the block ends. Raises SettingsWrong for a port that cannot or must not be opened."""
    own, before, root = Watched(), rag.traced, logging.getLogger()

    readiness = Readiness(lambda: own.desk, own.meter.wire)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(listening(settings, own.meter, States(lambda: own.desk, own.meter), readiness))
        root.addHandler(own.meter.lines)
        stack.callback(root.removeHandler, own.meter.lines)
        told = [before, own.meter.traced, *await stack.enter_async_context(_collected(settings.collector))]

        def traced(run: Run) -> None:
            for tell in told:
                tell(run)

        rag.exchange(traced=traced)
        stack.callback(rag.exchange, traced=before)
        yield own


@asynccontextmanager
async def _collected(address: str) -> AsyncIterator[list[Callable[[Run], None]]]:
    """Who sends runs to the collector; nobody where none is named, or OpenTelemetry is not installed."""
    if not address:
        yield []
        return
    try:
        from bot.metrics.spans import to_collector
    except ImportError:
        log.warning("WATCH__COLLECTOR needs OpenTelemetry: pip install 'citegram[otel]'; nothing is sent")
        yield []
        return
    spans = to_collector(address)
    try:
        yield [spans.traced]
    finally:
        await asyncio.to_thread(spans.close)
