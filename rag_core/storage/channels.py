"""Channels: titles, visibility, bindings to groups, group rules, status figures, quota of unapproved channels.

Anybody may add the bot to a channel and post there without end. Posts over the quota of a channel that no admin
approved are dropped, and the first such date is kept in the channel's row, so that its approval can note a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import aiosqlite

from rag_core.storage.db import Archive
from rag_core.storage.posts import mark_posts_changed
from rag_core.storage.rows import from_unix_seconds, get_unix_time, to_unix_seconds
from rag_core.types import Channel, PostKey, Visibility

__all__ = [
    "UNAPPROVED_STATES",
    "ChannelStatus",
    "Connection",
    "GroupRules",
    "allow_guarded_posts",
    "bind_channel",
    "count_unapproved_channels",
    "drop_posts_over_quota",
    "fetch_channel_status",
    "find_known_and_unapproved",
    "get_first_channel_date",
    "is_approval_queue_full",
    "list_bound_channels",
    "list_bound_groups",
    "list_unapproved_channels",
    "load_channels",
    "load_group_rules",
    "measure_channel_content",
    "move_group",
    "note_dropped_posts_gap",
    "record_bot_heard",
    "record_bot_joined",
    "record_bot_left",
    "reindex_retitled_channels",
    "save_channel",
    "save_channel_in_transaction",
    "save_group_rules",
    "set_channel_bindable",
    "set_channel_state",
    "set_channel_visibility",
    "unbind_channel",
]


@dataclass(frozen=True, slots=True)
class GroupRules:
    """cited_only: refuse where an answer is not sure. admins_ask: nobody else may ask here.

    lang: "ru" or "en", spoken by the bot to everybody; "" for each in their own language.
    """

    cited_only: bool = False
    admins_ask: bool = False
    lang: str = ""


async def load_group_rules(archive: Archive, group_id: int) -> GroupRules:
    """The rules of a group; where nobody chose any, those that a group begins with."""
    rows = await archive.rows("SELECT * FROM group_rules WHERE group_id = ?", (group_id,))
    return (
        GroupRules(bool(rows[0]["cited_only"]), bool(rows[0]["admins_ask"]), rows[0]["lang"]) if rows else GroupRules()
    )


async def save_group_rules(archive: Archive, group_id: int, rules: GroupRules) -> None:
    """Keep the rules of a group in place of earlier ones."""
    async with archive.writing() as connection:
        sql = "INSERT OR REPLACE INTO group_rules (group_id, cited_only, admins_ask, lang) VALUES (?, ?, ?, ?)"
        await connection.execute(sql, (group_id, rules.cited_only, rules.admins_ask, rules.lang))


async def move_group(archive: Archive, old: int, new: int) -> None:
    """A group has another id: what was bound and chosen there moves along."""
    async with archive.writing() as connection:
        for table in ("bindings", "group_rules"):
            await connection.execute(f"UPDATE OR IGNORE {table} SET group_id = ? WHERE group_id = ?", (new, old))
            await connection.execute(f"DELETE FROM {table} WHERE group_id = ?", (old,))


_COUNT_POSTS_SQL = (
    "SELECT count(*) AS posts, max(date) AS last, count(guarded) AS guarded FROM posts "
    "WHERE chat_id = ? AND deleted_at IS NULL"
)
# The plus keeps SQLite on the index of changes, of which there are few, and away from the channel's posts.
_CHANGED_POSTS_SQL = "SELECT message_id FROM posts WHERE seq > ? AND +chat_id = ?"


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """A channel in numbers: living posts, the protected and paid ones among them, the date of the newest.

    `lexical` and `dense` are changes that leg has not taken in; `dense` is None where there is no such leg.
    `left`: the bot was in the channel once.
    """

    posts: int
    guarded: int
    last: datetime | None
    lexical: int
    dense: int | None
    left: bool


async def fetch_channel_status(archive: Archive, chat_id: int, watermark: int, store: str | None) -> ChannelStatus:
    """How a channel stands. `watermark` is the lexical leg's; `store` the identity of the dense leg's vectors."""
    ((count, last, guarded),) = await archive.rows(_COUNT_POSTS_SQL, (chat_id,))
    ((lexical,),) = await archive.rows(f"SELECT count(*) FROM ({_CHANGED_POSTS_SQL})", (watermark, chat_id))
    gone = await archive.rows("SELECT 1 FROM channels WHERE chat_id = ? AND left_at IS NOT NULL", (chat_id,))
    dense = None if store is None else await _count_dense_backlog(archive, chat_id, store)
    return ChannelStatus(count, guarded, None if last is None else from_unix_seconds(last), lexical, dense, bool(gone))


async def _count_dense_backlog(archive: Archive, chat_id: int, store: str) -> int:
    rows = await archive.rows("SELECT watermark FROM dense WHERE identity = ?", (store,))
    mark = rows[0][0] if rows else 0
    queued = "SELECT message_id FROM to_embed WHERE chat_id = ? UNION " if rows else ""
    values = (chat_id, mark, chat_id) if rows else (mark, chat_id)
    ((number,),) = await archive.rows(f"SELECT count(*) FROM ({queued}{_CHANGED_POSTS_SQL})", values)
    return int(number)


async def list_unapproved_channels(archive: Archive, since: datetime) -> list[int]:
    """Channels that have waited for an admin since before this moment, or that were removed before it."""
    sql = "SELECT chat_id FROM channels WHERE state IN ('pending', 'removed') AND added_at < ?"
    return [row[0] for row in await archive.rows(sql, (to_unix_seconds(since),))]


Connection = aiosqlite.Connection
# States of channels that nobody approved; their posts are in no index (units.py).
UNAPPROVED_STATES = ("pending", "removed")

_IS_UNAPPROVED_SQL = "state IN ('pending', 'removed')"
_CONTENT_BYTES_SQL = "coalesce(sum(length(CAST(text AS BLOB)) + length(CAST(entities AS BLOB))), 0)"


async def find_known_and_unapproved(
    connection: aiosqlite.Connection, chat_ids: Iterable[int]
) -> tuple[set[int], set[int]]:
    """Of these chats those that are known, and those of the known that nobody approved."""
    known, waiting = set(), set()
    for chat_id in chat_ids:
        sql = f"SELECT {_IS_UNAPPROVED_SQL} FROM channels WHERE chat_id = ?"
        for (unapproved,) in await connection.execute_fetchall(sql, (chat_id,)):
            known.add(chat_id)
            if unapproved:
                waiting.add(chat_id)
    return known, waiting


async def count_unapproved_channels(connection: aiosqlite.Connection) -> int:
    """How many channels wait for an admin."""
    ((number,),) = await connection.execute_fetchall(f"SELECT count(*) FROM channels WHERE {_IS_UNAPPROVED_SQL}")
    return int(number)


async def measure_channel_content(connection: aiosqlite.Connection, chat_id: int) -> tuple[int, int]:
    """How many versions of posts a channel has, and how many bytes; of a removed channel only what came since."""
    living = "FROM posts AS p WHERE p.chat_id = ?1 AND p.deleted_at IS NULL"
    rows = await connection.execute_fetchall(
        f"SELECT count(*), {_CONTENT_BYTES_SQL} FROM posts WHERE chat_id = ?1 AND deleted_at IS NULL UNION ALL "
        f"SELECT count(*), {_CONTENT_BYTES_SQL} FROM post_versions WHERE chat_id = ?1 "
        f"AND message_id IN (SELECT p.message_id {living})",
        (chat_id,),
    )
    return sum(row[0] for row in rows), sum(row[1] for row in rows)


async def drop_posts_over_quota(connection: aiosqlite.Connection, dropped: Mapping[PostKey, int]) -> None:
    """Note that posts were not kept, each with its date in Unix seconds.

    What was kept of a post that is dropped in a newer version goes for good: it would be shown as if it said that now.
    """
    await connection.executemany(
        "DELETE FROM posts WHERE chat_id = ? AND message_id = ? AND deleted_at IS NULL", [tuple(key) for key in dropped]
    )
    await connection.executemany(
        "UPDATE channels SET dropped_since = min(coalesce(dropped_since, ?1), ?1) WHERE chat_id = ?2",
        [(date, key.chat_id) for key, date in dropped.items()],
    )


async def note_dropped_posts_gap(connection: aiosqlite.Connection, chat_id: int) -> None:
    """The channel is approved: from the first dropped post until now posts may be missing."""
    await connection.execute(
        "INSERT INTO gaps (chat_id, since, until, noted_at) SELECT chat_id, dropped_since, ?1, ?1 FROM channels "
        "WHERE chat_id = ?2 AND dropped_since < ?1",
        (get_unix_time(), chat_id),
    )
    await connection.execute("UPDATE channels SET dropped_since = NULL WHERE chat_id = ?", (chat_id,))


async def is_approval_queue_full(archive: Archive, most: int) -> bool:
    """Whether as many channels as may wait for an admin do."""
    rows = await archive.rows(f"SELECT count(*) >= ? FROM channels WHERE {_IS_UNAPPROVED_SQL}", (most,))
    return bool(rows[0][0])


async def save_channel(archive: Archive, channel: Channel) -> None:
    """Make a channel known, or its new title, username and kind; who may read it changes only by itself."""
    async with archive.writing() as connection:
        await save_channel_in_transaction(connection, channel)


async def save_channel_in_transaction(
    connection: aiosqlite.Connection, channel: Channel, update_id: int | None = None
) -> None:
    """`put` inside the caller's transaction; what an older update than the last one says of it is no news."""
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
    """Say who may read a known channel. Where that changes, groups that bound it by themselves may no longer."""
    async with archive.writing() as connection:
        sql = "UPDATE channels SET bindable = bindable AND visibility = ?1, visibility = ?1 WHERE chat_id = ?2"
        await connection.execute(sql, (visibility.value, chat_id))


async def set_channel_state(archive: Archive, chat_id: int, state: str) -> None:
    """Say whether a known channel is read: "active", "pending" (waits for approval) or "paused".

    With its approval, and where that is taken back, the indexes look again at all its posts.
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


async def reindex_retitled_channels(archive: Archive) -> int:
    """Let the indexes look again at the posts of channels with a new title, with which they are indexed, and of
    channels whose approval changed. Returns how many posts.

    `retitled` counts such changes: one that comes meanwhile is not taken for done.
    """
    touched = 0
    for row in await archive.rows("SELECT chat_id, retitled FROM channels WHERE retitled"):
        touched += await mark_posts_changed(archive, row["chat_id"])
        async with archive.writing() as connection:
            sql = "UPDATE channels SET retitled = 0 WHERE chat_id = ? AND retitled = ?"
            await connection.execute(sql, (row["chat_id"], row["retitled"]))
    return touched


async def record_bot_joined(archive: Archive, chat_id: int) -> None:
    """The bot came into a known channel, or came back."""
    async with archive.writing() as connection:
        sql = "UPDATE channels SET joined_at = ?, left_at = NULL WHERE chat_id = ?"
        await connection.execute(sql, (get_unix_time(), chat_id))


async def record_bot_heard(connection: aiosqlite.Connection, chat_ids: Iterable[int]) -> None:
    """Posts came from these known channels: the bot is in, also where nobody told us that it came."""
    sql = "UPDATE channels SET joined_at = ? WHERE chat_id = ? AND joined_at IS NULL"
    await connection.executemany(sql, [(get_unix_time(), chat_id) for chat_id in chat_ids])


async def record_bot_left(archive: Archive, chat_id: int) -> None:
    """The bot is no longer in a known channel."""
    async with archive.writing() as connection:
        await connection.execute("UPDATE channels SET left_at = ? WHERE chat_id = ?", (get_unix_time(), chat_id))


async def allow_guarded_posts(archive: Archive, chat_id: int, allowed: bool) -> None:
    """Let the protected and paid posts of a known channel be found, or no longer."""
    async with archive.writing() as connection:
        await connection.execute("UPDATE channels SET guarded_too = ? WHERE chat_id = ?", (allowed, chat_id))
    await mark_posts_changed(archive, chat_id, guarded=True)


async def load_channels(archive: Archive) -> dict[int, Channel]:
    """chat_id -> channel, all of them."""
    rows = await archive.rows(
        "SELECT *, joined_at IS NOT NULL AND left_at IS NULL AS inside FROM channels ORDER BY chat_id"
    )
    return {
        row["chat_id"]: Channel(
            row["chat_id"],
            row["title"],
            row["username"],
            row["kind"],
            Visibility(row["visibility"]),
            row["state"],
            bool(row["inside"]),
            bool(row["guarded_too"]),
            bool(row["bindable"]),
        )
        for row in rows
    }


async def get_first_channel_date(archive: Archive) -> datetime | None:
    """When the first channel became known; None where there is none."""
    ((first,),) = await archive.rows("SELECT min(added_at) FROM channels")
    return None if first is None else from_unix_seconds(first)


async def set_channel_bindable(archive: Archive, chat_id: int, allowed: bool) -> None:
    """Let the admins of groups bind a known channel that is not public, or no longer: such bindings end with it."""
    async with archive.writing() as connection:
        await connection.execute("UPDATE channels SET bindable = ? WHERE chat_id = ?", (allowed, chat_id))


async def bind_channel(archive: Archive, group_id: int, chat_id: int, *, own: bool = False) -> None:
    """Let a group see a known channel; `own`: its own admins say so, which counts only as long as they may."""
    async with archive.writing() as connection:
        sql = (
            "INSERT INTO bindings (group_id, chat_id, own) VALUES (?, ?, ?) "
            "ON CONFLICT (group_id, chat_id) DO UPDATE SET own = min(own, excluded.own)"
        )
        await connection.execute(sql, (group_id, chat_id, own))


async def unbind_channel(archive: Archive, group_id: int, chat_id: int) -> None:
    """Let a group no longer see a channel."""
    async with archive.writing() as connection:
        await connection.execute("DELETE FROM bindings WHERE group_id = ? AND chat_id = ?", (group_id, chat_id))


async def list_bound_groups(archive: Archive) -> list[int]:
    """The groups that any channel is bound to."""
    return [row[0] for row in await archive.rows("SELECT DISTINCT group_id FROM bindings ORDER BY group_id")]


async def list_bound_channels(archive: Archive, group_id: int) -> frozenset[int]:
    """The channels a group may see. What its own admins bound is closed with the channel."""
    sql = (
        "SELECT chat_id FROM bindings JOIN channels USING (chat_id) "
        "WHERE group_id = ? AND (NOT own OR visibility = 'public' OR bindable)"
    )
    return frozenset(row[0] for row in await archive.rows(sql, (group_id,)))
