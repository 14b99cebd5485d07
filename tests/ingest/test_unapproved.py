from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ingest.inbox import drain
from ingest.index import Indexer, again
from ingest.unapproved import MOST_BYTES, MOST_POSTS, MOST_WAITING, forget_unapproved
from rag_core.doors.archive import Archive, backlog, channels, gaps, posts, updates
from rag_core.doors.archive.inventory import indexable
from rag_core.doors.archive.schema import MIGRATIONS
from rag_core.doors.lexical import Lexical
from rag_core.types import Channel, Post, PostKey

NEW, OLD, READ = -1009, -1010, -1011


async def test_what_nobody_approves_for_a_month_is_forgotten(archive: Archive, make_post: Callable[..., Post]) -> None:
    for chat, state in ((NEW, "pending"), (OLD, "pending"), (READ, "active")):
        await channels.put(archive, Channel(chat, "Bakery", state=state))
        await posts.keep(archive, [make_post(1, "Rolls at six.", chat=chat)], source="live")
    async with archive.writing() as connection:
        await connection.execute("UPDATE channels SET added_at = added_at - 31 * 86400 WHERE chat_id <> ?", (NEW,))
    now = datetime.now(UTC)
    assert await forget_unapproved(archive, now - timedelta(days=5)) == 0
    assert await forget_unapproved(archive, now) == 1
    assert [await posts.count(archive, chat) for chat in (NEW, OLD, READ)] == [1, 0, 1]
    await posts.purge(archive, await posts.last_seq(archive))
    assert (await channels.known(archive)).keys() == {NEW, READ}
    assert await forget_unapproved(archive, now) == 0


CHAT = {"id": NEW, "type": "channel", "title": "Bakery"}
DAY = 1_710_244_800


async def posted(archive: Archive, texts: list[str], *, first: int = 1, edited: int = 0, chat: int = NEW) -> None:
    """Posts as Telegram delivers them; with `edited` versions of that one post."""
    batch: list[dict[str, Any]] = []
    for number, text in enumerate(texts, first):
        post = {"chat": CHAT | {"id": chat}, "date": DAY + number, "text": text}
        if edited:
            post |= {"message_id": edited, "date": DAY + edited, "edit_date": DAY + number}
        else:
            post |= {"message_id": number}
        batch.append(
            {"update_id": 10**6 * edited - chat + number, "edited_channel_post" if edited else "channel_post": post}
        )
    await updates.keep_batch(archive, 42, batch)
    await drain(archive)


async def kept(archive: Archive, chat: int = NEW) -> tuple[int, int]:
    """How many posts and versions of posts are there, and their characters."""
    rows = [
        (
            await archive.rows(
                f"SELECT count(*), coalesce(sum(length(text)), 0) FROM {table} WHERE chat_id = ?", (chat,)
            )
        )[0]
        for table in ("posts", "post_versions")
    ]
    return sum(row[0] for row in rows), sum(row[1] for row in rows)


async def test_a_channel_nobody_approved_has_a_quota_of_posts(archive: Archive) -> None:
    for first in range(1, 2 * MOST_POSTS, 100):
        await posted(archive, [f"Rolls, lot {n}." for n in range(100)], first=first)
    assert (await kept(archive))[0] == MOST_POSTS
    await channels.set_state(archive, NEW, "active")
    (gap, *_) = [gap for gap in (await gaps.open_gaps(archive))[NEW] if gap.since]
    assert gap.since == datetime.fromtimestamp(DAY + MOST_POSTS + 1, UTC)
    await posted(archive, ["Now it is approved."], first=5000)
    assert (await kept(archive))[0] == MOST_POSTS + 1


async def test_it_has_a_quota_of_bytes(archive: Archive) -> None:
    for first in range(1, 600, 100):
        await posted(archive, [f"{n}" + "х" * 4000 for n in range(100)], first=first)
    number, size = await kept(archive)
    assert size * 2 <= MOST_BYTES
    assert number > 100


async def test_edits_count_and_an_old_text_is_not_left_as_if_it_were_the_last(archive: Archive) -> None:
    await posted(archive, ["Bread is 90."])
    for first in range(100, 100 + 3 * MOST_POSTS, 100):
        await posted(archive, [f"Bread is {n}." for n in range(first, first + 100)], first=first, edited=1)
    assert (await kept(archive))[0] <= MOST_POSTS
    await channels.set_state(archive, NEW, "active")
    last = await posts.get(archive, [PostKey(NEW, 1)])
    assert all(post.text == f"Bread is {99 + 3 * MOST_POSTS}." for post in last.values())


async def test_only_so_many_channels_wait(archive: Archive) -> None:
    await channels.put(archive, Channel(READ, "Read"))
    for number in range(MOST_WAITING + 20):
        await posted(archive, ["Spam."], chat=-2000 - number)
    assert len(await channels.known(archive)) == MOST_WAITING + 1
    await posted(archive, ["News."], chat=READ)
    assert await kept(archive, READ) == (1, 5)
    assert await kept(archive, -2000 - MOST_WAITING) == (0, 0)


async def test_what_nobody_approved_is_in_no_index(archive: Archive) -> None:
    lexical = Lexical()
    indexer = Indexer(archive, lexical)
    await channels.put(archive, Channel(READ, "Read"))
    await posted(archive, ["Fresh rolls at six."], chat=READ)
    await posted(archive, ["A zorblax of rolls."])
    await indexer.catch_up()
    assert (len(lexical), {*lexical.chats}) == (1, {READ})
    assert (await indexable(archive, NEW), await posts.count(archive)) == (set(), 1)
    await channels.set_state(archive, NEW, "active")
    await indexer.catch_up()
    assert {*lexical.chats} == {READ, NEW}
    await channels.set_state(archive, NEW, "paused")
    await indexer.catch_up()
    assert {*lexical.chats} == {READ, NEW}
    assert await backlog.follow(archive, "store") == 2
    await channels.set_state(archive, NEW, "pending")
    await indexer.catch_up()
    assert len(lexical) == 1
    assert await backlog.follow(archive, "store") == 1  # the dense leg looks at it again, and finds nothing to embed
    assert [change.post for change in (await again(archive, [PostKey(NEW, 1)])).changes] == [None]


async def test_what_was_indexed_before_an_approval_was_needed_leaves_the_index(tmp_path: Path) -> None:
    """An archive of an earlier version, whose index holds the posts of a channel that waits."""
    lexical = Lexical()
    archive = await Archive.open(tmp_path)
    try:
        await channels.put(archive, Channel(NEW, "Bakery"))
        await posted(archive, ["A zorblax of rolls."])
        await Indexer(archive, lexical).catch_up()
    finally:
        await archive.close()
    assert {*lexical.chats} == {NEW}
    with closing(sqlite3.connect(tmp_path / "citegram.db")) as old:
        old.execute("UPDATE channels SET state = 'pending'")
        old.execute("ALTER TABLE channels DROP COLUMN dropped_since")
        old.execute(f"PRAGMA user_version = {len(MIGRATIONS) - 1}")
        old.commit()
    archive = await Archive.open(tmp_path)
    try:
        await drain(archive)
        await Indexer(archive, lexical).catch_up()
    finally:
        await archive.close()
    assert len(lexical) == 0
