"""Channels: what they are called, who may read them, and the groups they are bound to."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import aiosqlite

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import from_seconds, now
from rag_core.doors.archive.tombstones import touch
from rag_core.doors.archive.unapproved import UNAPPROVED, note_gap
from rag_core.types import Channel, Visibility

__all__ = [
    "bind",
    "binding",
    "bound",
    "heard_in",
    "joined",
    "known",
    "left",
    "put",
    "put_in",
    "retitle",
    "set_bindable",
    "set_guarded_too",
    "set_state",
    "set_visibility",
    "since",
    "unbind",
]


async def put(archive: Archive, channel: Channel) -> None:
    """Make a channel known, or its new title, username and kind; who may read it changes only by itself."""
    async with archive.writing() as connection:
        await put_in(connection, channel)


async def put_in(connection: aiosqlite.Connection, channel: Channel, update_id: int | None = None) -> None:
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
            now(),
            update_id,
        ),
    )


async def set_visibility(archive: Archive, chat_id: int, visibility: Visibility) -> None:
    """Say who may read a known channel. Where that changes, groups that bound it by themselves may no longer."""
    async with archive.writing() as connection:
        sql = "UPDATE channels SET bindable = bindable AND visibility = ?1, visibility = ?1 WHERE chat_id = ?2"
        await connection.execute(sql, (visibility.value, chat_id))


async def set_state(archive: Archive, chat_id: int, state: str) -> None:
    """Say whether a known channel is read: "active", "pending" (waits for approval) or "paused".

    With its approval, and where that is taken back, the indexes look again at all its posts.
    """
    async with archive.writing() as connection:
        await connection.execute(
            "UPDATE channels SET retitled = retitled + ((state IN (?1, ?2)) IS NOT (?3 IN (?1, ?2))), state = ?3 "
            "WHERE chat_id = ?4",
            (*UNAPPROVED, state, chat_id),
        )
        if state not in UNAPPROVED:
            await note_gap(connection, chat_id)
    await retitle(archive)


async def retitle(archive: Archive) -> int:
    """Let the indexes look again at the posts of channels with a new title, with which they are indexed, and of
    channels whose approval changed. Returns how many posts.

    `retitled` counts such changes: one that comes meanwhile is not taken for done.
    """
    touched = 0
    for row in await archive.rows("SELECT chat_id, retitled FROM channels WHERE retitled"):
        touched += await touch(archive, row["chat_id"])
        async with archive.writing() as connection:
            sql = "UPDATE channels SET retitled = 0 WHERE chat_id = ? AND retitled = ?"
            await connection.execute(sql, (row["chat_id"], row["retitled"]))
    return touched


async def joined(archive: Archive, chat_id: int) -> None:
    """The bot came into a known channel, or came back."""
    async with archive.writing() as connection:
        sql = "UPDATE channels SET joined_at = ?, left_at = NULL WHERE chat_id = ?"
        await connection.execute(sql, (now(), chat_id))


async def heard_in(connection: aiosqlite.Connection, chat_ids: Iterable[int]) -> None:
    """Posts came from these known channels: the bot is in, also where nobody told us that it came."""
    sql = "UPDATE channels SET joined_at = ? WHERE chat_id = ? AND joined_at IS NULL"
    await connection.executemany(sql, [(now(), chat_id) for chat_id in chat_ids])


async def left(archive: Archive, chat_id: int) -> None:
    """The bot is no longer in a known channel."""
    async with archive.writing() as connection:
        await connection.execute("UPDATE channels SET left_at = ? WHERE chat_id = ?", (now(), chat_id))


async def set_guarded_too(archive: Archive, chat_id: int, allowed: bool) -> None:
    """Let the protected and paid posts of a known channel be found, or no longer."""
    async with archive.writing() as connection:
        await connection.execute("UPDATE channels SET guarded_too = ? WHERE chat_id = ?", (allowed, chat_id))
    await touch(archive, chat_id, guarded=True)


async def known(archive: Archive) -> dict[int, Channel]:
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


async def since(archive: Archive) -> datetime | None:
    """When the first channel became known; None where there is none."""
    ((first,),) = await archive.rows("SELECT min(added_at) FROM channels")
    return None if first is None else from_seconds(first)


async def set_bindable(archive: Archive, chat_id: int, allowed: bool) -> None:
    """Let the admins of groups bind a known channel that is not public, or no longer: such bindings end with it."""
    async with archive.writing() as connection:
        await connection.execute("UPDATE channels SET bindable = ? WHERE chat_id = ?", (allowed, chat_id))


async def bind(archive: Archive, group_id: int, chat_id: int, *, own: bool = False) -> None:
    """Let a group see a known channel; `own`: its own admins say so, which counts only as long as they may."""
    async with archive.writing() as connection:
        sql = (
            "INSERT INTO bindings (group_id, chat_id, own) VALUES (?, ?, ?) "
            "ON CONFLICT (group_id, chat_id) DO UPDATE SET own = min(own, excluded.own)"
        )
        await connection.execute(sql, (group_id, chat_id, own))


async def unbind(archive: Archive, group_id: int, chat_id: int) -> None:
    """Let a group no longer see a channel."""
    async with archive.writing() as connection:
        await connection.execute("DELETE FROM bindings WHERE group_id = ? AND chat_id = ?", (group_id, chat_id))


async def binding(archive: Archive) -> list[int]:
    """The groups that any channel is bound to."""
    return [row[0] for row in await archive.rows("SELECT DISTINCT group_id FROM bindings ORDER BY group_id")]


async def bound(archive: Archive, group_id: int) -> frozenset[int]:
    """The channels a group may see. What its own admins bound is closed with the channel."""
    sql = (
        "SELECT chat_id FROM bindings JOIN channels USING (chat_id) "
        "WHERE group_id = ? AND (NOT own OR visibility = 'public' OR bindable)"
    )
    return frozenset(row[0] for row in await archive.rows(sql, (group_id,)))
