"""Questions that somebody made a link to: their text, under a word that nobody can guess."""

from __future__ import annotations

from datetime import datetime

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import now, seconds

__all__ = ["forget_old", "link_to", "linked_text"]


async def link_to(archive: Archive, user_id: int, text: str, handle: str) -> str:
    """Keep a text under `handle`, and return the word it is found by: an earlier one where this user has one."""
    async with archive.writing() as connection:
        rows = await connection.execute_fetchall(
            "SELECT handle FROM linked_questions WHERE user_id = ? AND text = ?", (user_id, text)
        )
        for row in rows:
            return str(row["handle"])
        await connection.execute(
            "INSERT INTO linked_questions (handle, user_id, text, made_at) VALUES (?, ?, ?, ?)",
            (handle, user_id, text, now()),
        )
        return handle


async def linked_text(archive: Archive, handle: str) -> str | None:
    """The question behind a link; None where there is none, or none any more."""
    rows = await archive.rows("SELECT text FROM linked_questions WHERE handle = ?", (handle,))
    return rows[0]["text"] if rows else None


async def forget_old(archive: Archive, before: datetime) -> int:
    """Drop the links that were made before a moment. Returns how many."""
    async with archive.writing() as connection:
        cursor = await connection.execute("DELETE FROM linked_questions WHERE made_at < ?", (seconds(before),))
        return cursor.rowcount
