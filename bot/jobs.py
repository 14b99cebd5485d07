"""Background jobs: their log, repeated jobs, the scheduler with its maintenance jobs, and the history of channels.

One instance of each runs at a time; a missed run is made up for once or reported, and no failure is silent. APScheduler
goes by the wall clock: when that is set back, the next runs are computed anew. The job log is kept in memory and
written now and then: a failure must not be forgotten because the archive is what failed.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger

from bot.settings import Settings
from ingest import integrity, outages
from ingest.history import BackfillRunner, PacedSource, look_before_citing, sweep_channels
from ingest.inbox import forget_unapproved_channels
from ingest.indexer import LexicalIndexer
from rag_core import processes
from rag_core.engine import Engine
from rag_core.errors import RagError
from rag_core.settings import DataSettings
from rag_core.storage import Archive, index_state, questions, raw_updates, readers
from rag_core.storage.backups import make_backup, prune_backups, run_cancellable
from rag_core.storage.channel_history import get_last_heartbeat
from rag_core.storage.subscriptions import forget_old_watches
from rag_core.types import PostKey

if TYPE_CHECKING:
    from ingest.mtproto import HistoryClient

log = logging.getLogger(__name__)

_WRITE_INTERVAL_SECONDS = 60.0
_REPEAT_LOG_SECONDS = 3600.0  # a repeated failure is logged again after this time


class JobLog:
    """Log of job runs and failures, in `jobs` by name. Call `read` once at the start, `write` now and then."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.jobs: dict[str, index_state.JobRecord] = {}
        self._unwritten: set[str] = set()
        self._last_logged: dict[str, tuple[str, float]] = {}
        self._written, self._urgent = 0.0, False

    async def read(self) -> None:
        """Load the records of earlier runs of the bot. Raises ArchiveUnavailable."""
        self.jobs = {job.name: job for job in await index_state.load_jobs(self._archive)} | self.jobs

    async def write(self) -> None:
        """Save new records. Raises ArchiveUnavailable; they are then saved the next time."""
        fresh = [self.jobs[name] for name in self._unwritten]
        if fresh:
            await index_state.save_jobs(self._archive, fresh)
            self._unwritten -= {job.name for job in fresh if self.jobs[job.name] is job}

    async def keep(self) -> None:
        """Save new records once a minute, or at once if a job began to fail; an error leaves them for later."""
        if self._urgent or outages.get_monotonic_time() - self._written >= _WRITE_INTERVAL_SECONDS:
            self._written, self._urgent = outages.get_monotonic_time(), False
            with suppress(RagError):  # the job that met the same error reports it
                await self.write()

    def record_success(self, name: str, took: float, said: str = "") -> None:
        """Record a run of `took` seconds with its result `said`."""
        before, moment = self.jobs.get(name, index_state.JobRecord(name)), datetime.now(UTC)
        self._store(replace(before, ran_at=moment, took_ms=round(took * 1000), runs=before.runs + 1, said=said))
        if self._last_logged.pop(name, None):
            log.warning("%s works again", name)

    def record_failure(self, name: str, problem: Exception | str) -> bool:
        """Record a failure. Returns True if it was logged: the same sentence is logged at most once an hour."""
        before, moment = self.jobs.get(name, index_state.JobRecord(name)), datetime.now(UTC)
        if isinstance(problem, str | RagError):
            reason = problem if isinstance(problem, str) else problem.reason
        else:
            reason = type(problem).__name__
            # Messages of other exceptions may repeat a reader's text; the traceback is in the log.
            reason += f": {problem}" if isinstance(problem, OSError | sqlite3.Error) else ""
        ran = replace(before, ran_at=moment, runs=before.runs + 1, failures=before.failures + 1)
        self._store(replace(ran, failed_at=moment, error=reason, said=None))
        self._urgent |= not before.failing
        logged, at = self._last_logged.get(name, ("", 0.0))
        if logged == reason and outages.get_monotonic_time() - at < _REPEAT_LOG_SECONDS:
            return False
        self._last_logged[name] = (reason, outages.get_monotonic_time())
        # Only a bug needs a traceback.
        bug = problem if isinstance(problem, Exception) and not isinstance(problem, RagError) else None
        log.error("%s: %s", name, reason, exc_info=bug)
        return True

    def _store(self, job: index_state.JobRecord) -> None:
        self.jobs[job.name] = job
        self._unwritten.add(job.name)


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
        started = outages.get_monotonic_time()
        try:
            await work()
        except Exception as exc:
            job_log.record_failure(name, exc)
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)
            continue
        job_log.record_success(name, outages.get_monotonic_time() - started)
        pause = seconds
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await wakeup.wait()


_MISSED_TEXT = "It was not run at its time: the machine slept or was busy."
_STILL_RUNNING_TEXT = "It was left out once: it was still running since the time before."
_CLOCK_CHECK_SECONDS = 20.0
_OVERDUE_START_DELAY = timedelta(minutes=10)  # after the start: an overdue job waits until startup work is done


class FixedDelayTrigger(BaseTrigger):  # type: ignore[misc]  # APScheduler is published without types
    """Trigger with a fixed delay after the last run, and `first` seconds after the start if given.

    APScheduler's interval trigger counts each interval that a jump of the clock has skipped.
    """

    __slots__ = ("first", "pause")

    def __init__(self, seconds: float, first: float | None = None) -> None:
        self.pause = timedelta(seconds=seconds)
        self.first = self.pause if first is None else timedelta(seconds=first)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """Next run: now plus the delay."""
        return now + (self.pause if previous_fire_time else self.first)


JobWork = Callable[[], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """Job with its schedule; `work` returns a line for the job log (None or "" for nothing).

    `grace`: how late a run may still begin (None: any time). `overdue`: if the last run is longer ago, the job runs
    soon after the start. `loud`: admins are notified when it begins to fail.
    """

    name: str
    work: JobWork
    trigger: BaseTrigger
    grace: timedelta | None = None
    overdue: timedelta | None = None
    loud: bool = False


@asynccontextmanager
async def open_scheduler(
    jobs: Sequence[ScheduledJob],
    job_log: JobLog,
    tell: outages.NotifyAdmins,
    *,
    zone: tzinfo = UTC,
    clock: outages.Clock | None = None,
) -> AsyncIterator[AsyncIOScheduler]:
    """Run the jobs until the block ends; running ones are then cancelled. Raises ArchiveUnavailable."""
    await job_log.read()
    # The job log reports what the scheduler would log.
    logging.getLogger("apscheduler").setLevel(logging.CRITICAL)
    scheduler = AsyncIOScheduler(timezone=zone, job_defaults={"coalesce": True, "max_instances": 1})
    events = EVENT_JOB_ERROR | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES

    def record_failed_event(event: JobEvent) -> None:
        if event.code == EVENT_JOB_MISSED:
            job_log.record_failure(event.job_id, _MISSED_TEXT)
        elif event.code == EVENT_JOB_MAX_INSTANCES:
            job_log.record_failure(event.job_id, _STILL_RUNNING_TEXT)
        elif isinstance(event.exception, Exception):  # not cancelled: saving the record or notifying failed
            job_log.record_failure(event.job_id, event.exception)

    scheduler.add_listener(record_failed_event, events)
    running: set[asyncio.Task[object]] = set()
    for job in jobs:
        grace = None if job.grace is None else int(job.grace.total_seconds())
        known, now = job_log.jobs.get(job.name), datetime.now(UTC)
        ran_at = known.ran_at if known else None
        overdue = job.overdue is not None and (ran_at is None or now - ran_at > job.overdue)
        first = {"next_run_time": now + _OVERDUE_START_DELAY} if overdue else {}
        scheduler.add_job(
            _run_job, job.trigger, (job, job_log, tell, running), id=job.name, misfire_grace_time=grace, **first
        )
    scheduler.start()
    steadying = asyncio.create_task(_watch_wall_clock(scheduler, outages.ClockDrift(clock or outages.Clock())))
    try:
        yield scheduler
    finally:
        steadying.cancel()
        scheduler.shutdown()
        for task in running:
            task.cancel()
        await asyncio.gather(steadying, *running, return_exceptions=True)
        with suppress(RagError):  # the reason was already logged
            await job_log.write()


async def _run_job(
    job: ScheduledJob, job_log: JobLog, tell: outages.NotifyAdmins, running: set[asyncio.Task[object]]
) -> None:
    task = asyncio.current_task()
    assert task is not None
    running.add(task)
    task.add_done_callback(running.discard)
    started = asyncio.get_running_loop().time()
    try:
        result = await job.work()
    except Exception as exc:
        if job_log.record_failure(job.name, exc) and job.loud:
            await tell(outages.JobFailing(job.name, job_log.jobs[job.name].error or ""))
    else:
        job_log.record_success(job.name, asyncio.get_running_loop().time() - started, result or "")
    await job_log.keep()


async def _watch_wall_clock(scheduler: AsyncIOScheduler, drift: outages.ClockDrift) -> None:
    while True:
        await asyncio.sleep(_CLOCK_CHECK_SECONDS)
        by = drift.jump()
        if by:
            log.warning("the clock was set by %+.0f s", by)
        if by < 0:
            for job in scheduler.get_jobs():
                scheduler.reschedule_job(job.id, trigger=job.trigger)
        elif by > 0:
            scheduler.wakeup()


# After a day without power the second heartbeat reports the gap: within a minute.
_INBOX_SECONDS, _HEARTBEAT_SECONDS, _GAPS_SECONDS = 3.0, 20.0, 600.0
# Early, so that a bot whose first run is short knows later when that run was.
_FIRST_HEARTBEAT_SECONDS = 3.0
_SAVE_SECONDS, _FORGET_SECONDS, _MEMORY_SECONDS = 6 * 3600.0, 3600.0, 120.0
# At night nobody asks questions; a machine that is off at night does it in the morning.
_BACKUP_TIME, _CHECK_TIME = (3, 15), (3, 45)
_START_DELAY = timedelta(seconds=5)  # after the start
_GRACE_PERIOD, _OVERDUE_AFTER = timedelta(hours=12), timedelta(hours=25)


@dataclass(frozen=True, slots=True)
class MaintenanceJobs:
    """Maintenance jobs and their dependencies. `wake` starts processing pending posts, `tell` notifies admins."""

    rag: Engine
    indexer: LexicalIndexer
    pulse: outages.Heartbeat
    wake: Callable[[], None]
    tell: outages.NotifyAdmins

    def jobs(self, settings: DataSettings, zone: tzinfo) -> list[ScheduledJob]:
        """All jobs, scheduled in this time zone."""

        def nightly(name: str, work: JobWork, hour: int, minute: int) -> ScheduledJob:
            trigger = CronTrigger(hour=hour, minute=minute, timezone=zone)
            return ScheduledJob(name, work, trigger, _GRACE_PERIOD, _OVERDUE_AFTER, loud=True)

        async def wake() -> None:  # in case a wake-up was lost
            self.wake()

        async def free_memory() -> None:
            await asyncio.to_thread(processes.release_free_memory)

        async def check() -> str:
            return str(await integrity.check_integrity(self.rag, self.indexer, self.tell))

        archive, kept = self.rag.archive, timedelta(days=settings.keep_questions_days)
        jobs = [
            ScheduledJob("inbox", wake, FixedDelayTrigger(_INBOX_SECONDS)),
            ScheduledJob("heartbeat", self.heartbeat, FixedDelayTrigger(_HEARTBEAT_SECONDS, _FIRST_HEARTBEAT_SECONDS)),
            ScheduledJob("gaps", partial(outages.report_gaps, archive, self.tell), FixedDelayTrigger(_GAPS_SECONDS)),
            ScheduledJob("save", self.indexer.save, FixedDelayTrigger(_SAVE_SECONDS)),
            ScheduledJob("forget", partial(self.forget, kept), FixedDelayTrigger(_FORGET_SECONDS)),
            ScheduledJob("memory", free_memory, FixedDelayTrigger(_MEMORY_SECONDS)),
            nightly("check", check, *_CHECK_TIME),
        ]
        if archive.large:  # too large to be checked when it is opened
            soon = DateTrigger(datetime.now(UTC) + _START_DELAY)
            jobs.append(ScheduledJob("damage", archive.check_pages, soon, loud=True))
        if settings.backups:
            back_up = partial(run_cancellable, partial(_back_up, archive.folder, settings.backups))
            jobs.append(nightly("backup", back_up, *_BACKUP_TIME))
        return jobs

    async def heartbeat(self) -> str:
        """Record contact with Telegram; notify admins if it was lost for too long."""
        noted = await self.pulse.beat()
        if noted:
            await outages.report_gaps(self.rag.archive, self.tell)
        return f"{noted} gaps" if noted else ""

    async def forget(self, kept: timedelta) -> str:
        """Delete expired data, some of it older than `kept`.

        Age is measured from the last heartbeat, so that a clock that jumps ahead expires nothing.
        """
        archive, now = self.rag.archive, await get_last_heartbeat(self.rag.archive)
        if now is None:
            return ""
        done = await raw_updates.forget_done_updates(archive, now)
        removed = {
            "updates": done + await raw_updates.forget_poison_updates(archive, now - kept),
            "questions": await readers.forget_question_texts(archive, now - kept),
            "votes": await questions.forget_voters(archive, now - kept),
            "links": await questions.forget_old_links(archive, now - kept),
            "remembered questions": await readers.expire_turns(
                archive, now - timedelta(minutes=self.rag.settings.memory.minutes)
            ),
            "watches": await forget_old_watches(archive, now),
            "posts": await forget_unapproved_channels(archive, now),
        }
        return ", ".join(f"{number} {what}" for what, number in removed.items() if number)


def _back_up(folder: Path, keep: int, stop: threading.Event) -> str:
    """Make a backup and keep the last `keep`."""
    made = make_backup(folder, stop)
    prune_backups(folder, keep)
    return made.name


_SWEEP_SECONDS, _FIRST_SWEEP_SECONDS = 3600.0, 120.0


@dataclass(frozen=True, slots=True)
class HistoryService:
    """History service of a running bot. `wake` tells the indexes of changes."""

    archive: Archive
    client: HistoryClient
    wake: Callable[[], None]
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def source(self) -> PacedSource:
        """The client at a rate that leaves room for the bot's other calls."""
        return PacedSource(self.client)

    async def run(self) -> None:
        """Run backfills until cancelled, and the tasks that show their progress."""
        try:
            await BackfillRunner(self.archive, self.source, self.wake).run()
        finally:
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    def spawn(self, showing: Coroutine[Any, Any, None]) -> None:
        """Run a task that shows progress; it ends with the bot."""
        task = asyncio.create_task(showing)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def confirm_posts(self, keys: Iterable[PostKey]) -> bool:
        """Look at posts that an answer is about to cite; True where one of them changed or is gone."""
        changed = await look_before_citing(self.archive, self.client, keys)
        if changed:
            self.wake()
        return changed

    def build_sweep_job(self, tell: outages.NotifyAdmins) -> ScheduledJob:
        """Build the hourly job that looks for deletions and missed edits."""

        async def sweep() -> str:
            said = await sweep_channels(self.archive, self.source, tell)
            self.wake()
            return said

        return ScheduledJob("history", sweep, FixedDelayTrigger(_SWEEP_SECONDS, _FIRST_SWEEP_SECONDS))


@asynccontextmanager
async def open_history_client(settings: Settings) -> AsyncIterator[HistoryClient | None]:
    """Open the client, which connects when it is first asked; None without HISTORY__API_ID. Raises SettingsWrong."""
    chosen = settings.history
    if not chosen.api_id:
        yield None
        return
    from ingest.mtproto import HistoryClient

    token = settings.bot.token.get_secret_value()
    secret = chosen.api_hash.get_secret_value()
    client = HistoryClient(chosen.api_id, secret, token, settings.data.dir)
    try:
        yield client
    finally:
        await client.close()
