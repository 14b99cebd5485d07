"""Quota of channels that no admin approved: what they hold, and what is not kept of them.

Anybody may add the bot to a channel and post there without end. What is over the quota is dropped, and noted in the
channel's row, so that its approval can say from when on posts are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import aiosqlite

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import now
from rag_core.types import PostKey

__all__ = ["UNAPPROVED", "Connection", "count_waiting", "drop", "full", "note_gap", "stored", "waiting_among"]

Connection = aiosqlite.Connection
# States of channels that nobody approved; their posts are in no index (units.py).
UNAPPROVED = ("pending", "removed")

_STATES = "state IN ('pending', 'removed')"
_SIZE = "coalesce(sum(length(CAST(text AS BLOB)) + length(CAST(entities AS BLOB))), 0)"


async def waiting_among(connection: aiosqlite.Connection, chat_ids: Iterable[int]) -> tuple[set[int], set[int]]:
    """Of these chats those that are known, and those of the known that nobody approved."""
    known, waiting = set(), set()
    for chat_id in chat_ids:
        sql = f"SELECT {_STATES} FROM channels WHERE chat_id = ?"
        for (unapproved,) in await connection.execute_fetchall(sql, (chat_id,)):
            known.add(chat_id)
            if unapproved:
                waiting.add(chat_id)
    return known, waiting


async def count_waiting(connection: aiosqlite.Connection) -> int:
    """How many channels wait for an admin."""
    ((number,),) = await connection.execute_fetchall(f"SELECT count(*) FROM channels WHERE {_STATES}")
    return int(number)


async def stored(connection: aiosqlite.Connection, chat_id: int) -> tuple[int, int]:
    """How many versions of posts a channel has, and how many bytes; of a removed channel only what came since."""
    living = "FROM posts AS p WHERE p.chat_id = ?1 AND p.deleted_at IS NULL"
    rows = await connection.execute_fetchall(
        f"SELECT count(*), {_SIZE} FROM posts WHERE chat_id = ?1 AND deleted_at IS NULL UNION ALL "
        f"SELECT count(*), {_SIZE} FROM post_versions WHERE chat_id = ?1 "
        f"AND message_id IN (SELECT p.message_id {living})",
        (chat_id,),
    )
    return sum(row[0] for row in rows), sum(row[1] for row in rows)


async def drop(connection: aiosqlite.Connection, dropped: Mapping[PostKey, int]) -> None:
    """Note that posts were not kept, each with its date in Unix seconds.

    What was kept of a post that is dropped in a newer version goes for good: it would be shown as if it said that now.
    """
    await connection.executemany(
        "DELETE FROM posts WHERE chat_id = ? AND message_id = ? AND deleted_at IS NULL", [tuple(key) for key in dropped]
    )
    await connection.executemany(
        "UPDATE channels SET dropped_since = min(coalesce(dropped_since, ?1), ?1) WHERE chat_id = ?2",
        [(date, key.chat_id) for key, date in dropped.items()],
    )


async def note_gap(connection: aiosqlite.Connection, chat_id: int) -> None:
    """The channel is approved: from the first dropped post until now posts may be missing."""
    await connection.execute(
        "INSERT INTO gaps (chat_id, since, until, noted_at) SELECT chat_id, dropped_since, ?1, ?1 FROM channels "
        "WHERE chat_id = ?2 AND dropped_since < ?1",
        (now(), chat_id),
    )
    await connection.execute("UPDATE channels SET dropped_since = NULL WHERE chat_id = ?", (chat_id,))


async def full(archive: Archive, most: int) -> bool:
    """Whether as many channels as may wait for an admin do."""
    rows = await archive.rows(f"SELECT count(*) >= ? FROM channels WHERE {_STATES}", (most,))
    return bool(rows[0][0])
