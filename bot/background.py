"""Background tasks of the bot: nobody awaits them, so that they are held, ended and reported here."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

log = logging.getLogger(__name__)


def spawn(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start a task, and hold it in a set until it has ended: the event loop holds none."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def cancel_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks, and wait until they have ended; their errors are dropped."""
    ending = [*tasks]  # a task leaves the set of `spawn` when it ends
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Wait until an event is set, for so many seconds at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


@asynccontextmanager
async def run_in_background(
    *chores: Coroutine[Any, Any, None], failed: str = "a background task of the bot ended"
) -> AsyncIterator[None]:
    """Run chores until the block ends. What one fails with is logged as an error, of which admins are told."""

    def report(ended: asyncio.Task[None]) -> None:
        if not ended.cancelled() and (exc := ended.exception()):
            log.error(failed, exc_info=exc)

    tasks = [asyncio.create_task(chore) for chore in chores]
    for task in tasks:
        task.add_done_callback(report)
    try:
        yield
    finally:
        await cancel_tasks(tasks)
