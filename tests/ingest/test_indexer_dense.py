import shutil
from itertools import pairwise

import numpy as np
import pytest

import ingest.indexer
from ingest.indexer import DenseIndexer
from rag_core.errors import ModelUnavailable
from rag_core.storage import index_state, visible_posts
from rag_core.types import PostKey, SearchFilter

pytestmark = pytest.mark.slow

CHAT = -1001000000001


class Counted:
    """The real embedder, and how many texts it was given; it may be told to fail."""

    def __init__(self, embedder):
        self.inner = embedder
        self.name = embedder.name
        self.texts = []
        self.fails = False

    async def passages(self, texts):
        if self.fails:
            raise ModelUnavailable("told to fail")
        self.texts += texts
        return await self.inner.passages(texts)


@pytest.fixture
async def shelf(tmp_path, open_library, offline_models):
    """An empty library with the dense leg; `library.embedder` counts."""
    async with open_library(tmp_path / "data", models={"dir": offline_models.parent}) as library:
        library.embedder = Counted(library.rag.dense.embedder)
        library.dense = DenseIndexer(library.rag.archive, library.rag.dense.vectors, library.embedder)
        yield library


async def stored(library):
    """The message ids in the store: found by a search that allows everything."""
    vector = await library.rag.dense.embedder.query("ferry harbour island boat")
    found = await library.rag.dense.vectors.search(vector, SearchFilter(frozenset({CHAT})), n=1000)
    return {place.key.message_id for place, _ in found}


async def test_new_edited_and_deleted_posts_reach_the_store(shelf, make_post):
    await shelf.keep(*(make_post(n, f"The ferry leaves pier {n}.", chat=CHAT) for n in range(1, 6)))
    assert await shelf.dense.waiting() == 5
    assert await shelf.dense.catch_up() == 5
    assert await stored(shelf) == {1, 2, 3, 4, 5}
    await shelf.keep(make_post(2, "The boat leaves pier nine.", chat=CHAT, edited=make_post(1, "", days=1).date))
    await shelf.erase(PostKey(CHAT, 4))
    assert await shelf.dense.waiting() == 2
    await shelf.dense.catch_up()
    assert await stored(shelf) == {1, 2, 3, 5}
    assert await shelf.rag.dense.vectors.count() == 4
    assert await shelf.dense.waiting() == 0


async def test_the_newest_come_first_and_deletions_before_them(shelf, make_post):
    await shelf.keep(*(make_post(n, f"Ferry number {n}.", chat=CHAT, days=n) for n in range(1, 100)))
    await shelf.dense.catch_up(most=10)
    assert await stored(shelf) == set(range(90, 100))
    await shelf.keep(make_post(200, "A live ferry post.", chat=CHAT, days=300))
    await shelf.erase(PostKey(CHAT, 95))
    await shelf.dense.catch_up(most=2)
    assert await stored(shelf) == {*range(90, 100), 200} - {95}


async def test_a_failure_leaves_the_posts_in_the_queue_and_nothing_twice(shelf, make_post):
    await shelf.keep(*(make_post(n, f"Ferry number {n}.", chat=CHAT) for n in range(1, 4)))
    shelf.embedder.fails = True
    with pytest.raises(ModelUnavailable):
        await shelf.dense.catch_up()
    assert await shelf.dense.waiting() == 3
    shelf.embedder.fails = False
    await shelf.dense.catch_up()
    # as if the process had died between storing and settling: the posts are queued again
    async with shelf.rag.archive.writing() as connection:
        await connection.execute("UPDATE dense SET watermark = 0")
    await shelf.dense.catch_up()
    assert await shelf.rag.dense.vectors.count() == 3


async def test_batches_grow_while_embedding_is_quick_and_shrink_where_it_is_not(shelf, make_post, monkeypatch):
    async def index_and_list_batches(first):
        done = [0]
        await shelf.keep(*(make_post(n, f"Ferry number {n}.", chat=CHAT) for n in range(first, first + 300)))
        await shelf.dense.catch_up(done.append)
        return [after - before for before, after in pairwise(done)]

    async def make_any_vectors(texts):
        return np.eye(1, shelf.rag.dense.vectors.about.dimension, dtype=np.float32).repeat(len(texts), axis=0)

    shelf.embedder.passages = make_any_vectors
    monkeypatch.setattr(ingest.indexer, "_BATCH_SECONDS", 100.0)  # quick is whatever takes less than half of it
    assert await index_and_list_batches(1) == [32, 64, 128, 76]
    monkeypatch.setattr(ingest.indexer, "_BATCH_SECONDS", 0.0)
    assert await index_and_list_batches(301) == [256, 44]
    assert await index_and_list_batches(601) == [64, 32, 32, 32, 32, 32, 32, 32, 12]
    assert await stored(shelf) == set(range(1, 901))


async def test_a_store_that_was_lost_is_filled_again(tmp_path, open_library, offline_models, make_post):
    for _ in range(2):
        async with open_library(tmp_path / "data", models={"dir": offline_models.parent}) as library:
            await library.keep(*(make_post(n, f"Ferry number {n}.", chat=CHAT) for n in range(1, 4)))
            indexer = DenseIndexer(library.rag.archive, library.rag.dense.vectors, library.rag.dense.embedder)
            assert await indexer.waiting() == 3
            assert await indexer.catch_up() == 3
            assert await library.rag.dense.vectors.count() == 3
        shutil.rmtree(tmp_path / "data" / "vectors")


async def test_a_change_while_it_is_worked_in_stays_in_the_queue(shelf, make_post):
    await shelf.keep(make_post(1, "The ferry leaves at seven.", chat=CHAT))
    store = shelf.rag.dense.vectors.about.identity
    await index_state.queue_changed_posts(shelf.rag.archive, store, "model")
    batch = await index_state.list_queued_posts(shelf.rag.archive, 10)
    await shelf.keep(make_post(1, "The ferry leaves at eight.", chat=CHAT, edited=make_post(1, "", days=1).date))
    await index_state.queue_changed_posts(shelf.rag.archive, store, "model")
    await index_state.dequeue_posts(shelf.rag.archive, batch)
    assert await index_state.count_unembedded_changes(shelf.rag.archive, store) == 1
    assert (await visible_posts.fetch_posts(shelf.rag.archive, [PostKey(CHAT, 1)]))[PostKey(CHAT, 1)].version == 2
