"""In which languages the posts are, told from the newest of each channel."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection

from rag_core.analysis import language_of
from rag_core.doors.archive.connection import Archive

__all__ = ["languages"]

_OF_EACH = 5  # posts of a channel that are read
_READ = 120  # characters of each


async def languages(archive: Archive, channels: Collection[int]) -> frozenset[str]:
    """ "ru", "en", both or none. 100 channels: 50 ms beside other work. Raises ArchiveUnavailable."""
    rows = await archive.rows(
        "SELECT substr(t.text, 1, ?) FROM json_each(?) AS c JOIN posts AS t ON t.chat_id = c.value "
        "AND t.message_id IN (SELECT message_id FROM posts WHERE chat_id = c.value AND deleted_at IS NULL "
        "AND text != '' ORDER BY message_id DESC LIMIT ?)",
        (_READ, json.dumps([*channels]), _OF_EACH),
    )
    return await asyncio.to_thread(lambda: frozenset(language_of(text) for (text,) in rows if _says(text)))


def _says(text: str) -> bool:
    return any(map(str.isalpha, text))
