"""Program that is killed while it writes to the embedded vector store, started as `python -P -m` in the tests."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from rag_core.index.vector_store import VectorPoint
from rag_core.index.vectors_edge import open_vector_store
from rag_core.types import PassageRef, PostKey


async def write_points(folder, first):
    """Write points from a number on, and print which are done; every second batch writes the one before it again."""
    store = await open_vector_store(Path(folder), model="tiny", dimension=32)
    print("open", store.about.identity, flush=True)
    rng, day = np.random.default_rng(int(first)), datetime(2025, 3, 1, tzinfo=UTC)
    for at in range(int(first), int(first) + 1_000_000, 40):
        numbers = range(max(0, at - 40) if at % 80 else at, at + 40)
        rows = rng.standard_normal((len(numbers), 32)).astype(np.float32)
        await store.upsert(
            VectorPoint(PassageRef(PostKey(-1, n), 0, 0, 9), day, "ru", str(n), row)
            for n, row in zip(numbers, rows, strict=True)
        )
        print(at + 40, flush=True)


if __name__ == "__main__":
    asyncio.run(write_points(*sys.argv[1:]))
