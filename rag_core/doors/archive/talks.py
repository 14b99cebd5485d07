"""What a reader asked before, in a chat and a topic of it: questions and names alone, never a source of an answer.

`figures` are counts by day, without texts and without readers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import from_seconds, seconds

__all__ = ["Talk", "Turn", "add", "counted", "expire", "figures", "forget", "recent"]

_DAY = 86_400
_MINE = "chat_id = ? AND thread = ? AND user_id = ?"


@dataclass(frozen=True, slots=True)
class Talk:
    """Whose and where: a reader in a chat, in a topic of it; `thread` 0 is none."""

    chat: int
    user: int
    thread: int = 0

    @property
    def key(self) -> tuple[int, int, int]:
        """As the rows have it."""
        return self.chat, self.thread, self.user


@dataclass(frozen=True, slots=True)
class Turn:
    """A question as it stands alone, and the names that its answer brought."""

    question: str
    entities: tuple[str, ...] = ()
    asked_at: datetime | None = None


async def add(archive: Archive, talk: Talk, turn: Turn, at: datetime, most: int) -> None:
    """Keep a turn as the newest of its talk; of the talk at most `most` stay."""
    names = json.dumps(turn.entities, ensure_ascii=False)
    async with archive.writing() as connection:
        await connection.execute(
            "INSERT INTO talks (chat_id, thread, user_id, question, entities, asked_at) VALUES (?, ?, ?, ?, ?, ?)",
            (*talk.key, turn.question, names, seconds(at)),
        )
        await connection.execute(
            f"DELETE FROM talks WHERE {_MINE} AND id NOT IN "
            f"(SELECT id FROM talks WHERE {_MINE} ORDER BY id DESC LIMIT ?)",
            (*talk.key, *talk.key, most),
        )


async def recent(archive: Archive, talk: Talk, since: datetime) -> list[Turn]:
    """The turns of a talk since then, newest first."""
    rows = await archive.rows(
        f"SELECT question, entities, asked_at FROM talks WHERE {_MINE} AND asked_at >= ? ORDER BY id DESC",
        (*talk.key, seconds(since)),
    )
    return [Turn(row["question"], tuple(json.loads(row["entities"])), from_seconds(row["asked_at"])) for row in rows]


async def forget(
    archive: Archive, *, user: int | None = None, chat: int | None = None, thread: int | None = None
) -> int:
    """Wipe the turns of a user, of a chat, of a topic; None is any. Returns how many."""
    async with archive.writing() as connection:
        cursor = await connection.execute(
            "DELETE FROM talks WHERE (?1 IS NULL OR user_id = ?1) AND (?2 IS NULL OR chat_id = ?2) "
            "AND (?3 IS NULL OR thread = ?3)",
            (user, chat, thread),
        )
        return cursor.rowcount


async def expire(archive: Archive, before: datetime) -> int:
    """Wipe what was asked before. Returns how many turns."""
    async with archive.writing() as connection:
        cursor = await connection.execute("DELETE FROM talks WHERE asked_at < ?", (seconds(before),))
        return cursor.rowcount


async def counted(archive: Archive, name: str, at: datetime) -> None:
    """Add one to a figure of this day."""
    async with archive.writing() as connection:
        await connection.execute(
            "INSERT INTO talk_figures (day, name, count) VALUES (?, ?, 1) "
            "ON CONFLICT (day, name) DO UPDATE SET count = count + 1",
            (seconds(at) // _DAY, name),
        )


async def figures(archive: Archive, since: datetime) -> dict[str, int]:
    """How often each thing was counted since that day (in UTC)."""
    rows = await archive.rows(
        "SELECT name, sum(count) AS total FROM talk_figures WHERE day >= ? GROUP BY name", (seconds(since) // _DAY,)
    )
    return {row["name"]: row["total"] for row in rows}
