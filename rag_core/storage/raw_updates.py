"""Inbox of raw updates: saved before their receipt is confirmed to Telegram.

An update is pending, then done (its raw text is dropped, its number stays for a while so that a repeat is noticed) or
poison (kept as it came, with its error).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime

import aiosqlite

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import get_unix_time, to_unix_seconds
from rag_core.storage.raw_update_json import RawUpdate

# Telegram redelivers an update for at most 24 h; twice that is safe.
_DONE_RETENTION_S = 48 * 3600

_ALBUM_WAIT_S = 2  # Telegram does not mark the end of an album; its members come within a second of each other
_IS_POST_SQL = "kind IN ('channel_post', 'edited_channel_post')"
_BATCH_UPDATES = 500  # read at a time
_BATCH_CHARACTERS = 1 << 23


async def save_updates(archive: Archive, bot_id: int, raws: Sequence[RawUpdate]) -> None:
    """Save a whole batch of raw updates in one transaction; updates that are saved already stay unchanged."""
    moment = get_unix_time()
    rows = [(bot_id, raw.update_id, raw.kind, raw.text, moment) for raw in raws]
    await archive.execute_many(
        "INSERT OR IGNORE INTO updates (bot_id, update_id, kind, raw, state, received_at) "
        "VALUES (?, ?, ?, ?, 'pending', ?)",
        rows,
    )


async def quarantine_updates(archive: Archive, bot_id: int, errors: Mapping[int, str]) -> None:
    """Quarantine saved updates that are pending: state "poison", with their errors, given by update id."""
    await archive.execute_many(
        "UPDATE updates SET state = 'poison', error = ? WHERE bot_id = ? AND update_id = ? AND state = 'pending'",
        [(error, bot_id, update_id) for update_id, error in errors.items()],
    )


async def list_pending_posts(archive: Archive, limit: int = _BATCH_UPDATES) -> list[tuple[int, RawUpdate]]:
    """List posts and edits that are not saved as posts yet, oldest first: bot id and raw update.

    Album members received less than 2 s ago are left for the next call: the other members are still arriving.
    """
    # The upper bound: a clock that was put back must not delay them for longer.
    now = get_unix_time()
    held = f"raw LIKE '%\"media_group_id\":%' AND received_at BETWEEN {now - _ALBUM_WAIT_S + 1} AND {now}"
    return await _fetch_pending_updates(archive, f"{_IS_POST_SQL} AND NOT ({held})", limit)


async def list_unclaimed_updates(archive: Archive, bot_id: int, after: int = -1) -> list[RawUpdate]:
    """List other unclaimed updates of a bot, which a crash left unhandled: a batch of those with ids above `after`."""
    which = f"NOT {_IS_POST_SQL} AND claimed_at IS NULL AND bot_id = {bot_id:d} AND update_id > {after:d}"
    return [raw for _, raw in await _fetch_pending_updates(archive, which, _BATCH_UPDATES)]


async def _fetch_pending_updates(archive: Archive, which: str, limit: int) -> list[tuple[int, RawUpdate]]:
    sql = f"SELECT bot_id, update_id, kind, raw FROM updates WHERE state = 'pending' AND {which} "

    def work(connection: sqlite3.Connection) -> list[tuple[int, RawUpdate]]:
        found, size = list[tuple[int, RawUpdate]](), 0
        for bot_id, *columns in connection.execute(sql + "ORDER BY bot_id, update_id LIMIT ?", (limit,)):
            found.append((bot_id, RawUpdate(*columns)))
            size += len(found[-1][1].text)
            if size > _BATCH_CHARACTERS:
                break
        return found

    return await archive.read(work)


async def mark_updates_done(connection: aiosqlite.Connection, bot_id: int, update_ids: Sequence[int]) -> None:
    """Mark updates as done, in the transaction that saves their posts."""
    await connection.executemany(
        "UPDATE updates SET state = 'done', raw = NULL WHERE bot_id = ? AND update_id = ?",
        [(bot_id, update_id) for update_id in update_ids],
    )


async def is_update_claimed(archive: Archive, bot_id: int, update_id: int) -> bool:
    """Whether this update was claimed already."""
    sql = "SELECT 1 FROM updates WHERE bot_id = ? AND update_id = ? AND claimed_at IS NOT NULL"
    return bool(await archive.rows(sql, (bot_id, update_id)))


async def claim_update(archive: Archive, bot_id: int, update_id: int) -> bool:
    """Claim an update: True exactly once for each, also for an update that was never saved.

    A claimed update that is not a channel post counts as done.
    """
    return (
        await archive.execute(
            "INSERT INTO updates (bot_id, update_id, kind, state, received_at, claimed_at) "
            "VALUES (?1, ?2, '', 'done', ?3, ?3) ON CONFLICT (bot_id, update_id) DO UPDATE SET "
            "claimed_at = ?3, "
            f"raw = CASE WHEN {_IS_POST_SQL} OR state = 'poison' THEN raw END, "
            f"state = CASE WHEN {_IS_POST_SQL} OR state = 'poison' THEN state ELSE 'done' END "
            "WHERE claimed_at IS NULL",
            (bot_id, update_id, get_unix_time()),
        )
        == 1
    )


async def forget_done_updates(archive: Archive, moment: datetime) -> int:
    """Delete done updates received more than 48 h before a moment. Returns how many."""
    return await archive.execute(
        "DELETE FROM updates WHERE state = 'done' AND received_at < ?",
        (to_unix_seconds(moment) - _DONE_RETENTION_S,),
    )


async def forget_poison_updates(archive: Archive, before: datetime) -> int:
    """Delete quarantined updates received before a moment, posts excepted: they may hold texts of users.

    Returns how many.
    """
    return await archive.execute(
        f"DELETE FROM updates WHERE state = 'poison' AND NOT {_IS_POST_SQL} AND received_at < ?",
        (to_unix_seconds(before),),
    )


async def count_updates_by_state(archive: Archive) -> dict[str, int]:
    """Count the updates by state: pending, poison, done."""
    rows = await archive.rows("SELECT state, count(*) AS number FROM updates GROUP BY state")
    return {"pending": 0, "poison": 0, "done": 0} | {row["state"]: row["number"] for row in rows}
