"""Runs jobs at their times: one instance each, a missed time is made up for once or said, nothing fails silently.

Jobs are plain async functions. APScheduler goes by the clock on the wall; when that one is set back, the jobs'
times are worked out anew, or they would wait until it has come so far again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger

from ingest.clock import Clock, Drift
from ingest.ledger import Ledger
from ingest.notices import Failing, Tell
from rag_core.errors import RagError

__all__ = ["Every", "Job", "daily", "once", "open_schedule"]

_MISSED = "It was not run at its time: the machine slept or was busy."
_STILL_RUNNING = "It was left out once: it was still running since the time before."
_LOOK_EVERY_S = 20.0  # at the clock
_SOON = timedelta(minutes=10)  # after the start: a job that is overdue waits until the bot has come to rest

log = logging.getLogger(__name__)


class Every(BaseTrigger):  # type: ignore[misc]  # APScheduler is published without types
    """So long after the last time, and `first` after the start where that is given. APScheduler's own counts each
    interval that a jump of the clock has skipped.
    """

    __slots__ = ("first", "pause")

    def __init__(self, seconds: float, first: float | None = None) -> None:
        self.pause = timedelta(seconds=seconds)
        self.first = self.pause if first is None else timedelta(seconds=first)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """The pause after now."""
        return now + (self.pause if previous_fire_time else self.first)


def daily(hour: int, minute: int, zone: tzinfo) -> BaseTrigger:
    """Every day at this time of this time zone."""
    return CronTrigger(hour=hour, minute=minute, timezone=zone)


def once(after: timedelta) -> BaseTrigger:
    """One time, so long after now."""
    return DateTrigger(datetime.now(UTC) + after)


@dataclass(frozen=True, slots=True)
class Job:
    """What runs when. `work` returns what it has to say ("" for nothing).

    `grace`: how late it may still begin (None: however late). `overdue`: at the start it runs soon where its
    last run is longer ago. `loud`: admins are told when it begins to fail.
    """

    name: str
    work: Callable[[], Awaitable[str]]
    trigger: BaseTrigger
    grace: timedelta | None = None
    overdue: timedelta | None = None
    loud: bool = False


@asynccontextmanager
async def open_schedule(
    jobs: Sequence[Job], ledger: Ledger, tell: Tell, *, zone: tzinfo = UTC, clock: Clock | None = None
) -> AsyncIterator[AsyncIOScheduler]:
    """Run the jobs until the block ends; those that run then are cancelled. Raises ArchiveUnavailable."""
    await ledger.read()
    # What it has to say is said by the ledger.
    logging.getLogger("apscheduler").setLevel(logging.CRITICAL)
    scheduler = AsyncIOScheduler(timezone=zone, job_defaults={"coalesce": True, "max_instances": 1})
    scheduler.add_listener(_listener(ledger), EVENT_JOB_ERROR | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)
    running: set[asyncio.Task[object]] = set()
    for job in jobs:
        grace = None if job.grace is None else int(job.grace.total_seconds())
        first = {"next_run_time": datetime.now(UTC) + _SOON} if _overdue(job, ledger) else {}
        scheduler.add_job(
            _run, job.trigger, (job, ledger, tell, running), id=job.name, misfire_grace_time=grace, **first
        )
    scheduler.start()
    steadying = asyncio.create_task(_steadied(scheduler, Drift(clock or Clock())))
    try:
        yield scheduler
    finally:
        steadying.cancel()
        scheduler.shutdown()
        for task in running:
            task.cancel()
        await asyncio.gather(steadying, *running, return_exceptions=True)
        with suppress(RagError):  # it has been said why
            await ledger.write()


def _overdue(job: Job, ledger: Ledger) -> bool:
    if job.overdue is None:
        return False
    known = ledger.jobs.get(job.name)
    return known is None or known.ran_at is None or datetime.now(UTC) - known.ran_at > job.overdue


async def _run(job: Job, ledger: Ledger, tell: Tell, running: set[asyncio.Task[object]]) -> None:
    task = asyncio.current_task()
    assert task is not None
    running.add(task)
    task.add_done_callback(running.discard)
    started = asyncio.get_running_loop().time()
    try:
        said = await job.work()
    except Exception as exc:
        if ledger.failed(job.name, exc) and job.loud:
            await tell(Failing(job.name, ledger.jobs[job.name].error or ""))
    else:
        ledger.passed(job.name, asyncio.get_running_loop().time() - started, said)
    await ledger.keep()


def _listener(ledger: Ledger) -> Callable[[JobEvent], None]:
    def heard(event: JobEvent) -> None:
        if event.code == EVENT_JOB_MISSED:
            ledger.failed(event.job_id, _MISSED)
        elif event.code == EVENT_JOB_MAX_INSTANCES:
            ledger.failed(event.job_id, _STILL_RUNNING)
        elif isinstance(event.exception, Exception):  # not cancelled: the ledger or the telling failed
            ledger.failed(event.job_id, event.exception)

    return heard


async def _steadied(scheduler: AsyncIOScheduler, drift: Drift) -> None:
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        by = drift.jump()
        if by:
            log.warning("the clock was set by %+.0f s", by)
        if by < 0:
            for job in scheduler.get_jobs():
                scheduler.reschedule_job(job.id, trigger=job.trigger)
        elif by > 0:
            scheduler.wakeup()
