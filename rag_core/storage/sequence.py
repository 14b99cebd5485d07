"""Sequence numbers of posts: each change gets the next one, and the indexes read what is after their watermarks."""

from __future__ import annotations

from collections.abc import Sequence

import aiosqlite

from rag_core.types import PostKey


async def assign_sequence_numbers(connection: aiosqlite.Connection, keys: Sequence[PostKey], **columns: object) -> None:
    """Give posts the next sequence numbers, so that the indexes read them again, and set columns of theirs."""
    ((seq,),) = await connection.execute_fetchall("SELECT value FROM sequence")
    changes = "".join(f"{name} = ?, " for name in columns)
    await connection.executemany(
        f"UPDATE posts SET {changes}seq = ? WHERE chat_id = ? AND message_id = ?",
        [(*columns.values(), seq + n, *key) for n, key in enumerate(keys, 1)],
    )
    await connection.execute("UPDATE sequence SET value = ?", (seq + len(keys),))
