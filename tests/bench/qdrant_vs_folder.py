"""Vectors in the folder against those on real Qdrant servers: the same posts and queries, figures of each.

QDRANT_BIN=/path/to/qdrant python tests/bench/qdrant_vs_folder.py [--size 100000] [--queries 200] [--nodes 3]

Each row: posts written a second, milliseconds of a search of all and of one within a filter, and of the ten best how
many are those of the exact search.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.dense_engines import Near, Ours, draw, slices
from bench.measure_process import Row, disk_mb, percentiles, seconds, times
from bench.synthetic_posts import Frame
from qdrant_client import QdrantClient
from qdrant_node import QdrantNode, run_cluster

from rag_core.settings import QdrantSettings

_LAYOUTS: dict[str, dict[str, Any]] = {
    "exact": {},
    "int8": {"quantization": "int8"},
    "graph": {"links": 16},
    "graph, int8": {"links": 16, "quantization": "int8"},
}
_TOP = 10


def measure(store: Ours, asked: list[Near]) -> tuple[Row, list[list[int]]]:
    """Figures of one store of vectors, and what it finds within the filters."""
    size = len(store.frame)
    written = sum(seconds(lambda some=some, rows=rows: store.put(some, rows)) for some, rows in slices(size))  # type: ignore[misc]
    if store.qdrant:  # graphs and quantised vectors are made beside everything else
        client = QdrantClient(url=store.qdrant.urls[0], timeout=60, check_compatibility=False)
        while str(client.get_collection(store.qdrant.collection).status.value) != "green":
            time.sleep(1)
        client.close()
    row = {"posts_per_s": size / written} | percentiles(times(asked, store.search))
    found = [store.within(near)[:_TOP] for near in asked]
    row |= percentiles(times(asked, store.within), "filtered")
    store.close()
    return row, found


def measure_servers(nodes: list[QdrantNode]) -> Row:
    """Memory and disk of the servers together."""
    held = [line for node in nodes for line in Path(f"/proc/{node.pid}/status").read_text("ascii").splitlines()]
    kilobytes = sum(int(line.split()[1]) for line in held if line.startswith("VmRSS"))
    return {"memory_mb": kilobytes / 1024, "disk_mb": sum(disk_mb(node.folder) for node in nodes)}


def main() -> None:
    """Measure the folder, then each layout on servers of its own, and print a row of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=1)
    args = parser.parse_args()
    frame = Frame.make(args.size)
    asked, exact = draw(frame, args.queries), list[list[int]]()
    copies = {"shards": 6, "replicas": 2} if args.nodes > 1 else {}
    for name, layout in {"folder": None, **_LAYOUTS}.items():
        with tempfile.TemporaryDirectory() as folder:
            if layout is None:
                row, exact = measure(Ours(frame, Path(folder)), asked)
            else:
                with run_cluster(Path(folder) / "cluster", args.nodes) as nodes:
                    url = ",".join(node.url for node in nodes)
                    store = Ours(frame, Path(folder), QdrantSettings(url=url, timeout=60, **copies, **layout))
                    row, found = measure(store, asked)
                    shares = [len({*a} & {*b}) / len(b) for a, b in zip(found, exact, strict=True) if b]
                    row |= {"recall": sum(shares) / len(shares)} | measure_servers(nodes)
        print(f"vectors, {name:15}", *(f"{key}={value:.3g}" for key, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
