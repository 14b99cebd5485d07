"""Synonyms of channels, and posts pinned as answers to questions."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import get_unix_time
from rag_core.types import PostKey

MAX_SYNONYMS = 500  # per channel


class Synonym(NamedTuple):
    """Synonym of a channel; both ways: each word finds the other."""

    chat_id: int
    word: str
    meaning: str


async def add_synonym(archive: Archive, synonym: Synonym, by: int) -> bool:
    """Add a synonym; False if it is there, or if the channel has MAX_SYNONYMS. Drop the engine's caches afterwards."""
    added = await archive.execute(
        "INSERT OR IGNORE INTO channel_synonyms (chat_id, word, meaning, added_by, added_at) SELECT ?, ?, ?, ?, ? "
        "WHERE (SELECT count(*) FROM channel_synonyms WHERE chat_id = ?) < ?",
        (*synonym, by, get_unix_time(), synonym.chat_id, MAX_SYNONYMS),
    )
    return added > 0


async def remove_synonym(archive: Archive, synonym: Synonym) -> bool:
    """Remove a synonym; False if there was none. Drop the engine's caches afterwards."""
    sql = "DELETE FROM channel_synonyms WHERE chat_id = ? AND word = ? AND meaning = ?"
    return await archive.execute(sql, synonym) > 0


async def list_synonyms(archive: Archive, channels: Collection[int]) -> list[Synonym]:
    """List the synonyms of these channels, in alphabetical order."""
    rows = await archive.rows("SELECT chat_id, word, meaning FROM channel_synonyms ORDER BY word, meaning, chat_id")
    return [synonym for row in rows if (synonym := Synonym(*row)).chat_id in channels]


async def pin_answer(archive: Archive, asked: str, post: PostKey, by: int) -> None:
    """Pin a post as the answer to a question, in place of another of its channel; `asked` identifies the question."""
    sql = "INSERT OR REPLACE INTO pinned_answers VALUES (?, ?, ?, ?, ?)"
    await archive.execute(sql, (asked, *post, by, get_unix_time()))


async def unpin_answer(archive: Archive, asked: str, channels: Collection[int]) -> None:
    """Unpin the answers to a question in these channels."""
    sql = "DELETE FROM pinned_answers WHERE asked = ? AND chat_id = ?"
    await archive.execute_many(sql, [(asked, chat_id) for chat_id in channels])


async def find_pinned_post(archive: Archive, asked: str, channels: Collection[int]) -> PostKey | None:
    """Find the post that was last pinned as the answer to a question in one of these channels."""
    rows = await archive.rows(
        "SELECT chat_id, message_id FROM pinned_answers WHERE asked = ? ORDER BY pinned_at DESC, chat_id", (asked,)
    )
    return next((PostKey(*row) for row in rows if row["chat_id"] in channels), None)
