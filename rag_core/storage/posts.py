"""Posts in the archive: saved in versions, deleted by tombstones, restored, looked up; their changes for the indexes.

`visible_posts.py` reads what readers may see; the look-ups here also see hidden posts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import chain, islice

import aiosqlite
import numpy as np

from rag_core.storage.db import Archive, assign_sequence_numbers
from rag_core.storage.media import queue_files
from rag_core.storage.post_rows import (
    IN_APPROVED_CHANNEL,
    JOIN_BY_KEY,
    POST_COLUMNS,
    POST_FIELDS,
    SAVE_VERSION_SQL,
    WITH_TEXT,
    MergeState,
    PostMerger,
    PostTally,
    decode_post,
    encode_keys,
    from_unix_time,
    get_unix_time,
    hash_post_text,
    join_media_text,
    to_unix_time,
)
from rag_core.storage.visible_posts import (
    SHOWN_COLUMN,
    fetch_posts,
    read_albums,
    read_channels,
    read_posts,
    read_replied_texts,
)
from rag_core.text.post_text import build_header
from rag_core.text.tokens import detect_language
from rag_core.types import Passage, PassageRef, Post, PostKey, PostKeySet

log = logging.getLogger(__name__)

# Rows of one transaction: about 50 ms on an ordinary disk, so that other writers do not wait long.
TRANSACTION_ROWS = 500


async def mark_posts_deleted(archive: Archive, keys: Iterable[PostKey], *, how: str) -> int:
    """Mark posts as deleted (tombstones); `how` "admin": only a newer version restores them. Returns how many."""
    return await _update_posts(archive, keys, "t.deleted_at IS NULL", deleted_at=get_unix_time(), deleted_how=how)


async def mark_posts_suspected(archive: Archive, keys: Iterable[PostKey], suspected: bool = True) -> int:
    """Hide posts that seem to be deleted in Telegram, or show those that turned out to exist. Returns how many."""
    which = f"t.deleted_at IS NULL AND t.suspected = {int(not suspected)}"
    return await _update_posts(archive, keys, which, suspected=suspected)


async def restore_posts(archive: Archive, keys: Iterable[PostKey]) -> int:
    """Take tombstones back: the posts are found again. Returns how many."""
    return await _update_posts(archive, keys, "t.deleted_at IS NOT NULL", deleted_at=None, deleted_how=None)


async def _update_posts(archive: Archive, keys: Iterable[PostKey], which: str, **columns: object) -> int:
    marked, rest = 0, iter(dict.fromkeys(keys))
    while batch := list(islice(rest, TRANSACTION_ROWS)):
        async with archive.writing() as connection:
            sql = f"SELECT t.chat_id, t.message_id {JOIN_BY_KEY.format(table='posts')} WHERE {which}"
            chosen = [PostKey(*row) for row in await connection.execute_fetchall(sql, (encode_keys(batch),))]
            await assign_sequence_numbers(connection, chosen, **columns)
            marked += len(chosen)
    return marked


async def mark_posts_changed(archive: Archive, chat_id: int | None = None, *, guarded: bool = False) -> None:
    """Make the indexes read a channel's living posts again, or all; with `guarded` protected and paid ones."""
    sql = (
        "SELECT chat_id, message_id FROM posts WHERE deleted_at IS NULL AND seq <= ?1 "
        "AND (?2 IS NULL OR chat_id = ?2) AND (NOT ?3 OR guarded IS NOT NULL) ORDER BY seq LIMIT ?4"
    )
    values = (await get_last_seq(archive), chat_id, guarded, TRANSACTION_ROWS)
    while True:
        async with archive.writing() as connection:
            keys = [PostKey(*row) for row in await connection.execute_fetchall(sql, values)]
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
    """List the changes after the sequence number `after`, oldest first: each post once, in its present state."""
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
            shown = join_media_text(decode_post(row)) if row["shown"] else None
            keys = [PostKey(row["chat_id"], row["message_id"])]
        for key in keys:
            changes.pop(key, None)  # a repeated post moves to the end, so that the list stays in order of `seq`
            changes[key] = PostChange(row["seq"], key, shown if shown and shown.key == key else None)
    # A changed post brings along its album, and its replies, whose headers hold its first words.
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
    """Save posts with update ids, at most 10,000, in the caller's transaction; in any order, repeats included."""
    fields = f"{POST_FIELDS}, t.seq, t.stamp, t.update_id, t.deleted_how, t.suspected"
    sql = f"SELECT {fields} {JOIN_BY_KEY.format(table='posts')}"
    merger = PostMerger()
    for row in await connection.execute_fetchall(sql, (encode_keys(post.key for post, _ in arrivals),)):
        post, order = decode_post(row), (row["stamp"], row["update_id"])
        merger.states[post.key] = MergeState(post, order, row["seq"], row["deleted_how"], bool(row["suspected"]))
    # only the texts that arrive are looked up: a post may have thousands of earlier ones
    if arriving := [(*post.key, hash_post_text(post.text)) for post, _ in arrivals if post.key in merger.states]:
        sql = (
            f"WITH k (chat_id, message_id, text_hash) AS (VALUES {', '.join(['(?, ?, ?)'] * len(arriving))}) "
            "SELECT DISTINCT t.chat_id, t.message_id, t.text_hash FROM k CROSS JOIN post_versions AS t "
            "USING (chat_id, message_id, text_hash)"
        )
        for chat_id, message_id, text_hash in await connection.execute_fetchall(sql, [*chain(*arriving)]):
            merger.states[PostKey(chat_id, message_id)].older.add(text_hash)
    tally = sum((merger.merge(post, update_id) for post, update_id in arrivals), PostTally())
    if tally.kept:
        log.info("%d posts arrived without the texts that are known of them, which were kept", tally.kept)
    ((before,),) = await connection.execute_fetchall("SELECT value FROM sequence")
    seq, rows = merger.rows(before)
    await connection.executemany(_UPSERT_POST, [(*row, source) for row in rows])
    await connection.executemany(SAVE_VERSION_SQL, merger.versions)
    await connection.execute("UPDATE sequence SET value = ?", (seq,))
    orders = ((post, (to_unix_time(post.stamp), update_id)) for post, update_id in arrivals)
    newest = [post for post, order in orders if merger.states[post.key].order == order]
    await queue_files(connection, newest, source)
    return tally


async def get_last_seq(archive: Archive) -> int:
    """Sequence number of the latest change; 0 in an empty archive."""
    return int(await archive.value("SELECT value FROM sequence"))


async def count_unindexed_posts(archive: Archive, after: int, channels: Collection[int]) -> int:
    """Count changes of these channels after `after`; of others would tell readers that something was posted."""
    # The plus keeps SQLite on the index of changes, of which there are few, and away from the channels' posts.
    sql = "SELECT count(*) FROM posts WHERE seq > ? AND +chat_id IN (SELECT value FROM json_each(?))"
    return int(await archive.value(sql, (after, json.dumps([*channels]))))


async def list_message_ids(archive: Archive, chat_id: int, newest: int = -1) -> set[int]:
    """List the message ids of a channel's living posts, or of the `newest`."""
    sql = "SELECT message_id FROM posts WHERE chat_id = ? AND deleted_at IS NULL ORDER BY message_id DESC LIMIT ?"
    return set(await archive.column(sql, (chat_id, newest)))


@dataclass(frozen=True, slots=True)
class StoredPost:
    """Newest version of a post, albums not merged, when it was written, whether deleted or suspected to be."""

    post: Post
    stamp: datetime
    deleted: bool
    suspected: bool


async def fetch_stored_posts(archive: Archive, keys: Iterable[PostKey]) -> dict[PostKey, StoredPost]:
    """Fetch posts in their newest version, deleted and hidden ones included."""
    fields = f"{POST_FIELDS}, t.stamp, t.deleted_at IS NOT NULL AS deleted, t.suspected"
    found = {}
    for row in await archive.rows(f"SELECT {fields} {JOIN_BY_KEY.format(table='posts')}", (encode_keys(keys),)):
        post, stamp = decode_post(row), from_unix_time(row["stamp"])
        found[post.key] = StoredPost(post, stamp, bool(row["deleted"]), bool(row["suspected"]))
    return found


async def fetch_passages(archive: Archive, places: Sequence[PassageRef]) -> dict[PassageRef, Passage]:
    """Read passages from the archive as they are now; those deleted or shortened since are left out."""
    keys = list(dict.fromkeys(place.key for place in places))
    if not keys:
        return {}

    def read(connection: sqlite3.Connection) -> dict[PassageRef, Passage]:
        stored = read_posts(connection, keys)
        parents = read_replied_texts(connection, [key for key, post in stored.items() if post.reply_to])
        known = read_channels(connection)
        passages = {}
        for key, part, start, end in places:
            if (post := stored.get(key)) and end <= len(post.text):
                place = PassageRef(key, part, start, end)
                passages[place] = Passage(
                    key, part, build_header(post, known.get(key.chat_id), parents.get(key)), post.text[start:end],
                    start, end, post.date, post.edited, post.origin, topic=post.topic,
                    media=post.media.kind if post.media else "", read=tuple(post.list_media_spans()),
                )  # fmt: skip
        return passages

    return await archive.read(read)


async def list_album_keys(archive: Archive, key: PostKey) -> tuple[PostKey, ...]:
    """List the keys of a post and of the other members of its album, by message id."""
    sql = (
        f"SELECT m.chat_id, m.message_id {JOIN_BY_KEY.format(table='posts')} "
        "JOIN posts AS m ON m.chat_id = t.chat_id AND m.album = t.album"
    )
    rows = await archive.rows(sql, (encode_keys([key]),))
    return tuple(sorted({key, *(PostKey(*row) for row in rows)}))


_MAX_NEIGHBOURS = 50  # of all given posts: one may have thousands of replies


async def list_neighbour_keys(archive: Archive, keys: Iterable[PostKey]) -> dict[PostKey, list[PostKey]]:
    """List the neighbours of posts: the one that each replies to, its replies, the post before and the post after."""
    of = JOIN_BY_KEY.format(table="posts")
    beside = "SELECT {}(m.message_id) FROM posts AS m WHERE m.chat_id = t.chat_id AND m.message_id {} t.message_id"
    with_text = f"AND {WITH_TEXT.replace('t.', 'm.')} AND m.deleted_at IS NULL"
    rows = await archive.rows(
        f"SELECT t.chat_id, t.message_id, t.reply_to AS near {of} WHERE near IS NOT NULL "
        f"UNION ALL SELECT t.chat_id, t.message_id, ({beside.format('max', '<')} {with_text}) AS near {of} "
        f"UNION ALL SELECT t.chat_id, t.message_id, ({beside.format('min', '>')} {with_text}) AS near {of} "
        f"UNION ALL SELECT t.chat_id, t.message_id, m.message_id AS near {of} "
        "JOIN posts AS m INDEXED BY posts_reply ON m.chat_id = t.chat_id AND m.reply_to = t.message_id LIMIT ?",
        (*[encode_keys(keys)] * 4, _MAX_NEIGHBOURS),
    )
    found: dict[PostKey, list[PostKey]] = {}
    for chat_id, message_id, near in rows:
        if near is not None:
            found.setdefault(PostKey(chat_id, message_id), []).append(PostKey(chat_id, near))
    return found


class PostFacet(StrEnum):
    """Facet of a post by its column; ORIGIN_CHAT is the id of the chat that a forward comes from."""

    MEDIA = "media_kind"
    AUTHOR = "author"
    FILE = "media_file_name"
    ORIGIN = "origin_name"
    ORIGIN_CHAT = "origin_chat"


def _build_facet_clause(facet: PostFacet, more: str = "") -> str:
    """FROM clause for posts with a facet; by the channel's rows with their texts it takes 20 times as long."""
    listed = PostFacet.ORIGIN if facet is PostFacet.ORIGIN_CHAT else facet
    return (
        f"FROM posts AS t INDEXED BY posts_{listed} {more}WHERE t.{listed} IS NOT NULL "
        "AND t.chat_id IN (SELECT value FROM json_each(?))"
    )


# An album is found if any of its posts has the facet.
_JOIN_ALBUM = "CROSS JOIN posts AS m INDEXED BY posts_album ON m.chat_id = t.chat_id AND m.album = t.album "


async def list_facet_values(
    archive: Archive, facet: PostFacet, channels: Collection[int], like: str = "%"
) -> list[str]:
    """List every author, file name or origin in these channels, like an SQL pattern; 30,000 posts: 7 ms."""
    sql = f"SELECT DISTINCT t.{facet} {_build_facet_clause(facet)} AND t.{facet} LIKE ?"
    return [row[0] for row in await archive.rows(sql, (json.dumps([*channels]), like))]


async def find_posts_by_facet(
    archive: Archive, facet: PostFacet, values: Iterable[str | int], channels: Collection[int]
) -> PostKeySet:
    """Find the posts of these channels with exactly one of the values; of an album all posts; 45,000 posts: 20 ms."""
    one_of = f"t.{facet} IN (SELECT value FROM json_each(?))"
    rows = await archive.rows(  # a row for each post would take twice as long
        "SELECT chat_id, group_concat(ids) FROM ("
        f"SELECT t.chat_id, group_concat(t.message_id) AS ids {_build_facet_clause(facet)} AND {one_of} "
        "GROUP BY t.chat_id UNION ALL SELECT t.chat_id, group_concat(m.message_id) "
        f"{_build_facet_clause(facet, _JOIN_ALBUM)} AND {one_of} AND t.album IS NOT NULL GROUP BY t.chat_id"
        ") GROUP BY chat_id",
        (json.dumps([*channels]), json.dumps([*values])) * 2,
    )
    return PostKeySet({chat_id: np.unique(np.fromstring(ids, np.int64, sep=",")) for chat_id, ids in rows})


_POSTS_PER_CHANNEL = 5  # newest posts of a channel that are read
_CHARS_PER_POST = 120  # first characters of each


async def detect_channel_languages(archive: Archive, channels: Collection[int]) -> frozenset[str]:
    """Detect the languages of channels ("ru", "en") from their newest posts; 100 channels: 50 ms."""
    rows = await archive.rows(
        "SELECT substr(t.text, 1, ?) FROM json_each(?) AS c JOIN posts AS t ON t.chat_id = c.value "
        "AND t.message_id IN (SELECT message_id FROM posts WHERE chat_id = c.value AND deleted_at IS NULL "
        "AND text != '' ORDER BY message_id DESC LIMIT ?)",
        (_CHARS_PER_POST, json.dumps([*channels]), _POSTS_PER_CHANNEL),
    )
    texts = [text for (text,) in rows if any(map(str.isalpha, text))]
    return await asyncio.to_thread(lambda: frozenset(map(detect_language, texts)))


@dataclass(frozen=True, slots=True)
class PostVersion:
    """Earlier text of a post, and when it was written."""

    stamp: datetime
    text: str


async def list_post_versions(archive: Archive, key: PostKey) -> list[PostVersion]:
    """List the earlier texts of a post, the newest first."""
    sql = (
        "SELECT stamp, text FROM post_versions WHERE chat_id = ? AND message_id = ? ORDER BY stamp DESC, update_id DESC"
    )
    return [PostVersion(from_unix_time(stamp), text) for stamp, text in await archive.rows(sql, key)]


async def find_missing_posts(archive: Archive, chat_id: int, present: Iterable[int]) -> list[PostKey]:
    """Find living posts between the least and the greatest of the ids `present` that are not among these, by id."""
    sql = (
        "WITH present AS MATERIALIZED (SELECT value FROM json_each(?)) "
        "SELECT message_id FROM posts WHERE chat_id = ? AND deleted_at IS NULL "
        "AND message_id BETWEEN (SELECT min(value) FROM present) AND (SELECT max(value) FROM present) "
        "AND message_id NOT IN (SELECT value FROM present) ORDER BY message_id"
    )
    return [PostKey(chat_id, one) for one in await archive.column(sql, (json.dumps(list(present)), chat_id))]


async def count_posts(archive: Archive, chat_id: int | None = None) -> int:
    """Count the living posts of one channel, or of all channels that an admin approved."""
    which = f"t.deleted_at IS NULL AND ({IN_APPROVED_CHANNEL} OR t.chat_id = ?1) AND (?1 IS NULL OR t.chat_id = ?1)"
    return int(await archive.value(f"SELECT count(*) FROM posts AS t WHERE {which}", (chat_id,)))


async def count_post_rows(archive: Archive) -> int:
    """Count the rows of `posts`, tombstones of deleted posts included."""
    return int(await archive.value("SELECT count(*) FROM posts INDEXED BY posts_seq"))


async def count_changes_by_source(archive: Archive, after: int, until: int) -> list[tuple[str, bool, int]]:
    """Count posts whose last change is after `after` and up to `until`, by source and whether they are deleted."""
    sql = (
        "SELECT source, deleted_at IS NOT NULL AS gone, count(*) FROM posts WHERE seq > ? AND seq <= ? "
        "GROUP BY source, gone"
    )
    rows = await archive.rows(sql, (after, until))
    return [(source, bool(gone), number) for source, gone, number in rows]
