"""The indexes in the folder against those on a Qdrant server: the same posts and queries, milliseconds of each.

QDRANT__URL=http://127.0.0.1:6333 python tests/bench/qdrant_vs_folder.py [--size 100000] [--queries 200]

The collections are called citegram-bench and are deleted at the end. QDRANT__KEY, QDRANT__SHARDS, QDRANT__REPLICAS,
QDRANT__QUANTIZATION, QDRANT__LINKS and the others count as they do for the bot.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import synthetic_posts
from bench.dense_engines import DIMENSION, MOST, draw, slices
from bench.measure_process import percentiles, seconds, times

from bot.settings import read_settings
from rag_core.engine import make_lexical_index
from rag_core.index.bm25 import Bm25Index, IndexEntry, LexicalIndex
from rag_core.index.vectors import VectorPoint, VectorStore, open_vector_store
from rag_core.settings import QdrantSettings
from rag_core.types import PassageRef, SearchFilter

_SLICE = 2000


def words(
    index: LexicalIndex, posts: synthetic_posts.Corpus, queries: Sequence[synthetic_posts.Query]
) -> dict[str, float]:
    """Figures of one search by words."""
    everything = SearchFilter(frozenset(channel.chat_id for channel in synthetic_posts.CHANNELS))

    def fill() -> None:
        for first in range(0, len(posts), _SLICE):
            some = posts.posts(first, min(len(posts), first + _SLICE))
            entries = [
                IndexEntry(PassageRef(p.key, 0, 0, len(p.text)), p.date, posts.terms(n))
                for n, p in enumerate(some, first)
            ]
            index.replace((), entries)

    row = {"fill_s": seconds(fill)}
    row |= percentiles(times(queries, lambda q: index.search(q.terms, everything)))
    within = times(queries, lambda q: index.search(q.terms, SearchFilter(*_bounds(q.window))))
    return row | percentiles(within, "filtered")


def _bounds(window: synthetic_posts.Window) -> tuple[Any, Any, Any]:
    return window.channels, window.since, window.until


def vectors(run: Any, store: VectorStore, frame: synthetic_posts.Frame, count: int) -> dict[str, float]:
    """Figures of one store of vectors."""

    def fill() -> None:
        for numbers, rows in slices(len(frame)):
            pairs = zip(numbers, rows, strict=True)
            run(
                store.upsert(
                    [VectorPoint(PassageRef(frame.key(n), 0, 0, 9), frame.when(n), "ru", f"{n:x}", v) for n, v in pairs]
                )
            )

    row, asked = {"fill_s": seconds(fill)}, draw(frame, count)
    within = times(asked, lambda near: run(store.search(near.vector, SearchFilter(*_bounds(near.window)), MOST)))
    return row | percentiles(within, "filtered")


def _told(name: str, row: dict[str, float]) -> None:
    print(f"{name:24}", " ".join(f"{key}={value:.2f}" for key, value in row.items()), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    args = parser.parse_args()
    if "QDRANT__URL" not in os.environ:
        sys.exit("QDRANT__URL names no Qdrant server: there is nothing to compare with.")
    qdrant = read_settings(None).qdrant.model_copy(update={"words": True, "collection": "citegram-bench"})
    posts, frame = synthetic_posts.make_posts(args.size), synthetic_posts.Frame.make(args.size)
    queries = synthetic_posts.draw_queries(posts, args.queries)
    served = make_lexical_index(qdrant)
    try:
        _told("words, folder", words(Bm25Index(), posts, queries))
        _told("words, server", words(served, posts, queries))
        with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
            for name, where in (("vectors, folder", None), ("vectors, server", qdrant)):
                store = runner.run(open_vector_store(Path(folder), model="bench", dimension=DIMENSION, qdrant=where))
                _told(name, vectors(runner.run, store, frame, args.queries))
                runner.run(store.close())
    finally:
        served.close()
        _cleared(qdrant)


def _cleared(qdrant: QdrantSettings) -> None:
    from qdrant_client import QdrantClient

    client = QdrantClient(url=qdrant.url, metadata={"api-key": qdrant.key.get_secret_value()})
    for one in client.get_collections().collections:
        if one.name.startswith(qdrant.collection):
            client.delete_collection(one.name)
    client.close()


if __name__ == "__main__":
    main()
