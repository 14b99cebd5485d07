"""Removal of channels: tombstones for the posts, and all data deleted once the indexes have dropped them."""

from __future__ import annotations

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import get_unix_time
from rag_core.storage.posts import TRANSACTION_ROWS, list_message_ids, mark_posts_deleted
from rag_core.types import PostKey

_REMOVED_STATE = "removed"


async def remove_channel(archive: Archive, chat_id: int) -> int:
    """Remove a channel: tombstones for its posts, no bindings and no gaps. Returns how many posts it had.

    `purge_removed_posts` deletes its data once the indexes have dropped it.
    """
    async with archive.writing() as connection:
        await connection.execute(
            "UPDATE channels SET state = ?, bindable = 0 WHERE chat_id = ?", (_REMOVED_STATE, chat_id)
        )
        for table in ("bindings", "gaps", "history", "topics"):
            await connection.execute(f"DELETE FROM {table} WHERE chat_id = ?", (chat_id,))
    keys = [PostKey(chat_id, one) for one in await list_message_ids(archive, chat_id)]
    return await mark_posts_deleted(archive, keys, how=_REMOVED_STATE)


async def purge_removed_posts(archive: Archive, taken: int) -> None:
    """Delete the posts of removed channels; `taken` is the sequence number that every index has reached.

    A removed channel with new posts waits for approval again, with these only.
    """
    gone = "deleted_how = ? AND seq <= ?"
    while True:
        async with archive.writing() as connection:
            cursor = await connection.execute(
                f"DELETE FROM posts WHERE (chat_id, message_id) IN "
                f"(SELECT chat_id, message_id FROM posts WHERE {gone} LIMIT ?)",
                (_REMOVED_STATE, taken, TRANSACTION_ROWS),
            )
            if cursor.rowcount == TRANSACTION_ROWS:
                continue
            mine = "FROM posts WHERE posts.chat_id = channels.chat_id"
            sql = f"DELETE FROM channels WHERE state = ? AND NOT EXISTS (SELECT 1 {mine})"
            await connection.execute(sql, (_REMOVED_STATE,))
            await connection.execute(
                "UPDATE channels SET state = 'pending', added_at = ? WHERE state = ? "
                f"AND EXISTS (SELECT 1 {mine} AND deleted_at IS NULL) "
                f"AND NOT EXISTS (SELECT 1 {mine} AND deleted_how = ?)",
                (get_unix_time(), _REMOVED_STATE, _REMOVED_STATE),
            )
            return
