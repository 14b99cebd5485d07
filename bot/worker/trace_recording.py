"""Trace recording: saves the traces of all runs in the background; a reader never waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict

from rag_core.engine import Engine
from rag_core.errors import ArchiveUnavailable
from rag_core.stage_runner import Run
from rag_core.storage.questions import save_trace

_MAX_WAITING_TRACES = 200  # limits memory while the archive is busy

log = logging.getLogger(__name__)


@asynccontextmanager
async def record_traces(rag: Engine) -> AsyncIterator[None]:
    """Save the traces of all runs in the background while the block lasts; those waiting at its end are still saved."""
    waiting: asyncio.Queue[Run] = asyncio.Queue(_MAX_WAITING_TRACES)
    before: Callable[[Run], None] = rag.traced

    def keep_trace(run: Run) -> None:
        before(run)
        if not waiting.full():
            waiting.put_nowait(run)

    async def work() -> None:
        while True:
            run = await waiting.get()
            try:
                spans = [asdict(span) for span in run.spans]
                await save_trace(
                    rag.archive, run.trace_id, run.recipe, spans, [short.stage for short in run.shortfalls]
                )
            except ArchiveUnavailable as exc:
                log.warning("the trace %s was not kept: %s", run.trace_id, exc.reason)
            except Exception:  # otherwise the loop would end, and `join` would wait for ever
                log.exception("the trace %s was not kept", run.trace_id)
            waiting.task_done()

    rag.traced = keep_trace
    task = asyncio.create_task(work())
    try:
        yield
    finally:
        rag.traced = before
        await waiting.join()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
