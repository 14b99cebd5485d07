from datetime import UTC, datetime, timedelta

from stored_updates import save_updates

from ingest.exports import import_export
from ingest.inbox import (
    MAX_BYTES_PER_CHANNEL,
    MAX_POSTS_PER_CHANNEL,
    MAX_WAITING_CHANNELS,
    forget_unapproved_channels,
    process_pending_posts,
)
from ingest.indexer import LexicalIndexer, read_posts_again
from ingest.json_export import ImportOptions
from rag_core.index.lexical_index import LexicalIndex
from rag_core.storage import channel_history, channels, index_state, posts, visible_posts
from rag_core.storage.index_state import list_indexable_ids
from rag_core.types import Channel, PostKey, Visibility

NEW, OLD, READ = -1009, -1010, -1011


async def test_what_nobody_approves_for_a_month_is_forgotten(archive, make_post):
    for chat, state in ((NEW, "pending"), (OLD, "pending"), (READ, "active")):
        await channels.save_channel(archive, Channel(chat, "Bakery", state=state))
        await posts.save_posts(archive, [make_post(1, "Rolls at six.", chat=chat)], source="live")
    async with archive.writing() as connection:
        await connection.execute("UPDATE channels SET added_at = added_at - 31 * 86400 WHERE chat_id <> ?", (NEW,))
    now = datetime.now(UTC)
    assert await forget_unapproved_channels(archive, now - timedelta(days=5)) == 0
    assert await forget_unapproved_channels(archive, now) == 1
    assert [await posts.count_posts(archive, chat) for chat in (NEW, OLD, READ)] == [1, 0, 1]
    await channels.purge_removed_posts(archive, await posts.get_last_seq(archive))
    assert (await channels.load_channels(archive)).keys() == {NEW, READ}
    assert await forget_unapproved_channels(archive, now) == 0


async def test_a_removed_channel_that_posts_again_is_closed_until_somebody_opens_it(archive, make_post, tmp_path):
    """An export of it approves it, and must not open it to those who read it before."""
    await channels.save_channel(archive, Channel(NEW, "Bakery", "bakery", visibility=Visibility.PUBLIC))
    await channels.remove_channel(archive, NEW)
    await posts.save_posts(archive, [make_post(1, "Rolls at six.", chat=NEW)], source="live")
    await channels.purge_removed_posts(archive, await posts.get_last_seq(archive))
    assert (await channels.load_channels(archive))[NEW].state == "pending"
    (tmp_path / "result.json").write_text('{"name": "Bakery", "type": "public_channel", "id": 9, "messages": []}')
    await import_export(archive, tmp_path, ImportOptions(chat_id=NEW))
    known = (await channels.load_channels(archive))[NEW]
    assert (known.state, known.visibility) == ("active", Visibility.ADMINS)


CHAT = {"id": NEW, "type": "channel", "title": "Bakery"}
DAY = 1_710_244_800


async def posted(archive, texts, *, first=1, edited=0, chat=NEW):
    """Posts as Telegram delivers them; with `edited` versions of that one post."""
    batch = []
    for number, text in enumerate(texts, first):
        post = {"chat": CHAT | {"id": chat}, "date": DAY + number, "text": text}
        if edited:
            post |= {"message_id": edited, "date": DAY + edited, "edit_date": DAY + number}
        else:
            post |= {"message_id": number}
        batch.append(
            {"update_id": 10**6 * edited - chat + number, "edited_channel_post" if edited else "channel_post": post}
        )
    await save_updates(archive, 42, batch)
    await process_pending_posts(archive)


async def kept(archive, chat=NEW):
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


async def test_a_channel_nobody_approved_has_a_quota_of_posts(archive):
    for first in range(1, 2 * MAX_POSTS_PER_CHANNEL, 100):
        await posted(archive, [f"Rolls, lot {n}." for n in range(100)], first=first)
    assert (await kept(archive))[0] == MAX_POSTS_PER_CHANNEL
    await channels.set_channel_state(archive, NEW, "active")
    (gap, *_) = [gap for gap in (await channel_history.list_open_gaps(archive))[NEW] if gap.since]
    assert gap.since == datetime.fromtimestamp(DAY + MAX_POSTS_PER_CHANNEL + 1, UTC)
    await posted(archive, ["Now it is approved."], first=5000)
    assert (await kept(archive))[0] == MAX_POSTS_PER_CHANNEL + 1


async def test_it_has_a_quota_of_bytes(archive):
    for first in range(1, 600, 100):
        await posted(archive, [f"{n}" + "х" * 4000 for n in range(100)], first=first)
    number, size = await kept(archive)
    assert size * 2 <= MAX_BYTES_PER_CHANNEL
    assert number > 100


async def test_edits_count_and_an_old_text_is_not_left_as_if_it_were_the_last(archive):
    await posted(archive, ["Bread is 90."])
    for first in range(100, 100 + 3 * MAX_POSTS_PER_CHANNEL, 100):
        await posted(archive, [f"Bread is {n}." for n in range(first, first + 100)], first=first, edited=1)
    assert (await kept(archive))[0] <= MAX_POSTS_PER_CHANNEL
    await channels.set_channel_state(archive, NEW, "active")
    last = await visible_posts.fetch_posts(archive, [PostKey(NEW, 1)])
    assert all(post.text == f"Bread is {99 + 3 * MAX_POSTS_PER_CHANNEL}." for post in last.values())


async def test_only_so_many_channels_wait(archive):
    await channels.save_channel(archive, Channel(READ, "Read"))
    for number in range(MAX_WAITING_CHANNELS + 20):
        await posted(archive, ["Spam."], chat=-2000 - number)
    assert len(await channels.load_channels(archive)) == MAX_WAITING_CHANNELS + 1
    await posted(archive, ["News."], chat=READ)
    assert await kept(archive, READ) == (1, 5)
    assert await kept(archive, -2000 - MAX_WAITING_CHANNELS) == (0, 0)


async def test_what_nobody_approved_is_in_no_index(archive):
    lexical = LexicalIndex()
    indexer = LexicalIndexer(archive, lexical)
    await channels.save_channel(archive, Channel(READ, "Read"))
    await posted(archive, ["Fresh rolls at six."], chat=READ)
    await posted(archive, ["A zorblax of rolls."])
    await indexer.catch_up()
    assert (len(lexical), {*lexical.chats}) == (1, {READ})
    assert (await list_indexable_ids(archive, NEW), await posts.count_posts(archive)) == (set(), 1)
    await channels.set_channel_state(archive, NEW, "active")
    await indexer.catch_up()
    assert {*lexical.chats} == {READ, NEW}
    await channels.set_channel_state(archive, NEW, "paused")
    await indexer.catch_up()
    assert {*lexical.chats} == {READ, NEW}
    assert await index_state.queue_changed_posts(archive, "store", "model") == 2
    await channels.set_channel_state(archive, NEW, "pending")
    await indexer.catch_up()
    assert len(lexical) == 1
    assert (
        await index_state.queue_changed_posts(archive, "store", "model") == 1
    )  # the dense leg looks at it again, and finds nothing to embed
    assert [change.post for change in (await read_posts_again(archive, [PostKey(NEW, 1)])).changes] == [None]
