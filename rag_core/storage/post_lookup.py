"""Post look-ups: stored posts for imports and admins, earlier versions, passages of hits, posts by facet, languages.

Stored posts include deleted posts and single members of albums. Facets are what a post has beside its text
(media kind, author, file, origin); visibility is not checked for them, because an index holds only visible posts and
only posts in both are found.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import numpy as np

from rag_core.storage.channels import read_channels
from rag_core.storage.db import Archive
from rag_core.storage.post_rows import JOIN_BY_KEY, POST_FIELDS, decode_post, encode_keys, from_unix_seconds
from rag_core.storage.visible_posts import read_posts, read_replied_texts
from rag_core.text.post_text import build_header
from rag_core.text.tokens import detect_language
from rag_core.types import Passage, PassageRef, Post, PostKey, PostKeySet


@dataclass(frozen=True, slots=True)
class StoredPost:
    """Post in its newest version, albums not merged, with the order of versions: `stamp` (when written), `update_id`.

    `suspected`: it seems to be deleted in Telegram.
    """

    post: Post
    stamp: datetime
    update_id: int
    deleted: bool
    suspected: bool


async def fetch_stored_posts(archive: Archive, keys: Iterable[PostKey]) -> dict[PostKey, StoredPost]:
    """Fetch posts in their newest version, deleted and hidden ones included."""
    fields = f"{POST_FIELDS}, t.stamp, t.update_id, t.deleted_at IS NOT NULL AS deleted, t.suspected"
    rows = await archive.rows(f"SELECT {fields} {JOIN_BY_KEY.format(table='posts')}", (encode_keys(keys),))
    return {
        post.key: StoredPost(
            post, from_unix_seconds(row["stamp"]), row["update_id"], bool(row["deleted"]), bool(row["suspected"])
        )
        for row in rows
        for post in [decode_post(row)]
    }


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
                header, text = build_header(post, known.get(key.chat_id), parents.get(key)), post.text[start:end]
                place = PassageRef(key, part, start, end)
                media = post.media.kind if post.media else ""
                passages[place] = Passage(
                    key,
                    part,
                    header,
                    text,
                    start,
                    end,
                    post.date,
                    post.edited,
                    post.origin,
                    media=media,
                    topic=post.topic,
                )
        return passages

    return await archive.read(read)


async def list_album_keys(archive: Archive, key: PostKey) -> tuple[PostKey, ...]:
    """List the keys of a post and of the other members of its album, by message id."""
    rows = await archive.rows(
        f"SELECT m.chat_id, m.message_id {JOIN_BY_KEY.format(table='posts')} "
        "JOIN posts AS m ON m.chat_id = t.chat_id AND m.album = t.album",
        (encode_keys([key]),),
    )
    return tuple(sorted({key, *(PostKey(*row) for row in rows)}))


_MAX_NEIGHBOURS = 50  # of all given posts: one may have thousands of replies


async def list_neighbour_keys(archive: Archive, keys: Iterable[PostKey]) -> dict[PostKey, list[PostKey]]:
    """List the neighbours of posts: the one that each replies to, its replies, the post before and the post after."""
    of = JOIN_BY_KEY.format(table="posts")
    beside = "SELECT {}(m.message_id) FROM posts AS m WHERE m.chat_id = t.chat_id AND m.message_id {} t.message_id"
    with_text = "AND m.text <> '' AND m.deleted_at IS NULL"
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
    """Build the FROM clause for posts with a facet, of channels in a JSON list.

    With the plan that SQLite chooses, by channel through the rows with their texts, it takes 20 times as long.
    """
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
    """List every author, file name or origin in these channels; `like` is an SQL pattern, in any case.

    30,000 posts with a name: 7 ms. Raises ArchiveUnavailable.
    """
    sql = f"SELECT DISTINCT t.{facet} {_build_facet_clause(facet)} AND t.{facet} LIKE ?"
    return [row[0] for row in await archive.rows(sql, (json.dumps([*channels]), like))]


async def find_posts_by_facet(
    archive: Archive, facet: PostFacet, values: Iterable[str | int], channels: Collection[int]
) -> PostKeySet:
    """Find the posts of these channels with exactly one of the values; of an album all posts.

    45,000 posts: 20 ms. Raises ArchiveUnavailable.
    """
    one_of = f"t.{facet} IN (SELECT value FROM json_each(?))"
    rows = await archive.rows(
        f"SELECT t.chat_id, group_concat(t.message_id) {_build_facet_clause(facet)} AND {one_of} GROUP BY t.chat_id "
        f"UNION ALL SELECT t.chat_id, group_concat(m.message_id) {_build_facet_clause(facet, _JOIN_ALBUM)} "
        f"AND {one_of} "
        "AND t.album IS NOT NULL GROUP BY t.chat_id",
        (json.dumps([*channels]), json.dumps([*values])) * 2,
    )
    ids_by_chat: dict[int, list[str]] = {}
    for chat_id, listed in rows:  # a row for each post would take twice as long
        ids_by_chat.setdefault(chat_id, []).append(listed)
    return PostKeySet(
        {chat: np.unique(np.fromstring(",".join(ids), np.int64, sep=",")) for chat, ids in ids_by_chat.items()}
    )


_POSTS_PER_CHANNEL = 5  # newest posts of a channel that are read
_CHARS_PER_POST = 120  # first characters of each


async def detect_channel_languages(archive: Archive, channels: Collection[int]) -> frozenset[str]:
    """Detect the languages of channels from their newest posts: "ru", "en", both or none.

    100 channels: 50 ms beside other work. Raises ArchiveUnavailable.
    """
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
    rows = await archive.rows(
        "SELECT stamp, text FROM post_versions WHERE chat_id = ? AND message_id = ? "
        "ORDER BY stamp DESC, update_id DESC",
        key,
    )
    return [PostVersion(from_unix_seconds(row["stamp"]), row["text"]) for row in rows]


async def list_newest_ids(archive: Archive, chat_id: int, limit: int) -> list[int]:
    """List the ids of the newest living posts of a channel."""
    sql = "SELECT message_id FROM posts WHERE chat_id = ? AND deleted_at IS NULL ORDER BY message_id DESC LIMIT ?"
    return await archive.column(sql, (chat_id, limit))


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
    which = "chat_id NOT IN (SELECT chat_id FROM channels WHERE state IN ('pending', 'removed'))"
    sql = f"SELECT count(*) FROM posts WHERE deleted_at IS NULL AND ({which} OR chat_id = ?1) "
    return int(await archive.value(f"{sql} AND (?1 IS NULL OR chat_id = ?1)", (chat_id,)))
