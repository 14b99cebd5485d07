"""Synonyms that the administrators entered: a word and what it means, for all channels."""

from __future__ import annotations

from datetime import UTC, datetime

from rag_core.storage.db import Archive
from rag_core.storage.rows import to_unix_seconds

__all__ = ["MAX_SYNONYMS", "add_synonym", "list_synonyms", "remove_synonym"]

MAX_SYNONYMS = 1000


async def add_synonym(archive: Archive, word: str, meaning: str, by: int) -> bool:
    """Add a synonym; False if it is there, or if there are MAX_SYNONYMS. Both ways: each word finds the other."""
    async with archive.writing() as connection:
        cursor = await connection.execute(
            "INSERT OR IGNORE INTO synonyms (word, meaning, added_by, added_at) SELECT ?, ?, ?, ? "
            "WHERE (SELECT count(*) FROM synonyms) < ?",
            (word, meaning, by, to_unix_seconds(datetime.now(UTC)), MAX_SYNONYMS),
        )
        return cursor.rowcount > 0


async def remove_synonym(archive: Archive, word: str, meaning: str) -> bool:
    """Remove a synonym; False if there was none."""
    async with archive.writing() as connection:
        cursor = await connection.execute("DELETE FROM synonyms WHERE word = ? AND meaning = ?", (word, meaning))
        return cursor.rowcount > 0


async def list_synonyms(archive: Archive) -> list[tuple[str, str]]:
    """List the synonyms as (word, meaning), in alphabetical order."""
    return [(word, meaning) for word, meaning in await archive.rows("SELECT word, meaning FROM synonyms ORDER BY 1, 2")]
