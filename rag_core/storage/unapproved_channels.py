"""Unapproved channels: which they are, and the quota of what they may post.

Anybody may add the bot to a channel and post there without end. Posts over the quota of a channel that no admin
approved are dropped, and the first such date is kept in the channel's row, so that its approval can note a gap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime

import aiosqlite

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import get_unix_time, to_unix_seconds
from rag_core.types import PostKey

Connection = aiosqlite.Connection
# States of unapproved channels; their posts are in no index (`VISIBLE_POSTS` in post_rows.py).
UNAPPROVED_STATES = ("pending", "removed")

_IS_UNAPPROVED_SQL = "state IN ('pending', 'removed')"
_CONTENT_BYTES_SQL = "coalesce(sum(length(CAST(text AS BLOB)) + length(CAST(entities AS BLOB))), 0)"


async def list_unapproved_channels(archive: Archive, since: datetime) -> list[int]:
    """List channels that wait for approval, or were removed, since before this moment."""
    sql = f"SELECT chat_id FROM channels WHERE {_IS_UNAPPROVED_SQL} AND added_at < ?"
    return await archive.column(sql, (to_unix_seconds(since),))


async def find_known_and_unapproved(
    connection: aiosqlite.Connection, chat_ids: Iterable[int]
) -> tuple[set[int], set[int]]:
    """Find which of these chats are known, and which of the known ones are not approved."""
    sql = f"SELECT chat_id, {_IS_UNAPPROVED_SQL} FROM channels WHERE chat_id IN (SELECT value FROM json_each(?))"
    rows = list(await connection.execute_fetchall(sql, (json.dumps([*chat_ids]),)))
    return {row[0] for row in rows}, {row[0] for row in rows if row[1]}


async def count_unapproved_channels(connection: aiosqlite.Connection) -> int:
    """Count the channels that are pending or removed."""
    ((number,),) = await connection.execute_fetchall(f"SELECT count(*) FROM channels WHERE {_IS_UNAPPROVED_SQL}")
    return int(number)


async def measure_channel_content(connection: aiosqlite.Connection, chat_id: int) -> tuple[int, int]:
    """Count the post versions of a channel and their bytes; of a removed channel only those since its removal."""
    living = "FROM posts AS p WHERE p.chat_id = ?1 AND p.deleted_at IS NULL"
    rows = await connection.execute_fetchall(
        f"SELECT count(*), {_CONTENT_BYTES_SQL} FROM posts WHERE chat_id = ?1 AND deleted_at IS NULL UNION ALL "
        f"SELECT count(*), {_CONTENT_BYTES_SQL} FROM post_versions WHERE chat_id = ?1 "
        f"AND message_id IN (SELECT p.message_id {living})",
        (chat_id,),
    )
    return sum(row[0] for row in rows), sum(row[1] for row in rows)


async def drop_posts_over_quota(connection: aiosqlite.Connection, dropped: Mapping[PostKey, int]) -> None:
    """Record posts dropped over the quota, each with its date in Unix seconds.

    The stored version of a post whose newer version is dropped is deleted: it would be shown as the present text.
    """
    await connection.executemany(
        "DELETE FROM posts WHERE chat_id = ? AND message_id = ? AND deleted_at IS NULL", [tuple(key) for key in dropped]
    )
    await connection.executemany(
        "UPDATE channels SET dropped_since = min(coalesce(dropped_since, ?1), ?1) WHERE chat_id = ?2",
        [(date, key.chat_id) for key, date in dropped.items()],
    )


async def note_dropped_posts_gap(connection: aiosqlite.Connection, chat_id: int) -> None:
    """Note a gap for an approved channel from its first dropped post until now."""
    await connection.execute(
        "INSERT INTO gaps (chat_id, since, until, noted_at) SELECT chat_id, dropped_since, ?1, ?1 FROM channels "
        "WHERE chat_id = ?2 AND dropped_since < ?1",
        (get_unix_time(), chat_id),
    )
    await connection.execute("UPDATE channels SET dropped_since = NULL WHERE chat_id = ?", (chat_id,))
