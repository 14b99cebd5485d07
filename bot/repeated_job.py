"""Repeated job: run every few seconds, with growing pauses after failures; each run is recorded in the job log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NoReturn

from bot.background_job_log import JobLog
from ingest.times_out_of_touch import get_monotonic_time


async def repeat_job(
    job_log: JobLog,
    name: str,
    work: Callable[[], Awaitable[None]],
    seconds: float,
    longest: float,
    wakeup: asyncio.Event | None = None,
) -> NoReturn:
    """Run a job every few seconds, and when `wakeup` is set, until cancelled; record each run.

    After a failure the pause doubles, up to `longest` seconds, until the job works again.
    """
    pause, wakeup = seconds, wakeup or asyncio.Event()
    while True:
        wakeup.clear()
        started = get_monotonic_time()
        try:
            await work()
        except Exception as exc:
            job_log.record_failure(name, exc)
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)
            continue
        job_log.record_success(name, get_monotonic_time() - started)
        pause = seconds
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await wakeup.wait()
