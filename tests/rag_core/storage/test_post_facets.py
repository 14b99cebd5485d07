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
