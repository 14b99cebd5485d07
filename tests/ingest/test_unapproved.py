from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ingest.unapproved import forget_unapproved
from rag_core.doors.archive import Archive, channels, posts
from rag_core.types import Channel, Post

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
