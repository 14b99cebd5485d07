"""Background jobs: their log, repeated jobs, the maintenance jobs with their times, and the history of channels.

One instance of each runs at a time, and no failure is silent. The job log is kept in memory and written now and then: a
failure must not be forgotten because the archive is what failed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger

from bot.background import cancel_tasks, run_in_background, wait_for_event
from bot.settings import Settings
from ingest import integrity, outages
from ingest.history import BackfillRunner, PacedSource, look_before_citing, sweep_channels
from ingest.inbox import forget_unapproved_channels
from ingest.indexer import LexicalIndexer
from rag_core import processes
from rag_core.engine import Engine
from rag_core.errors import RagError
from rag_core.settings import DataSettings
from rag_core.storage import Archive, index_state
from rag_core.storage.backups import make_backup, prune_backups, run_cancellable
from rag_core.storage.channel_history import get_last_heartbeat
from rag_core.storage.readers import forget_old_data
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
        if fresh := [self.jobs[name] for name in self._unwritten]:
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
        bug = None if isinstance(problem, str | RagError) else problem  # only a bug needs a traceback
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
        await wait_for_event(wakeup, seconds)


_OVERDUE_AFTER, _OVERDUE_START_SECONDS = timedelta(hours=25), 600.0  # until the work of a start is done


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """Job that runs every `seconds` (first after `first`), or each night `at` a time and after a night without it.

    `work` returns a line for the job log (None or "" for nothing). `loud`: admins are notified when it begins to fail.
    """

    name: str
    work: Callable[[], Awaitable[str | None]]
    seconds: float = math.inf
    first: float | None = None
    at: time | None = None
    loud: bool = False


@asynccontextmanager
async def run_jobs(
    jobs: Sequence[ScheduledJob], job_log: JobLog, tell: outages.NotifyAdmins, *, zone: tzinfo = UTC
) -> AsyncIterator[None]:
    """Run the jobs until the block ends; running ones are then cancelled. Raises ArchiveUnavailable."""
    await job_log.read()
    scheduler, chores = AsyncIOScheduler(timezone=zone), list[Coroutine[Any, Any, None]]()

    async def ring(bell: asyncio.Event) -> None:
        bell.set()

    for job in jobs:
        bell, first = asyncio.Event(), job.seconds if job.first is None else job.first
        if job.at:
            trigger = CronTrigger(hour=job.at.hour, minute=job.at.minute, timezone=zone)
            # a machine that is off or asleep at night does it once in the morning
            scheduler.add_job(ring, trigger, (bell,), coalesce=True, misfire_grace_time=None)
            ran_at = job_log.jobs[job.name].ran_at if job.name in job_log.jobs else None
            if ran_at is None or datetime.now(UTC) - ran_at > _OVERDUE_AFTER:
                first = _OVERDUE_START_SECONDS
        chores.append(_repeat_scheduled_job(job, first, bell, job_log, tell))
    try:
        async with run_in_background(*chores):
            scheduler.start()
            try:
                yield
            finally:
                scheduler.shutdown()
    finally:
        with suppress(RagError):  # the reason was already logged
            await job_log.write()


async def _repeat_scheduled_job(
    job: ScheduledJob, pause: float, bell: asyncio.Event, job_log: JobLog, tell: outages.NotifyAdmins
) -> None:
    """Run a job after each pause, which does not depend on the wall clock, and at each ring of the bell."""
    while True:
        await wait_for_event(bell, pause)
        bell.clear()
        started = outages.get_monotonic_time()
        try:
            said = await job.work()
        except Exception as exc:
            if job_log.record_failure(job.name, exc) and job.loud:
                await tell(outages.JobFailing(job.name, job_log.jobs[job.name].error or ""))
        else:
            job_log.record_success(job.name, outages.get_monotonic_time() - started, said or "")
        await job_log.keep()
        pause = job.seconds


# After a day without power the second heartbeat reports the gap: within a minute.
_INBOX_SECONDS, _HEARTBEAT_SECONDS, _GAPS_SECONDS = 3.0, 20.0, 600.0
_FIRST_HEARTBEAT_SECONDS = 3.0  # early, so that a bot whose first run is short knows later when that run was
_SAVE_SECONDS, _FORGET_SECONDS, _MEMORY_SECONDS = 6 * 3600.0, 3600.0, 120.0
# At night nobody asks questions; a machine that is off at night does it in the morning.
_BACKUP_TIME, _CHECK_TIME = time(3, 15), time(3, 45)
_DAMAGE_CHECK_SECONDS = 5.0  # after the start


def build_maintenance_jobs(
    rag: Engine,
    indexer: LexicalIndexer,
    pulse: outages.Heartbeat,
    wake: Callable[[], None],
    tell: outages.NotifyAdmins,
    settings: DataSettings,
) -> list[ScheduledJob]:
    """Build the maintenance jobs. `wake` starts processing pending posts, `tell` notifies admins."""
    archive = rag.archive

    async def wake_inbox() -> None:  # in case a wake-up was lost
        wake()

    async def beat() -> str:
        if noted := await pulse.beat():
            await outages.report_gaps(archive, tell)
        return f"{noted} gaps" if noted else ""

    async def forget() -> str:
        now = await get_last_heartbeat(archive)  # not the clock's: one that jumps ahead expires nothing
        if now is None:
            return ""
        kept, talks = timedelta(days=settings.keep_questions_days), timedelta(minutes=rag.settings.memory.minutes)
        removed = await forget_old_data(archive, now, kept, talks)
        removed["posts"] = await forget_unapproved_channels(archive, now)
        return ", ".join(f"{number} {what}" for what, number in removed.items() if number)

    async def free_memory() -> None:
        await asyncio.to_thread(processes.release_free_memory)

    async def check() -> str:
        return str(await integrity.check_integrity(rag, indexer, tell))

    def back_up(stop: threading.Event) -> str:
        made = make_backup(archive.folder, stop)
        prune_backups(archive.folder, settings.backups)
        return made.name

    jobs = [
        ScheduledJob("inbox", wake_inbox, _INBOX_SECONDS),
        ScheduledJob("heartbeat", beat, _HEARTBEAT_SECONDS, _FIRST_HEARTBEAT_SECONDS),
        ScheduledJob("gaps", partial(outages.report_gaps, archive, tell), _GAPS_SECONDS),
        ScheduledJob("save", indexer.save, _SAVE_SECONDS),
        ScheduledJob("forget", forget, _FORGET_SECONDS),
        ScheduledJob("memory", free_memory, _MEMORY_SECONDS),
        ScheduledJob("check", check, at=_CHECK_TIME, loud=True),
    ]
    if archive.large:  # too large to be checked when it is opened
        jobs.append(ScheduledJob("damage", archive.check_pages, first=_DAMAGE_CHECK_SECONDS, loud=True))
    if settings.backups:
        jobs.append(ScheduledJob("backup", partial(run_cancellable, back_up), at=_BACKUP_TIME, loud=True))
    return jobs


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
            await cancel_tasks(self.tasks)

    async def confirm_posts(self, keys: Iterable[PostKey]) -> bool:
        """Look at posts that an answer is about to cite; True where one of them changed or is gone."""
        if changed := await look_before_citing(self.archive, self.client, keys):
            self.wake()
        return changed

    def build_sweep_job(self, tell: outages.NotifyAdmins) -> ScheduledJob:
        """Build the hourly job that looks for deletions and missed edits."""

        async def sweep() -> str:
            said = await sweep_channels(self.archive, self.source, tell)
            self.wake()
            return said

        return ScheduledJob("history", sweep, _SWEEP_SECONDS, _FIRST_SWEEP_SECONDS)


@asynccontextmanager
async def open_history_client(settings: Settings) -> AsyncIterator[HistoryClient | None]:
    """Open the client, which connects when it is first asked; None without HISTORY__API_ID. Raises SettingsWrong."""
    chosen = settings.history
    if not chosen.api_id:
        yield None
        return
    from ingest.mtproto import HistoryClient

    secret, token = chosen.api_hash.get_secret_value(), settings.bot.token.get_secret_value()
    client = HistoryClient(chosen.api_id, secret, token, settings.data.dir)
    try:
        yield client
    finally:
        await client.close()
