"""Channel history: gaps, how far a backfill over MTProto is, and when each post was last seen in its channel.

A gap is a period in which a channel may have had posts that never reached the archive: before the bot joined it, or
while it was offline for longer than Telegram keeps updates. An import of the channel's export closes or narrows it;
so does the proof that no message id between its ends is unknown. A backfill asks for message ids from the newest
down. Its posts and its place are saved in one transaction, so that a crash neither loses a post nor asks twice for
more than one batch. Only approved channels have a history.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import aiosqlite

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import (
    JOIN_BY_KEY,
    PostTally,
    decode_row,
    encode_keys,
    from_unix_time,
    get_unix_time,
    to_unix_time,
)
from rag_core.storage.posts import mark_posts_deleted, restore_posts, save_arrivals_in_transaction
from rag_core.types import Post, PostKey

# Telegram keeps updates for so long: https://core.telegram.org/bots/api#getting-updates
UPDATE_RETENTION = timedelta(hours=24)

_HOUR_S = 3600
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
    return None if moment is None else from_unix_time(moment)


async def record_heartbeat(archive: Archive, moment: datetime) -> None:
    """Record that the bot is connected to Telegram."""
    await archive.execute("INSERT OR REPLACE INTO heartbeat (id, at) VALUES (0, ?)", (to_unix_time(moment),))


async def note_outage_gaps(archive: Archive, since: datetime, until: datetime) -> int:
    """Note a gap for an outage in every channel of the bot, from its joining at the earliest. Returns how many."""
    return await archive.execute(
        "INSERT INTO gaps (chat_id, since, until, noted_at) SELECT chat_id, max(?1, joined_at) AS since, ?2, ?2 "
        f"FROM channels WHERE {_BOT_IS_MEMBER} AND since < ?2",
        (to_unix_time(since), to_unix_time(until)),
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
    sql = (
        f"INSERT INTO gaps (chat_id, since, until, noted_at) SELECT chat_id, ({newest}) AS last, joined_at, ?3 "
        f"FROM channels WHERE chat_id = ?1 AND {_BOT_IS_MEMBER} AND NOT EXISTS ({noted}) "
        "AND (last IS NULL OR joined_at - last > ?4)"
    )
    return await archive.execute(sql, (chat_id, _HOUR_S, get_unix_time(), UPDATE_RETENTION.total_seconds())) > 0


async def list_channels_without_gaps(archive: Archive) -> list[int]:
    """List channels of the bot for which no joining was noted: without a gap, open or closed, and without an import."""
    return await archive.column(
        f"SELECT chat_id FROM channels AS c WHERE {_BOT_IS_MEMBER} "
        "AND NOT EXISTS (SELECT 1 FROM gaps AS g WHERE g.chat_id = c.chat_id) "
        "AND NOT EXISTS (SELECT 1 FROM posts AS p WHERE p.chat_id = c.chat_id AND p.source = 'import')"
    )


async def list_open_gaps(archive: Archive) -> dict[int, list[Gap]]:
    """List open gaps by chat id, the oldest first; only channels with open gaps are included."""
    gaps: dict[int, list[Gap]] = {}
    for row in await archive.rows("SELECT * FROM gaps WHERE closed_at IS NULL ORDER BY until"):
        gaps.setdefault(row["chat_id"], []).append(decode_row(Gap, row))
    return gaps


async def list_unreported_gaps(archive: Archive) -> list[Gap]:
    """List the open gaps of approved channels that were not reported to an admin."""
    rows = await archive.rows(
        "SELECT * FROM gaps JOIN channels USING (chat_id) WHERE closed_at IS NULL AND told_at IS NULL "
        "AND state IN ('active', 'paused') ORDER BY until, chat_id"
    )
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
    start, end, changed = 0 if whole else to_unix_time(first), to_unix_time(last), 0
    open_gaps = "SELECT id, coalesce(since, 0), until, told_at FROM gaps WHERE chat_id = ? AND closed_at IS NULL"
    sql = "INSERT INTO gaps (chat_id, since, until, noted_at, told_at) VALUES (?, ?, ?, ?, ?)"
    async with archive.writing() as connection:
        rows = await connection.execute_fetchall(open_gaps, (chat_id,))
        for gap_id, since, until, told_at in rows:
            if end <= since or start >= until:
                continue
            changed += 1
            if since < start:
                await connection.execute("UPDATE gaps SET until = ? WHERE id = ?", (start, gap_id))
                if end < until:
                    await connection.execute(sql, (chat_id, end, until, get_unix_time(), told_at))
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
    # message 1 is the service message "channel created"
    return await archive.execute(
        "UPDATE gaps SET closed_at = ? WHERE id IN (WITH ends AS (SELECT id, chat_id, since, "
        "(SELECT max(message_id) FROM posts AS p WHERE p.chat_id = g.chat_id AND date <= since) AS first, "
        "(SELECT min(message_id) FROM posts AS p "
        "WHERE p.chat_id = g.chat_id AND date >= until) AS last FROM gaps AS g WHERE closed_at IS NULL), "
        "spans AS (SELECT id, chat_id, iif(since IS NULL, min(2, last), first) AS first, last FROM ends "
        "WHERE since IS NULL OR first < last) "
        "SELECT id FROM spans WHERE last - first + 1 = (SELECT count(*) "
        "FROM posts AS p WHERE p.chat_id = spans.chat_id AND message_id BETWEEN first AND last))",
        (get_unix_time(),),
    )


# How posts that a sweep did not find are marked as deleted; such a tombstone can be undone for a week.
DELETED_HOW = "history"
UNDO_PERIOD = timedelta(days=7)
# Posts of the last two days are looked at hourly: most edits and deletions come soon.
LOOK_INTERVAL = timedelta(hours=1)
_RECENT = timedelta(days=2)
# A look at every post takes five days, so that a bot that is off at times looks at all of them within a week.
_SWEEPS_PER_ROUND = 5 * 24
_MIN_SWEEP_POSTS = 100  # one request, which costs the same for fewer

_APPROVED = "SELECT 1 FROM channels WHERE chat_id = ?1 AND state IN ('active', 'paused')"


@dataclass(frozen=True, slots=True)
class Backfill:
    """Backfill of a channel: ids above `next_id` are asked for already, up to `newest_id`."""

    chat_id: int
    state: str  # running, paused, cancelled, done or failed
    began_at: datetime
    since: datetime | None  # older posts are not wanted
    newest_id: int | None  # None until it was looked for, and so is `next_id`
    next_id: int | None
    saved: int  # number of posts found
    problem: str  # the sentence of a failure

    @property
    def share(self) -> float:
        """Share of the ids that were asked for, 0..1."""
        if self.state == "done":
            return 1.0
        return 1 - (self.next_id or 0) / self.newest_id if self.newest_id else 0.0


async def list_backfills(archive: Archive) -> dict[int, Backfill]:
    """List the backfills of all channels, by chat id."""
    return {row["chat_id"]: decode_row(Backfill, row) for row in await archive.rows("SELECT * FROM history")}


async def begin_backfill(archive: Archive, chat_id: int, since: datetime | None = None) -> bool:
    """Begin the backfill of an approved channel anew. False if it is not approved."""
    sql = (
        "INSERT OR REPLACE INTO history (chat_id, state, began_at, since) "
        f"SELECT ?1, 'running', ?2, ?3 WHERE EXISTS ({_APPROVED})"
    )
    return await archive.execute(sql, (chat_id, get_unix_time(), to_unix_time(since) if since else None)) > 0


async def set_backfill_state(
    archive: Archive, chat_id: int, state: str, *, among: Sequence[str] = ("running", "paused"), problem: str = ""
) -> bool:
    """Pause, resume, cancel or fail a backfill that is in one of the states `among`. False if it is in none."""
    sql = f"UPDATE history SET state = ?, problem = ? WHERE chat_id = ? AND state IN ({', '.join('?' * len(among))})"
    return bool(await archive.execute(sql, (state, problem, chat_id, *among)))


async def set_newest_id(archive: Archive, chat_id: int, newest_id: int) -> None:
    """Set the id from which a running backfill goes down."""
    sql = "UPDATE history SET newest_id = ?1, next_id = ?1, began_at = ?2 WHERE chat_id = ?3 AND newest_id IS NULL"
    await archive.execute(sql, (newest_id, get_unix_time(), chat_id))


async def save_batch(archive: Archive, chat_id: int, posts: Sequence[Post], next_id: int) -> PostTally | None:
    """Save a batch and its place (0: the end) in one transaction. None, and nothing saved, where it was stopped."""
    async with archive.writing() as connection:
        moved = await connection.execute(
            "UPDATE history SET next_id = ?2, state = iif(?2 > 0, state, 'done'), saved = saved + ?3 "
            f"WHERE chat_id = ?1 AND state = 'running' AND EXISTS ({_APPROVED})",
            (chat_id, next_id, len(posts)),
        )
        return await _save_seen(connection, chat_id, posts, (), get_unix_time()) if moved.rowcount else None


async def save_seen_posts(
    archive: Archive, chat_id: int, posts: Sequence[Post], others: Iterable[int], now: datetime
) -> PostTally:
    """Save posts as they are seen in an approved channel now; ids of `others` are there, but cannot be read."""
    async with archive.writing() as connection:
        if not await connection.execute_fetchall(_APPROVED, (chat_id,)):
            return PostTally()
        return await _save_seen(connection, chat_id, posts, others, to_unix_time(now))


async def _save_seen(
    connection: aiosqlite.Connection, chat_id: int, posts: Sequence[Post], others: Iterable[int], moment: int
) -> PostTally:
    tally = await save_arrivals_in_transaction(connection, [(post, 0) for post in posts], source="history")
    await connection.executemany(
        "INSERT INTO post_looks (chat_id, message_id, looked_at) SELECT chat_id, message_id, ?3 FROM posts "
        "WHERE chat_id = ?1 AND message_id = ?2 ON CONFLICT DO UPDATE "
        "SET looked_at = excluded.looked_at, missing_since = NULL, kept = 0",
        [(chat_id, one, moment) for one in (*(post.key.message_id for post in posts), *others)],
    )
    return tally


async def list_due_ids(archive: Archive, chat_id: int, now: datetime) -> list[int]:
    """List the ids of living posts to look at in one sweep: recent ones, those missing last time, the rest in turn."""
    hour_ago = to_unix_time(now - LOOK_INTERVAL)
    recent = await archive.column(
        "SELECT p.message_id FROM posts AS p LEFT JOIN post_looks AS l USING (chat_id, message_id) "
        "WHERE p.chat_id = ?1 AND p.deleted_at IS NULL AND coalesce(l.looked_at, 0) <= ?2 "
        "AND (p.date >= ?3 OR l.missing_since IS NOT NULL)",
        (chat_id, hour_ago, to_unix_time(now - _RECENT)),
    )
    ids = set(recent)
    total = await archive.value("SELECT count(*) FROM posts WHERE chat_id = ? AND deleted_at IS NULL", (chat_id,))
    wanted = max(_MIN_SWEEP_POSTS, -(-total // _SWEEPS_PER_ROUND))
    for sql in (
        "SELECT message_id FROM posts AS p WHERE chat_id = ?1 AND deleted_at IS NULL AND NOT EXISTS ("
        "SELECT 1 FROM post_looks AS l WHERE l.chat_id = p.chat_id AND l.message_id = p.message_id) "
        "ORDER BY message_id DESC LIMIT ?3",
        "SELECT l.message_id FROM post_looks AS l JOIN posts AS p USING (chat_id, message_id) "
        "WHERE l.chat_id = ?1 AND l.looked_at <= ?2 AND p.deleted_at IS NULL ORDER BY l.looked_at LIMIT ?3",
    ):
        if len(ids) < wanted:
            ids |= set(await archive.column(sql, (chat_id, hour_ago, wanted)))
    return sorted(ids, reverse=True)


async def find_stale_keys(archive: Archive, keys: Iterable[PostKey], now: datetime) -> list[PostKey]:
    """Find the living posts among the keys that were not looked at for an hour."""
    sql = (
        f"SELECT t.chat_id, t.message_id {JOIN_BY_KEY.format(table='posts')} LEFT JOIN post_looks AS l "
        "USING (chat_id, message_id) WHERE t.deleted_at IS NULL AND coalesce(l.looked_at, 0) <= ?"
    )
    hour_ago = to_unix_time(now - LOOK_INTERVAL)
    return [PostKey(*row) for row in await archive.rows(sql, (encode_keys(keys), hour_ago))]


async def take_out_missing(
    archive: Archive, chat_id: int, ids: Collection[int], now: datetime, share: float, *, seen: bool
) -> tuple[int, int, int]:
    """Take out the posts with these ids, which a look did not find; those that an admin put back stay.

    Where more than the `share` of a channel would go within a day, only those go that were missing an hour before as
    well, and where no post was `seen` none. Returns how many went, how many wait, and how many of these anew.
    """
    rows = await archive.rows(
        f"SELECT t.chat_id, t.message_id, l.missing_since {JOIN_BY_KEY.format(table='posts')} "
        "LEFT JOIN post_looks AS l USING (chat_id, message_id) WHERE t.deleted_at IS NULL AND NOT coalesce(l.kept, 0)",
        (encode_keys(PostKey(chat_id, one) for one in ids),),
    )
    if not seen:
        return 0, len(rows), 0
    ((total, gone),) = await archive.rows(
        "SELECT count(*), coalesce(sum(deleted_at IS NOT NULL), 0) FROM posts WHERE chat_id = ?1 "
        "AND (deleted_at IS NULL OR (deleted_how = ?2 AND deleted_at > ?3))",
        (chat_id, DELETED_HOW, to_unix_time(now - timedelta(days=1))),
    )
    before, moment = to_unix_time(now - LOOK_INTERVAL), to_unix_time(now)
    few = len(rows) <= int(total * share) - gone
    missing = {PostKey(row[0], row[1]): row[2] for row in rows}
    sure = dict.fromkeys(key for key, since in missing.items() if few or (since is not None and since <= before))
    deleted = await mark_posts_deleted(archive, sure, how=DELETED_HOW)
    rest = {key: since for key, since in missing.items() if key not in sure}
    await archive.execute_many(
        "INSERT INTO post_looks (chat_id, message_id, looked_at, missing_since) VALUES (?1, ?2, ?3, ?3) "
        "ON CONFLICT DO UPDATE SET looked_at = ?3, missing_since = coalesce(missing_since, ?3)",
        [(*key, moment) for key in rest],
    )
    return deleted, len(rest), sum(since is None for since in rest.values())


async def undo_deletions(archive: Archive, chat_id: int, now: datetime) -> int:
    """Restore the posts of a channel that looks took out within a week; later looks leave them. Returns how many."""
    sql = "SELECT chat_id, message_id FROM posts WHERE chat_id = ? AND deleted_how = ? AND deleted_at > ?"
    rows = await archive.rows(sql, (chat_id, DELETED_HOW, to_unix_time(now - UNDO_PERIOD)))
    await archive.execute_many(
        "INSERT INTO post_looks (chat_id, message_id, looked_at, kept) VALUES (?, ?, ?, 1) "
        "ON CONFLICT DO UPDATE SET missing_since = NULL, kept = 1",
        [(*row, to_unix_time(now)) for row in rows],
    )
    return await restore_posts(archive, [PostKey(*row) for row in rows])


async def find_gaps_to_fill(archive: Archive) -> dict[int, datetime | None]:
    """Find the channels whose gaps a backfill may close, and since when; None: from the beginning, once."""
    rows = await archive.rows(
        "SELECT g.chat_id, min(coalesce(g.since, 0)) FROM gaps AS g JOIN channels AS c USING (chat_id) "
        "LEFT JOIN history AS h USING (chat_id) WHERE g.closed_at IS NULL AND c.state IN ('active', 'paused') "
        "AND c.kind = 'channel' AND c.joined_at IS NOT NULL AND c.left_at IS NULL AND (h.chat_id IS NULL "
        "OR (g.since IS NOT NULL AND h.state NOT IN ('running', 'paused') AND g.until > h.began_at)) GROUP BY g.chat_id"
    )
    return {row[0]: from_unix_time(row[1]) if row[1] else None for row in rows}


@dataclass(frozen=True, slots=True)
class HistoryCounts:
    """Counts of a channel for /stats and `citegram history`: posts waiting for a second look, taken out in a week."""

    missing: int
    deleted: int


async def count_history(archive: Archive, now: datetime) -> dict[int, HistoryCounts]:
    """Count what looks found, by chat id; channels without anything are left out."""
    sql = (
        "SELECT p.chat_id, sum(p.deleted_at IS NULL), sum(p.deleted_at IS NOT NULL) FROM posts AS p "
        "LEFT JOIN post_looks AS l USING (chat_id, message_id) "
        "WHERE (p.deleted_at IS NULL AND l.missing_since IS NOT NULL) OR (p.deleted_how = ? AND p.deleted_at > ?) "
        "GROUP BY p.chat_id"
    )
    rows = await archive.rows(sql, (DELETED_HOW, to_unix_time(now - UNDO_PERIOD)))
    return {chat_id: HistoryCounts(missing, deleted) for chat_id, missing, deleted in rows}
