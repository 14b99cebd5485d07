"""Raw updates become posts: each once, the bad ones aside, in the transaction that settles them."""

import asyncio

import pytest
from stored_updates import save_updates

from ingest.inbox import process_pending_posts
from rag_core.errors import ArchiveUnavailable
from rag_core.storage import channels, posts, raw_updates
from rag_core.storage.posts import fetch_stored_posts
from rag_core.types import Channel, PostKey

BOT = 42
CHAT = {"id": -1001, "type": "channel", "title": "Пекарня", "username": "bread"}


def update(update_id, text, kind="channel_post", message_id=7, **more):
    message = {"message_id": message_id, "chat": CHAT, "date": 1_710_244_800, "text": text} | more
    return {"update_id": update_id, kind: message}


async def test_posts_and_edits_are_worked_in_and_settled(archive):
    edit = update(2, "Хлеб 95", "edited_channel_post", edit_date=1_710_244_860)
    await save_updates(archive, BOT, [update(1, "Хлеб 90"), edit, update(3, "Сайка", message_id=8)])

    assert await process_pending_posts(archive) == 3
    assert await process_pending_posts(archive) == 0

    found = await fetch_stored_posts(archive, [PostKey(-1001, 7), PostKey(-1001, 8)])
    assert {one.post.text: one.post.version for one in found.values()} == {"Хлеб 95": 2, "Сайка": 1}
    assert await channels.load_channels(archive) == {
        -1001: Channel(-1001, "Пекарня", "bread", state="pending", inside=True)
    }
    assert await raw_updates.count_updates_by_state(archive) == {"pending": 0, "poison": 0, "done": 3}


async def test_a_bad_update_in_the_middle_is_set_aside_and_the_others_come_in(archive):
    batch = [
        update(1, "Раз"),
        update(2, "?", forward_origin={"type": "from_the_future", "date": 1}),
        {"update_id": 3, "channel_post": None},
        update(4, "?", chat={"id": 2**80}),
        {"update_id": 5, "channel_post": 5},
        update(6, "Два", message_id=8),
    ]
    await save_updates(archive, BOT, batch)

    assert await process_pending_posts(archive) == 2
    assert await posts.list_message_ids(archive, -1001) == {7, 8}
    assert await raw_updates.count_updates_by_state(archive) == {"pending": 0, "poison": 4, "done": 2}
    ((error,),) = await archive.rows("SELECT error FROM updates WHERE update_id = 2")
    assert error == "a forward of an unknown kind"


async def test_more_than_one_batch_and_two_bots_at_once(archive):
    await channels.save_channel(archive, Channel(-1001, "Пекарня", "bread"))
    for bot in (BOT, 43):
        await save_updates(archive, bot, [update(n, f"Пост {n}", message_id=n) for n in range(1, 701)])
    assert await process_pending_posts(archive) == 1400
    assert await posts.count_posts(archive) == 700
    assert (await raw_updates.count_updates_by_state(archive))["done"] == 1400


async def test_two_that_drain_at_once_keep_each_post_once(archive):
    await save_updates(archive, BOT, [update(n, f"Пост {n}", message_id=n) for n in range(1, 101)])
    await asyncio.gather(process_pending_posts(archive), process_pending_posts(archive))
    assert await posts.get_last_seq(archive) == 100


async def test_when_the_archive_fails_the_updates_wait(archive):
    await save_updates(archive, BOT, [update(1, "х" * 4096)])
    async with archive.writing() as connection:
        ((pages,),) = await connection.execute_fetchall("PRAGMA page_count")
        await connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(ArchiveUnavailable):
        await process_pending_posts(archive)

    async with archive.writing() as connection:
        await connection.execute("PRAGMA max_page_count = 1000000")
    assert await raw_updates.count_updates_by_state(archive) == {"pending": 1, "poison": 0, "done": 0}
    assert await process_pending_posts(archive) == 1


async def test_members_of_an_album_wait_for_each_other_but_not_for_ever(archive, monkeypatch):
    clock = 1_000_000
    monkeypatch.setattr(raw_updates, "get_unix_time", lambda: clock)
    await save_updates(archive, BOT, [update(1, "Обложка", media_group_id="a"), update(2, "Один", message_id=8)])
    assert await process_pending_posts(archive) == 1
    assert await posts.list_message_ids(archive, -1001) == {8}
    clock += 2
    assert await process_pending_posts(archive) == 1

    await save_updates(archive, BOT, [update(3, "Ещё", message_id=9, media_group_id="b")])
    clock -= 3600  # a clock that was put back holds nothing
    assert await process_pending_posts(archive) == 1


async def test_an_old_title_that_comes_late_does_not_come_back(archive, monkeypatch):
    clock = 1_000_000
    monkeypatch.setattr(raw_updates, "get_unix_time", lambda: clock)
    await save_updates(archive, BOT, [update(1, "Один")])
    await process_pending_posts(archive)
    before = await posts.get_last_seq(archive)

    renamed = CHAT | {"title": "Пекарня на углу"}
    await save_updates(archive, BOT, [update(2, "", message_id=8, media_group_id="a", photo=[])])
    await save_updates(archive, BOT, [update(3, "Два", message_id=9, chat=renamed, date=1_710_244_801)])
    await process_pending_posts(archive)
    assert [c.key.message_id for c in await posts.list_post_changes(archive, before)] == [7, 9]
    clock += 5
    await process_pending_posts(archive)
    assert (await channels.load_channels(archive))[-1001].title == "Пекарня на углу"


async def test_a_new_title_comes_with_an_update_of_a_lower_number_too(archive):
    """Telegram numbers anew after a week without updates, and the updates of another bot are numbered otherwise."""
    await save_updates(archive, BOT, [update(900_000_001, "Хлеб 90")])
    await process_pending_posts(archive)
    renamed = CHAT | {"title": "Булочная", "username": None}
    await save_updates(archive, BOT, [update(5, "Хлеб 95", message_id=8, chat=renamed, date=1_711_244_800)])
    await process_pending_posts(archive)
    known = (await channels.load_channels(archive))[-1001]
    assert (known.title, known.username) == ("Булочная", None)


async def test_what_is_wrong_from_the_first_is_never_a_post(archive):
    await save_updates(archive, BOT, [update(1, "Раз"), update(2, "Два", message_id=8)], {2: "odd"})
    await save_updates(archive, BOT, [update(2, "Два", message_id=8)])
    assert await process_pending_posts(archive) == 1
    assert await posts.list_message_ids(archive, -1001) == {7}
    assert await raw_updates.count_updates_by_state(archive) == {"pending": 0, "poison": 1, "done": 1}
