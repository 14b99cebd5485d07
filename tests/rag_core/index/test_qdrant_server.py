"""What only a real Qdrant server shows: keys, and a cluster that loses a node."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from qdrant_node import needs_binary, run_cluster, run_node
from vector_store_helpers import numbers, point

from rag_core.errors import QdrantGone, VectorsUnavailable
from rag_core.index.vector_store import VectorPoint, VectorStore
from rag_core.index.vectors_edge import open_vector_store
from rag_core.settings import QdrantSettings
from rag_core.types import SearchFilter

pytestmark = [pytest.mark.slow, needs_binary]

ALL = SearchFilter(frozenset({-1}))


async def opened(url: str, **more: object) -> VectorStore:
    settings = QdrantSettings.model_validate({"url": url, **more})
    return await open_vector_store(Path("nowhere"), model="tiny", dimension=2, qdrant=settings)


def point_at(number: int) -> VectorPoint:
    return point(number, np.cos(number / 1000), np.sin(number / 1000))


async def found(store: VectorStore, n: int = 50) -> list[int]:
    return numbers(await store.search(np.array([1, 0], np.float32), ALL, n))


async def test_a_wrong_key_is_one_sentence_and_the_right_one_is_enough(tmp_path: Path) -> None:
    with run_node(tmp_path, key="s3cret") as node:
        with pytest.raises(VectorsUnavailable, match=r"refuses the key\. Check QDRANT__KEY"):
            await opened(node.url, key="wrong")
        store = await opened(node.url, key="s3cret")
        await store.upsert([point_at(1)])
        assert await found(store) == [1]
        await store.close()


async def test_a_cluster_answers_while_most_of_it_lives_and_says_so_when_it_does_not(tmp_path: Path) -> None:
    from cluster.qdrant_cluster_faults import wait_until_active

    with run_cluster(tmp_path) as nodes:
        url = ",".join(node.url for node in nodes)
        store = await opened(url, shards=6, replicas=2)
        await store.upsert([point_at(number) for number in range(1000)])
        for lost in (nodes[1], nodes[0]):
            await asyncio.to_thread(lost.kill)
            await store.upsert([point_at(1000)])
            assert await found(store, 5) == [0, 1, 2, 3, 4]
            await asyncio.to_thread(lost.start)
            await wait_until_active(nodes[2], 60)
        assert await store.count() == 1001
        for node in nodes[:2]:
            await asyncio.to_thread(node.kill)
        with pytest.raises(QdrantGone):
            await found(store)
        await store.close()
