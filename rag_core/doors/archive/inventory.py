"""What the indexes must hold, and what SQLite says of its rows."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterable

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.units import VISIBLE, get
from rag_core.types import PostKey

__all__ = ["indexable", "orphans", "queued"]

_HAS_WORDS = "(trim(t.text) <> '' OR t.media_file_name <> '')"
_SLICE = 2000  # members of albums


async def indexable(archive: Archive, chat_id: int) -> set[int]:
    """Message ids of a channel's posts that have words and may be found; of an album the one that stands for it."""
    seen = f"SELECT t.message_id FROM posts AS t WHERE t.chat_id = ? AND {VISIBLE}"
    found = await asyncio.to_thread(
        _numbers, await archive.rows(f"{seen} AND t.album IS NULL AND {_HAS_WORDS}", (chat_id,))
    )
    members = [PostKey(chat_id, row[0]) for row in await archive.rows(f"{seen} AND t.album IS NOT NULL", (chat_id,))]
    for at in range(0, len(members), _SLICE):
        units = await get(archive, members[at : at + _SLICE])
        found |= {
            key.message_id for key, post in units.items() if post.text.strip() or (post.media and post.media.file_name)
        }
    return found


def _numbers(rows: list[sqlite3.Row]) -> set[int]:
    return {row[0] for row in rows}


async def queued(archive: Archive, keys: Iterable[PostKey]) -> set[PostKey]:
    """Those of the keys that wait in the dense leg's queue."""
    rows = await archive.rows(
        "SELECT q.chat_id, q.message_id FROM json_each(?) AS k CROSS JOIN to_embed AS q "
        "ON q.chat_id = json_extract(k.value, '$[0]') AND q.message_id = json_extract(k.value, '$[1]')",
        (json.dumps(list(keys)),),
    )
    return {PostKey(*row) for row in rows}


async def orphans(archive: Archive) -> int:
    """How many rows name a row of another table that is not there; 0 unless the file was tampered with."""
    return len(await archive.rows("PRAGMA foreign_key_check"))
