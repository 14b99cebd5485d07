"""The book of work that runs by itself: what ran and what failed, in the log once, in the archive for /stats.

It is kept in memory and written now and then: work that runs every few seconds must not write every few
seconds, and a failure must not be forgotten because the archive is what failed.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from ingest.clock import elapsed
from rag_core.doors.archive import Archive, jobs
from rag_core.doors.archive.jobs import Job
from rag_core.errors import RagError

__all__ = ["Ledger"]

_KEEP_EVERY_S = 60.0
# The same sentence again and again is said again after so long.
_SAY_AGAIN_S = 3600.0

log = logging.getLogger(__name__)


class Ledger:
    """What is known of each job. `read` it once at the start, `write` it now and then."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._jobs: dict[str, Job] = {}
        self._unwritten: set[str] = set()
        self._said: dict[str, tuple[str, float]] = {}
        self._written, self._urgent = 0.0, False

    @property
    def jobs(self) -> Mapping[str, Job]:
        """What is known of each job, by name."""
        return self._jobs

    async def read(self) -> None:
        """Take over what an earlier run of the bot wrote. Raises ArchiveUnavailable."""
        self._jobs = {job.name: job for job in await jobs.recorded(self._archive)} | self._jobs

    async def write(self) -> None:
        """Write what is new. Raises ArchiveUnavailable; then it is written the next time."""
        fresh = [self._jobs[name] for name in self._unwritten]
        if fresh:
            await jobs.write(self._archive, fresh)
            self._unwritten -= {job.name for job in fresh if self._jobs[job.name] is job}

    async def keep(self) -> None:
        """Write what is new, once a minute, or now where something began to fail; else it stays for later."""
        if self._urgent or elapsed() - self._written >= _KEEP_EVERY_S:
            self._written, self._urgent = elapsed(), False
            with suppress(RagError):  # the work that met the same failure says so itself
                await self.write()

    def passed(self, name: str, took: float, said: str = "") -> None:
        """A job ran for `took` seconds; `said` is what it has to say."""
        before, moment = self._jobs.get(name, Job(name)), datetime.now(UTC)
        self._put(replace(before, ran_at=moment, took_ms=round(took * 1000), runs=before.runs + 1, said=said))
        if self._said.pop(name, None):
            log.warning("%s works again", name)

    def failed(self, name: str, problem: Exception | str) -> bool:
        """A job failed. True where it was said in the log: the same sentence is said not more than once an hour."""
        before, moment = self._jobs.get(name, Job(name)), datetime.now(UTC)
        reason = _reason(problem)
        ran = replace(before, ran_at=moment, runs=before.runs + 1, failures=before.failures + 1)
        self._put(replace(ran, failed_at=moment, error=reason, said=None))
        self._urgent |= not before.failing
        return self._say(name, reason, problem)

    def _say(self, name: str, reason: str, problem: Exception | str) -> bool:
        said, at = self._said.get(name, ("", 0.0))
        if said == reason and elapsed() - at < _SAY_AGAIN_S:
            return False
        self._said[name] = (reason, elapsed())
        # A bug needs its traceback, what was planned for needs none.
        bug = problem if isinstance(problem, Exception) and not isinstance(problem, RagError) else None
        log.error("%s: %s", name, reason, exc_info=bug)
        return True

    def _put(self, job: Job) -> None:
        self._jobs[job.name] = job
        self._unwritten.add(job.name)


def _reason(problem: Exception | str) -> str:
    if isinstance(problem, RagError):
        return problem.reason
    if isinstance(problem, str):
        return problem
    name = type(problem).__name__
    # What others say may repeat a reader's text; the way to the bug is in the log.
    return f"{name}: {problem}" if isinstance(problem, OSError | sqlite3.Error) else name
