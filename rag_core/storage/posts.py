"""Posts in the archive: saved in versions, deleted by tombstones, restored; and their changes for the indexes.

They are read by visible_posts.py and post_lookup.py.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice

import aiosqlite

from rag_core.storage.db import Archive
from rag_core.storage.post_merging import MergeState, PostMerger, PostTally
from rag_core.storage.post_rows import (
    JOIN_BY_KEY,
    POST_COLUMNS,
    POST_FIELDS,
    decode_post,
    encode_keys,
    get_unix_time,
    hash_post_text,
)
from rag_core.storage.visible_posts import SHOWN_COLUMN, fetch_posts, read_albums
from rag_core.types import Post, PostKey

log = logging.getLogger(__name__)

# Rows of one transaction: about 50 ms on an ordinary disk, so that other writers do not wait long.
TRANSACTION_ROWS = 500


async def mark_posts_deleted(archive: Archive, keys: Iterable[PostKey], *, how: str) -> int:
    """Mark posts as deleted (tombstones): their texts stay in the archive, but are not found. Returns how many.

    A post deleted by an "admin" (`how`) is restored by a newer version only, not by an old export.
    """
    return await _update_posts(
        archive, keys, "deleted_at = ?, deleted_how = ?", (get_unix_time(), how), "t.deleted_at IS NULL"
    )


async def mark_posts_suspected(archive: Archive, keys: Iterable[PostKey], suspected: bool = True) -> int:
    """Hide posts that seem to be deleted in Telegram until they are seen again, or show those that turned out to exist.

    Returns how many were not hidden, or not shown, before.
    """
    which = f"t.deleted_at IS NULL AND t.suspected = {int(not suspected)}"
    return await _update_posts(archive, keys, "suspected = ?", (suspected,), which)


async def restore_posts(archive: Archive, keys: Iterable[PostKey]) -> int:
    """Take tombstones back: the posts are found again. Returns how many."""
    return await _update_posts(
        archive, keys, "deleted_at = ?, deleted_how = ?", (None, None), "t.deleted_at IS NOT NULL"
    )


async def _update_posts(
    archive: Archive, keys: Iterable[PostKey], what: str, values: tuple[object, ...], which: str
) -> int:
    marked, rest = 0, iter(dict.fromkeys(keys))
    while batch := list(islice(rest, TRANSACTION_ROWS)):
        async with archive.writing() as connection:
            sql = f"SELECT t.chat_id, t.message_id {JOIN_BY_KEY.format(table='posts')} WHERE {which}"
            chosen = [PostKey(*row) for row in await connection.execute_fetchall(sql, (encode_keys(batch),))]
            await assign_sequence_numbers(connection, chosen, f"{what}, ", values)
            marked += len(chosen)
    return marked


async def assign_sequence_numbers(
    connection: aiosqlite.Connection, keys: Sequence[PostKey], what: str = "", values: tuple[object, ...] = ()
) -> None:
    """Give posts the next sequence numbers, so that the indexes read them again."""
    ((seq,),) = await connection.execute_fetchall("SELECT value FROM sequence")
    await connection.executemany(
        f"UPDATE posts SET {what}seq = ? WHERE chat_id = ? AND message_id = ?",
        [(*values, seq + n, *key) for n, key in enumerate(keys, 1)],
    )
    await connection.execute("UPDATE sequence SET value = ?", (seq + len(keys),))


async def mark_posts_changed(archive: Archive, chat_id: int | None = None, *, guarded: bool = False) -> None:
    """Make the indexes read all living posts of a channel again, or of all channels.

    With `guarded` only the protected and paid ones.
    """
    last = await archive.value("SELECT value FROM sequence")
    while True:
        async with archive.writing() as connection:
            rows = await connection.execute_fetchall(
                "SELECT chat_id, message_id FROM posts WHERE deleted_at IS NULL AND seq <= ?1 "
                "AND (?2 IS NULL OR chat_id = ?2) AND (NOT ?3 OR guarded IS NOT NULL) ORDER BY seq LIMIT ?4",
                (last, chat_id, guarded, TRANSACTION_ROWS),
            )
            keys = [PostKey(*row) for row in rows]
            if not keys:
                return
            await assign_sequence_numbers(connection, keys)


@dataclass(frozen=True, slots=True)
class PostChange:
    """Change of a post that an index has not processed; `post` is None if the post must not be found (any more)."""

    seq: int
    key: PostKey
    post: Post | None


async def list_post_changes(archive: Archive, after: int, limit: int = 1000) -> list[PostChange]:
    """List the changes after the sequence number `after`, oldest first: each post once, in its present state.

    A changed post brings along its album, and its replies, whose headers hold its first words.
    """
    sql = f"SELECT {POST_FIELDS}, t.seq, {SHOWN_COLUMN} FROM posts AS t WHERE t.seq > ? ORDER BY t.seq LIMIT ?"
    rows = await archive.rows(sql, (after, limit))
    if not rows:
        return []
    grouped = {(row["chat_id"], row["album"]) for row in rows if row["album"]}
    albums = await archive.read(partial(read_albums, which=grouped)) if grouped else {}
    changes: dict[PostKey, PostChange] = {}
    for row in rows:
        if row["album"]:
            shown, keys = albums[row["chat_id"], row["album"]]
        else:
            shown, keys = decode_post(row) if row["shown"] else None, [PostKey(row["chat_id"], row["message_id"])]
        for key in keys:
            changes.pop(key, None)  # a repeated post moves to the end, so that the list stays in order of `seq`
            changes[key] = PostChange(row["seq"], key, shown if shown and shown.key == key else None)
    replies = await archive.rows(
        "SELECT t.chat_id, t.message_id FROM json_each(?) AS k CROSS JOIN posts AS t "
        "ON t.chat_id = json_extract(k.value, '$[0]') AND t.reply_to = json_extract(k.value, '$[1]')",
        (encode_keys(changes),),
    )
    others = [key for reply in replies if (key := PostKey(*reply)) not in changes]
    changes |= {
        key: PostChange(rows[-1]["seq"], key, post) for key, post in (await fetch_posts(archive, others)).items()
    }
    return list(changes.values())


_ROW_COLUMNS = (*POST_COLUMNS, "seq", "stamp", "update_id", "text_hash", "source")
_UPDATED_COLUMNS = ", ".join(f"{name} = excluded.{name}" for name in _ROW_COLUMNS[2:])
_UPSERT_POST = (  # names of columns, no values
    f"INSERT INTO posts ({', '.join(_ROW_COLUMNS)}) VALUES ({', '.join('?' * len(_ROW_COLUMNS))}) "
    f"ON CONFLICT (chat_id, message_id) DO UPDATE SET {_UPDATED_COLUMNS}, "
    "deleted_at = NULL, deleted_how = NULL, suspected = 0"
)


async def save_posts(archive: Archive, posts: Sequence[Post], *, source: str, update_id: int = 0) -> PostTally:
    """Save posts in batches; saving them again changes nothing. `source` is "live" or "import"."""
    tally, rest = PostTally(), iter(posts)
    while batch := list(islice(rest, TRANSACTION_ROWS)):
        async with archive.writing() as connection:
            arrivals = [(post, update_id) for post in batch]
            tally += await save_arrivals_in_transaction(connection, arrivals, source=source)
    return tally


async def save_arrivals_in_transaction(
    connection: aiosqlite.Connection, arrivals: Sequence[tuple[Post, int]], *, source: str
) -> PostTally:
    """Save posts with an update id each, in the caller's transaction; in any order, repeats included.

    At most 10,000 at a time.
    """
    posts = [post for post, _ in arrivals]
    merger = await _load_merger(connection, posts)
    tally = sum((merger.merge(post, update_id) for post, update_id in arrivals), PostTally())
    if tally.kept:
        log.info("%d posts arrived without the texts that are known of them, which were kept", tally.kept)
    ((before,),) = await connection.execute_fetchall("SELECT value FROM sequence")
    seq, rows = merger.rows(before)
    await connection.executemany(_UPSERT_POST, [(*row, source) for row in rows])
    await connection.executemany(
        "INSERT OR IGNORE INTO post_versions "
        "(chat_id, message_id, stamp, update_id, text_hash, text, entities) VALUES (?, ?, ?, ?, ?, ?, ?)",
        merger.versions,
    )
    await connection.execute("UPDATE sequence SET value = ?", (seq,))
    return tally


async def _load_merger(connection: aiosqlite.Connection, posts: Sequence[Post]) -> PostMerger:
    keys = encode_keys(post.key for post in posts)
    fields = f"{POST_FIELDS}, t.seq, t.stamp, t.update_id, t.deleted_how, t.suspected"
    rows = await connection.execute_fetchall(f"SELECT {fields} {JOIN_BY_KEY.format(table='posts')}", (keys,))
    merger = PostMerger(
        MergeState(
            decode_post(row),
            (row["stamp"], row["update_id"]),
            row["seq"],
            row["deleted_how"],
            bool(row["suspected"]),
        )
        for row in rows
    )
    # only the texts that arrive are looked up: a post may have thousands of earlier ones
    arriving = [(*post.key, hash_post_text(post.text)) for post in posts if post.key in merger.states]
    if arriving:
        sql = (
            f"WITH k (chat_id, message_id, text_hash) AS (VALUES {', '.join(['(?, ?, ?)'] * len(arriving))}) "
            "SELECT DISTINCT t.chat_id, t.message_id, t.text_hash FROM k CROSS JOIN post_versions AS t "
            "USING (chat_id, message_id, text_hash)"
        )
        for chat_id, message_id, text_hash in await connection.execute_fetchall(sql, [*chain(*arriving)]):
            merger.states[PostKey(chat_id, message_id)].older.add(text_hash)
    return merger


async def get_last_seq(archive: Archive) -> int:
    """Sequence number of the latest change; 0 in an empty archive."""
    return int(await archive.value("SELECT value FROM sequence"))


async def count_unindexed_posts(archive: Archive, after: int, channels: Collection[int]) -> int:
    """Count the changes of these channels after the sequence number `after`, up to which an index is complete.

    Other channels are not counted: the number would tell a reader that something was posted there.
    """
    # The plus keeps SQLite on the index of changes, of which there are few, and away from the channels' posts.
    sql = "SELECT count(*) FROM posts WHERE seq > ? AND +chat_id IN (SELECT value FROM json_each(?))"
    return int(await archive.value(sql, (after, json.dumps([*channels]))))


async def list_message_ids(archive: Archive, chat_id: int) -> set[int]:
    """List the message ids of a channel's living posts."""
    sql = "SELECT message_id FROM posts WHERE chat_id = ? AND deleted_at IS NULL"
    return set(await archive.column(sql, (chat_id,)))
