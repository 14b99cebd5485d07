"""The contract of the dense leg, the same for every store."""

import asyncio
import os
import secrets
from contextlib import suppress

import numpy as np
import pytest
from pydantic import SecretStr
from qdrant_node import needs_server
from vector_store_helpers import DAY, numbers, point

from rag_core.errors import VectorRefused, VectorsUnavailable
from rag_core.index.vector_store import StoredPoint
from rag_core.index.vectors_edge import open_vector_store
from rag_core.settings import QdrantSettings
from rag_core.types import PassageRef, PostKey, PostKeySet, SearchFilter

pytestmark = pytest.mark.slow

ALL = SearchFilter(frozenset({-1, -2}))
KEY = os.environ.get("QDRANT__KEY", "")


async def near(store, *vector, only=ALL, n=50, lang=None):
    return numbers(await store.search(np.array(vector, np.float32), only, n, lang))


@pytest.fixture(params=["edge", "fake", pytest.param("server", marks=needs_server)])
async def opening(request, tmp_path, qdrant):
    """Opens a store of two-dimensional vectors; again the same store, where it is kept."""
    opened = []
    collection = f"citegram-test-{secrets.token_hex(4)}"
    url = {"edge": "", "fake": qdrant.url}.get(request.param) or (
        request.getfixturevalue("qdrant_server") if request.param == "server" else ""
    )

    async def make(model="tiny", dimension=2):
        for store in opened:
            await store.close()
        settings = QdrantSettings(url=url, key=SecretStr(KEY), collection=collection)
        found = await open_vector_store(tmp_path / "vectors", model=model, dimension=dimension, qdrant=settings)
        opened.append(found)
        return found

    yield make
    for store in opened:
        await store.close()
    if request.param == "server":
        from qdrant_client import QdrantClient

        client = QdrantClient(url=url, api_key=KEY or None, check_compatibility=False)
        client.delete_collection(collection)
        client.close()


@pytest.fixture
async def store(opening):
    return await opening()


async def test_the_nearest_come_first_with_their_cosine(store):
    await store.upsert([point(1, 1, 0), point(2, 0, 5), point(3, 1, 1), point(4, -1, 0)])
    hits = await store.search(np.array([2, 0.1], np.float32), ALL, 3)
    assert numbers(hits) == [1, 3, 2]
    assert [score for _, score in hits] == pytest.approx([0.9988, 0.7416, 0.0499], abs=2e-3)
    assert hits[0][0] == PassageRef(PostKey(-1, 1), 0, 0, 10)
    await store.upsert([point(1, 1e30, 1e30), point(1, 0, 1e-30)])  # of one post twice the last counts
    assert await store.count() == 4
    assert (await near(store, 1e-20, 0))[0] == 3


async def test_a_removed_post_takes_all_its_parts_along_and_no_other_post(store):
    await store.upsert([point(n, 1, n, chat=chat, part=part) for n in (7, 8) for chat in (-1, -2) for part in range(3)])
    await store.remove([PostKey(-1, 7), PostKey(-1, 99), PostKey(-5, 7)])
    assert await store.count() == 9
    assert await near(store, 1, 7, only=SearchFilter(frozenset({-1}))) == [8, 8, 8]
    await store.remove([PostKey(-2, 8)], but=[PassageRef(PostKey(-2, 8), 1, 0, 10)])
    left = {(*held.place.key, held.place.part) async for page in store.iterate_points() for held in page}
    assert left == {(-2, 7, 0), (-2, 7, 1), (-2, 7, 2), (-2, 8, 1), (-1, 8, 0), (-1, 8, 1), (-1, 8, 2)}
    await store.remove([])
    assert await store.count() == 7


async def test_everything_that_is_held_is_told_once_page_by_page(store):
    assert [page async for page in store.iterate_points()] == [[]]
    points = [point(n, 1, n, chat=-1 - n % 2, part=n % 3, lang="en", text_hash=f"text {n}") for n in range(1200)]
    await store.upsert(points)
    pages = [page async for page in store.iterate_points()]
    told = sorted(held for page in pages for held in page)
    assert told == sorted(StoredPoint(p.place, int(DAY.timestamp()), "en", p.text_hash) for p in points)
    assert max(map(len, pages)) <= 500


async def test_pages_that_are_read_while_others_write_hold_what_was_there_all_the_time(store):
    await store.upsert([point(n, 1, n) for n in range(1100)])
    told = []
    async for page in store.iterate_points():
        told += [held.place.key.message_id for held in page]
        await store.upsert([point(n, 0, 1) for n in range(2000 + len(told), 2100 + len(told))])
        await store.remove([PostKey(-1, n) for n in range(0, 100)])
    assert set(range(100, 1100)) <= set(told)
    assert len(told) == len(set(told))


async def test_nearer_vectors_of_a_private_channel_never_push_the_allowed_one_out(store):
    await store.upsert([point(n, 1, n / 10_000, chat=-2) for n in range(600)])
    await store.upsert([point(7, -1, 0.5, chat=-1)])
    ((place, cosine),) = await store.search(np.array([1, 0], np.float32), SearchFilter(frozenset({-1})), 5)
    assert place.key == PostKey(-1, 7)
    assert cosine == pytest.approx(-0.894, abs=2e-3)
    assert await near(store, 1, 0, only=SearchFilter(frozenset())) == []
    assert await near(store, 1, 0, only=SearchFilter(frozenset({-9}))) == []


async def test_stored_vectors_come_back_at_length_one(store):
    await store.upsert([point(1, 3, 4), point(2, 0, -2)])
    places = [PassageRef(PostKey(-1, n), 0, 0, 10) for n in (2, 1, 9)]
    found = await store.vectors_of(places)
    assert list(found) == places[:2]
    assert found[places[1]] == pytest.approx([0.6, 0.8], abs=1e-3)
    assert found[places[0]].dtype == np.float32
    assert await store.vectors_of([]) == {}


async def test_a_vector_is_found_by_the_hash_of_its_text_however_often_it_stands(store):
    await store.upsert([point(n, 1, 0, text_hash="a repost") for n in range(600)])
    await store.upsert([point(1000 + n, 0, 1, text_hash=f"own {n}") for n in range(300)])
    wanted = ["a repost", "nobody's", *(f"own {n}" for n in range(300))]
    found = await store.by_hash(wanted)
    assert set(found) == set(wanted) - {"nobody's"}
    assert found["a repost"] == pytest.approx([1, 0])
    assert found["own 299"] == pytest.approx([0, 1])


REFUSED = [
    ([np.nan, 1], "not numbers"),
    ([np.inf, 1], "not numbers"),
    ([0, 0], "zero"),
    ([1, 2, 3], r"shape \(3,\).* of 2 numbers"),
    ([[1, 2]], r"shape \(1, 2\)"),
    (None, "missing"),
    (["a", "b"], "not a row of numbers"),
]


async def test_a_vector_that_cannot_be_compared_is_refused_before_anything_is_written(store):
    for vector, reason in REFUSED:
        bad = point(1, 1, 0)
        object.__setattr__(bad, "vector", vector)
        with pytest.raises(VectorRefused, match=f"post 1 in -1 .*{reason}") as refused:
            await store.upsert([*(point(n, 1, 0) for n in range(2, 600)), bad])
        assert isinstance(refused.value, ValueError)
        with pytest.raises(VectorRefused, match=reason):
            await store.search(vector, ALL)
    assert await store.count() == 0


@pytest.mark.parametrize(("model", "dimension"), [("other", 2), ("tiny", 3)])
async def test_a_store_made_for_another_model_says_so_and_stays_as_it_is(opening, model, dimension, request):
    if model == "other" and "edge" not in request.node.name:
        pytest.skip("on a server it is a collection beside")
    store = await opening()
    await store.upsert([point(1, 1, 0)])
    identity = store.about.identity
    reason = rf"was made for the model tiny \(2 numbers\), not for {model} \({dimension}\)"
    with pytest.raises(VectorsUnavailable, match=reason):
        await opening(model, dimension)
    again = await opening()
    assert (again.about.identity, await again.count()) == (identity, 1)


async def test_more_posts_than_a_search_can_bear_are_refused_in_a_sentence(store, monkeypatch):
    await store.upsert([point(n, 1, n / 10) for n in range(4)])
    monkeypatch.setattr("rag_core.index.vector_store.MAX_FILTER_POSTS", 2)
    assert await near(
        store, 1, 0, only=SearchFilter(ALL.channels, keys=PostKeySet.of(PostKey(-1, n) for n in (1, 3)))
    ) == [1, 3]
    many = PostKeySet.of(PostKey(-1, n) for n in range(3))
    with pytest.raises(VectorsUnavailable, match="More than 2 posts fit the filter: they were searched by words only"):
        await near(store, 1, 0, only=SearchFilter(ALL.channels, keys=many))
    assert await near(store, 1, 0, only=SearchFilter(frozenset({-2}), keys=many)) == []


async def test_the_revision_grows_with_every_write_and_removal_and_with_nothing_else(store):
    seen = [store.revision]

    async def grown():
        seen.append(store.revision)
        return seen[-1] > seen[-2]

    await store.upsert([point(n, 1, n) for n in range(3)])
    assert await grown()
    await store.upsert([point(1, 0, 1)])
    assert await grown()
    await store.remove([PostKey(-1, 1)])
    assert await grown()
    await near(store, 1, 0)
    await store.vectors_of([PassageRef(PostKey(-1, 0), 0, 0, 10)])
    await store.by_hash(["hash of -1 0 0"])
    await store.count()
    [page async for page in store.iterate_points()]
    await store.flush()
    assert not await grown()
    with pytest.raises(VectorRefused):
        await store.upsert([point(7, 0, 0)])
    assert not await grown()


async def test_a_write_whose_caller_went_away_is_counted_when_it_is_there(store):
    before = store.revision
    for turn in range(20):
        writing = asyncio.create_task(store.upsert([point(turn * 1000 + n, 1, n) for n in range(300)]))
        await asyncio.sleep(0.0005 * 1.5**turn)  # up to a second: a busy machine begins late
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing
        there = await store.count()  # waits for the thread of the store
        if there:
            break
    assert there
    for _ in range(100):  # of a server's threads another may have counted
        if store.revision > before:
            break
        await asyncio.sleep(0.05)
    assert store.revision > before
