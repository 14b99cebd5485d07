"""Keeps how questions were answered, behind the answers: a reader never waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict

from rag_core.doors.archive import Archive
from rag_core.doors.archive.traces import keep_trace
from rag_core.errors import ArchiveUnavailable
from rag_core.rag import Rag
from rag_core.stage import Run

__all__ = ["tracing"]

_MOST_WAITING = 200  # a busy archive must not fill the memory

log = logging.getLogger(__name__)


async def _keep(archive: Archive, run: Run) -> None:
    """Keep one. A trace that cannot be kept is no reason to keep no other: it is logged."""
    try:
        spans = [asdict(span) for span in run.spans]
        await keep_trace(archive, run.trace_id, run.recipe, spans, [short.stage for short in run.shortfalls])
    except ArchiveUnavailable as exc:
        log.warning("the trace %s was not kept: %s", run.trace_id, exc.reason)
    except Exception:  # else nobody would take the next, and the end would wait for it
        log.exception("the trace %s was not kept", run.trace_id)


@asynccontextmanager
async def tracing(rag: Rag) -> AsyncIterator[None]:
    """While this lasts, what the tray's runs were like is kept; what waits at the end is still written."""
    waiting: asyncio.Queue[Run] = asyncio.Queue(_MOST_WAITING)
    before: Callable[[Run], None] = rag.traced

    def put(run: Run) -> None:
        before(run)
        if not waiting.full():
            waiting.put_nowait(run)

    async def work() -> None:
        while True:
            await _keep(rag.archive, await waiting.get())
            waiting.task_done()

    rag.exchange(traced=put)
    task = asyncio.create_task(work())
    try:
        yield
    finally:
        rag.exchange(traced=before)
        await waiting.join()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
