"""Job records: the last run of each scheduled job, and its last failure, which is kept after later successes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rag_core.storage.db import Archive
from rag_core.storage.rows import from_unix_seconds, to_unix_seconds

__all__ = ["JobRecord", "load_jobs", "save_jobs"]


@dataclass(frozen=True, slots=True)
class JobRecord:
    """Record of a scheduled job: its last run, how long that took (ms), and how often it ran and failed.

    `said` is the report of the last run, None if that failed; `error` is the sentence of the last failure, at
    `failed_at`.
    """

    name: str
    ran_at: datetime | None = None
    took_ms: int = 0
    runs: int = 0
    failures: int = 0
    failed_at: datetime | None = None
    error: str | None = None
    said: str | None = None

    @property
    def failing(self) -> bool:
        """True if the last run failed."""
        return self.failed_at is not None and self.said is None


async def load_jobs(archive: Archive) -> list[JobRecord]:
    """Load the records of all jobs that ever ran, by name."""
    rows = await archive.rows("SELECT * FROM jobs ORDER BY name")
    return [
        JobRecord(
            row["name"],
            _decode_moment(row["ran_at"]),
            row["took_ms"] or 0,
            row["runs"],
            row["failures"],
            _decode_moment(row["failed_at"]),
            row["error"],
            row["said"],
        )
        for row in rows
    ]


def _decode_moment(value: int | None) -> datetime | None:
    return None if value is None else from_unix_seconds(value)


async def save_jobs(archive: Archive, done: Sequence[JobRecord]) -> None:
    """Save job records in place of the earlier ones."""
    rows = [
        (
            job.name,
            to_unix_seconds(job.ran_at) if job.ran_at else None,
            job.took_ms,
            job.runs,
            job.failures,
            to_unix_seconds(job.failed_at) if job.failed_at else None,
            job.error,
            job.said,
        )
        for job in done
    ]
    async with archive.writing() as connection:
        await connection.executemany(
            "INSERT OR REPLACE INTO jobs (name, ran_at, took_ms, runs, failures, failed_at, error, said) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
