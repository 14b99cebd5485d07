"""The event loop stays free while the embedded store works."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from vector_store_helpers import points

from rag_core.index.vector_store import VectorPoint, VectorStore
from rag_core.index.vectors_edge import open_vector_store
from rag_core.types import SearchFilter

IDLE = """
import signal, sys, time
longest, on = 0.0, True
def stop(*_):
    global on
    on = False
signal.signal(signal.SIGTERM, stop)
print(flush=True)
while on:
    before = time.perf_counter()
    time.sleep(0.005)
    longest = max(longest, time.perf_counter() - before - 0.005)
print(longest)
"""


@contextmanager
def idle() -> Iterator[Callable[[], float]]:
    """A process that does nothing, and how long it was kept waiting: the lag of the machine."""
    with subprocess.Popen([sys.executable, "-c", IDLE], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found: list[float] = []
        yield found.pop
        child.terminate()
        found.append(float(child.stdout.read()))


@pytest.mark.alone
async def test_the_event_loop_is_free_while_10_000_points_are_written_and_searched(tmp_path: Path) -> None:
    """50 ms at most, beside what a process that does nothing is kept waiting; tried three times."""
    written = points(10_000, size=384)
    lags = []
    for attempt in range(3):
        vectors = await open_vector_store(tmp_path / str(attempt), model="tiny", dimension=384)
        with idle() as waited:
            lag = await lag_while(vectors, written)
        lags.append(lag - waited())
        await vectors.close()
        if lags[-1] <= 0.05:
            break
    assert min(lags) <= 0.05, lags


async def lag_while(vectors: VectorStore, written: list[VectorPoint]) -> float:
    longest, busy = 0.0, True

    async def probe() -> None:
        nonlocal longest
        while busy:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            longest = max(longest, time.perf_counter() - before - 0.005)

    async def look() -> None:
        while busy:
            await vectors.search(written[0].vector, SearchFilter(frozenset({-1})))
            await vectors.by_hash([f"-1 {n}" for n in range(50)])

    others = [asyncio.create_task(probe()), asyncio.create_task(look())]
    await asyncio.sleep(0.01)  # they have begun
    await vectors.upsert(written)
    await vectors.flush()
    await vectors.remove(p.place.key for p in written[:2_500])
    busy = False
    await asyncio.gather(*others)
    assert await vectors.count() == 7_500
    return longest
