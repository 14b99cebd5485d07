"""Who waits in which order, who leaves the line, and how much somebody has asked lately."""

from __future__ import annotations

from datetime import datetime

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.questions import Asked, read_asked
from rag_core.doors.archive.rows import from_seconds, now, seconds

__all__ = ["leave", "nth_newest", "show_in", "standing_in_line"]


async def standing_in_line(archive: Archive, most: int) -> list[Asked]:
    """The first `most` waiting questions, in their order."""
    rows = await archive.rows("SELECT * FROM questions WHERE state = 'queued' ORDER BY turn, id LIMIT ?", (most,))
    return [read_asked(row) for row in rows]


async def leave(archive: Archive, chat_id: int, user_id: int, question_id: int | None = None) -> list[Asked]:
    """Take a reader's waiting questions in a chat out of the line, or one of them. Returns them."""
    async with archive.writing() as connection:
        rows = await connection.execute_fetchall(
            "UPDATE questions SET state = 'failed', finished_at = ? WHERE state = 'queued' AND chat_id = ? "
            "AND user_id = ? AND (?4 IS NULL OR id = ?4) RETURNING *",
            (now(), chat_id, user_id, question_id),
        )
        return [read_asked(row) for row in rows]


async def show_in(archive: Archive, question_id: int, message_id: int) -> None:
    """This message becomes the answer to a question."""
    async with archive.writing() as connection:
        await connection.execute("UPDATE questions SET shown_in = ? WHERE id = ?", (message_id, question_id))


async def nth_newest(archive: Archive, column: str, whose: int, nth: int, since: datetime) -> datetime | None:
    """When the `nth` newest question (from 1) after `since` was asked, of a "user_id" or in a "chat_id".

    A question asked again for more keeps the moment of the first time: it counts when it is finished, until then now.
    """
    assert column in {"user_id", "chat_id"}, column
    rows = await archive.rows(
        f"SELECT asked_at AS at FROM questions WHERE {column} = ?1 AND asked_at > ?2 AND mode IS NOT 'deep' "
        f"UNION ALL SELECT coalesce(finished_at, ?3) FROM questions WHERE {column} = ?1 AND mode = 'deep' "
        "AND coalesce(finished_at, ?3) > ?2 ORDER BY at DESC LIMIT 1 OFFSET ?4",
        (whose, seconds(since), now(), nth - 1),
    )
    return from_seconds(rows[0]["at"]) if rows else None
