"""What the archive knows of posts beside their text, by channel."""

import re

import pytest

from rag_core.storage import channels, posts
from rag_core.storage.posts import PostFacet, find_posts_by_facet, list_facet_values
from rag_core.types import Channel, Media, Origin, PostKey, PostKeySet

HERE, THERE = -1001, -1002


def listed(keys):
    return {(chat, int(number)) for chat, ids in keys.by_chat.items() for number in ids}


@pytest.fixture
async def archive(archive, make_post):
    for chat in (HERE, THERE):
        await channels.save_channel(archive, Channel(chat, f"Channel {chat}"))
    kept = [
        make_post(1, "a", author="Анна", media=Media("photo")),
        make_post(2, "b", author="Пётр", origin=Origin("РБК", -7)),
        make_post(3, "c", media=Media("document", "прайс.pdf"), origin=Origin("РБК")),
        make_post(4, "", media=Media("photo"), album="x"),
        make_post(5, "caption", media=Media("video"), album="x"),
        make_post(6, "d", media=Media("photo"), album="y"),
        make_post(1, "e", chat=THERE, author="Анна", media=Media("photo"), album="x"),
        make_post(2, "f", chat=THERE, author="Мария", origin=Origin("ТАСС", -8), media=Media("document", "План.PDF")),
    ]
    await posts.save_posts(archive, kept, source="import")
    return archive


async def test_names_are_those_of_the_channels_asked_about(archive):
    assert sorted(await list_facet_values(archive, PostFacet.AUTHOR, [HERE])) == ["Анна", "Пётр"]
    assert sorted(await list_facet_values(archive, PostFacet.AUTHOR, [HERE, THERE])) == ["Анна", "Мария", "Пётр"]
    assert sorted(await list_facet_values(archive, PostFacet.ORIGIN, [HERE, THERE])) == ["РБК", "ТАСС"]
    assert sorted(await list_facet_values(archive, PostFacet.FILE, [HERE, THERE], "%.pdf%")) == [
        "План.PDF",
        "прайс.pdf",
    ]
    assert await list_facet_values(archive, PostFacet.FILE, [HERE, THERE], "%.doc%") == []
    assert await list_facet_values(archive, PostFacet.AUTHOR, []) == []


async def test_posts_are_found_by_what_they_have_and_an_album_by_any_of_its_posts(archive):
    both = [HERE, THERE]
    assert listed(await find_posts_by_facet(archive, PostFacet.AUTHOR, ["Анна"], both)) == {(HERE, 1), (THERE, 1)}
    assert listed(await find_posts_by_facet(archive, PostFacet.AUTHOR, ["Анна"], [HERE])) == {(HERE, 1)}
    assert listed(await find_posts_by_facet(archive, PostFacet.FILE, ["прайс.pdf", "none"], both)) == {(HERE, 3)}
    assert listed(await find_posts_by_facet(archive, PostFacet.ORIGIN, ["РБК"], both)) == {(HERE, 2), (HERE, 3)}
    assert listed(await find_posts_by_facet(archive, PostFacet.ORIGIN_CHAT, [-7, -8], both)) == {(HERE, 2), (THERE, 2)}
    # the album stands under its captioned post, the video; another channel's of the same name is another
    assert listed(await find_posts_by_facet(archive, PostFacet.MEDIA, ["photo"], [HERE])) == {
        (HERE, n) for n in (1, 4, 5, 6)
    }
    assert listed(await find_posts_by_facet(archive, PostFacet.MEDIA, ["video"], both)) == {(HERE, 4), (HERE, 5)}
    assert len(await find_posts_by_facet(archive, PostFacet.MEDIA, [], both)) == 0
    assert len(await find_posts_by_facet(archive, PostFacet.MEDIA, ["photo"], [])) == 0


def test_keys_are_joined_and_shared_by_channel():
    one = PostKeySet.of([PostKey(-1, 3), PostKey(-1, 1), PostKey(-2, 5), PostKey(-1, 3)])
    other = PostKeySet.of([PostKey(-1, 3), PostKey(-2, 6), PostKey(-3, 1)])
    assert (len(one), one.by_chat[-1].tolist()) == (3, [1, 3])
    assert listed(one & other) == {(-1, 3)}
    assert listed(one | other) == {(-1, 1), (-1, 3), (-2, 5), (-2, 6), (-3, 1)}
    assert len(PostKeySet({}) & one) == len(one & PostKeySet({})) == 0


class Explained:
    """An archive that tells how SQLite goes about what it is asked."""

    def __init__(self, archive):
        self.archive, self.steps = archive, []

    async def rows(self, sql, values=()):
        steps = [row["detail"] for row in await self.archive.rows(f"EXPLAIN QUERY PLAN {sql}", values)]
        self.steps += [step for step in steps if step.startswith(("SEARCH t", "SCAN t", "SEARCH m", "SCAN m"))]
        return await self.archive.rows(sql, values)


@pytest.mark.parametrize("facet", list(PostFacet))
async def test_no_text_is_read_to_find_them(archive, facet):
    """Through the rows, where the texts are, it takes 50 times as long."""
    explained = Explained(archive)
    await find_posts_by_facet(explained, facet, ["Анна"], [HERE, THERE])
    if facet is not PostFacet.ORIGIN_CHAT:
        await list_facet_values(explained, facet, [HERE])
    for step in explained.steps:
        assert re.search(r"SEARCH [tm] USING COVERING INDEX posts_\w+ \(chat_id=\?", step), step
    assert len(explained.steps) >= 3
