"""Posts that go: deleted, suspected to be deleted, removed with their channel; and all that ask for a new look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

import aiosqlite

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import BY_KEY, keys_json, now
from rag_core.types import PostKey

__all__ = ["erase", "purge", "remove_channel", "suspect", "touch"]

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
        await connection.execute("UPDATE channels SET state = ? WHERE chat_id = ?", (_REMOVED, chat_id))
        await connection.execute("DELETE FROM bindings WHERE chat_id = ?", (chat_id,))
        await connection.execute("DELETE FROM gaps WHERE chat_id = ?", (chat_id,))
    ids = await archive.rows("SELECT message_id FROM posts WHERE chat_id = ? AND deleted_at IS NULL", (chat_id,))
    return await erase(archive, [PostKey(chat_id, row[0]) for row in ids], how=_REMOVED)


async def purge(archive: Archive, taken: int) -> int:
    """Delete removed channels with all their posts; `taken` is the change up to which every index has come.

    Returns how many posts went. A channel that was made known again meanwhile stays, with what is new in it.
    """
    purged = 0
    gone = "chat_id IN (SELECT chat_id FROM channels WHERE state = ?) AND deleted_at IS NOT NULL AND seq <= ?"
    while True:
        async with archive.writing() as connection:
            cursor = await connection.execute(
                f"DELETE FROM posts WHERE (chat_id, message_id) IN "
                f"(SELECT chat_id, message_id FROM posts WHERE {gone} LIMIT ?)",
                (_REMOVED, taken, _SLICE),
            )
            if not cursor.rowcount:
                await connection.execute(
                    "DELETE FROM channels WHERE state = ? AND NOT EXISTS "
                    "(SELECT 1 FROM posts WHERE posts.chat_id = channels.chat_id)",
                    (_REMOVED,),
                )
                return purged
            purged += cursor.rowcount
