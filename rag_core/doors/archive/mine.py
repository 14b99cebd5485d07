"""All that is kept of one user: counted, given out, erased."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

import aiosqlite

from rag_core.doors.archive.connection import Archive

__all__ = ["Mine", "chats_waiting", "erase_mine", "mine", "my_links", "my_questions", "my_talks", "my_votes"]

# What a user wrote and the bot could not read, or has not handled yet, by the places where Telegram names its author.
_FROM = " OR ".join(
    f"json_extract(raw, '$.{kind}.from.id') = ?1" for kind in ("message", "edited_message", "callback_query")
)
_VOTES = "user_id = ?1 AND (?2 IS NULL OR question_id IN (SELECT id FROM questions WHERE questions.chat_id = ?2))"
_ASKED = "user_id = ?1 AND (?2 IS NULL OR chat_id = ?2)"
_WRITTEN = f"state = 'poison' AND raw IS NOT NULL AND ({_FROM})"


@dataclass(frozen=True, slots=True)
class Mine:
    """How much is kept of a user. `pending` of the questions are not answered yet; `talks` remember others."""

    questions: int = 0
    pending: int = 0
    votes: int = 0
    links: int = 0
    unread: int = 0
    talks: int = 0

    @property
    def nothing(self) -> bool:
        """True where nothing is kept."""
        return not (self.questions or self.votes or self.links or self.unread or self.talks)


async def mine(archive: Archive, user_id: int, chat_id: int | None = None) -> Mine:
    """What is kept of a user; with a chat, only what belongs to it."""
    async with archive.writing() as connection:  # the reader's snapshot may be a moment old
        return await _counted(connection, user_id, chat_id)


async def _counted(connection: aiosqlite.Connection, user_id: int, chat_id: int | None) -> Mine:
    async def number(sql: str) -> int:
        ((count,),) = await connection.execute_fetchall(sql, (user_id, chat_id))
        return int(count)

    asked = f"SELECT count(*) FROM questions WHERE text <> '' AND {_ASKED}"
    return Mine(
        questions=await number(asked),
        pending=await number(f"{asked} AND state IN ('queued', 'running')"),
        votes=await number(f"SELECT count(*) FROM votes WHERE {_VOTES}"),
        links=await number("SELECT count(*) FROM linked_questions WHERE user_id = ?1 AND ?2 IS NULL"),
        unread=await number(f"SELECT count(*) FROM updates WHERE {_WRITTEN} AND ?2 IS NULL"),
        talks=await number(f"SELECT count(*) FROM talks WHERE {_ASKED}"),
    )


async def erase_mine(archive: Archive, user_id: int, chat_id: int | None = None) -> Mine:
    """Erase what is kept of a user, in all chats or in one, and overwrite its place in the file. Returns how much.

    Votes of others about an erased answer stay counted, without it. A question that is being answered goes too: its
    answer is then kept by nobody.
    """
    async with archive.writing() as connection:
        await connection.execute("PRAGMA secure_delete = ON")
        found = await _counted(connection, user_id, chat_id)
        for table, which in (
            ("votes", _VOTES),
            ("questions", _ASKED),
            ("talks", _ASKED),
            ("linked_questions", "user_id = ?1 AND ?2 IS NULL"),
            ("updates", f"{_WRITTEN} AND ?2 IS NULL"),
        ):
            await connection.execute(f"DELETE FROM {table} WHERE {which}", (user_id, chat_id))
        await connection.execute("PRAGMA secure_delete = OFF")
    return found


async def chats_waiting(archive: Archive, user_id: int, chat_id: int | None = None) -> list[int]:
    """The chats in which a user waits for an answer; with a chat, that one if they do."""
    rows = await archive.rows(
        f"SELECT DISTINCT chat_id FROM questions WHERE {_ASKED} AND state IN ('queued', 'running')",
        (user_id, chat_id),
    )
    return [row["chat_id"] for row in rows]


async def my_questions(archive: Archive, user_id: int) -> list[sqlite3.Row]:
    """The rows of a user's questions, oldest first."""
    return await archive.rows("SELECT * FROM questions WHERE user_id = ? AND text <> '' ORDER BY id", (user_id,))


async def my_votes(archive: Archive, user_id: int) -> list[Mapping[str, object]]:
    """A user's votes, oldest first: `good`, `reason`, `voted_at`, and `asked`, the question where it was theirs."""
    rows = await archive.rows(
        "SELECT good, reason, voted_at, question_id, (SELECT text FROM questions WHERE id = question_id "
        "AND questions.user_id = votes.user_id) AS asked FROM votes WHERE user_id = ? ORDER BY voted_at, id",
        (user_id,),
    )
    return [dict(row) for row in rows]


async def my_links(archive: Archive, user_id: int) -> list[Mapping[str, object]]:
    """The links that a user made: `handle`, `text`, `made_at`."""
    rows = await archive.rows(
        "SELECT handle, text, made_at FROM linked_questions WHERE user_id = ? ORDER BY made_at", (user_id,)
    )
    return [dict(row) for row in rows]


async def my_talks(archive: Archive, user_id: int) -> list[Mapping[str, object]]:
    """What talks remember of a user, oldest first: `question` as it stands alone, and how many `names` with it.

    The names themselves are those of posts, which may be closed to this user by now.
    """
    rows = await archive.rows(
        "SELECT chat_id, question, json_array_length(entities) AS names, asked_at FROM talks WHERE user_id = ? "
        "ORDER BY id",
        (user_id,),
    )
    return [dict(row) for row in rows]
