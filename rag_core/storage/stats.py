"""Statistics for monitoring and for admins: questions, posts, votes, and waiting or unreadable updates.

Monitoring asks every few seconds, so its figures are read from an index. Only `count_post_rows` and
`count_votes_by_reason` count row by row, a million posts in less than a tenth of a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rag_core.storage.db import Archive
from rag_core.storage.rows import get_unix_time, to_unix_seconds

__all__ = [
    "PoisonUpdate",
    "QuestionStats",
    "QueueStats",
    "check_writable",
    "count_changes_by_source",
    "count_post_rows",
    "count_questions_since",
    "count_unhandled_updates",
    "count_votes_by_reason",
    "fetch_queue_stats",
    "forget_question_texts",
    "get_journal_mode",
    "get_user_language",
    "list_poison_updates",
]


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Questions that wait and that are worked on; `oldest`: when the first that waits was asked, in Unix seconds."""

    waiting: int
    running: int
    oldest: int | None


async def fetch_queue_stats(archive: Archive) -> QueueStats:
    """The line of questions."""
    ((waiting, running, oldest),) = await archive.rows(
        "SELECT count(*) FILTER (WHERE state = 'queued'), count(*) FILTER (WHERE state = 'running'), "
        "min(asked_at) FILTER (WHERE state = 'queued') FROM questions WHERE state IN ('queued', 'running')"
    )
    return QueueStats(waiting, running, oldest)


async def count_post_rows(archive: Archive) -> int:
    """How many posts are kept, those that were deleted but are remembered among them."""
    ((number,),) = await archive.rows("SELECT count(*) FROM posts INDEXED BY posts_seq")
    return int(number)


async def count_changes_by_source(archive: Archive, after: int, until: int) -> list[tuple[str, bool, int]]:
    """Of posts whose last change is after one and not after another: source, whether deleted, how many they are."""
    rows = await archive.rows(
        "SELECT source, deleted_at IS NOT NULL AS gone, count(*) FROM posts WHERE seq > ? AND seq <= ? "
        "GROUP BY source, gone",
        (after, until),
    )
    return [(source, bool(gone), number) for source, gone, number in rows]


async def count_votes_by_reason(archive: Archive) -> list[tuple[bool, str | None, int]]:
    """Votes on answers: whether they are good, the reason that was given, and how many they are."""
    rows = await archive.rows("SELECT good, reason, count(*) FROM votes GROUP BY good, reason")
    return [(bool(good), reason, number) for good, reason, number in rows]


async def get_journal_mode(archive: Archive) -> str:
    """How SQLite keeps what is being written: "wal", unless the file system does not let it."""
    ((mode,),) = await archive.rows("PRAGMA journal_mode")
    return str(mode)


async def check_writable(archive: Archive) -> None:
    """Write, and change nothing: the disk takes part. Raises ArchiveUnavailable."""
    async with archive.writing() as connection:
        await connection.execute("UPDATE identity SET value = value")


_HANDLING_TIME_S = 60  # whoever asks how much waits is an update on its way
_FORGET_BATCH_ROWS = 1000  # rows of one transaction
# An answer without a sentence is a refusal; a forgotten one says only whether it was.
_IS_REFUSAL_SQL = (
    "coalesce(json_extract(answer, '$.refused'), coalesce(json_array_length(answer, '$.sentences'), 0) = 0)"
)


@dataclass(frozen=True, slots=True)
class QuestionStats:
    """How many questions were asked, and what became of them; the rest is waiting or being answered."""

    asked: int = 0
    answered: int = 0
    refused: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class PoisonUpdate:
    """An update that could not be read, and what was wrong with it."""

    update_id: int
    received_at: int
    error: str


async def count_questions_since(archive: Archive, moment: datetime) -> QuestionStats:
    """The questions that came after a moment."""
    ((asked, answered, refused, failed),) = await archive.rows(
        f"SELECT count(*), count(*) FILTER (WHERE state = 'answered' AND NOT {_IS_REFUSAL_SQL}), "
        f"count(*) FILTER (WHERE state = 'answered' AND {_IS_REFUSAL_SQL}), count(*) FILTER (WHERE state = 'failed') "
        "FROM questions WHERE asked_at >= ?",
        (to_unix_seconds(moment),),
    )
    return QuestionStats(asked, answered, refused, failed)


async def count_unhandled_updates(archive: Archive) -> int:
    """Posts that are not worked in yet, and other updates that nobody has handled for a minute."""
    ((number,),) = await archive.rows(
        "SELECT count(*) FROM updates WHERE state = 'pending' "
        "AND (kind IN ('channel_post', 'edited_channel_post') OR received_at < ?)",
        (get_unix_time() - _HANDLING_TIME_S,),
    )
    return int(number)


async def list_poison_updates(archive: Archive, most: int) -> list[PoisonUpdate]:
    """The updates that were set aside last, the latest first."""
    rows = await archive.rows(
        "SELECT update_id, received_at, coalesce(error, '') FROM updates WHERE state = 'poison' "
        "ORDER BY received_at DESC, update_id DESC LIMIT ?",
        (most,),
    )
    return [PoisonUpdate(*row) for row in rows]


async def get_user_language(archive: Archive, user_id: int) -> str | None:
    """The language of the last question of a user; None where they never asked one."""
    rows = await archive.rows("SELECT lang FROM questions WHERE user_id = ? ORDER BY id DESC LIMIT 1", (user_id,))
    return rows[0][0] if rows else None


async def forget_question_texts(archive: Archive, before: datetime) -> int:
    """Forget what was asked and answered before a moment, by whom and where; that it was asked stays counted.

    Returns how many questions were forgotten.
    """
    forgotten = 0
    while True:
        async with archive.writing() as connection:
            cursor = await connection.execute(
                "UPDATE questions SET text = '', user_id = 0, chat_id = 0, message_id = 0, thread = NULL, "
                "answer_message_id = NULL, handle = NULL, answer = CASE state WHEN 'answered' THEN "
                f"json_object('refused', json(CASE WHEN {_IS_REFUSAL_SQL} THEN 'true' ELSE 'false' END)) END "
                "WHERE id IN (SELECT id FROM questions WHERE finished_at < ? AND text <> '' LIMIT ?)",
                (to_unix_seconds(before), _FORGET_BATCH_ROWS),
            )
            if cursor.rowcount < 1:
                return forgotten
            forgotten += cursor.rowcount
