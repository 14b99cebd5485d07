"""Own synonyms of a channel: a word and what it means, entered by an administrator, for readers of that channel."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import NamedTuple

from rag_core.storage.db import Archive
from rag_core.storage.rows import to_unix_seconds

MAX_SYNONYMS = 500  # per channel


class Synonym(NamedTuple):
    """Synonym of a channel; both ways: each word finds the other."""

    chat_id: int
    word: str
    meaning: str


async def add_synonym(archive: Archive, synonym: Synonym, by: int) -> bool:
    """Add a synonym; False if it is there, or if the channel has MAX_SYNONYMS. Drop the engine's caches afterwards."""
    async with archive.writing() as connection:
        cursor = await connection.execute(
            "INSERT OR IGNORE INTO channel_synonyms (chat_id, word, meaning, added_by, added_at) SELECT ?, ?, ?, ?, ? "
            "WHERE (SELECT count(*) FROM channel_synonyms WHERE chat_id = ?) < ?",
            (*synonym, by, to_unix_seconds(datetime.now(UTC)), synonym.chat_id, MAX_SYNONYMS),
        )
        return cursor.rowcount > 0


async def remove_synonym(archive: Archive, synonym: Synonym) -> bool:
    """Remove a synonym; False if there was none. Drop the engine's caches afterwards."""
    async with archive.writing() as connection:
        cursor = await connection.execute(
            "DELETE FROM channel_synonyms WHERE chat_id = ? AND word = ? AND meaning = ?", synonym
        )
        return cursor.rowcount > 0


async def list_synonyms(archive: Archive, channels: Collection[int]) -> list[Synonym]:
    """List the synonyms of these channels, in alphabetical order."""
    rows = await archive.rows("SELECT chat_id, word, meaning FROM channel_synonyms ORDER BY word, meaning, chat_id")
    return [synonym for row in rows if (synonym := Synonym(*row)).chat_id in channels]
