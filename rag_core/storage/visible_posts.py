"""Visible posts: read as they may be shown, albums as one post; the texts, dates and numbers of those of a channel.

Not visible are the deleted, those suspected to be deleted, members of an album that another post stands for, guarded
posts (protected, paid) unless an admin allows them, and posts of channels that no admin approved: a person who adds
the bot to a channel must not change what is found in others.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, TypeVar

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import (
    JOIN_BY_KEY,
    POST_FIELDS,
    VISIBLE_POSTS,
    WITH_TEXT,
    decode_post,
    encode_keys,
    from_unix_time,
    join_media_text,
    merge_album,
    to_unix_time,
)
from rag_core.text.post_text import split_off_spoilers
from rag_core.types import Channel, Post, PostKey, Visibility

SHOWN_COLUMN = f"({VISIBLE_POSTS}) AS shown"
_AlbumKey = tuple[int, str]
T = TypeVar("T")


def _read_visible(
    connection: sqlite3.Connection, which: str, order: str, most: int, values: Sequence[object]
) -> list[Post]:
    sql = f"SELECT {POST_FIELDS} FROM posts AS t WHERE {which} AND {VISIBLE_POSTS} ORDER BY {order} LIMIT ?"
    return [join_media_text(decode_post(row)) for row in connection.execute(sql, (*values, most))]


async def _list_visible(archive: Archive, which: str, order: str, most: int, values: Sequence[object]) -> list[Post]:
    return await archive.read(lambda connection: _read_visible(connection, which, order, most, values))


async def summarize_latest_texts(
    archive: Archive, chats: Sequence[int], most: int, summarize: Callable[[list[str]], T]
) -> dict[int, T]:
    """Summarize, in the reader's thread, the latest visible texts of each channel, newest first, without spoilers."""

    def read(connection: sqlite3.Connection) -> dict[int, T]:
        texts: dict[int, list[str]] = {}
        for chat in chats:
            latest = _read_visible(connection, "t.chat_id = ?", "t.message_id DESC", most, (chat,))
            texts[chat] = [split_off_spoilers(post.text, post.entities)[0] for post in latest]
        return {chat: summarize(of) for chat, of in texts.items()}

    return await archive.read(read)


async def list_latest_posts(archive: Archive, chat_id: int, most: int) -> list[Post]:
    """List the latest visible posts of a channel, the newest first; an album as one post."""
    latest = await _list_visible(archive, "t.chat_id = ?", "t.message_id DESC", most, (chat_id,))
    found = await fetch_posts(archive, (post.key for post in latest))
    return sorted(found.values(), key=lambda post: post.key, reverse=True)


async def list_first_posts(archive: Archive, channel: int, most: int) -> list[Post]:
    """List the first visible posts of a channel that have a text, oldest first."""
    return await _list_visible(archive, f"t.chat_id = ? AND {WITH_TEXT}", "t.date, t.message_id", most, (channel,))


async def list_posts_between(
    archive: Archive, channels: Collection[int], since: datetime, until: datetime, most: int
) -> list[Post]:
    """List the newest visible posts of channels from `since` until before `until`, oldest first; of albums captions."""
    which = f"t.chat_id IN (SELECT value FROM json_each(?)) AND t.date >= ? AND t.date < ? AND {WITH_TEXT}"
    values = (json.dumps([*channels]), to_unix_time(since), to_unix_time(until))
    newest = await _list_visible(archive, which, "t.date DESC, t.chat_id, t.message_id DESC", most, values)
    return newest[::-1]


@dataclass(frozen=True, slots=True)
class PostSpan:
    """Number of a channel's visible posts, the dates of the first and last, and the number in the last 28 days."""

    posts: int
    first: datetime
    last: datetime
    recent: int


async def fetch_post_span(archive: Archive, chat_id: int) -> PostSpan | None:
    """Fetch the span of a channel's visible posts; None where it has none."""
    ((number, first, last, recent),) = await archive.rows(
        f"WITH shown AS (SELECT t.date FROM posts AS t WHERE t.chat_id = ? AND {VISIBLE_POSTS}) "
        "SELECT count(*), min(date), max(date), "
        "count(*) FILTER (WHERE date > (SELECT max(date) FROM shown) - 28 * 86400) FROM shown",
        (chat_id,),
    )
    return PostSpan(number, from_unix_time(first), from_unix_time(last), recent) if number else None


async def count_searched_posts(archive: Archive, chat_id: int) -> int:
    """Count a channel's visible posts that have words, in a text or a file's name; an album is one."""
    sql = f"SELECT count(DISTINCT coalesce(album, message_id)) FROM posts AS t WHERE t.chat_id = ? AND {VISIBLE_POSTS}"
    return int(await archive.value(f"{sql} AND ({WITH_TEXT} OR media_file_name <> '')", (chat_id,)))


async def fetch_posts(archive: Archive, keys: Iterable[PostKey]) -> dict[PostKey, Post]:
    """Fetch the visible posts among the keys; an album as one post under its own key (see `merge_album`)."""
    wanted = list(dict.fromkeys(keys))
    return await archive.read(partial(read_posts, keys=wanted)) if wanted else {}


async def load_posts_and_channels(
    archive: Archive, keys: Iterable[PostKey]
) -> tuple[dict[PostKey, Post], dict[int, Channel]]:
    """Load in one read the posts of `fetch_posts` and all channels by chat id."""
    wanted = list(dict.fromkeys(keys))
    return await archive.read(lambda connection: (read_posts(connection, wanted), read_channels(connection)))


def read_posts(connection: sqlite3.Connection, keys: Sequence[PostKey]) -> dict[PostKey, Post]:
    """Read the posts of `fetch_posts`, each key once; for `Archive.read`."""
    sql = f"SELECT {POST_FIELDS} {JOIN_BY_KEY.format(table='posts')} WHERE {VISIBLE_POSTS}"
    posts = [decode_post(row) for row in connection.execute(sql, (encode_keys(keys),))]
    single = {post.key: join_media_text(post) for post in posts if not post.album}
    if len(single) == len(posts):
        return single
    albums = read_albums(connection, {(post.key.chat_id, post.album) for post in posts if post.album})
    merged = {album.key: album for album, _ in albums.values() if album}
    return single | {key: merged[key] for key in keys if key in merged}


def read_albums(
    connection: sqlite3.Connection, which: Collection[_AlbumKey]
) -> dict[_AlbumKey, tuple[Post | None, list[PostKey]]]:
    """Read albums: (chat id, album) -> the merged post, None if no member is visible, and the keys of all members."""
    rows = connection.execute(
        f"SELECT {POST_FIELDS}, {SHOWN_COLUMN} FROM json_each(?) AS k CROSS JOIN posts AS t "
        "ON t.chat_id = json_extract(k.value, '$[0]') AND t.album = json_extract(k.value, '$[1]') "
        "ORDER BY t.chat_id, t.message_id",
        (json.dumps(list(which)),),
    )
    members: dict[_AlbumKey, list[sqlite3.Row]] = {}
    for row in rows:
        members.setdefault((row["chat_id"], row["album"]), []).append(row)
    albums: dict[_AlbumKey, tuple[Post | None, list[PostKey]]] = {}
    for album, group in members.items():
        shown = [decode_post(row) for row in group if row["shown"]]
        merged = join_media_text(merge_album(shown)) if shown else None
        albums[album] = merged, [PostKey(row["chat_id"], row["message_id"]) for row in group]
    return albums


async def fetch_replied_texts(archive: Archive, keys: Iterable[PostKey]) -> dict[PostKey, str]:
    """Fetch the texts that posts reply to, where visible: key of the reply -> text of its parent."""
    replies = list(keys)
    return await archive.read(partial(read_replied_texts, keys=replies)) if replies else {}


def read_replied_texts(connection: sqlite3.Connection, keys: Sequence[PostKey]) -> dict[PostKey, str]:
    """Read the texts of `fetch_replied_texts`; for `Archive.read`."""
    rows = connection.execute(
        "SELECT r.chat_id, r.message_id, t.text FROM json_each(?) AS k CROSS JOIN posts AS r "
        "ON r.chat_id = json_extract(k.value, '$[0]') AND r.message_id = json_extract(k.value, '$[1]') "
        f"JOIN posts AS t ON t.chat_id = r.chat_id AND t.message_id = r.reply_to WHERE {VISIBLE_POSTS}",
        (encode_keys(keys),),
    )
    return {PostKey(chat_id, message_id): text for chat_id, message_id, text in rows}


def read_channels(connection: sqlite3.Connection) -> dict[int, Channel]:
    """Read all channels by chat id; for `Archive.read`."""
    rows = connection.execute(
        "SELECT chat_id, title, username, kind, visibility, state, joined_at IS NOT NULL AND left_at IS NULL, "
        "guarded_too, bindable FROM channels ORDER BY chat_id"
    )
    known = {row[0]: _decode_channel(tuple(row)) for row in rows}
    topics: dict[int, dict[int, str]] = {}
    for chat_id, topic, title in connection.execute("SELECT chat_id, topic, title FROM topics"):
        topics.setdefault(chat_id, {})[topic] = title
    return known | {chat: replace(known[chat], topics=titles) for chat, titles in topics.items() if chat in known}


@lru_cache(maxsize=10_000)  # a question reads them several times, and they change seldom
def _decode_channel(row: tuple[Any, ...]) -> Channel:
    chat_id, title, username, kind, visibility, state, inside, guarded_too, bindable = row
    return Channel(
        chat_id, title, username, kind, Visibility(visibility), state, bool(inside), bool(guarded_too), bool(bindable)
    )
