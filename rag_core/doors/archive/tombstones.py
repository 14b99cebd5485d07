"""Posts that go: deleted, suspected to be deleted, removed with their channel; and all that ask for a new look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import aiosqlite

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import BY_KEY, keys_json, now
from rag_core.types import PostKey

__all__ = ["clear", "erase", "purge", "remove_channel", "suspect", "touch"]

# Rows of one transaction: about 50 ms on an ordinary disk, so that others get their turn.
_SLICE = 500
_REMOVED = "removed"


async def erase(archive: Archive, keys: Iterable[PostKey], *, how: str) -> int:
    """Put tombstones: texts stay in the archive, but nobody finds them. Returns how many were living.

    What is erased by an "admin" comes back with a newer version only, not with an old export.
    """
    return await _marked(archive, keys, "deleted_at = ?, deleted_how = ?", (now(), how), "t.deleted_at IS NULL")


async def suspect(archive: Archive, keys: Iterable[PostKey]) -> int:
    """Leave posts out that seem to be gone from Telegram, until they are seen again. Returns how many it became."""
    return await _marked(archive, keys, "suspected = ?", (1,), "t.deleted_at IS NULL AND t.suspected = 0")


async def clear(archive: Archive, keys: Iterable[PostKey]) -> int:
    """Take back the suspicion of posts that turned out to be there. Returns how many were suspected."""
    return await _marked(archive, keys, "suspected = ?", (0,), "t.deleted_at IS NULL AND t.suspected")


async def _marked(archive: Archive, keys: Iterable[PostKey], what: str, values: tuple[object, ...], which: str) -> int:
    marked, rest = 0, iter(dict.fromkeys(keys))
    while batch := list(islice(rest, _SLICE)):
        async with archive.writing() as connection:
            sql = f"SELECT t.chat_id, t.message_id {BY_KEY.format(table='posts')} WHERE {which}"
            chosen = [PostKey(*row) for row in await connection.execute_fetchall(sql, (keys_json(batch),))]
            await _numbered(connection, chosen, f"{what}, ", values)
            marked += len(chosen)
    return marked


async def _numbered(
    connection: aiosqlite.Connection, keys: Sequence[PostKey], what: str = "", values: tuple[object, ...] = ()
) -> None:
    """Give posts the next sequence numbers, so that the indexes look at them again."""
    ((seq,),) = await connection.execute_fetchall("SELECT value FROM sequence")
    await connection.executemany(
        f"UPDATE posts SET {what}seq = ? WHERE chat_id = ? AND message_id = ?",
        [(*values, seq + n, *key) for n, key in enumerate(keys, 1)],
    )
    await connection.execute("UPDATE sequence SET value = ?", (seq + len(keys),))


async def touch(archive: Archive, chat_id: int | None = None, *, guarded: bool = False) -> int:
    """Let the indexes look again at all living posts of a channel, or of all; returns how many.

    With `guarded` only at those that are protected or paid.
    """
    ((last,),) = await archive.rows("SELECT value FROM sequence")
    touched = 0
    while True:
        async with archive.writing() as connection:
            rows = await connection.execute_fetchall(
                "SELECT chat_id, message_id FROM posts WHERE deleted_at IS NULL AND seq <= ?1 "
                "AND (?2 IS NULL OR chat_id = ?2) AND (NOT ?3 OR guarded IS NOT NULL) ORDER BY seq LIMIT ?4",
                (last, chat_id, guarded, _SLICE),
            )
            keys = [PostKey(*row) for row in rows]
            if not keys:
                return touched
            await _numbered(connection, keys)
            touched += len(keys)


async def remove_channel(archive: Archive, chat_id: int) -> int:
    """Take a channel away from its readers: tombstones for its posts, no bindings. Returns how many posts it had.

    Its data goes with `purge`, once the indexes have dropped it.
    """
    async with archive.writing() as connection:
        await connection.execute("UPDATE channels SET state = ?, bindable = 0 WHERE chat_id = ?", (_REMOVED, chat_id))
        await connection.execute("DELETE FROM bindings WHERE chat_id = ?", (chat_id,))
        await connection.execute("DELETE FROM gaps WHERE chat_id = ?", (chat_id,))
    ids = await archive.rows("SELECT message_id FROM posts WHERE chat_id = ? AND deleted_at IS NULL", (chat_id,))
    return await erase(archive, [PostKey(chat_id, row[0]) for row in ids], how=_REMOVED)


async def purge(archive: Archive, taken: int) -> int:
    """Delete what was removed with its channel; `taken` is the change up to which every index has come.

    Returns how many posts went. A channel with new posts meanwhile waits for approval again, with those alone.
    """
    purged = 0
    gone = "deleted_how = ? AND seq <= ?"
    while True:
        async with archive.writing() as connection:
            cursor = await connection.execute(
                f"DELETE FROM posts WHERE (chat_id, message_id) IN "
                f"(SELECT chat_id, message_id FROM posts WHERE {gone} LIMIT ?)",
                (_REMOVED, taken, _SLICE),
            )
            purged += cursor.rowcount
            if cursor.rowcount == _SLICE:
                continue
            mine = "FROM posts WHERE posts.chat_id = channels.chat_id"
            sql = f"DELETE FROM channels WHERE state = ? AND NOT EXISTS (SELECT 1 {mine})"
            await connection.execute(sql, (_REMOVED,))
            await connection.execute(
                "UPDATE channels SET state = 'pending', added_at = ? WHERE state = ? "
                f"AND EXISTS (SELECT 1 {mine} AND deleted_at IS NULL) "
                f"AND NOT EXISTS (SELECT 1 {mine} AND deleted_how = ?)",
                (now(), _REMOVED, _REMOVED),
            )
            return purged
