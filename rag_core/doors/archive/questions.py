"""Questions as rows: queued, running, answered; what was running when the bot stopped is queued again."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from datetime import datetime

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import from_seconds, now, seconds

__all__ = [
    "Answered",
    "Asked",
    "behind",
    "finish",
    "last_answered",
    "queue",
    "read_asked",
    "requeue_running",
    "take",
    "waiting",
]

# A long answer comes in several messages; in a busy group others come between them.
_APART = 50
# Readers take turns: a question goes behind what its reader asked before, and behind the turn that is taken now.
# So the twentieth question of one reader is after the first of everybody who asks meanwhile.
_TURN = (
    "1 + max((SELECT coalesce(max(turn), 0) FROM questions WHERE user_id = ?6 AND state IN ('queued', 'running')), "
    "(SELECT coalesce(max(turn), 0) FROM questions WHERE state = 'running'), "
    "(SELECT coalesce(max(turn), 0) FROM questions WHERE state = 'answered'), "
    "(SELECT coalesce(max(turn), 0) FROM questions WHERE state = 'failed'))"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question on its way: where it came from, and how often somebody began to answer it.

    `kind`: "ask" for an answer, "verify" for a verdict on what the text says.
    `handle` is how buttons name it; `mode` is "deep" where the reader wants more than the first answer; `shown_in`
    is the message that becomes the answer, where one is shown meanwhile.
    """

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
    kind: str = "ask"
    handle: str = ""
    mode: str | None = None
    shown_in: int | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """A question that was answered: whose it was, the JSON text that was kept of the answer, and its topic."""

    user_id: int
    text: str
    lang: str
    answered_at: datetime
    answer: str
    thread: int | None = None
    handle: str = ""


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
    kind: str = "ask",
    mode: str | None = None,
) -> int | None:
    """Queue a question and return its id; None where this update was queued before."""
    values = (
        bot_id, update_id, chat_id, message_id, thread, user_id, text, lang, seconds(asked_at), private, mode, kind
    )  # fmt: skip
    async with archive.writing() as connection:
        cursor = await connection.execute(
            "INSERT OR IGNORE INTO questions (bot_id, update_id, chat_id, message_id, thread, user_id, "
            "text, lang, asked_at, private, mode, kind, state, handle, turn) "
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 'queued', lower(hex(randomblob(10))), "
            f"{_TURN})",
            values,
        )
        return cursor.lastrowid if cursor.rowcount == 1 else None


async def take(archive: Archive) -> Asked | None:
    """The next question by turns, of a reader who has none running; it runs now. None where nothing may go."""
    async with archive.writing() as connection:
        rows = await connection.execute_fetchall(
            "SELECT * FROM questions WHERE state = 'queued' AND user_id NOT IN "
            "(SELECT user_id FROM questions WHERE state = 'running') ORDER BY turn, id LIMIT 1"
        )
        for row in rows:
            await connection.execute(
                "UPDATE questions SET state = 'running', attempts = attempts + 1 WHERE id = ?", (row["id"],)
            )
            return replace(read_asked(row), attempts=row["attempts"] + 1)
    return None


def read_asked(row: sqlite3.Row) -> Asked:
    """A row of the table as the question it is."""
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
        attempts=row["attempts"],
        kind=row["kind"],
        handle=row["handle"] or "",
        mode=row["mode"],
        shown_in=row["shown_in"],
    )


async def requeue_running(archive: Archive) -> int:
    """Queue again what was running: at the start, and at the end what was not finished. Returns how many."""
    async with archive.writing() as connection:
        cursor = await connection.execute("UPDATE questions SET state = 'queued' WHERE state = 'running'")
        return cursor.rowcount


async def finish(
    archive: Archive, question_id: int, *, state: str, answer: str | None, message_id: int | None = None
) -> None:
    """Close a question: `state` is "answered" or "failed", `answer` JSON text.

    `message_id` is the first message of the answer; where there are more, `answer` has the ids of all as "messages".
    """
    async with archive.writing() as connection:
        await connection.execute(
            "UPDATE questions SET state = ?, answer = ?, finished_at = ?, answer_message_id = ? WHERE id = ?",
            (state, answer, now(), message_id, question_id),
        )
        # texts of posts must not outlive their posts here: an answer that has arrived is not kept twice
        await connection.execute("DELETE FROM deliveries WHERE question_id = ?", (question_id,))


async def behind(archive: Archive, bot_id: int, chat_id: int, message_id: int) -> Answered | None:
    """The question that this message of a chat is, or is (a part of) the answer to; None where it is neither."""
    rows = await archive.rows(
        "SELECT * FROM questions WHERE bot_id = ?1 AND chat_id = ?2 AND state = 'answered' AND answer IS NOT NULL "
        "AND (message_id = ?3 OR answer_message_id = ?3 OR (answer_message_id BETWEEN ?3 - ?4 AND ?3 "
        "AND EXISTS (SELECT 1 FROM json_each(answer, '$.messages') WHERE value = ?3))) ORDER BY id DESC LIMIT 1",
        (bot_id, chat_id, message_id, _APART),
    )
    return _answered(rows[0]) if rows else None


async def last_answered(
    archive: Archive, bot_id: int, chat_id: int, user_id: int, thread: int | None
) -> Answered | None:
    """What this user was answered last in a chat, preferably in this thread of it."""
    rows = await archive.rows(
        "SELECT * FROM questions WHERE bot_id = ? AND chat_id = ? AND user_id = ? AND state = 'answered' "
        "AND answer_message_id IS NOT NULL AND answer IS NOT NULL ORDER BY thread IS ? DESC, id DESC LIMIT 1",
        (bot_id, chat_id, user_id, thread),
    )
    return _answered(rows[0]) if rows else None


def _answered(row: sqlite3.Row) -> Answered:
    moment = from_seconds(row["finished_at"])
    thread, handle = row["thread"], row["handle"] or ""
    return Answered(row["user_id"], row["text"], row["lang"], moment, row["answer"], thread, handle)


async def waiting(archive: Archive) -> int:
    """How many questions are queued."""
    ((number,),) = await archive.rows("SELECT count(*) FROM questions WHERE state = 'queued'")
    return int(number)
