"""Rebuilds of the indexes: asked for, under way, over. A row outlives the process, so that the next one goes on."""

from __future__ import annotations

from dataclasses import dataclass

import aiosqlite

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import now

__all__ = ["Rebuild", "Tell", "begin", "count", "finish", "moved", "running"]


@dataclass(frozen=True, slots=True)
class Tell:
    """Where the progress is shown: a message, and the language of who asked."""

    chat_id: int
    message_id: int
    lang: str


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A rebuild of everything, or of one channel; `state` is "running", "done", "cancelled" or "failed".

    `done` and `total` are posts. Not kept: `left_s`, the seconds it will still take, `renewed`, how many posts
    are to be embedded again, and `reason`, why it failed.
    """

    id: int
    chat_id: int | None
    state: str = "running"
    done: int = 0
    total: int = 0
    tell: Tell | None = None
    left_s: float | None = None
    renewed: int = 0
    reason: str = ""


async def begin(archive: Archive, chat_id: int | None, tell: Tell | None = None) -> Rebuild | None:
    """A new rebuild; None where one is running."""
    told = (tell.chat_id, tell.message_id, tell.lang) if tell else (None, None, None)
    async with archive.writing() as connection:
        if await connection.execute_fetchall("SELECT 1 FROM rebuilds WHERE state = 'running'"):
            return None
        cursor = await connection.execute(
            "INSERT INTO rebuilds (chat_id, state, asked_at, tell_chat, tell_message, lang) "
            "VALUES (?, 'running', ?, ?, ?, ?)",
            (chat_id, now(), *told),
        )
        assert cursor.lastrowid is not None
        return Rebuild(cursor.lastrowid, chat_id, tell=tell)


async def running(archive: Archive) -> Rebuild | None:
    """The rebuild that has not come to its end."""
    rows = await archive.rows("SELECT * FROM rebuilds WHERE state = 'running' ORDER BY id DESC LIMIT 1")
    return _rebuild(rows[0]) if rows else None


async def moved(archive: Archive, rebuild: Rebuild) -> None:
    """Keep how far it is."""
    async with archive.writing() as connection:
        values = (rebuild.done, rebuild.total, rebuild.id)
        await connection.execute("UPDATE rebuilds SET done = ?, total = ? WHERE id = ?", values)


async def finish(archive: Archive, rebuild: Rebuild) -> None:
    """Keep how it ended: the state, and how far it came."""
    async with archive.writing() as connection:
        await connection.execute(
            "UPDATE rebuilds SET state = ?, finished_at = ?, done = ?, total = ? WHERE id = ?",
            (rebuild.state, now(), rebuild.done, rebuild.total, rebuild.id),
        )


async def count(archive: Archive, chat_id: int | None, after: int, until: int) -> int:
    """How many living posts, of a channel or of all, had their last change after one number and up to another."""
    sql = (
        "SELECT count(*) FROM posts WHERE seq > ? AND seq <= ? AND deleted_at IS NULL AND (?3 IS NULL OR chat_id = ?3)"
    )
    ((number,),) = await archive.rows(sql, (after, until, chat_id))
    return int(number)


def _rebuild(row: aiosqlite.Row) -> Rebuild:
    tell = Tell(row["tell_chat"], row["tell_message"], row["lang"]) if row["tell_chat"] is not None else None
    return Rebuild(row["id"], row["chat_id"], row["state"], row["done"], row["total"], tell)
