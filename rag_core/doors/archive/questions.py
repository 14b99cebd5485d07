"""Questions as rows: queued, running, answered; what was running when the bot stopped is queued again."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import from_seconds, now, seconds

__all__ = ["Asked", "finish", "queue", "requeue_running", "take", "waiting"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question on its way: where it came from, and how often somebody began to answer it."""

    id: int
    bot_id: int
    chat_id: int
    message_id: int
    thread: int | None
    user_id: int
    text: str
    lang: str
    asked_at: datetime
    private: bool
    attempts: int


async def queue(  # noqa: PLR0913 - a row has as many columns as it has
    archive: Archive,
    *,
    bot_id: int,
    update_id: int,
    chat_id: int,
    message_id: int,
    thread: int | None,
    user_id: int,
    text: str,
    lang: str,
    asked_at: datetime,
    private: bool,
) -> int | None:
    """Queue a question and return its id; None where this update was queued before."""
    values = (
        bot_id, update_id, chat_id, message_id, thread, user_id, text, lang, seconds(asked_at), private
    )  # fmt: skip
    async with archive.writing() as connection:
        cursor = await connection.execute(
            "INSERT OR IGNORE INTO questions (bot_id, update_id, chat_id, message_id, thread, user_id, "
            "text, lang, asked_at, private, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'queued')",
            values,
        )
        return cursor.lastrowid if cursor.rowcount == 1 else None


async def take(archive: Archive) -> Asked | None:
    """The oldest queued question of a reader who has none running; it runs now. None where nothing may go."""
    async with archive.writing() as connection:
        rows = await connection.execute_fetchall(
            "SELECT * FROM questions WHERE state = 'queued' AND user_id NOT IN "
            "(SELECT user_id FROM questions WHERE state = 'running') ORDER BY id LIMIT 1"
        )
        for row in rows:
            await connection.execute(
                "UPDATE questions SET state = 'running', attempts = attempts + 1 WHERE id = ?", (row["id"],)
            )
            return _asked(row)
    return None


def _asked(row: sqlite3.Row) -> Asked:
    return Asked(
        id=row["id"],
        bot_id=row["bot_id"],
        chat_id=row["chat_id"],
        message_id=row["message_id"],
        thread=row["thread"],
        user_id=row["user_id"],
        text=row["text"],
        lang=row["lang"],
        asked_at=from_seconds(row["asked_at"]),
        private=bool(row["private"]),
        attempts=row["attempts"] + 1,
    )


async def requeue_running(archive: Archive) -> int:
    """Queue again what was running: at the start, and at the end what was not finished. Returns how many."""
    async with archive.writing() as connection:
        cursor = await connection.execute("UPDATE questions SET state = 'queued' WHERE state = 'running'")
        return cursor.rowcount


async def finish(archive: Archive, question_id: int, *, state: str, answer: str | None) -> None:
    """Close a question: `state` is "answered" or "failed", `answer` JSON text."""
    async with archive.writing() as connection:
        await connection.execute(
            "UPDATE questions SET state = ?, answer = ?, finished_at = ? WHERE id = ?",
            (state, answer, now(), question_id),
        )


async def waiting(archive: Archive) -> int:
    """How many questions are queued."""
    ((number,),) = await archive.rows("SELECT count(*) FROM questions WHERE state = 'queued'")
    return int(number)
