"""Vectors in the folder against those on real Qdrant servers: the same posts and queries, figures of each.

QDRANT_BIN=/path/to/qdrant python tests/bench/qdrant_vs_folder.py [--size 100000] [--queries 200] [--nodes 3]

With QDRANT__URL a server that runs already is measured, without its memory and disk. Each row: posts written a second,
milliseconds of a search of all and of one within a filter, and of the ten best how many are those of the exact search.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import synthetic_posts
from bench.dense_engines import DIMENSION, MOST, draw, slices
from bench.measure_process import Row, disk_mb, percentiles, seconds, times
from qdrant_client import QdrantClient
from qdrant_node import BINARY, QdrantNode, run_cluster

from bot.settings import read_settings
from rag_core.index.vector_store import VectorPoint, VectorStore
from rag_core.index.vectors_edge import open_vector_store
from rag_core.settings import QdrantSettings
from rag_core.types import PassageRef, SearchFilter

_SLICE = 2000


_LAYOUTS: dict[str, dict[str, Any]] = {
    "exact": {},
    "int8": {"quantization": "int8"},
    "graph": {"links": 16},
    "graph, int8": {"links": 16, "quantization": "int8"},
}
_TOP = 10
_COLLECTION = "citegram-bench"

Hits = list[list[PassageRef]]


def vectors(
    run: Any, store: VectorStore, frame: synthetic_posts.Frame, count: int, settle: Callable[[], None]
) -> tuple[Row, Hits]:
    """Figures of one store of vectors, and what it finds; `settle` waits until the store is as it will be."""

    def fill() -> None:
        for numbers, rows in slices(len(frame)):
            pairs = zip(numbers, rows, strict=True)
            run(
                store.upsert(
                    [VectorPoint(PassageRef(frame.key(n), 0, 0, 9), frame.when(n), "ru", f"{n:x}", v) for n, v in pairs]
                )
            )

    row, asked = {"posts_per_s": len(frame) / seconds(fill)}, draw(frame, count)
    settle()
    everything = SearchFilter(frozenset(channel.chat_id for channel in synthetic_posts.CHANNELS))
    row |= percentiles(times(asked, lambda near: run(store.search(near.vector, everything, MOST))))
    within = times(asked, lambda near: run(store.search(near.vector, near.window, MOST)))
    found = [[p for p, _ in run(store.search(near.vector, near.window, _TOP))] for near in asked]
    return row | percentiles(within, "filtered"), found


def measure_recall(found: Hits, exact: Hits) -> float:
    """Share of the exact search's hits that were found, over all queries."""
    shares = [len({*some} & {*best}) / len(best) for some, best in zip(found, exact, strict=True) if best]
    return sum(shares) / len(shares)


def _print_row(name: str, row: Row) -> None:
    print(f"{name:24}", " ".join(f"{key}={value:.3g}" for key, value in row.items()), flush=True)


def _measure_servers(nodes: Sequence[QdrantNode]) -> Row:
    if not nodes:
        return {}
    held = [Path(f"/proc/{node.pid}/status").read_text("ascii") for node in nodes]
    kilobytes = sum(int(line.split()[1]) for of in held for line in of.splitlines() if line.startswith("VmRSS"))
    return {"memory_mb": kilobytes / 1024, "disk_mb": sum(disk_mb(node.folder) for node in nodes)}


def _connect(qdrant: QdrantSettings) -> QdrantClient:
    headers = {"api-key": qdrant.key.get_secret_value()}
    return QdrantClient(url=qdrant.urls[0], metadata=headers, timeout=60, check_compatibility=False)


def _wait_until_optimized(qdrant: QdrantSettings) -> None:
    """Wait until graphs and quantised vectors are there: the server makes them beside everything else."""
    client = _connect(qdrant)
    while str(client.get_collection(qdrant.collection).status.value) != "green":
        time.sleep(1)
    client.close()


def measure(qdrant: QdrantSettings, nodes: Sequence[QdrantNode], size: int, count: int, folder: Path) -> None:
    """Measure the folder and the servers side by side, and print a row of each."""
    frame = synthetic_posts.Frame.make(size)
    with asyncio.Runner() as runner:
        best = []
        for name, layout in {"folder": None, **_LAYOUTS}.items():
            where = None if layout is None else qdrant.model_copy(update=layout)
            store = runner.run(open_vector_store(folder, model="bench", dimension=DIMENSION, qdrant=where))
            settle = partial(_wait_until_optimized, where) if where else lambda: None
            row, found = vectors(runner.run, store, frame, count, settle)
            if where:
                row |= {"recall": measure_recall(found, best), **_measure_servers(nodes)}
            best = best or found
            _print_row(f"vectors, {name}", row)
            runner.run(store.close())
            if where:
                _delete_collections(where)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=1)
    args = parser.parse_args()
    given = read_settings(None).qdrant.model_copy(update={"collection": _COLLECTION, "timeout": 60})
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, nodes = Path(name), list[QdrantNode]()
        if not given.url:
            if not BINARY:
                sys.exit("Neither QDRANT__URL nor QDRANT_BIN names a Qdrant server: there is nothing to compare with.")
            nodes = stack.enter_context(run_cluster(folder / "cluster", args.nodes))
            copies = {"shards": 6, "replicas": 2} if args.nodes > 1 else {}
            given = given.model_copy(update={"url": ",".join(node.url for node in nodes), **copies})
        try:
            measure(given, nodes, args.size, args.queries, folder / "vectors")
        finally:
            _delete_collections(given)


def _delete_collections(qdrant: QdrantSettings) -> None:
    client = _connect(qdrant)
    for one in client.get_collections().collections:
        if one.name.startswith(qdrant.collection):
            client.delete_collection(one.name)
    client.close()


if __name__ == "__main__":
    main()
