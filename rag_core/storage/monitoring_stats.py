"""Statistics for monitoring and for admins: questions, posts, votes, waiting or unreadable updates, scheduled jobs.

Monitoring asks every few seconds, so its figures are read from an index. Only `count_post_rows` and
`count_votes_by_reason` count row by row, a million posts in less than a tenth of a second. A job's last failure is
kept after later successes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import decode_row, encode_row, get_unix_time, to_unix_seconds


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Question queue: waiting and running questions; `oldest`: when the first waiting one was asked (Unix seconds)."""

    waiting: int
    running: int
    oldest: int | None


async def fetch_queue_stats(archive: Archive) -> QueueStats:
    """Fetch the length of the question queue and the time of its oldest question."""
    ((waiting, running, oldest),) = await archive.rows(
        "SELECT count(*) FILTER (WHERE state = 'queued'), count(*) FILTER (WHERE state = 'running'), "
        "min(asked_at) FILTER (WHERE state = 'queued') FROM questions WHERE state IN ('queued', 'running')"
    )
    return QueueStats(waiting, running, oldest)


async def count_post_rows(archive: Archive) -> int:
    """Count the rows of `posts`, tombstones of deleted posts included."""
    return int(await archive.value("SELECT count(*) FROM posts INDEXED BY posts_seq"))


async def count_changes_by_source(archive: Archive, after: int, until: int) -> list[tuple[str, bool, int]]:
    """Count posts whose last change is after `after` and up to `until`, by source and whether they are deleted."""
    rows = await archive.rows(
        "SELECT source, deleted_at IS NOT NULL AS gone, count(*) FROM posts WHERE seq > ? AND seq <= ? "
        "GROUP BY source, gone",
        (after, until),
    )
    return [(source, bool(gone), number) for source, gone, number in rows]


async def count_votes_by_reason(archive: Archive) -> list[tuple[bool, str | None, int]]:
    """Count votes on answers: (whether good, the reason given, how many)."""
    rows = await archive.rows("SELECT good, reason, count(*) FROM votes GROUP BY good, reason")
    return [(bool(good), reason, number) for good, reason, number in rows]


async def get_journal_mode(archive: Archive) -> str:
    """SQLite's journal mode: "wal", unless the file system does not support it."""
    return str(await archive.value("PRAGMA journal_mode"))


async def check_writable(archive: Archive) -> None:
    """Check that the disk can be written, by an update that changes nothing. Raises ArchiveUnavailable."""
    await archive.execute("UPDATE identity SET value = value")


_HANDLING_TIME_S = 60  # younger updates are being handled, such as the one that asks for this count
# An answer without a sentence is a refusal; of a forgotten answer only `refused` is kept.
IS_REFUSAL_SQL = (
    "coalesce(json_extract(answer, '$.refused'), coalesce(json_array_length(answer, '$.sentences'), 0) = 0)"
)


@dataclass(frozen=True, slots=True)
class QuestionStats:
    """Counts of questions by outcome; the rest of `asked` is waiting or being answered."""

    asked: int = 0
    answered: int = 0
    refused: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class PoisonUpdate:
    """Quarantined update: one that could not be read, with the error."""

    update_id: int
    error: str


async def count_questions_since(archive: Archive, moment: datetime) -> QuestionStats:
    """Count the questions asked since a moment, by outcome."""
    ((asked, answered, refused, failed),) = await archive.rows(
        f"SELECT count(*), count(*) FILTER (WHERE state = 'answered' AND NOT {IS_REFUSAL_SQL}), "
        f"count(*) FILTER (WHERE state = 'answered' AND {IS_REFUSAL_SQL}), count(*) FILTER (WHERE state = 'failed') "
        "FROM questions WHERE asked_at >= ?",
        (to_unix_seconds(moment),),
    )
    return QuestionStats(asked, answered, refused, failed)


@dataclass(frozen=True, slots=True)
class TalkStats:
    """Talks, and means of each: questions, refusals, seconds an answer, tokens, tool calls and reviews of drafts."""

    talks: int
    questions: float
    refused: float
    seconds: float
    tokens: float
    tools: float
    reviews: float


_TALK_GAP_S = 3600  # a question that comes later begins another talk


async def measure_talks_since(archive: Archive, moment: datetime) -> TalkStats | None:
    """Measure the talks since a moment: questions of one chat and thread without a long pause; None without any."""
    since = to_unix_seconds(moment)
    ((talks, asked, refused, took),) = await archive.rows(
        "SELECT count(*) FILTER (WHERE gap IS NULL OR gap > ?), count(*), coalesce(sum(refused), 0), "
        "coalesce(avg(took), 0) FROM ("
        "SELECT asked_at - lag(asked_at) OVER (PARTITION BY chat_id, thread ORDER BY asked_at, id) AS gap, "
        f"state = 'answered' AND {IS_REFUSAL_SQL} AS refused, finished_at - asked_at AS took "
        "FROM questions WHERE asked_at >= ? AND text <> '')",
        (_TALK_GAP_S, since),
    )
    if not talks:
        return None
    ((tokens, tools, reviews),) = await archive.rows(
        "SELECT coalesce(sum(json_extract(span.value, '$.counts.tokens')), 0), "
        "count(*) FILTER (WHERE json_extract(span.value, '$.stage') LIKE 'tool.%'), "
        "count(*) FILTER (WHERE json_extract(span.value, '$.stage') = 'reflect') "
        "FROM traces, json_each(traces.spans) AS span WHERE ended_at >= ?",
        (since,),
    )
    return TalkStats(talks, asked / talks, refused / talks, took, tokens / talks, tools / talks, reviews / talks)


async def count_unhandled_updates(archive: Archive) -> int:
    """Count updates with posts that are not saved yet, and other updates unhandled for more than a minute."""
    return int(
        await archive.value(
            "SELECT count(*) FROM updates WHERE state = 'pending' "
            "AND (kind IN ('channel_post', 'edited_channel_post') OR received_at < ?)",
            (get_unix_time() - _HANDLING_TIME_S,),
        )
    )


async def list_poison_updates(archive: Archive, most: int) -> list[PoisonUpdate]:
    """List the last `most` quarantined updates, the latest first."""
    rows = await archive.rows(
        "SELECT update_id, coalesce(error, '') FROM updates WHERE state = 'poison' "
        "ORDER BY received_at DESC, update_id DESC LIMIT ?",
        (most,),
    )
    return [PoisonUpdate(*row) for row in rows]


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
    return [decode_row(JobRecord, row, took_ms=row["took_ms"] or 0) for row in rows]


async def save_jobs(archive: Archive, done: Sequence[JobRecord]) -> None:
    """Save job records in place of the earlier ones."""
    await archive.save_rows("jobs", [encode_row(job) for job in done])
