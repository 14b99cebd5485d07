"""Conversation memory of a reader in a chat and topic: questions and names alone, never a source of an answer.

Its statistics are counts by day, without texts and without readers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from rag_core.storage.db import Archive
from rag_core.storage.rows import from_unix_seconds, to_unix_seconds

_DAY_S = 86_400
_SAME_CONVERSATION = "chat_id = ? AND thread = ? AND user_id = ?"


@dataclass(frozen=True, slots=True)
class ConversationKey:
    """Key of a conversation: a reader in a chat and topic; `thread` 0 is none."""

    chat: int
    user: int
    thread: int = 0

    @property
    def key(self) -> tuple[int, int, int]:
        """The key in the order of the columns."""
        return self.chat, self.thread, self.user


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """Turn of a conversation: the self-contained question, and the names in its answer."""

    question: str
    entities: tuple[str, ...] = ()
    asked_at: datetime | None = None


async def remember_turn(
    archive: Archive, talk: ConversationKey, turn: ConversationTurn, at: datetime, most: int
) -> None:
    """Save the newest turn of a conversation and drop all but the last `most` turns."""
    names = json.dumps(turn.entities, ensure_ascii=False)
    async with archive.writing() as connection:
        await connection.execute(
            "INSERT INTO talks (chat_id, thread, user_id, question, entities, asked_at) VALUES (?, ?, ?, ?, ?, ?)",
            (*talk.key, turn.question, names, to_unix_seconds(at)),
        )
        await connection.execute(
            f"DELETE FROM talks WHERE {_SAME_CONVERSATION} AND id NOT IN "
            f"(SELECT id FROM talks WHERE {_SAME_CONVERSATION} ORDER BY id DESC LIMIT ?)",
            (*talk.key, *talk.key, most),
        )


async def list_recent_turns(archive: Archive, talk: ConversationKey, since: datetime) -> list[ConversationTurn]:
    """List the turns of a conversation since a moment, newest first."""
    rows = await archive.rows(
        f"SELECT question, entities, asked_at FROM talks WHERE {_SAME_CONVERSATION} AND asked_at >= ? ORDER BY id DESC",
        (*talk.key, to_unix_seconds(since)),
    )
    return [
        ConversationTurn(row["question"], tuple(json.loads(row["entities"])), from_unix_seconds(row["asked_at"]))
        for row in rows
    ]


async def forget_turns(
    archive: Archive, *, user: int | None = None, chat: int | None = None, thread: int | None = None
) -> int:
    """Delete the turns of a user, a chat, a topic; None means any. Returns how many."""
    return await archive.execute(
        "DELETE FROM talks WHERE (?1 IS NULL OR user_id = ?1) AND (?2 IS NULL OR chat_id = ?2) "
        "AND (?3 IS NULL OR thread = ?3)",
        (user, chat, thread),
    )


async def expire_turns(archive: Archive, before: datetime) -> int:
    """Delete turns asked before a moment. Returns how many."""
    return await archive.execute("DELETE FROM talks WHERE asked_at < ?", (to_unix_seconds(before),))


async def increment_conversation_stat(archive: Archive, name: str, at: datetime) -> None:
    """Add one to a statistic of this day."""
    await archive.execute(
        "INSERT INTO talk_figures (day, name, count) VALUES (?, ?, 1) "
        "ON CONFLICT (day, name) DO UPDATE SET count = count + 1",
        (to_unix_seconds(at) // _DAY_S, name),
    )


async def load_conversation_stats(archive: Archive, since: datetime) -> dict[str, int]:
    """Load the sums of the statistics since the day (in UTC) of a moment."""
    rows = await archive.rows(
        "SELECT name, sum(count) AS total FROM talk_figures WHERE day >= ? GROUP BY name",
        (to_unix_seconds(since) // _DAY_S,),
    )
    return {row["name"]: row["total"] for row in rows}
