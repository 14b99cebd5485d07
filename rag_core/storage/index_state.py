"""Index state: the embedding queue, rebuilds of the indexes, the posts the indexes must hold, and records of jobs.

The embedding queue is newest first. A single watermark cannot say "the newest are done, and the older ones are on
their way", so the state of the vector index is two things: the sequence number up to which changes have been queued,
and the queue. A post leaves the queue when its vectors are stored; after a crash it is still there and is done again.

The row of a rebuild outlives the process, so that the next process continues it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import aiosqlite

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import JOIN_BY_KEY, VISIBLE_POSTS, decode_row, encode_keys, encode_row, get_unix_time
from rag_core.storage.visible_posts import fetch_posts
from rag_core.types import PostKey

_QUEUE_BATCH_CHANGES = 20_000  # changes queued in one transaction: about 100 ms
_DELETION_STAMP = 1 << 40  # seconds: deletions come before every post, or a deleted one could still be found
# A changed post brings along its album, and its replies, whose headers hold its first words.
_CHANGED_POSTS_SQL = (
    "SELECT chat_id, message_id, seq FROM posts WHERE seq > :mark AND seq <= :until "
    "UNION ALL SELECT m.chat_id, m.message_id, p.seq FROM posts AS p JOIN posts AS m "
    "ON m.chat_id = p.chat_id AND m.album = p.album WHERE p.seq > :mark AND p.seq <= :until "
    "UNION ALL SELECT r.chat_id, r.message_id, p.seq FROM posts AS p JOIN posts AS r "
    "ON r.chat_id = p.chat_id AND r.reply_to = p.message_id WHERE p.seq > :mark AND p.seq <= :until"
)
_QUEUE_CHANGED_SQL = (
    "INSERT INTO to_embed (chat_id, message_id, seq, stamp) "
    f"SELECT t.chat_id, t.message_id, max(w.seq), CASE WHEN {VISIBLE_POSTS} THEN t.stamp ELSE :first END "
    f"FROM ({_CHANGED_POSTS_SQL}) AS w JOIN posts AS t ON t.chat_id = w.chat_id AND t.message_id = w.message_id "
    "WHERE true GROUP BY t.chat_id, t.message_id "
    "ON CONFLICT (chat_id, message_id) DO UPDATE SET seq = excluded.seq, stamp = excluded.stamp"
)
_QUEUE_KEYS_SQL = (
    "INSERT INTO to_embed (chat_id, message_id, seq, stamp) "
    "SELECT json_extract(k.value, '$[0]'), json_extract(k.value, '$[1]'), coalesce(t.seq, 0), "
    f"CASE WHEN {VISIBLE_POSTS} THEN t.stamp ELSE ? END FROM json_each(?) AS k LEFT JOIN posts AS t "
    "ON t.chat_id = json_extract(k.value, '$[0]') AND t.message_id = json_extract(k.value, '$[1]') "
    "WHERE true ON CONFLICT (chat_id, message_id) DO NOTHING"
)


async def queue_changed_posts(archive: Archive, identity: str, model: str) -> int:
    """Queue the changes since the last call; returns how many. A store with another identity starts from 0."""
    queued = 0
    sql = "SELECT max(seq), count(*) FROM (SELECT seq FROM posts WHERE seq > ? ORDER BY seq LIMIT ?)"
    while True:
        async with archive.writing() as connection:
            if not await connection.execute_fetchall("SELECT 1 FROM dense WHERE identity = ?", (identity,)):
                await _install_vectors(connection, VectorState(model, identity, 0))
            ((mark,),) = await connection.execute_fetchall("SELECT watermark FROM dense")
            ((until, number),) = await connection.execute_fetchall(sql, (mark, _QUEUE_BATCH_CHANGES))
            if not number:
                return queued
            await connection.execute(_QUEUE_CHANGED_SQL, {"first": _DELETION_STAMP, "mark": mark, "until": until})
            await connection.execute("UPDATE dense SET watermark = ?", (until,))
            queued += number


async def _install_vectors(connection: aiosqlite.Connection, state: VectorState) -> None:
    await connection.execute("DELETE FROM to_embed")
    await connection.execute(
        "INSERT INTO dense (id, identity, watermark, model) VALUES (0, ?1, ?2, ?3) ON CONFLICT (id) DO UPDATE SET "
        "identity = ?1, watermark = ?2, model = ?3, replaced = iif(model = ?3, replaced, model)",
        (state.identity, state.watermark, state.model),
    )


async def queue_posts(archive: Archive, keys: Iterable[PostKey]) -> int:
    """Queue posts whether or not they are in the store or the archive; returns how many were not queued before."""
    return await archive.execute(_QUEUE_KEYS_SQL, (_DELETION_STAMP, encode_keys(keys)))


async def list_queued_posts(archive: Archive, limit: int) -> list[tuple[PostKey, int]]:
    """List the next posts to embed, each in its state at a sequence number: deletions first, then newest versions."""
    sql = "SELECT chat_id, message_id, seq FROM to_embed ORDER BY stamp DESC, seq DESC LIMIT ?"
    return [(PostKey(chat, message), seq) for chat, message, seq in await archive.rows(sql, (limit,))]


async def dequeue_posts(archive: Archive, done: Sequence[tuple[PostKey, int]]) -> None:
    """Remove posts from the queue, unless they have changed again meanwhile."""
    sql = "DELETE FROM to_embed WHERE chat_id = ? AND message_id = ? AND seq = ?"
    await archive.execute_many(sql, [(*key, seq) for key, seq in done])


async def count_unembedded_changes(archive: Archive, identity: str) -> int:
    """Count the changes that the store of this identity has not processed, queued or not."""
    sql = (
        "WITH mark AS (SELECT watermark FROM dense WHERE identity = ?) SELECT (SELECT count(*) FROM posts "
        "WHERE seq > coalesce((SELECT watermark FROM mark), 0)) "
        "+ (SELECT count(*) FROM to_embed WHERE EXISTS (SELECT 1 FROM mark))"
    )
    return int(await archive.value(sql, (identity,)))


async def count_queued_posts(archive: Archive, channels: Collection[int], limit: int) -> int:
    """Count queued posts of these channels, up to `limit`; of others would tell readers that something was posted."""
    sql = "SELECT count(*) FROM (SELECT 1 FROM to_embed WHERE chat_id IN (SELECT value FROM json_each(?)) LIMIT ?)"
    return int(await archive.value(sql, (json.dumps([*channels]), limit)))


@dataclass(frozen=True, slots=True)
class VectorState:
    """Vectors of a model: their store's identity, the change up to which they are made, any `replaced` model."""

    model: str
    identity: str
    watermark: int
    replaced: str = ""


async def load_vector_state(archive: Archive) -> VectorState | None:
    """Load the state of the live vectors; None before the first post was embedded."""
    rows = await archive.rows("SELECT model, identity, watermark, replaced FROM dense")
    return VectorState(*rows[0]) if rows else None


async def load_next_vectors(archive: Archive) -> VectorState | None:
    """Load the state of vectors that are embedded beside the live ones; None where there are none."""
    rows = await archive.rows("SELECT model, identity, watermark FROM next_vectors")
    return VectorState(*rows[0]) if rows else None


async def save_next_vectors(archive: Archive, state: VectorState) -> None:
    """Save the state of vectors that are embedded beside the live ones."""
    sql = "INSERT OR REPLACE INTO next_vectors (id, model, identity, watermark) VALUES (0, ?, ?, ?)"
    await archive.execute(sql, (state.model, state.identity, state.watermark))


async def install_next_vectors(archive: Archive, state: VectorState) -> None:
    """Make the next vectors the live ones; changes after their watermark are queued by `queue_changed_posts`."""
    async with archive.writing() as connection:
        await _install_vectors(connection, state)
        await connection.execute("DELETE FROM next_vectors")


async def forget_next_vectors(archive: Archive) -> None:
    """Forget the vectors that were embedded beside the live ones."""
    await archive.execute("DELETE FROM next_vectors")


async def forget_replaced_vectors(archive: Archive) -> None:
    """Forget the replaced vectors: their store is gone."""
    await archive.execute("UPDATE dense SET replaced = ''")


@dataclass(frozen=True, slots=True)
class ProgressMessage:
    """Message that shows the progress, and the language of the admin who asked."""

    chat_id: int
    message_id: int
    lang: str


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Rebuild of all indexes, or of one channel; `done` and `total` count posts."""

    id: int
    chat_id: int | None
    state: str = "running"  # or "done", "cancelled", "failed"
    done: int = 0
    total: int = 0
    tell: ProgressMessage | None = None
    # not saved:
    left_s: float | None = None  # the estimated seconds left
    renewed: int = 0  # how many posts are to be embedded again
    reason: str = ""  # why it failed


async def begin_rebuild(archive: Archive, chat_id: int | None, tell: ProgressMessage | None = None) -> Rebuild | None:
    """Begin a rebuild; None if one is running."""
    sql = (
        "INSERT INTO rebuilds (chat_id, state, asked_at, tell_chat, tell_message, lang) "
        "SELECT ?, 'running', ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM rebuilds WHERE state = 'running') RETURNING id"
    )
    message = (tell.chat_id, tell.message_id, tell.lang) if tell else (None, None, None)
    values = (chat_id, get_unix_time(), *message)
    begun = await archive.change(sql, values)
    return Rebuild(begun["id"], chat_id, tell=tell) if begun else None


async def find_running_rebuild(archive: Archive) -> Rebuild | None:
    """Find the unfinished rebuild, if there is one."""
    for row in await archive.rows("SELECT * FROM rebuilds WHERE state = 'running' ORDER BY id DESC LIMIT 1"):
        place = row["tell_chat"], row["tell_message"], row["lang"]
        tell = ProgressMessage(*place) if row["tell_chat"] is not None else None
        return Rebuild(row["id"], row["chat_id"], row["state"], row["done"], row["total"], tell)
    return None


async def save_rebuild(archive: Archive, rebuild: Rebuild) -> None:
    """Save the state and progress of a rebuild."""
    finished_at = None if rebuild.state == "running" else get_unix_time()
    sql = "UPDATE rebuilds SET state = ?, finished_at = ?, done = ?, total = ? WHERE id = ?"
    await archive.execute(sql, (rebuild.state, finished_at, rebuild.done, rebuild.total, rebuild.id))


async def count_changed_posts(archive: Archive, chat_id: int | None, after: int, until: int) -> int:
    """Count living posts, of one channel or of all, whose last change is after `after` and up to `until`."""
    which = "seq > ?1 AND seq <= ?2 AND deleted_at IS NULL AND (?3 IS NULL OR chat_id = ?3)"
    return int(await archive.value(f"SELECT count(*) FROM posts WHERE {which}", (after, until, chat_id)))


_ALBUM_BATCH_ROWS = 2000  # album members fetched at once


async def list_indexable_ids(archive: Archive, chat_id: int) -> set[int]:
    """List the message ids of a channel's visible posts with words; of an album the id of the merged post."""
    visible = f"SELECT t.message_id FROM posts AS t WHERE t.chat_id = ? AND {VISIBLE_POSTS}"
    words = "trim(t.text) <> '' OR t.media_text IS NOT NULL OR t.page IS NOT NULL OR t.media_file_name <> ''"
    single = f"{visible} AND t.album IS NULL AND ({words})"
    # in the reader's thread: a channel may have a million posts
    ids = await archive.read(lambda connection: {row[0] for row in connection.execute(single, (chat_id,))})
    members = [PostKey(chat_id, one) for one in await archive.column(f"{visible} AND t.album IS NOT NULL", (chat_id,))]
    for at in range(0, len(members), _ALBUM_BATCH_ROWS):
        albums = await fetch_posts(archive, members[at : at + _ALBUM_BATCH_ROWS])
        ids |= {
            key.message_id for key, post in albums.items() if post.text.strip() or (post.media and post.media.file_name)
        }
    return ids


async def filter_queued_keys(archive: Archive, keys: Iterable[PostKey]) -> set[PostKey]:
    """Filter the keys to those in the embedding queue."""
    sql = f"SELECT t.chat_id, t.message_id {JOIN_BY_KEY.format(table='to_embed')}"
    return {PostKey(*row) for row in await archive.rows(sql, (encode_keys(keys),))}


async def count_orphan_rows(archive: Archive) -> int:
    """Count rows with a foreign key to a missing row; 0 unless the file was tampered with."""
    return len(await archive.rows("PRAGMA foreign_key_check"))


async def get_journal_mode(archive: Archive) -> str:
    """SQLite's journal mode: "wal", unless the file system does not support it."""
    return str(await archive.value("PRAGMA journal_mode"))


async def check_writable(archive: Archive) -> None:
    """Check that the disk can be written, by an update that changes nothing. Raises ArchiveUnavailable."""
    await archive.execute("UPDATE identity SET value = value")


@dataclass(frozen=True, slots=True)
class JobRecord:
    """Record of a scheduled job: its last run, how long that took, and how often it ran and failed."""

    name: str
    ran_at: datetime | None = None
    took_ms: int = 0
    runs: int = 0
    failures: int = 0
    failed_at: datetime | None = None
    error: str | None = None  # the sentence of the last failure, at `failed_at`
    said: str | None = None  # the report of the last run, None if that failed

    @property
    def failing(self) -> bool:
        """True if the last run failed."""
        return self.failed_at is not None and self.said is None


async def load_jobs(archive: Archive) -> list[JobRecord]:
    """Load the records of all jobs that ever ran, by name."""
    rows = await archive.rows("SELECT * FROM jobs ORDER BY name")
    return [decode_row(JobRecord, row, took_ms=row["took_ms"] or 0) for row in rows]


async def save_jobs(archive: Archive, done: Sequence[JobRecord]) -> None:
    """Save job records in place of the earlier ones."""
    await archive.save_rows("jobs", [encode_row(job) for job in done])
