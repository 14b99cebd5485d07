"""What the dense leg still has to take in: a queue of posts, newest first.

A single watermark cannot say "the newest are done, and what came before them is on its way", so the dense
leg's is two things: the sequence number up to which changes have been queued, and the queue. A post leaves
the queue when its vectors are stored; after a crash it is still there and is done again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import aiosqlite

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import keys_json
from rag_core.doors.archive.units import VISIBLE
from rag_core.types import PostKey

__all__ = ["Waiting", "follow", "newest", "queue", "settle", "waiting"]

_SLICE = 20_000  # changes queued in one transaction: about 100 ms
_FIRST = 1 << 40  # seconds: deletions come before every post, or a deleted one could still be found
# With a post come those that show it: its album, and its replies, whose headers hold its first words.
_CHANGED = (
    "SELECT chat_id, message_id, seq FROM posts WHERE seq > :mark AND seq <= :until "
    "UNION ALL SELECT m.chat_id, m.message_id, p.seq FROM posts AS p JOIN posts AS m "
    "ON m.chat_id = p.chat_id AND m.album = p.album WHERE p.seq > :mark AND p.seq <= :until "
    "UNION ALL SELECT r.chat_id, r.message_id, p.seq FROM posts AS p JOIN posts AS r "
    "ON r.chat_id = p.chat_id AND r.reply_to = p.message_id WHERE p.seq > :mark AND p.seq <= :until"
)
_QUEUE = (
    "INSERT INTO to_embed (chat_id, message_id, seq, stamp) "
    f"SELECT t.chat_id, t.message_id, max(w.seq), CASE WHEN {VISIBLE} THEN t.stamp ELSE :first END "
    f"FROM ({_CHANGED}) AS w JOIN posts AS t ON t.chat_id = w.chat_id AND t.message_id = w.message_id "
    "WHERE true GROUP BY t.chat_id, t.message_id "
    "ON CONFLICT (chat_id, message_id) DO UPDATE SET seq = excluded.seq, stamp = excluded.stamp"
)
_AGAIN = (
    "INSERT INTO to_embed (chat_id, message_id, seq, stamp) "
    "SELECT json_extract(k.value, '$[0]'), json_extract(k.value, '$[1]'), coalesce(t.seq, 0), "
    f"CASE WHEN {VISIBLE} THEN t.stamp ELSE ? END FROM json_each(?) AS k LEFT JOIN posts AS t "
    "ON t.chat_id = json_extract(k.value, '$[0]') AND t.message_id = json_extract(k.value, '$[1]') "
    "WHERE true ON CONFLICT (chat_id, message_id) DO NOTHING"
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A post in the queue, in the state it had at `seq`."""

    key: PostKey
    seq: int


async def follow(archive: Archive, identity: str) -> int:
    """Queue what changed since the last time; returns how many changes. Another store begins anew."""
    queued = 0
    while True:
        async with archive.writing() as connection:
            mark = await _mark(connection, identity)
            ((until, number),) = await connection.execute_fetchall(
                "SELECT max(seq), count(*) FROM (SELECT seq FROM posts WHERE seq > ? ORDER BY seq LIMIT ?)",
                (mark, _SLICE),
            )
            if not number:
                return queued
            await connection.execute(_QUEUE, {"first": _FIRST, "mark": mark, "until": until})
            await connection.execute("UPDATE dense SET watermark = ?", (until,))
            queued += number


async def _mark(connection: aiosqlite.Connection, identity: str) -> int:
    """Up to where changes are queued for this store; nothing is queued for one that is new."""
    rows = await connection.execute_fetchall("SELECT watermark FROM dense WHERE identity = ?", (identity,))
    for (mark,) in rows:
        return int(mark)
    await connection.execute("DELETE FROM to_embed")
    await connection.execute("INSERT OR REPLACE INTO dense (id, identity, watermark) VALUES (0, ?, 0)", (identity,))
    return 0


async def queue(archive: Archive, keys: Iterable[PostKey]) -> int:
    """Queue posts whatever the store has of them, also such as are not in the archive; returns how many are new."""
    async with archive.writing() as connection:
        cursor = await connection.execute(_AGAIN, (_FIRST, keys_json(keys)))
        return cursor.rowcount


async def newest(archive: Archive, limit: int) -> list[Waiting]:
    """The next posts to take in: deletions, then the newest versions."""
    sql = "SELECT chat_id, message_id, seq FROM to_embed ORDER BY stamp DESC, seq DESC LIMIT ?"
    return [Waiting(PostKey(chat, message), seq) for chat, message, seq in await archive.rows(sql, (limit,))]


async def settle(archive: Archive, done: Sequence[Waiting]) -> None:
    """Take posts out of the queue, unless they have changed again meanwhile."""
    async with archive.writing() as connection:
        await connection.executemany(
            "DELETE FROM to_embed WHERE chat_id = ? AND message_id = ? AND seq = ?",
            [(*one.key, one.seq) for one in done],
        )


async def waiting(archive: Archive, identity: str) -> int:
    """How many changes the store of this identity has not taken in, queued or not."""
    ((queued,),) = await archive.rows("SELECT count(*) FROM to_embed")
    ((later,),) = await archive.rows(
        "SELECT count(*) FROM posts WHERE seq > coalesce((SELECT watermark FROM dense WHERE identity = ?), 0)",
        (identity,),
    )
    ((same,),) = await archive.rows("SELECT count(*) FROM dense WHERE identity = ?", (identity,))
    return int(later) + (int(queued) if same else 0)
