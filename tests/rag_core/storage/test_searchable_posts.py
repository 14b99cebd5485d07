"""What is searched: visible posts, each album as one; what shows a changed post changes with it."""

from dataclasses import replace

import pytest

from rag_core.storage import channels, index_state, posts, readers, visible_posts
from rag_core.storage.posts import StoredPost, fetch_stored_posts, list_album_keys
from rag_core.types import Channel, Entity, Media, PostKey

CHAT = -1001
PHOTO = Media("photo")


@pytest.fixture
async def archive(archive):
    await channels.save_channel(archive, Channel(CHAT, "Пекарня"))
    return archive


def key(number):
    return PostKey(CHAT, number)


async def seen(archive, after=0):
    """What an index that has come up to `after` is told: message id -> text, None where it is to go."""
    found = await posts.list_post_changes(archive, after)
    assert len({change.key for change in found}) == len(found)
    assert found == sorted(found, key=lambda change: change.seq)
    return {change.key.message_id: change.post.text if change.post else None for change in found}


async def waiting(archive):
    await index_state.queue_changed_posts(archive, "store", "model")
    queued = await index_state.list_queued_posts(archive, 100)
    await index_state.dequeue_posts(archive, queued)
    return {key.message_id for key, _ in queued}


async def test_an_album_is_found_under_its_captioned_post_with_the_captions_of_all(archive, make_post):
    album = [
        make_post(1, "", album="a", media=PHOTO),
        make_post(2, "Хлеб 🍞", album="a", media=PHOTO, entities=(Entity("bold", 0, 4),)),
        make_post(3, "Булки", album="a", media=PHOTO, entities=(Entity("italic", 0, 5),), links=("https://b/",)),
    ]
    await posts.save_posts(archive, album, source="live")

    assert await seen(archive) == {1: None, 2: "Хлеб 🍞\n\nБулки", 3: None}
    found = await visible_posts.fetch_posts(archive, [key(1), key(2), key(3)])
    assert list(found) == [key(2)]
    assert found[key(2)].entities == (Entity("bold", 0, 4), Entity("italic", 9, 5))
    assert found[key(2)].links == ("https://b/",)
    assert await waiting(archive) == {1, 2, 3}


async def test_a_member_that_changes_or_comes_late_changes_the_whole(archive, make_post):
    pdf = Media("document", "меню.pdf")
    await posts.save_posts(archive, [make_post(1, "", album="a", media=pdf)], source="live")
    assert await seen(archive) == {1: ""}
    before = await posts.get_last_seq(archive)
    await waiting(archive)

    late = make_post(2, "Меню", album="a", media=replace(pdf, file_name="цены.pdf"))
    await posts.save_posts(archive, [late], source="live")
    assert await seen(archive, before) == {1: None, 2: "Меню"}
    unit = (await visible_posts.fetch_posts(archive, [key(2)]))[key(2)]
    assert unit.media == Media("document", "меню.pdf, цены.pdf")
    assert await waiting(archive) == {1, 2}

    before = await posts.get_last_seq(archive)
    await posts.mark_posts_deleted(archive, [key(2)], how="test")
    assert await seen(archive, before) == {1: "", 2: None}
    assert await waiting(archive) == {1, 2}


async def test_a_reply_is_looked_at_again_when_what_it_replies_to_changes(archive, make_post):
    await posts.save_posts(archive, [make_post(2, "Да", reply_to=1), make_post(3, "Мимо")], source="live")
    before = await posts.get_last_seq(archive)
    await waiting(archive)
    await posts.save_posts(archive, [make_post(1, "Печём завтра?")], source="live")
    assert await seen(archive, before) == {1: "Печём завтра?", 2: "Да"}
    assert await visible_posts.fetch_replied_texts(archive, [key(2)]) == {key(2): "Печём завтра?"}
    assert await waiting(archive) == {1, 2}


async def test_guarded_posts_are_kept_and_found_only_where_an_admin_lets_them(archive, make_post):
    kept = [
        make_post(1, "Для всех"),
        make_post(2, "Платное", guarded="paid"),
        make_post(3, "Тс-с", guarded="protected"),
    ]
    await posts.save_posts(archive, kept, source="live")
    assert await seen(archive) == {1: "Для всех", 2: None, 3: None}
    assert set(await visible_posts.fetch_posts(archive, [key(1), key(2), key(3)])) == {key(1)}

    before = await posts.get_last_seq(archive)
    await channels.allow_guarded_posts(archive, CHAT, True)
    assert await seen(archive, before) == {2: "Платное", 3: "Тс-с"}
    assert (await channels.load_channels(archive))[CHAT].guarded_too

    before = await posts.get_last_seq(archive)
    await channels.allow_guarded_posts(archive, CHAT, False)
    assert await seen(archive, before) == {2: None, 3: None}


async def test_an_export_does_not_take_the_guard_away(archive, make_post):
    await posts.save_posts(archive, [make_post(1, "Тс-с", guarded="protected")], source="live")
    await posts.save_posts(archive, [make_post(1, "Тс-с!", edited=make_post(1, "", days=1).date)], source="import")
    assert await visible_posts.fetch_posts(archive, [key(1)]) == {}


async def test_a_suspected_post_is_left_out_until_it_is_seen_again(archive, make_post):
    post = make_post(1, "Хлеб")
    await posts.save_posts(archive, [post], source="live", update_id=5)
    before = await posts.get_last_seq(archive)
    assert await posts.mark_posts_suspected(archive, [key(1), key(9)]) == 1
    assert await posts.mark_posts_suspected(archive, [key(1)]) == 0
    assert await seen(archive, before) == {1: None}
    assert await visible_posts.fetch_posts(archive, [key(1)]) == {}

    before = await posts.get_last_seq(archive)
    await posts.save_posts(archive, [post], source="import")
    assert await seen(archive, before) == {1: "Хлеб"}


async def test_what_an_admin_deleted_comes_back_with_a_newer_version_only(archive, make_post):
    post = make_post(1, "Хлеб")
    await posts.save_posts(archive, [post], source="live", update_id=5)
    await posts.mark_posts_deleted(archive, [key(1)], how="admin")
    assert (await posts.save_posts(archive, [post], source="import")).unchanged == 1
    assert await visible_posts.fetch_posts(archive, [key(1)]) == {}
    edit = replace(post, text="Хлеб 95", edited=make_post(1, "", days=1).date)
    assert (await posts.save_posts(archive, [edit], source="live", update_id=6)).new == 1
    assert (await visible_posts.fetch_posts(archive, [key(1)]))[key(1)].text == "Хлеб 95"


async def test_touched_posts_are_looked_at_again(archive, make_post):
    await posts.save_posts(archive, [make_post(n, f"Пост {n}") for n in range(1, 1201)], source="live")
    await posts.save_posts(archive, [make_post(1, "Чужой", chat=-1002)], source="live")
    before = await posts.get_last_seq(archive)
    await posts.mark_posts_changed(archive, CHAT)
    assert len(await posts.list_post_changes(archive, before, 5000)) == 1200
    before = await posts.get_last_seq(archive)
    await posts.mark_posts_changed(archive)
    assert len(await posts.list_post_changes(archive, before, 5000)) == 1201


async def test_a_removed_channel_goes_from_the_indexes_first_and_then_for_good(archive, make_post):
    await readers.bind_channel(archive, -9, CHAT)
    await posts.save_posts(archive, [make_post(1, "Хлеб"), make_post(2, "Булки")], source="live")
    before = await posts.get_last_seq(archive)
    assert await channels.remove_channel(archive, CHAT) == 2
    assert await seen(archive, before) == {1: None, 2: None}
    assert await readers.list_bound_channels(archive, -9) == frozenset()

    await channels.purge_removed_posts(archive, before)
    assert len(await archive.rows("SELECT 1 FROM posts")) == 2
    await channels.purge_removed_posts(archive, await posts.get_last_seq(archive))
    assert await channels.load_channels(archive) == {}
    assert await archive.rows("SELECT 1 FROM posts") == []


async def test_an_admin_sees_what_readers_do_not(archive, make_post):
    kept = [make_post(1, "a"), make_post(2, "b"), make_post(3, "c", guarded="paid"), make_post(4, "d")]
    await posts.save_posts(archive, kept, source="live")
    await posts.mark_posts_deleted(archive, [key(1)], how="admin")
    await posts.mark_posts_suspected(archive, [key(2)])
    assert set(await visible_posts.fetch_posts(archive, map(key, (1, 2, 3, 4)))) == {key(4)}
    assert await fetch_stored_posts(archive, map(key, (1, 2, 3, 4, 5))) == {
        post.key: StoredPost(post, post.date, post.key.message_id == 1, post.key.message_id == 2) for post in kept
    }


async def test_a_post_of_an_album_stands_for_all_of_it(archive, make_post):
    kept = [make_post(n, "", album="a") for n in (3, 2, 4)] + [make_post(5, "x"), make_post(6, "", album="b")]
    await posts.save_posts(archive, [*kept, make_post(3, "", chat=-1002, album="a")], source="live")
    for number in (2, 3, 4):
        assert await list_album_keys(archive, key(number)) == (key(2), key(3), key(4))
    for number in (5, 6, 7):
        assert await list_album_keys(archive, key(number)) == (key(number),)
