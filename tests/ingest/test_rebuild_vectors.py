import asyncio
from dataclasses import replace

import numpy as np
import pytest

from ingest.indexer import DenseIndexer
from ingest.rebuild import build_next_index
from rag_core.index.vector_store import VectorPoint
from rag_core.storage import channels, index_state, posts, visible_posts
from rag_core.types import PassageRef, PostKey, SearchFilter

pytestmark = pytest.mark.slow

CHAT, KILN = -1001000000001, -1001000000002
POSTS = 40


class CountingEmbedder:
    def __init__(self, embedder):
        self._embedder, self.name, self.computed = embedder, embedder.name, 0

    async def passages(self, texts):
        self.computed += len(texts)
        return await self._embedder.passages(texts)


@pytest.fixture
async def shelf(tmp_path, open_library, offline_models, make_post):
    """Posts in two channels with their vectors; one post has two parts."""
    async with open_library(tmp_path / "data", models={"dir": offline_models.parent}) as library:
        library.counted = CountingEmbedder(library.rag.dense.embedder)
        library.dense = DenseIndexer(library.rag.archive, library.rag.dense.vectors, library.counted)
        library.vectors = library.rag.dense.vectors
        ferries = [make_post(n, f"The ferry leaves pier {n}.", chat=CHAT) for n in range(1, POSTS)]
        long = make_post(100, "The island has a harbour and a boat. " * 60, chat=CHAT)
        kilns = [make_post(n, f"Обжиг номер {n}, глина.", chat=KILN) for n in range(1, 10)]
        await library.keep(*ferries, long, *kilns)
        await library.dense.catch_up()
        library.counted.computed = 0
        yield library


async def renewed(library, chat_id=None):
    """Rebuild; how many posts were found to be wrong in the store."""
    told = []

    async def moved(done, total, renewed):
        told.append(renewed)

    rebuild = await index_state.begin_rebuild(library.rag.archive, chat_id)
    await build_next_index(library.rag.archive, library.dense, rebuild, moved)
    await index_state.save_rebuild(library.rag.archive, replace(rebuild, state="done"))
    return told[-1]


async def held(library):
    return {tuple(one) for page in [page async for page in library.vectors.iterate_points()] for one in page}


async def test_unchanged_texts_are_not_computed_again_and_nothing_is_written(shelf):
    before, count = await held(shelf), await shelf.vectors.count()
    assert await renewed(shelf) == 0
    assert await shelf.dense.waiting() == 0
    assert (await held(shelf), await shelf.vectors.count()) == (before, count)
    await posts.mark_posts_changed(
        shelf.rag.archive
    )  # every post is taken in anew: the vectors are known by their texts
    assert await shelf.dense.catch_up() == POSTS + 9
    assert (await held(shelf), shelf.counted.computed) == (before, 0)


async def test_what_is_wrong_in_the_store_is_put_right_and_only_that(shelf):
    before = await held(shelf)
    await shelf.vectors.remove([PostKey(CHAT, 3)])  # lost
    ferry = await shelf.rag.dense.embedder.query("ferry")
    date = (await visible_posts.fetch_posts(shelf.rag.archive, [PostKey(CHAT, 4)]))[PostKey(CHAT, 4)].date
    wrong = [
        VectorPoint(PassageRef(PostKey(CHAT, 4), 0, 0, 5), date, "en", "another text", ferry),  # of another text
        VectorPoint(PassageRef(PostKey(CHAT, 5), 1, 5, 9), date, "en", "a part too many", ferry),
        VectorPoint(PassageRef(PostKey(CHAT, 7777), 0, 0, 5), date, "en", "of no post", ferry),
        VectorPoint(PassageRef(PostKey(-5, 1), 0, 0, 5), date, "en", "of no channel", ferry),
    ]
    await shelf.vectors.upsert(wrong)
    assert await renewed(shelf) == 5
    assert await shelf.dense.waiting() == 5
    await shelf.dense.catch_up()
    assert await held(shelf) == before
    assert shelf.counted.computed == 2  # the one that was lost, and the one whose text was another
    assert await renewed(shelf) == 0


async def test_a_rebuilt_channel_looks_at_its_own_vectors(shelf):
    await shelf.indexer.save()
    await shelf.vectors.remove([PostKey(CHAT, 3), PostKey(KILN, 3)])
    assert await renewed(shelf, KILN) == 1
    await shelf.dense.catch_up()
    assert await shelf.dense.waiting() == 0
    assert {place.key for place, *_ in await held(shelf)} & {PostKey(CHAT, 3), PostKey(KILN, 3)} == {PostKey(KILN, 3)}


async def test_a_new_title_is_a_new_text(shelf):
    """The header is embedded with the text, so a renamed channel is computed again when it is rebuilt."""
    await channels.save_channel(shelf.rag.archive, replace(shelf.channels[1], title="Печь и огонь"))
    assert await renewed(shelf) == 9
    await shelf.dense.catch_up()
    assert shelf.counted.computed == 9


async def test_a_post_that_is_taken_in_anew_is_found_all_the_time(shelf, make_post):
    vector = await shelf.rag.dense.embedder.query("ferry island harbour boat")
    only, missed, done = SearchFilter(frozenset({CHAT})), [], asyncio.Event()

    async def search():
        while not done.is_set():
            found = await shelf.vectors.search(vector, only, 1000)
            missed.extend({*range(1, POSTS), 100} - {place.key.message_id for place, _ in found})
            await asyncio.sleep(0)

    searching = asyncio.create_task(search())
    for day in range(1, 4):
        edited = make_post(
            100, "The island has a boat. " * (60 // day), chat=CHAT, edited=make_post(1, "", days=day).date
        )
        await shelf.keep(edited)
        await posts.mark_posts_changed(shelf.rag.archive, CHAT)
        await shelf.dense.catch_up()
    done.set()
    await searching
    assert missed == []
    parts = [place.part for place, *_ in await held(shelf) if place.key == PostKey(CHAT, 100)]
    assert parts == [0]
    assert np.isfinite(vector).all()
