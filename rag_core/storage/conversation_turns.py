"""Conversation turns: the last questions of a reader in a chat, with the names in their answers.

Nothing else is kept; `rag_core/conversation/memory.py` has the rules.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import from_unix_seconds, to_unix_seconds

_SAME_CONVERSATION = "chat_id = ? AND user_id = ? AND thread = ?"


class ConversationKey(NamedTuple):
    """Key of a conversation: a reader in a chat and topic; `thread` 0 is none."""

    chat: int
    user: int
    thread: int = 0


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
            "INSERT INTO talks (chat_id, user_id, thread, question, entities, asked_at) VALUES (?, ?, ?, ?, ?, ?)",
            (*talk, turn.question, names, to_unix_seconds(at)),
        )
        await connection.execute(
            f"DELETE FROM talks WHERE {_SAME_CONVERSATION} AND id NOT IN "
            f"(SELECT id FROM talks WHERE {_SAME_CONVERSATION} ORDER BY id DESC LIMIT ?)",
            (*talk, *talk, most),
        )


async def list_recent_turns(archive: Archive, talk: ConversationKey, since: datetime) -> list[ConversationTurn]:
    """List the turns of a conversation since a moment, newest first."""
    rows = await archive.rows(
        f"SELECT question, entities, asked_at FROM talks WHERE {_SAME_CONVERSATION} AND asked_at >= ? ORDER BY id DESC",
        (*talk, to_unix_seconds(since)),
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
