from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rag_core.errors import VectorsUnavailable
from rag_core.retrieval.retrieval_result import VectorReader
from rag_core.types import PassageRef, PostKey

PLACES = [PassageRef(PostKey(-1, number), 0, 0, 10) for number in range(4)]


class Store:
    """A store that writes down what is asked for; the first `failures` requests fail."""

    def __init__(self, failures: int = 0) -> None:
        self.asked: list[list[int]] = []
        self.failures, self.open = failures, asyncio.Event()
        self.open.set()

    async def vectors_of(self, places: Sequence[PassageRef]) -> dict[PassageRef, Any]:
        self.asked.append([place.key.message_id for place in places])
        await self.open.wait()
        if len(self.asked) <= self.failures:
            raise VectorsUnavailable("down")
        return {place: np.ones(2) for place in places if place.key.message_id < 3}


async def test_vectors_read_ahead_are_not_read_again() -> None:
    store: Any = Store()
    reader = VectorReader(store)
    reader.start_reading(PLACES[:2])
    assert list(await reader.read(PLACES)) == PLACES[:3]  # the last one has no vector
    assert store.asked == [[0, 1], [2, 3]]


async def test_what_fails_ahead_is_tried_again_and_told() -> None:
    store: Any = Store(failures=2)
    reader = VectorReader(store)
    reader.start_reading(PLACES[:2])
    with pytest.raises(VectorsUnavailable):
        await reader.read(PLACES[:2])
    assert len(await reader.read(PLACES[:2])) == 2
    assert store.asked == [[0, 1]] * 3


async def test_a_reader_out_of_time_leaves_the_reading_to_the_next_one() -> None:
    store: Any = Store()
    store.open.clear()
    reader = VectorReader(store)
    reader.start_reading(PLACES[:2])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(PLACES[:1]), 0.01)
    store.open.set()
    assert len(await reader.read(PLACES[:2])) == 2
    assert store.asked == [[0, 1]]


async def test_reading_ends_when_the_search_does() -> None:
    store: Any = Store()
    store.open.clear()
    reader = VectorReader(store)
    reader.start_reading(PLACES)
    await asyncio.sleep(0)
    before = asyncio.all_tasks()
    reader.cancel()
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == len(before) - 1
