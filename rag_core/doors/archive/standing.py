"""How a channel stands: how many posts it has, how new, what the indexes lack, and who was never approved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import from_seconds, seconds

__all__ = ["Standing", "standing", "unapproved"]

_COUNTED = (
    "SELECT count(*) AS posts, max(date) AS last, count(guarded) AS guarded FROM posts "
    "WHERE chat_id = ? AND deleted_at IS NULL"
)
# The plus keeps SQLite on the index of changes, of which there are few, and away from the channel's posts.
_CHANGED = "SELECT message_id FROM posts WHERE seq > ? AND +chat_id = ?"


@dataclass(frozen=True, slots=True)
class Standing:
    """A channel in numbers: living posts, the protected and paid ones among them, the date of the newest.

    `lexical` and `dense` are changes that leg has not taken in; `dense` is None where there is no such leg.
    `left`: the bot was in the channel once.
    """

    posts: int
    guarded: int
    last: datetime | None
    lexical: int
    dense: int | None
    left: bool


async def standing(archive: Archive, chat_id: int, watermark: int, store: str | None) -> Standing:
    """How a channel stands. `watermark` is the lexical leg's; `store` the identity of the dense leg's vectors."""
    ((count, last, guarded),) = await archive.rows(_COUNTED, (chat_id,))
    ((lexical,),) = await archive.rows(f"SELECT count(*) FROM ({_CHANGED})", (watermark, chat_id))
    gone = await archive.rows("SELECT 1 FROM channels WHERE chat_id = ? AND left_at IS NOT NULL", (chat_id,))
    dense = None if store is None else await _dense(archive, chat_id, store)
    return Standing(count, guarded, None if last is None else from_seconds(last), lexical, dense, bool(gone))


async def _dense(archive: Archive, chat_id: int, store: str) -> int:
    rows = await archive.rows("SELECT watermark FROM dense WHERE identity = ?", (store,))
    mark = rows[0][0] if rows else 0
    queued = "SELECT message_id FROM to_embed WHERE chat_id = ? UNION " if rows else ""
    values = (chat_id, mark, chat_id) if rows else (mark, chat_id)
    ((number,),) = await archive.rows(f"SELECT count(*) FROM ({queued}{_CHANGED})", values)
    return int(number)


async def unapproved(archive: Archive, since: datetime) -> list[int]:
    """Channels that have waited for an admin since before this moment, or that were removed before it."""
    sql = "SELECT chat_id FROM channels WHERE state IN ('pending', 'removed') AND added_at < ?"
    return [row[0] for row in await archive.rows(sql, (seconds(since),))]
