"""What an admin chose while the bot ran, by name: it outlives a restart, and is kept with the archive's backups."""

from __future__ import annotations

from rag_core.doors.archive.connection import Archive

__all__ = ["remember", "remembered"]


async def remembered(archive: Archive) -> dict[str, str]:
    """All choices."""
    return {row["name"]: row["value"] for row in await archive.rows("SELECT name, value FROM choices")}


async def remember(archive: Archive, name: str, value: str) -> None:
    """Keep a choice in place of an earlier one."""
    async with archive.writing() as connection:
        await connection.execute("INSERT OR REPLACE INTO choices (name, value) VALUES (?, ?)", (name, value))
