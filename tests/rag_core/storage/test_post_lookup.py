from __future__ import annotations

from typing import Any

from rag_core.storage import Archive, posts
from rag_core.storage.post_lookup import StoredPost, fetch_stored_posts, list_album_keys
from rag_core.types import PostKey

CHAT = -1001


def keys(*numbers: int) -> list[PostKey]:
    return [PostKey(CHAT, number) for number in numbers]


async def test_an_admin_sees_what_readers_do_not(archive: Archive, make_post: Any) -> None:
    kept = [make_post(1, "a"), make_post(2, "b"), make_post(3, "c", guarded="paid"), make_post(4, "d")]
    await posts.save_posts(archive, kept, source="live")
    await posts.mark_posts_deleted(archive, keys(1), how="admin")
    await posts.mark_posts_suspected(archive, keys(2))
    assert set(await posts.fetch_posts(archive, keys(1, 2, 3, 4))) == set(keys(4))
    assert await fetch_stored_posts(archive, keys(1, 2, 3, 4, 5)) == {
        post.key: StoredPost(post, post.date, 0, post.key.message_id == 1, post.key.message_id == 2) for post in kept
    }


async def test_a_post_of_an_album_stands_for_all_of_it(archive: Archive, make_post: Any) -> None:
    kept = [make_post(n, "", album="a") for n in (3, 2, 4)] + [make_post(5, "x"), make_post(6, "", album="b")]
    await posts.save_posts(archive, [*kept, make_post(3, "", chat=-1002, album="a")], source="live")
    for number in (2, 3, 4):
        assert list(await list_album_keys(archive, PostKey(CHAT, number))) == keys(2, 3, 4)
    for number in (5, 6, 7):
        assert list(await list_album_keys(archive, PostKey(CHAT, number))) == keys(number)
