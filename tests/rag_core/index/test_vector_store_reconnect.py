"""A Qdrant server that goes and comes back, played by the stand-in."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from fake_qdrant import FakeQdrant
from vector_store_helpers import numbers, point

from rag_core.errors import VectorsUnavailable
from rag_core.index.vector_store import VectorStore, open_vector_store
from rag_core.settings import QdrantSettings
from rag_core.types import PostKey, SearchFilter

pytestmark = pytest.mark.slow

ALL = SearchFilter(frozenset({-1}))


async def opened(qdrant: FakeQdrant) -> VectorStore:
    return await open_vector_store(
        Path("nowhere"), model="tiny", dimension=2, qdrant=QdrantSettings(url=qdrant.url, retries=0)
    )


async def found(store: VectorStore) -> list[int]:
    return numbers(await store.search(np.array([1, 0], np.float32), ALL))


async def test_what_was_written_is_found_again_when_the_server_is_back(qdrant: FakeQdrant) -> None:
    store = await opened(qdrant)
    await store.upsert([point(1, 1, 0), point(2, 1, 1)])
    await store.remove([PostKey(-1, 7)])
    await qdrant.stop()
    with pytest.raises(VectorsUnavailable, match="does not answer"):
        await store.search(np.array([1, 0], np.float32), ALL)
    with pytest.raises(VectorsUnavailable, match="does not answer"):
        await store.upsert([point(3, 1, 0)])
    await qdrant.start()
    assert await found(store) == [1, 2]
    assert set(await store.by_hash(["hash of -1 2 0", "hash of -1 9 0"])) == {"hash of -1 2 0"}
    assert [len(page) async for page in store.iterate_points()] == [2]
    await store.close()
    again = await opened(qdrant)
    assert (again.identity, await again.count()) == (store.identity, 2)
    await again.close()


async def test_a_server_that_answers_but_does_not_work_is_told_from_one_that_finds_nothing(qdrant: FakeQdrant) -> None:
    store = await opened(qdrant)
    assert await found(store) == []
    qdrant.status = 503
    with pytest.raises(VectorsUnavailable, match="could not do its work"):
        await found(store)
    qdrant.status = 0
    assert await found(store) == []
    await store.close()


async def test_of_several_nodes_the_first_that_answers_is_asked() -> None:
    async with FakeQdrant() as first, FakeQdrant() as second:
        second._local, second._made, second._indexed = first._local, first._made, first._indexed  # one cluster
        second._thread = first._thread
        settings = QdrantSettings(url=f"{first.url}, {second.url}")
        store = await open_vector_store(Path("nowhere"), model="tiny", dimension=2, qdrant=settings)
        await store.upsert([point(1, 1, 0)])
        assert not second.asked
        await first.stop()
        assert await found(store) == [1]
        await store.upsert([point(2, 1, 0)])
        await first.start()
        before = len(first.asked)
        assert await found(store) == [1, 2]
        assert len(first.asked) == before  # it is passed over for some seconds
        second.delay = 60
        assert await found(store) == [1, 2]  # one that hangs is given up in time for another
        await first.stop()
        with pytest.raises(VectorsUnavailable, match=f"{urlsplit(first.url).netloc}|{urlsplit(second.url).netloc}"):
            await store.search(np.array([1, 0], np.float32), ALL)
        second.delay = 0
        await store.close()
