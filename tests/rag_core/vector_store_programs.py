"""Programs that are killed while they write to the embedded vector store, started as `python -P -m` in the tests."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from rag_core.index.edge_shard_process import VectorShard
from rag_core.index.vector_store import VectorPoint
from rag_core.index.vectors_edge import open_vector_store
from rag_core.types import PassageRef, PostKey


def stop(*_: object, **__: object) -> Any:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


class StoppingColumns(dict[str, Any]):
    """Columns of a sketch of which one kills the process."""

    def __getitem__(self, name: str) -> Any:
        return stop() if name == "chat" else super().__getitem__(name)


def change_and_stop(folder: str, where: str, change: str) -> None:
    """Begin a change of a shard, read from standard input, and end before it is complete."""
    shard = VectorShard(folder, 64, make=False)
    engine, sketch = shard._shard, shard._sketch
    if where == "before the engine":
        shard._shard = type("Engine", (), {"update": stop, "retrieve": engine.retrieve})()
    elif where == "before the sketch":
        sketch.write = sketch.remove = stop  # type: ignore[method-assign]
    elif where == "within the sketch":
        sketch._columns = StoppingColumns(sketch._columns)
    else:
        sketch.end_change = stop  # type: ignore[method-assign]
    asked = json.loads(sys.stdin.buffer.readline())
    {"write": shard.upsert, "remove": shard.remove}[change](asked, sys.stdin.buffer.read())


async def write_points(folder: str, first: str) -> None:
    """Write points from a number on, and print which are done; every second batch writes the one before it again."""
    store = await open_vector_store(Path(folder), model="tiny", dimension=32)
    print("open", store.identity, flush=True)
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
    match sys.argv[1:]:
        case ["change", *words]:
            change_and_stop(*words)
        case ["write", *words]:
            asyncio.run(write_points(*words))
