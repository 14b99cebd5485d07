"""Subscriptions of chats: watches, with the posts that matched and what was told of them, and digests.

A hit is written in the transaction that moves the watermark of matching, and marked after it was sent: a process that
dies in between sends it again, and loses none. Hits hold no words of posts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import decode_row, encode_row, get_unix_time, to_unix_time
from rag_core.types import PostKey

MAX_WATCHES = 20  # a reader, and a group

# "waiting" to be sent; "told"; a copy that "joined" a told one; "closed" to its reader, or gone; "over" the number of a
# day, which one line sums up, and then "listed".
HitState = Literal["waiting", "told", "joined", "closed", "over", "listed"]


@dataclass(frozen=True, slots=True)
class NewWatch:
    """Watch to add: `query` is its text without filters, `channels` those that it names (None: all)."""

    user_id: int
    chat_id: int
    private: bool
    text: str
    query: str
    channels: frozenset[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch(NewWatch):
    """Watch of a chat. `quiet`: the hours "22-8" in which nothing is sent, "" for none."""

    id: int
    made_at: datetime
    paused: bool
    muted_until: int
    quiet: str


@dataclass(frozen=True, slots=True)
class WatchHit:
    """Post that matched a watch."""

    watch_id: int
    key: PostKey
    found_at: int


async def add_watch(archive: Archive, new: NewWatch, made_at: datetime | None = None) -> bool:
    """Add a watch for posts from `made_at` on (None: now); False where the chat has `MAX_WATCHES`."""
    moment = to_unix_time(made_at) if made_at else get_unix_time()
    async with archive.writing() as connection:
        sql = "SELECT text, quiet FROM watches WHERE chat_id = ?"
        rows = list(await connection.execute_fetchall(sql, (new.chat_id,)))
        await connection.execute("UPDATE watches SET blocked_at = NULL WHERE chat_id = ?", (new.chat_id,))
        if any(row[0] == new.text for row in rows):
            return True
        if len(rows) >= MAX_WATCHES:
            return False
        await connection.execute(
            "INSERT INTO watches (user_id, chat_id, private, text, query, channels, made_at, quiet) "
            "VALUES (:user_id, :chat_id, :private, :text, :query, :channels, :made_at, :quiet)",
            {**encode_row(new), "made_at": moment, "quiet": rows[0][1] if rows else ""},
        )
    return True


async def list_watches(archive: Archive, chat_id: int) -> list[Watch]:
    """List the watches of a chat, the oldest first."""
    return decode_watches(await archive.rows("SELECT * FROM watches WHERE chat_id = ? ORDER BY id", (chat_id,)))


async def list_watch_rows(archive: Archive) -> list[sqlite3.Row]:
    """List the watches of all chats that have not blocked the bot, as rows, which compare fast."""
    return await archive.rows("SELECT * FROM watches WHERE blocked_at IS NULL ORDER BY id")


def decode_watches(rows: Iterable[sqlite3.Row]) -> list[Watch]:
    """Decode rows of watches."""
    return [decode_row(Watch, row) for row in rows]


async def delete_watch(archive: Archive, watch_id: int) -> None:
    """Delete a watch and its hits."""
    async with archive.writing() as connection:
        await connection.execute("DELETE FROM watch_hits WHERE watch_id = ?", (watch_id,))
        await connection.execute("DELETE FROM watches WHERE id = ?", (watch_id,))


async def pause_watch(archive: Archive, watch_id: int, *, paused: bool) -> None:
    """Pause a watch or resume it: posts of the time between are not told, nor those that waited to be told."""
    async with archive.writing() as connection:
        await connection.execute("UPDATE watches SET paused = ?, muted_until = 0 WHERE id = ?", (paused, watch_id))
        if paused:
            await connection.execute(_CLOSE_WAITING_SQL, (watch_id,))


async def mute_watch(archive: Archive, watch_id: int, until: int) -> None:
    """Mute a watch until a moment in Unix seconds; posts that waited to be told are not told."""
    async with archive.writing() as connection:
        await connection.execute("UPDATE watches SET muted_until = ? WHERE id = ?", (until, watch_id))
        await connection.execute(_CLOSE_WAITING_SQL, (watch_id,))


_CLOSE_WAITING_SQL = "UPDATE watch_hits SET state = 'closed' WHERE watch_id = ? AND state = 'waiting'"


async def set_quiet_hours(archive: Archive, chat_id: int, quiet: str) -> int:
    """Set the quiet hours of all watches of a chat; returns how many there are."""
    return await archive.execute("UPDATE watches SET quiet = ? WHERE chat_id = ?", (quiet, chat_id))


async def mark_chat_blocked(archive: Archive, chat_id: int, *, blocked: bool) -> None:
    """Pause the watches of a chat that blocked the bot, or resume them when it lets the bot in again."""
    sql = "UPDATE watches SET blocked_at = iif(?, coalesce(blocked_at, ?), NULL) WHERE chat_id = ?"
    await archive.execute(sql, (blocked, get_unix_time(), chat_id))


async def load_watermark(archive: Archive) -> int:
    """Load the sequence number of the last change of a post that was matched."""
    return int(await archive.value("SELECT watermark FROM watching"))


async def save_hits(archive: Archive, hits: Iterable[tuple[int, PostKey]], watermark: int) -> None:
    """Save hits (watch, post) and move the watermark in one transaction; an edit of a known hit is no new one."""
    now = get_unix_time()
    async with archive.writing() as connection:
        await connection.executemany(
            "INSERT OR IGNORE INTO watch_hits SELECT ?1, ?2, ?3, ?4, 'waiting', NULL "
            "WHERE EXISTS (SELECT 1 FROM watches WHERE id = ?1)",
            [(watch_id, *key, now) for watch_id, key in hits],
        )
        await connection.execute("UPDATE watching SET watermark = max(watermark, ?)", (watermark,))


async def list_hits(archive: Archive, watch_id: int, states: Sequence[HitState], since: int = 0) -> list[WatchHit]:
    """List the hits of a watch in these states found since a moment, the oldest first."""
    which = f"watch_id = ? AND found_at >= ? AND state IN ({', '.join('?' * len(states))})"
    sql = f"SELECT chat_id, message_id, found_at FROM watch_hits WHERE {which} ORDER BY found_at, message_id"
    rows = await archive.rows(sql, (watch_id, since, *states))
    return [WatchHit(watch_id, PostKey(chat_id, message_id), found_at) for chat_id, message_id, found_at in rows]


async def is_waiting(archive: Archive, hit: WatchHit) -> bool:
    """Whether a hit still waits to be told: its watch may have been stopped or muted meanwhile."""
    sql = "SELECT 1 FROM watch_hits WHERE watch_id = ? AND chat_id = ? AND message_id = ? AND state = 'waiting'"
    return bool(await archive.value(sql, (hit.watch_id, *hit.key)))


async def list_pending_watches(archive: Archive) -> list[Watch]:
    """List the watches that have something to send, the oldest first, without chats that have blocked the bot."""
    pending = "SELECT watch_id FROM watch_hits WHERE state IN ('waiting', 'over')"
    sql = f"SELECT * FROM watches WHERE blocked_at IS NULL AND id IN ({pending}) ORDER BY id"
    return decode_watches(await archive.rows(sql))


async def mark_hits(archive: Archive, hits: Iterable[WatchHit], state: HitState) -> None:
    """Mark what became of hits."""
    now = get_unix_time()
    sql = "UPDATE watch_hits SET state = ?, done_at = ? WHERE watch_id = ? AND chat_id = ? AND message_id = ?"
    await archive.execute_many(sql, [(state, now, hit.watch_id, *hit.key) for hit in hits])


async def count_told(archive: Archive, chat_id: int, since: int) -> int:
    """Count the notices that a chat got since a moment."""
    which = "state = 'told' AND done_at >= ? AND watch_id IN (SELECT id FROM watches WHERE chat_id = ?)"
    return int(await archive.value(f"SELECT count(*) FROM watch_hits WHERE {which}", (since, chat_id)))


@dataclass(frozen=True, slots=True)
class DigestPlan:
    """Plan of a chat's digests: every `days` days at `hour`, of the posts since the last; `channels` None means all."""

    chat_id: int
    user_id: int
    private: bool
    days: int
    hour: int
    channels: frozenset[int] | None
    lang: str
    since: datetime
    due: datetime


async def save_digest_plan(archive: Archive, plan: DigestPlan) -> None:
    """Save the plan of a chat in place of an earlier one."""
    await archive.save_rows("digests", [encode_row(plan)])


async def fetch_digest_plan(archive: Archive, chat_id: int) -> DigestPlan | None:
    """Fetch the plan of a chat."""
    rows = await archive.rows("SELECT * FROM digests WHERE chat_id = ?", (chat_id,))
    return decode_row(DigestPlan, rows[0]) if rows else None


async def list_due_digests(archive: Archive, now: datetime) -> list[DigestPlan]:
    """List the plans whose next digest is due, or so far ahead that the clock has been put back since."""
    sql = "SELECT * FROM digests WHERE due <= ?1 OR due > ?1 + (days + 2) * 86400 ORDER BY due"
    return [decode_row(DigestPlan, row) for row in await archive.rows(sql, (to_unix_time(now),))]


async def reschedule_digest(archive: Archive, plan: DigestPlan, since: datetime, due: datetime) -> None:
    """Set from when posts count for the next digest of a plan that was not changed meanwhile, and when it is due."""
    sql = "UPDATE digests SET since = ?, due = ? WHERE chat_id = ? AND due = ?"
    await archive.execute(sql, (to_unix_time(since), to_unix_time(due), plan.chat_id, to_unix_time(plan.due)))


async def delete_digest_plan(archive: Archive, chat_id: int) -> bool:
    """Delete the plan of a chat; False where there is none."""
    return await archive.execute("DELETE FROM digests WHERE chat_id = ?", (chat_id,)) > 0
