"""Memberships: the channels that a reader was in when Telegram last said so.

Only who is in is stored, and only of people who ask: rows of those who left, or never were in, are deleted.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import to_unix_seconds


async def load_memberships(archive: Archive, user_id: int) -> dict[int, int]:
    """Load the channels that a user was in, with the Unix time at which Telegram said so."""
    rows = await archive.rows("SELECT chat_id, seen_at FROM memberships WHERE user_id = ?", (user_id,))
    return {row["chat_id"]: row["seen_at"] for row in rows}


async def save_memberships(
    archive: Archive, user_id: int, moment: datetime, entered: Collection[int], left: Collection[int]
) -> None:
    """Save that a user was in these channels at a moment, and was not in others."""
    async with archive.writing() as connection:
        await connection.executemany(
            "INSERT OR REPLACE INTO memberships (user_id, chat_id, seen_at) VALUES (?, ?, ?)",
            [(user_id, chat, to_unix_seconds(moment)) for chat in entered],
        )
        await connection.executemany(
            "DELETE FROM memberships WHERE user_id = ? AND chat_id = ?", [(user_id, chat) for chat in left]
        )
