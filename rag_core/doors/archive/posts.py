"""Posts in the archive: kept in versions, never lost. How they go is in tombstones.py, how they show in units.py."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

import aiosqlite

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.merging import Pile, Shelf, Tally
from rag_core.doors.archive.rows import BY_KEY, POST_COLUMNS, keys_json, post_from
from rag_core.doors.archive.tombstones import clear, erase, purge, remove_channel, suspect, touch
from rag_core.doors.archive.units import Change, Version, changes, get, parents, versions
from rag_core.types import Post, PostKey

__all__ = [
    "Change",
    "Tally",
    "Version",
    "changes",
    "clear",
    "count",
    "count_unindexed",
    "erase",
    "get",
    "ids",
    "keep",
    "keep_each",
    "keep_in",
    "last_seq",
    "missing",
    "parents",
    "purge",
    "remove_channel",
    "suspect",
    "touch",
    "versions",
]

# Rows of one transaction: about 50 ms on an ordinary disk, so that others get their turn.
_SLICE = 500

_COLUMNS = (*POST_COLUMNS, "seq", "stamp", "update_id", "text_hash", "source")
_RENEWED = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[2:])
_UPSERT = (  # names of columns, no values
    f"INSERT INTO posts ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) "
    f"ON CONFLICT (chat_id, message_id) DO UPDATE SET {_RENEWED}, "
    "deleted_at = NULL, deleted_how = NULL, suspected = 0"
)


async def keep(archive: Archive, posts: Sequence[Post], *, source: str, update_id: int = 0) -> Tally:
    """Keep posts, slice by slice; keeping them again changes nothing. `source` is "live" or "import"."""
    tally, rest = Tally(), iter(posts)
    while batch := list(islice(rest, _SLICE)):
        async with archive.writing() as connection:
            tally += await keep_in(connection, batch, source=source, update_id=update_id)
    return tally


async def keep_in(connection: aiosqlite.Connection, posts: Sequence[Post], *, source: str, update_id: int = 0) -> Tally:
    """Keep posts inside the caller's transaction."""
    return await keep_each(connection, [(post, update_id) for post in posts], source=source)


async def keep_each(connection: aiosqlite.Connection, arrivals: Sequence[tuple[Post, int]], *, source: str) -> Tally:
    """Keep posts that came with an update id each, in the caller's transaction; in any order, repeats too."""
    posts = [post for post, _ in arrivals]
    pile = await _stored(connection, posts)
    tally = sum((pile.arrive(post, update_id) for post, update_id in arrivals), Tally())
    ((before,),) = await connection.execute_fetchall("SELECT value FROM sequence")
    seq, rows = pile.rows(before)
    await connection.executemany(_UPSERT, [(*row, source) for row in rows])
    await connection.executemany(
        "INSERT OR IGNORE INTO post_versions "
        "(chat_id, message_id, stamp, update_id, text_hash, text, entities) VALUES (?, ?, ?, ?, ?, ?, ?)",
        pile.versions(),
    )
    await connection.execute("UPDATE sequence SET value = ?", (seq,))
    await connection.executemany(
        "UPDATE channels SET last_message_id = max(coalesce(last_message_id, 0), ?) WHERE chat_id = ?",
        [(message_id, chat_id) for chat_id, message_id in pile.latest().items()],
    )
    return tally


async def _stored(connection: aiosqlite.Connection, posts: Sequence[Post]) -> Pile:
    keys = keys_json(post.key for post in posts)
    rows = await connection.execute_fetchall(f"SELECT t.* {BY_KEY.format(table='posts')}", (keys,))
    pile = Pile(
        Shelf(
            post_from(row),
            row["stamp"],
            row["update_id"],
            row["seq"],
            living=row["deleted_at"] is None,
            suspected=bool(row["suspected"]),
            firm=row["deleted_how"] == "admin",
        )
        for row in rows
    )
    if differing := pile.differing(posts):
        by_key = BY_KEY.format(table="post_versions")
        sql = f"SELECT t.chat_id, t.message_id, t.text_hash {by_key}"
        for chat_id, message_id, mark in await connection.execute_fetchall(sql, (keys_json(differing),)):
            pile.remember(PostKey(chat_id, message_id), mark)
    return pile


async def last_seq(archive: Archive) -> int:
    """The sequence number of the latest change; 0 in an empty archive."""
    ((value,),) = await archive.rows("SELECT value FROM sequence")
    return int(value)


async def count_unindexed(archive: Archive, after: int, channels: Collection[int]) -> int:
    """How many changes of these channels an index lacks that is complete up to the sequence number `after`.

    What other channels wait for is not told: it would tell a reader that something was posted there.
    """
    # The plus keeps SQLite on the index of changes, of which there are few, and away from the channels' posts.
    sql = "SELECT count(*) FROM posts WHERE seq > ? AND +chat_id IN (SELECT value FROM json_each(?))"
    ((number,),) = await archive.rows(sql, (after, json.dumps([*channels])))
    return int(number)


async def ids(archive: Archive, chat_id: int) -> set[int]:
    """The message ids of a channel's living posts."""
    sql = "SELECT message_id FROM posts WHERE chat_id = ? AND deleted_at IS NULL"
    return {row[0] for row in await archive.rows(sql, (chat_id,))}


async def missing(archive: Archive, chat_id: int, present: Iterable[int]) -> list[PostKey]:
    """Living posts between the least and the greatest of the ids `present` that are not among them, by id."""
    sql = (
        "WITH present AS MATERIALIZED (SELECT value FROM json_each(?)) "
        "SELECT message_id FROM posts WHERE chat_id = ? AND deleted_at IS NULL "
        "AND message_id BETWEEN (SELECT min(value) FROM present) AND (SELECT max(value) FROM present) "
        "AND message_id NOT IN (SELECT value FROM present) ORDER BY message_id"
    )
    rows = await archive.rows(sql, (json.dumps(list(present)), chat_id))
    return [PostKey(chat_id, row[0]) for row in rows]


async def count(archive: Archive, chat_id: int | None = None) -> int:
    """How many living posts there are, in one channel or in all that an admin approved."""
    which = "chat_id NOT IN (SELECT chat_id FROM channels WHERE state IN ('pending', 'removed'))"
    sql = f"SELECT count(*) FROM posts WHERE deleted_at IS NULL AND ({which} OR chat_id = ?1) "
    ((number,),) = await archive.rows(f"{sql} AND (?1 IS NULL OR chat_id = ?1)", (chat_id,))
    return int(number)
