"""Job log: runs and failures of background jobs, shown by /stats.

It is kept in memory and written now and then: a job that runs every few seconds must not write every few seconds, and a
failure must not be forgotten because the archive is what failed.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from ingest.times_out_of_touch import get_monotonic_time
from rag_core.errors import RagError
from rag_core.storage import Archive, monitoring_stats
from rag_core.storage.monitoring_stats import JobRecord

log = logging.getLogger(__name__)

_WRITE_INTERVAL_SECONDS = 60.0
_REPEAT_LOG_SECONDS = 3600.0  # a repeated failure is logged again after this time


class JobLog:
    """Log of job runs and failures, in `jobs` by name. Call `read` once at the start, `write` now and then."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.jobs: dict[str, JobRecord] = {}
        self._unwritten: set[str] = set()
        self._last_logged: dict[str, tuple[str, float]] = {}
        self._written, self._urgent = 0.0, False

    async def read(self) -> None:
        """Load the records of earlier runs of the bot. Raises ArchiveUnavailable."""
        self.jobs = {job.name: job for job in await monitoring_stats.load_jobs(self._archive)} | self.jobs

    async def write(self) -> None:
        """Save new records. Raises ArchiveUnavailable; they are then saved the next time."""
        fresh = [self.jobs[name] for name in self._unwritten]
        if fresh:
            await monitoring_stats.save_jobs(self._archive, fresh)
            self._unwritten -= {job.name for job in fresh if self.jobs[job.name] is job}

    async def keep(self) -> None:
        """Save new records once a minute, or at once if a job began to fail; an error leaves them for later."""
        if self._urgent or get_monotonic_time() - self._written >= _WRITE_INTERVAL_SECONDS:
            self._written, self._urgent = get_monotonic_time(), False
            with suppress(RagError):  # the job that met the same error reports it
                await self.write()

    def record_success(self, name: str, took: float, said: str = "") -> None:
        """Record a run of `took` seconds with its result `said`."""
        before, moment = self.jobs.get(name, JobRecord(name)), datetime.now(UTC)
        self._store(replace(before, ran_at=moment, took_ms=round(took * 1000), runs=before.runs + 1, said=said))
        if self._last_logged.pop(name, None):
            log.warning("%s works again", name)

    def record_failure(self, name: str, problem: Exception | str) -> bool:
        """Record a failure. Returns True if it was logged: the same sentence is logged at most once an hour."""
        before, moment = self.jobs.get(name, JobRecord(name)), datetime.now(UTC)
        reason = _describe_problem(problem)
        ran = replace(before, ran_at=moment, runs=before.runs + 1, failures=before.failures + 1)
        self._store(replace(ran, failed_at=moment, error=reason, said=None))
        self._urgent |= not before.failing
        logged, at = self._last_logged.get(name, ("", 0.0))
        if logged == reason and get_monotonic_time() - at < _REPEAT_LOG_SECONDS:
            return False
        self._last_logged[name] = (reason, get_monotonic_time())
        # Only a bug needs a traceback.
        bug = problem if isinstance(problem, Exception) and not isinstance(problem, RagError) else None
        log.error("%s: %s", name, reason, exc_info=bug)
        return True

    def _store(self, job: JobRecord) -> None:
        self.jobs[job.name] = job
        self._unwritten.add(job.name)


def _describe_problem(problem: Exception | str) -> str:
    if isinstance(problem, RagError):
        return problem.reason
    if isinstance(problem, str):
        return problem
    name = type(problem).__name__
    # Messages of other exceptions may repeat a reader's text; the traceback is in the log.
    return f"{name}: {problem}" if isinstance(problem, OSError | sqlite3.Error) else name
