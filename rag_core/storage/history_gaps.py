"""Gaps: periods in which a channel may have had posts that never reached the archive.

There are two kinds: before the bot joined a channel, and while it was offline for longer than Telegram keeps updates.
An import of the channel's export closes or narrows them; so does the proof that no message id between their ends is
unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import aiosqlite

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import decode_row, from_unix_seconds, get_unix_time, to_unix_seconds

# Telegram keeps updates for so long: https://core.telegram.org/bots/api#getting-updates
UPDATE_RETENTION = timedelta(hours=24)

_HOUR_S = 3600
_FIRST_POST_ID = 2  # message 1 is the service message "channel created"
_BOT_IS_MEMBER = "joined_at IS NOT NULL AND left_at IS NULL"


@dataclass(frozen=True, slots=True)
class Gap:
    """Period in which posts may be missing; `since` None: from the beginning of the channel."""

    id: int
    chat_id: int
    since: datetime | None
    until: datetime


async def get_last_heartbeat(archive: Archive) -> datetime | None:
    """Time at which the bot was last known to be connected to Telegram."""
    moment = await archive.value("SELECT at FROM heartbeat")
    return None if moment is None else from_unix_seconds(moment)


async def record_heartbeat(archive: Archive, moment: datetime) -> None:
    """Record that the bot is connected to Telegram."""
    await archive.execute("INSERT OR REPLACE INTO heartbeat (id, at) VALUES (0, ?)", (to_unix_seconds(moment),))


async def note_outage_gaps(archive: Archive, since: datetime, until: datetime) -> int:
    """Note a gap for an outage in every channel of the bot, from its joining at the earliest. Returns how many."""
    return await archive.execute(
        "INSERT INTO gaps (chat_id, since, until, noted_at) SELECT chat_id, max(?1, joined_at) AS since, ?2, ?2 "
        f"FROM channels WHERE {_BOT_IS_MEMBER} AND since < ?2",
        (to_unix_seconds(since), to_unix_seconds(until)),
    )


async def note_gap_before_joining(archive: Archive, chat_id: int) -> bool:
    """Note the gap before the bot joined a channel, after `record_bot_joined`. True if there is a new gap.

    If posts are known already (imported, or from an earlier membership) the gap begins with the newest of them;
    up to a day (`UPDATE_RETENTION`) between the two is no gap.
    """
    # A live post up to an hour older than the update about joining does not count as known: it may have come first.
    newest = (
        "SELECT max(date) FROM posts WHERE chat_id = ?1 AND date < joined_at "
        "AND (source = 'import' OR date < joined_at - ?2)"
    )
    noted = "SELECT 1 FROM gaps WHERE chat_id = ?1 AND until >= joined_at - ?2"
    async with archive.writing() as connection:
        rows = await connection.execute_fetchall(
            f"SELECT joined_at, ({newest}) FROM channels "
            f"WHERE chat_id = ?1 AND {_BOT_IS_MEMBER} AND NOT EXISTS ({noted})",
            (chat_id, _HOUR_S),
        )
        for until, since in rows:
            if since is not None and until - since <= UPDATE_RETENTION.total_seconds():
                return False
            await _insert_gap(connection, chat_id, since, until)
            return True
    return False


async def list_channels_without_gaps(archive: Archive) -> list[int]:
    """List channels of the bot for which no joining was noted: without a gap, open or closed, and without an import."""
    return await archive.column(
        f"SELECT chat_id FROM channels AS c WHERE {_BOT_IS_MEMBER} "
        "AND NOT EXISTS (SELECT 1 FROM gaps AS g WHERE g.chat_id = c.chat_id) "
        "AND NOT EXISTS (SELECT 1 FROM posts AS p WHERE p.chat_id = c.chat_id AND p.source = 'import')"
    )


async def _insert_gap(
    connection: aiosqlite.Connection, chat_id: int, since: int | None, until: int, told_at: int | None = None
) -> None:
    sql = "INSERT INTO gaps (chat_id, since, until, noted_at, told_at) VALUES (?, ?, ?, ?, ?)"
    await connection.execute(sql, (chat_id, since, until, get_unix_time(), told_at))


async def list_open_gaps(archive: Archive) -> dict[int, list[Gap]]:
    """List open gaps by chat id, the oldest first; only channels with open gaps are included."""
    gaps: dict[int, list[Gap]] = {}
    for gap in await _fetch_open_gaps(archive):
        gaps.setdefault(gap.chat_id, []).append(gap)
    return gaps


async def list_unreported_gaps(archive: Archive) -> list[Gap]:
    """List the open gaps of approved channels that were not reported to an admin."""
    approved = "chat_id IN (SELECT chat_id FROM channels WHERE state IN ('active', 'paused'))"
    return await _fetch_open_gaps(archive, f"told_at IS NULL AND {approved}")


async def _fetch_open_gaps(archive: Archive, which: str = "true") -> list[Gap]:
    rows = await archive.rows(f"SELECT * FROM gaps WHERE closed_at IS NULL AND {which} ORDER BY until, chat_id")
    return [decode_row(Gap, row) for row in rows]


async def mark_gaps_reported(archive: Archive, gaps: Iterable[Gap]) -> None:
    """Mark gaps as reported to an admin."""
    moment = get_unix_time()
    await archive.execute_many("UPDATE gaps SET told_at = ? WHERE id = ?", [(moment, gap.id) for gap in gaps])


async def close_covered_gaps(
    archive: Archive, chat_id: int, first: datetime | None, last: datetime | None, *, whole: bool
) -> int:
    """Close or narrow gaps after an import of all posts from `first` to `last`; returns how many gaps changed.

    `whole`: the export is of this channel alone and starts at its beginning. The parts of a gap outside the period
    stay open; without posts (None) nothing is covered.
    """
    if first is None or last is None:
        return 0
    start, end, changed = 0 if whole else to_unix_seconds(first), to_unix_seconds(last), 0
    async with archive.writing() as connection:
        rows = await connection.execute_fetchall(
            "SELECT id, coalesce(since, 0), until, told_at FROM gaps WHERE chat_id = ? AND closed_at IS NULL",
            (chat_id,),
        )
        for gap_id, since, until, told_at in rows:
            if end <= since or start >= until:
                continue
            changed += 1
            if since < start:
                await connection.execute("UPDATE gaps SET until = ? WHERE id = ?", (start, gap_id))
                if end < until:
                    await _insert_gap(connection, chat_id, end, until, told_at)
            elif end < until:
                await connection.execute("UPDATE gaps SET since = ? WHERE id = ?", (end, gap_id))
            else:
                await connection.execute("UPDATE gaps SET closed_at = ? WHERE id = ?", (get_unix_time(), gap_id))
    return changed


async def close_complete_gaps(archive: Archive) -> int:
    """Close gaps without an unknown message id between the posts at their ends; returns how many.

    Only ids of posts that are (or were) in the archive count as known. So a gap in which a post was deleted in
    Telegram stays open: it cannot be ruled out that a post is missing there.
    """
    closed = [gap.id for gap in await _fetch_open_gaps(archive) if await _is_gap_complete(archive, gap)]
    await archive.execute_many(
        "UPDATE gaps SET closed_at = ? WHERE id = ?", [(get_unix_time(), each) for each in closed]
    )
    return len(closed)


async def _is_gap_complete(archive: Archive, gap: Gap) -> bool:
    ends = "SELECT {which}(message_id) FROM posts WHERE chat_id = ? AND date {side} ?"
    last = await archive.value(ends.format(which="min", side=">="), (gap.chat_id, to_unix_seconds(gap.until)))
    if last is None:
        return False
    first = min(_FIRST_POST_ID, last)
    if gap.since is not None:
        first = await archive.value(ends.format(which="max", side="<="), (gap.chat_id, to_unix_seconds(gap.since)))
        if first is None or first >= last:
            return False
    sql = "SELECT count(*) FROM posts WHERE chat_id = ? AND message_id BETWEEN ? AND ?"
    known = await archive.value(sql, (gap.chat_id, first, last))
    return bool(known == last - first + 1)
