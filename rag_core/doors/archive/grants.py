"""Who was made an admin in the chat, besides those of the settings: by whom, and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import from_seconds, now

__all__ = ["Grant", "grant", "granted", "revoke"]


@dataclass(frozen=True, slots=True)
class Grant:
    """One admin: their numeric id, that of the admin who granted it, and when."""

    user_id: int
    by: int
    at: datetime


async def granted(archive: Archive) -> list[Grant]:
    """All of them, the oldest first."""
    rows = await archive.rows("SELECT * FROM grants ORDER BY granted_at, user_id")
    return [Grant(row["user_id"], row["granted_by"], from_seconds(row["granted_at"])) for row in rows]


async def grant(archive: Archive, user_id: int, by: int) -> None:
    """Make somebody an admin; whoever was one stays it as it was."""
    async with archive.writing() as connection:
        sql = "INSERT OR IGNORE INTO grants (user_id, granted_by, granted_at) VALUES (?, ?, ?)"
        await connection.execute(sql, (user_id, by, now()))


async def revoke(archive: Archive, user_id: int) -> None:
    """Take it back."""
    async with archive.writing() as connection:
        await connection.execute("DELETE FROM grants WHERE user_id = ?", (user_id,))
