"""Channels: titles, visibility, approval, membership of the bot, status figures; lookup by what people call one."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import aiosqlite

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import from_unix_seconds, get_unix_time
from rag_core.storage.posts import mark_posts_changed
from rag_core.storage.unapproved_channels import UNAPPROVED_STATES, note_dropped_posts_gap
from rag_core.types import Channel, Visibility

# The unary plus makes SQLite use the index on `seq`, which selects few rows, instead of reading the channel's posts.
_CHANGED_POSTS_SQL = "SELECT message_id FROM posts WHERE seq > ?1 AND +chat_id = ?2"


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """Status figures of a channel: living posts, the guarded (protected or paid) ones, the date of the newest.

    `lexical` and `dense` count changes that the index has not processed; `dense` is None without a vector index.
    `left`: the bot was in the channel and left it.
    """

    posts: int
    guarded: int
    last: datetime | None
    lexical: int
    dense: int | None
    left: bool


async def fetch_channel_status(archive: Archive, chat_id: int, watermark: int, store: str | None) -> ChannelStatus:
    """Fetch the status of a channel. `watermark` is the lexical index's; `store` the identity of the vector store."""
    ((count, last, guarded),) = await archive.rows(
        "SELECT count(*), max(date), count(guarded) FROM posts WHERE chat_id = ? AND deleted_at IS NULL", (chat_id,)
    )
    lexical = await archive.value(f"SELECT count(*) FROM ({_CHANGED_POSTS_SQL})", (watermark, chat_id))
    left = await archive.value("SELECT left_at IS NOT NULL FROM channels WHERE chat_id = ?", (chat_id,))
    dense = None
    if store is not None:
        mark = await archive.value("SELECT watermark FROM dense WHERE identity = ?", (store,))
        queued = "SELECT message_id FROM to_embed WHERE chat_id = ?2 AND ?3 IS NOT NULL"
        changed = f"SELECT count(*) FROM ({_CHANGED_POSTS_SQL} UNION {queued})"
        dense = await archive.value(changed, (mark or 0, chat_id, mark))
    return ChannelStatus(count, guarded, None if last is None else from_unix_seconds(last), lexical, dense, bool(left))


async def save_channel(archive: Archive, channel: Channel) -> None:
    """Save a new channel, or the new title, username and kind of a known one; its visibility is not changed."""
    async with archive.writing() as connection:
        await save_channel_in_transaction(connection, channel)


async def save_channel_in_transaction(
    connection: aiosqlite.Connection, channel: Channel, update_id: int | None = None
) -> None:
    """Save a channel inside the caller's transaction; an update older than the last one is ignored."""
    await connection.execute(
        "INSERT INTO channels (chat_id, title, username, kind, visibility, state, added_at, named_by) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, coalesce(?8, 0)) ON CONFLICT (chat_id) DO UPDATE SET "
        "retitled = retitled + (title IS NOT excluded.title), title = excluded.title, "
        "username = excluded.username, kind = excluded.kind, named_by = max(named_by, excluded.named_by) "
        "WHERE ?8 IS NULL OR ?8 >= named_by",
        (
            channel.chat_id,
            channel.title,
            channel.username,
            channel.kind,
            channel.visibility.value,
            channel.state,
            get_unix_time(),
            update_id,
        ),
    )


async def set_channel_visibility(archive: Archive, chat_id: int, visibility: Visibility) -> None:
    """Set who may read a known channel; a change ends the permission of group admins to bind it."""
    sql = "UPDATE channels SET bindable = bindable AND visibility = ?1, visibility = ?1 WHERE chat_id = ?2"
    await archive.execute(sql, (visibility.value, chat_id))


async def set_channel_state(archive: Archive, chat_id: int, state: str) -> None:
    """Set the state of a known channel: "active", "pending" (waits for approval) or "paused".

    When it is approved, or its approval is withdrawn, the indexes read all its posts again.
    """
    async with archive.writing() as connection:
        await connection.execute(
            "UPDATE channels SET retitled = retitled + ((state IN (?1, ?2)) IS NOT (?3 IN (?1, ?2))), state = ?3 "
            "WHERE chat_id = ?4",
            (*UNAPPROVED_STATES, state, chat_id),
        )
        if state not in UNAPPROVED_STATES:
            await note_dropped_posts_gap(connection, chat_id)
    await reindex_retitled_channels(archive)


async def reindex_retitled_channels(archive: Archive) -> None:
    """Make the indexes read the posts of channels again whose title, which is indexed, or approval changed.

    `retitled` counts such changes, so that one that comes meanwhile is not lost.
    """
    for row in await archive.rows("SELECT chat_id, retitled FROM channels WHERE retitled"):
        await mark_posts_changed(archive, row["chat_id"])
        sql = "UPDATE channels SET retitled = 0 WHERE chat_id = ? AND retitled = ?"
        await archive.execute(sql, (row["chat_id"], row["retitled"]))


async def record_bot_joined(archive: Archive, chat_id: int) -> None:
    """Record that the bot joined a known channel, for the first time or again."""
    sql = "UPDATE channels SET joined_at = ?, left_at = NULL WHERE chat_id = ?"
    await archive.execute(sql, (get_unix_time(), chat_id))


async def record_bot_heard(connection: aiosqlite.Connection, chat_ids: Iterable[int]) -> None:
    """Record posts from known channels: the bot is a member, also if no update said that it joined."""
    sql = "UPDATE channels SET joined_at = ? WHERE chat_id = ? AND joined_at IS NULL"
    await connection.executemany(sql, [(get_unix_time(), chat_id) for chat_id in chat_ids])


async def record_bot_left(archive: Archive, chat_id: int) -> None:
    """Record that the bot left a known channel."""
    await archive.execute("UPDATE channels SET left_at = ? WHERE chat_id = ?", (get_unix_time(), chat_id))


async def allow_guarded_posts(archive: Archive, chat_id: int, allowed: bool) -> None:
    """Allow the protected and paid posts of a known channel to be found, or no longer."""
    await archive.execute("UPDATE channels SET guarded_too = ? WHERE chat_id = ?", (allowed, chat_id))
    await mark_posts_changed(archive, chat_id, guarded=True)


async def load_channels(archive: Archive) -> dict[int, Channel]:
    """Load all channels by chat id."""
    return await archive.read(read_channels)


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


_CHANNEL_LINK_PATTERN = re.compile(r"(?:(?:https?://)?t\.me/|@)(?P<name>\w+)/?")


def find_channel(said: str, known: Mapping[int, Channel]) -> Channel | None:
    """Find a channel by @username, t.me link, id, bare username or exact title; None if several could be meant."""
    said = said.strip().casefold()
    usernames = {chat: (channel.username or "").casefold() for chat, channel in known.items()}
    if link := _CHANNEL_LINK_PATTERN.fullmatch(said):  # never a title: its channel chooses it
        return next((channel for chat, channel in known.items() if usernames[chat] == link["name"]), None)
    if re.fullmatch(r"-?\d{1,20}", said):
        by_id = known.get(int(said)) or known.get(int(f"-100{said.lstrip('-')}"))
        if by_id:
            return by_id
    named = [channel for chat, channel in known.items() if said and said in (usernames[chat], channel.title.casefold())]
    return named[0] if len(named) == 1 else None


@lru_cache(maxsize=10_000)  # a question reads them several times, and they change seldom
def _decode_channel(row: tuple[Any, ...]) -> Channel:
    chat_id, title, username, kind, visibility, state, inside, guarded_too, bindable = row
    return Channel(
        chat_id, title, username, kind, Visibility(visibility), state, bool(inside), bool(guarded_too), bool(bindable)
    )


async def get_first_channel_date(archive: Archive) -> datetime | None:
    """Time when the first channel was added; None if there is none."""
    first = await archive.value("SELECT min(added_at) FROM channels")
    return None if first is None else from_unix_seconds(first)
