"""Channels: what is known of them, the quota of unapproved ones, topics, synonyms, pinned answers, and their removal.

Anybody may add the bot to a channel and post there without end. Posts over the quota of a channel that no admin
approved are dropped, and the first such date is kept in the channel's row, so that its approval can note a gap.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import aiosqlite

from rag_core.storage.db import Archive, assign_sequence_numbers
from rag_core.storage.post_rows import from_unix_time, get_unix_time, to_unix_time
from rag_core.storage.posts import TRANSACTION_ROWS, mark_posts_changed, mark_posts_deleted
from rag_core.storage.visible_posts import read_channels
from rag_core.types import Channel, PostKey, Visibility

# The unary plus makes SQLite use the index on `seq`, which selects few rows, instead of reading the channel's posts.
_CHANGED_POSTS_SQL = "SELECT message_id FROM posts WHERE seq > ?1 AND +chat_id = ?2"


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """Status figures of a channel: living posts, the guarded (protected or paid) ones, the date of the newest."""

    posts: int
    guarded: int
    last: datetime | None
    lexical: int  # changes that the index has not processed
    dense: int | None  # the same of the vector index; None without one
    left: bool  # the bot was in the channel and left it


async def fetch_channel_status(archive: Archive, chat_id: int, watermark: int, store: str | None) -> ChannelStatus:
    """Fetch the status of a channel. `watermark` is the lexical index's; `store` the identity of the vector store."""
    ((count, last, guarded, left, lexical),) = await archive.rows(
        "SELECT count(*), max(date), count(guarded), "
        "(SELECT left_at IS NOT NULL FROM channels WHERE chat_id = ?2), "
        f"(SELECT count(*) FROM ({_CHANGED_POSTS_SQL})) FROM posts WHERE chat_id = ?2 AND deleted_at IS NULL",
        (watermark, chat_id),
    )
    dense = None
    if store is not None:
        mark = await archive.value("SELECT watermark FROM dense WHERE identity = ?", (store,))
        queued = "SELECT message_id FROM to_embed WHERE chat_id = ?2 AND ?3 IS NOT NULL"
        changed = f"SELECT count(*) FROM ({_CHANGED_POSTS_SQL} UNION {queued})"
        dense = await archive.value(changed, (mark or 0, chat_id, mark))
    return ChannelStatus(count, guarded, None if last is None else from_unix_time(last), lexical, dense, bool(left))


async def save_channel(archive: Archive, channel: Channel) -> None:
    """Save a new channel, or the new title, username and kind of a known one; its visibility is not changed."""
    async with archive.writing() as connection:
        await save_channel_in_transaction(connection, channel)


async def save_channel_in_transaction(
    connection: aiosqlite.Connection, channel: Channel, moment: datetime | None = None
) -> None:
    """Save a channel as a message of this moment names it, inside the caller's transaction; an older one is ignored."""
    # A moment in the future is the number of an update, which was stored before.
    row = (channel.chat_id, channel.title, channel.username, channel.kind, channel.visibility.value, channel.state)
    await connection.execute(
        "INSERT INTO channels (chat_id, title, username, kind, visibility, state, added_at, named_by) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, coalesce(?8, 0)) ON CONFLICT (chat_id) DO UPDATE SET "
        "retitled = retitled + (title IS NOT excluded.title), title = excluded.title, "
        "username = excluded.username, kind = excluded.kind, named_by = coalesce(?8, named_by) "
        "WHERE ?8 IS NULL OR ?8 >= named_by OR named_by > ?7 + 86400",
        (*row, get_unix_time(), to_unix_time(moment) if moment else None),
    )
    if channel.username:  # Telegram gives a name to one channel: who had it before has lost it
        await connection.execute(
            "UPDATE channels SET username = NULL WHERE username = ?1 COLLATE NOCASE AND chat_id <> ?2 "
            "AND named_by <= (SELECT named_by FROM channels WHERE chat_id = ?2 AND username = ?1)",
            (channel.username, channel.chat_id),
        )


async def set_channel_visibility(archive: Archive, chat_id: int, visibility: Visibility) -> None:
    """Set who may read a known channel; a change ends the permission of group admins to bind it."""
    sql = "UPDATE channels SET bindable = bindable AND visibility = ?1, visibility = ?1 WHERE chat_id = ?2"
    await archive.execute(sql, (visibility.value, chat_id))


async def set_channel_state(archive: Archive, chat_id: int, state: str) -> None:
    """Set the state of a known channel; the indexes read it again when it is approved, or its approval is withdrawn."""
    async with archive.writing() as connection:
        await connection.execute(
            "UPDATE channels SET retitled = retitled + ((state IN (?1, ?2)) IS NOT (?3 IN (?1, ?2))), state = ?3 "
            "WHERE chat_id = ?4",
            (*UNAPPROVED_STATES, state, chat_id),
        )
        if state not in UNAPPROVED_STATES:  # a gap from its first dropped post until now
            await connection.execute(
                "INSERT INTO gaps (chat_id, since, until, noted_at) SELECT chat_id, dropped_since, ?1, ?1 "
                "FROM channels WHERE chat_id = ?2 AND dropped_since < ?1",
                (get_unix_time(), chat_id),
            )
            await connection.execute("UPDATE channels SET dropped_since = NULL WHERE chat_id = ?", (chat_id,))
    await reindex_retitled_channels(archive)


async def reindex_retitled_channels(archive: Archive) -> None:
    """Make the indexes read channels again whose title or approval changed: `retitled` counts, to lose no change."""
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


async def get_first_channel_date(archive: Archive) -> datetime | None:
    """Time when the first channel was added; None if there is none."""
    first = await archive.value("SELECT min(added_at) FROM channels")
    return None if first is None else from_unix_time(first)


# States of unapproved channels; their posts are in no index (`VISIBLE_POSTS` in post_rows.py).
UNAPPROVED_STATES = ("pending", "removed")
_IS_UNAPPROVED_SQL = "state IN ('pending', 'removed')"


async def list_unapproved_channels(archive: Archive, since: datetime) -> list[int]:
    """List channels that wait for approval, or were removed, since before this moment."""
    sql = f"SELECT chat_id FROM channels WHERE {_IS_UNAPPROVED_SQL} AND added_at < ?"
    return await archive.column(sql, (to_unix_time(since),))


async def measure_unapproved_channels(
    connection: aiosqlite.Connection, chat_ids: Iterable[int]
) -> tuple[set[int], dict[int, tuple[int, int]], int]:
    """Find which of these chats are known, and how much content the known ones hold that are not approved.

    Content: the number of versions of living posts and their bytes. The last number: that of unapproved channels.
    """
    sql = f"SELECT chat_id, {_IS_UNAPPROVED_SQL} FROM channels WHERE chat_id IN (SELECT value FROM json_each(?))"
    rows = list(await connection.execute_fetchall(sql, (json.dumps([*chat_ids]),)))
    content = "count(*), coalesce(sum(length(CAST(v.text AS BLOB)) + length(CAST(v.entities AS BLOB))), 0)"
    used: dict[int, tuple[int, int]] = {}
    for chat_id in (row[0] for row in rows if row[1]):
        counts = await connection.execute_fetchall(
            f"SELECT {content} FROM posts AS v WHERE chat_id = ?1 AND deleted_at IS NULL UNION ALL "
            f"SELECT {content} FROM post_versions AS v JOIN posts AS p USING (chat_id, message_id) "
            "WHERE chat_id = ?1 AND p.deleted_at IS NULL",
            (chat_id,),
        )
        used[chat_id] = sum(row[0] for row in counts), sum(row[1] for row in counts)
    ((number,),) = await connection.execute_fetchall(f"SELECT count(*) FROM channels WHERE {_IS_UNAPPROVED_SQL}")
    return {row[0] for row in rows}, used, int(number)


async def drop_posts_over_quota(connection: aiosqlite.Connection, dropped: Mapping[PostKey, int]) -> None:
    """Record dropped posts and their dates; stored versions go: they would be shown as the present texts."""
    sql = "DELETE FROM posts WHERE chat_id = ? AND message_id = ? AND deleted_at IS NULL"
    await connection.executemany(sql, list(dropped))
    sql = "UPDATE channels SET dropped_since = min(coalesce(dropped_since, ?1), ?1) WHERE chat_id = ?2"
    await connection.executemany(sql, [(date, key.chat_id) for key, date in dropped.items()])


TopicTitles = Mapping[int, tuple[str, int]]  # topic -> its title, and when it got it (Unix seconds)


async def save_topic_titles(connection: aiosqlite.Connection, chat_id: int, titles: TopicTitles) -> None:
    """Save the titles of topics, in the caller's transaction; a later one stays, and changed ones are reindexed."""
    changed = []
    for topic, (title, named_at) in titles.items():
        saved = await connection.execute(
            "INSERT INTO topics (chat_id, topic, title, named_at) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET title = excluded.title, named_at = excluded.named_at "
            "WHERE excluded.named_at >= topics.named_at AND excluded.title <> topics.title",
            (chat_id, topic, title, named_at),
        )
        changed += [topic] * saved.rowcount
    if changed:
        rows = await connection.execute_fetchall(
            "SELECT message_id FROM posts WHERE chat_id = ? AND topic IN (SELECT value FROM json_each(?)) "
            "AND deleted_at IS NULL ORDER BY seq",
            (chat_id, json.dumps(changed)),
        )
        await assign_sequence_numbers(connection, [PostKey(chat_id, row[0]) for row in rows])


async def load_topics_of_messages(archive: Archive, chat_id: int) -> dict[int, int]:
    """Load the topic of each message of a forum that has one: message id -> topic, the openings included."""
    sql = (
        "SELECT topic, topic FROM topics WHERE chat_id = ?1 UNION "
        "SELECT message_id, topic FROM posts WHERE chat_id = ?1 AND topic IS NOT NULL"
    )
    return {row[0]: row[1] for row in await archive.rows(sql, (chat_id,))}


_REMOVING = "removing "  # of the choice that holds the last change before a removal until all posts are marked


async def remove_channel(archive: Archive, chat_id: int) -> int:
    """Remove a channel: tombstones for its posts, no bindings and no gaps. Returns how many posts it had."""
    async with archive.writing() as connection:
        closed = "state = 'removed', visibility = 'admins', bindable = 0"  # who may read it is decided anew
        await connection.execute(f"UPDATE channels SET {closed} WHERE chat_id = ?", (chat_id,))
        for table in ("bindings", "gaps", "history", "topics"):
            await connection.execute(f"DELETE FROM {table} WHERE chat_id = ?", (chat_id,))
        sql = "INSERT OR REPLACE INTO choices (name, value) SELECT ?, value FROM sequence"
        await connection.execute(sql, (f"{_REMOVING}{chat_id}",))
    return await _mark_removed(archive, chat_id)


async def _mark_removed(archive: Archive, chat_id: int) -> int:
    name = f"{_REMOVING}{chat_id}"
    sql = "SELECT message_id FROM posts WHERE chat_id = ? AND deleted_at IS NULL AND seq <= ? ORDER BY message_id"
    last = await archive.value("SELECT CAST(value AS INTEGER) FROM choices WHERE name = ?", (name,))
    keys = [PostKey(chat_id, one) for one in await archive.column(sql, (chat_id, last))]
    count = await mark_posts_deleted(archive, keys, how="removed")
    await archive.execute("DELETE FROM choices WHERE name = ?", (name,))
    return count


async def finish_removals(archive: Archive) -> None:
    """Finish the removals of channels that a process which was killed has begun."""
    for name in await archive.column("SELECT name FROM choices WHERE name GLOB ?", (f"{_REMOVING}*",)):
        await _mark_removed(archive, int(name.removeprefix(_REMOVING)))


async def purge_removed_posts(archive: Archive, taken: int) -> None:
    """Delete removed posts that every index has dropped (`taken`); channels with new ones wait for approval."""
    mine = "FROM posts WHERE posts.chat_id = channels.chat_id"
    while True:
        async with archive.writing() as connection:
            cursor = await connection.execute(
                "DELETE FROM posts WHERE (chat_id, message_id) IN "
                "(SELECT chat_id, message_id FROM posts WHERE deleted_how = 'removed' AND seq <= ? LIMIT ?)",
                (taken, TRANSACTION_ROWS),
            )
            if cursor.rowcount < TRANSACTION_ROWS:
                sql = f"DELETE FROM channels WHERE state = 'removed' AND NOT EXISTS (SELECT 1 {mine})"
                await connection.execute(sql)
                await connection.execute(
                    "UPDATE channels SET state = 'pending', added_at = ? WHERE state = 'removed' "
                    f"AND NOT EXISTS (SELECT 1 FROM choices WHERE name = '{_REMOVING}' || channels.chat_id) "
                    f"AND EXISTS (SELECT 1 {mine} AND deleted_at IS NULL) "
                    f"AND NOT EXISTS (SELECT 1 {mine} AND deleted_how = 'removed')",
                    (get_unix_time(),),
                )
                return


MAX_SYNONYMS = 500  # per channel


class Synonym(NamedTuple):
    """Synonym of a channel; both ways: each word finds the other."""

    chat_id: int
    word: str
    meaning: str


async def add_synonym(archive: Archive, synonym: Synonym, by: int) -> bool:
    """Add a synonym; False if it is there, or if the channel has MAX_SYNONYMS. Drop the engine's caches afterwards."""
    sql = (
        "INSERT OR IGNORE INTO channel_synonyms (chat_id, word, meaning, added_by, added_at) SELECT ?, ?, ?, ?, ? "
        "WHERE (SELECT count(*) FROM channel_synonyms WHERE chat_id = ?) < ?"
    )
    return await archive.execute(sql, (*synonym, by, get_unix_time(), synonym.chat_id, MAX_SYNONYMS)) > 0


async def remove_synonym(archive: Archive, synonym: Synonym) -> bool:
    """Remove a synonym; False if there was none. Drop the engine's caches afterwards."""
    sql = "DELETE FROM channel_synonyms WHERE chat_id = ? AND word = ? AND meaning = ?"
    return await archive.execute(sql, synonym) > 0


async def load_channels_and_synonyms(archive: Archive) -> tuple[dict[int, Channel], list[Synonym]]:
    """Load all channels by chat id, and the synonyms of all channels in alphabetical order, in one read."""
    sql = "SELECT chat_id, word, meaning FROM channel_synonyms ORDER BY word, meaning, chat_id"
    return await archive.read(lambda rows: (read_channels(rows), [Synonym(*row) for row in rows.execute(sql)]))


async def list_synonyms(archive: Archive, channels: Collection[int]) -> list[Synonym]:
    """List the synonyms of these channels, in alphabetical order."""
    return [one for one in (await load_channels_and_synonyms(archive))[1] if one.chat_id in channels]


async def pin_answer(archive: Archive, asked: str, post: PostKey, by: int) -> None:
    """Pin a post as the answer to a question, in place of another of its channel; `asked` identifies the question."""
    sql = "INSERT OR REPLACE INTO pinned_answers VALUES (?, ?, ?, ?, ?)"
    await archive.execute(sql, (asked, *post, by, get_unix_time()))


async def unpin_answer(archive: Archive, asked: str, channels: Collection[int]) -> None:
    """Unpin the answers to a question in these channels."""
    sql = "DELETE FROM pinned_answers WHERE asked = ? AND chat_id = ?"
    await archive.execute_many(sql, [(asked, chat_id) for chat_id in channels])


async def find_pinned_post(archive: Archive, asked: str, channels: Collection[int]) -> PostKey | None:
    """Find the post that was last pinned as the answer to a question in one of these channels."""
    sql = "SELECT chat_id, message_id FROM pinned_answers WHERE asked = ? ORDER BY pinned_at DESC, chat_id"
    rows = await archive.rows(sql, (asked,))
    return next((PostKey(*row) for row in rows if row["chat_id"] in channels), None)
