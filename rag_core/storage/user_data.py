"""User data: counts, lists and erases what is stored of a user, forgets old questions, knows a user's language."""

from __future__ import annotations

import sqlite3
from dataclasses import astuple, dataclass
from datetime import datetime

import aiosqlite

from rag_core.storage.db import Archive
from rag_core.storage.monitoring_stats import IS_REFUSAL_SQL
from rag_core.storage.post_rows import to_unix_seconds

# Updates of a user that the bot could not read or has not handled yet: the JSON paths of the author's id.
# One that is nested too deeply for SQLite has none.
_SENT_BY_USER = "CASE WHEN json_valid(raw) THEN {} END".format(
    " OR ".join(
        f"json_extract(raw, '$.{kind}.from.id') = ?1" for kind in ("message", "edited_message", "callback_query")
    )
)
_USER_VOTES = "user_id = ?1 AND (?2 IS NULL OR question_id IN (SELECT id FROM questions WHERE questions.chat_id = ?2))"
_USER_ROWS = "user_id = ?1 AND (?2 IS NULL OR chat_id = ?2)"
_USER_SETS = "name = 'sets ' || ?1 AND value <> '{}' AND ?2 IS NULL"  # a private chat has its user's id
# What is stored of a user beside questions, by kind as in `UserDataCounts`: rows to count, or to delete in this order.
_USER_DATA = {
    "votes": f"votes WHERE {_USER_VOTES}",
    "links": "linked_questions WHERE user_id = ?1 AND ?2 IS NULL",
    "unread": f"updates WHERE state = 'poison' AND raw IS NOT NULL AND ({_SENT_BY_USER}) AND ?2 IS NULL",
    "talks": f"talks WHERE {_USER_ROWS}",
    "sets": f"choices WHERE {_USER_SETS}",
    "watches": f"watches WHERE {_USER_ROWS}",
    "digests": f"digests WHERE {_USER_ROWS}",
    "memberships": "memberships WHERE user_id = ?1 AND ?2 IS NULL",
}


@dataclass(frozen=True, slots=True)
class UserDataCounts:
    """Counts of a user's stored data: rows by kind.

    `pending` counts the questions without an answer yet, `unread` the updates that could not be read, `talks` the
    turns of conversation memory, `sets` the chats in which the user named sets of channels: their private chat,
    `memberships` the chats that the user was seen in.
    """

    questions: int = 0
    pending: int = 0
    votes: int = 0
    links: int = 0
    unread: int = 0
    talks: int = 0
    sets: int = 0
    watches: int = 0
    digests: int = 0
    memberships: int = 0

    @property
    def is_empty(self) -> bool:
        """True if no data of the user is stored."""
        return not any(astuple(self))


async def count_user_data(archive: Archive, user_id: int, chat_id: int | None = None) -> UserDataCounts:
    """Count the stored data of a user; with `chat_id`, only the data of that chat."""
    async with archive.writing() as connection:  # the reader's snapshot may be slightly old
        return await _count_user_rows(connection, user_id, chat_id)


async def _count_user_rows(connection: aiosqlite.Connection, user_id: int, chat_id: int | None) -> UserDataCounts:
    asked = f"questions WHERE text <> '' AND {_USER_ROWS}"
    counts = {}
    for kind, rows in {
        "questions": asked,
        "pending": f"{asked} AND state IN ('queued', 'running')",
        **_USER_DATA,
    }.items():
        ((counts[kind],),) = await connection.execute_fetchall(f"SELECT count(*) FROM {rows}", (user_id, chat_id))
    return UserDataCounts(**counts)


async def erase_user_data(archive: Archive, user_id: int, chat_id: int | None = None) -> UserDataCounts:
    """Erase the data of a user, in all chats or in one, and overwrite its bytes in the file. Returns the counts.

    Votes of other users on an erased answer stay counted, without the answer. A question that is being answered is
    erased too; its answer is then not saved.
    """
    async with archive.writing() as connection:
        await connection.execute("PRAGMA secure_delete = ON")
        counts = await _count_user_rows(connection, user_id, chat_id)
        hits = f"watch_hits WHERE watch_id IN (SELECT id FROM watches WHERE {_USER_ROWS})"
        for rows in (hits, *_USER_DATA.values(), f"questions WHERE {_USER_ROWS}"):
            await connection.execute(f"DELETE FROM {rows}", (user_id, chat_id))
        await connection.execute("PRAGMA secure_delete = OFF")
    return counts


async def list_waiting_chats(archive: Archive, user_id: int, chat_id: int | None = None) -> list[int]:
    """List the chats in which a user waits for an answer; with `chat_id`, only that chat or none."""
    sql = f"SELECT DISTINCT chat_id FROM questions WHERE {_USER_ROWS} AND state IN ('queued', 'running')"
    return await archive.column(sql, (user_id, chat_id))


async def list_user_questions(archive: Archive, user_id: int) -> list[sqlite3.Row]:
    """List the rows of a user's questions, oldest first."""
    return await archive.rows("SELECT * FROM questions WHERE user_id = ? AND text <> '' ORDER BY id", (user_id,))


_USER_RECORDS_SQL = {
    "votes": "SELECT good, reason, voted_at, question_id, (SELECT text FROM questions WHERE id = question_id "
    "AND questions.user_id = votes.user_id) AS asked FROM votes WHERE user_id = ? ORDER BY voted_at, id",
    "links": "SELECT handle, text, made_at FROM linked_questions WHERE user_id = ? ORDER BY made_at",
    "turns": "SELECT chat_id, question, json_array_length(entities) AS names, asked_at FROM talks WHERE user_id = ? "
    "ORDER BY id",
    "watches": "SELECT chat_id, text, made_at, paused, quiet FROM watches WHERE user_id = ? ORDER BY id",
    "digests": "SELECT chat_id, days, hour FROM digests WHERE user_id = ? ORDER BY chat_id",
    "memberships": "SELECT chat_id, seen_at FROM memberships WHERE user_id = ? ORDER BY chat_id",
}


async def list_user_records(archive: Archive, user_id: int) -> dict[str, list[dict[str, object]]]:
    """List what is stored of a user beside questions, for the user, oldest first: rows of `_USER_RECORDS_SQL` by kind.

    `asked` is their own question or None. Of the `names` in turns only the number: they come from posts that the user
    may no longer be allowed to read.
    """
    return {kind: [dict(row) for row in await archive.rows(sql, (user_id,))] for kind, sql in _USER_RECORDS_SQL.items()}


async def get_user_language(archive: Archive, user_id: int) -> str | None:
    """Language of a user's last question; None if they never asked one."""
    rows = await archive.rows("SELECT lang FROM questions WHERE user_id = ? ORDER BY id DESC LIMIT 1", (user_id,))
    return rows[0][0] if rows else None


_FORGET_BATCH_ROWS = 1000  # rows of one transaction


async def forget_question_texts(archive: Archive, before: datetime) -> int:
    """Erase text, answer, user and chat of questions finished before a moment; they stay counted.

    Memberships seen before it are deleted. Returns how many questions were erased.
    """
    await archive.execute("DELETE FROM memberships WHERE seen_at < ?", (to_unix_seconds(before),))
    forgotten = 0
    while True:
        async with archive.writing() as connection:
            cursor = await connection.execute(
                "UPDATE questions SET text = '', user_id = 0, chat_id = 0, message_id = 0, thread = NULL, "
                "answer_message_id = NULL, handle = NULL, answer = CASE state WHEN 'answered' THEN "
                f"json_object('refused', json(CASE WHEN {IS_REFUSAL_SQL} THEN 'true' ELSE 'false' END)) END "
                "WHERE id IN (SELECT id FROM questions WHERE finished_at < ? AND text <> '' LIMIT ?)",
                (to_unix_seconds(before), _FORGET_BATCH_ROWS),
            )
            if cursor.rowcount < 1:
                return forgotten
            forgotten += cursor.rowcount
