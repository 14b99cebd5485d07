"""The dense leg and its peers behind one contract: the same vectors, the same filters, the 50 nearest.

Vectors are invented: 500 topics, posts scattered around them. The numpy scan is the yardstick for what is
found; it keeps 32-bit numbers, because numpy multiplies 16-bit ones twenty times slower.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from bench.synthetic_posts import CHANNELS, Frame, Window
from numpy.typing import NDArray

from rag_core.index.vectors import VectorPoint, VectorStore, open_vector_store
from rag_core.types import PassageRef, SearchFilter

MOST = 50
DIMENSION = 384
_SLICE = 1000
_TOPICS, _SCATTER = 500, 1.2

Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Near:
    """A vector near that of a post, and a filter that the post passes."""

    vector: Rows
    window: Window


def _unit(rows: Rows) -> Rows:
    unit: Rows = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return unit


def _topics() -> Rows:
    return np.random.default_rng(3).normal(size=(_TOPICS, DIMENSION)).astype(np.float32)


def slices(size: int) -> Iterator[tuple[range, Rows]]:
    """The vectors of all posts, some at a time."""
    topics = _topics()
    for first in range(0, size, _SLICE):
        rng, count = np.random.default_rng([4, first]), min(_SLICE, size - first)
        rows = topics[rng.integers(_TOPICS, size=count)]
        rows += _SCATTER * rng.standard_normal((count, DIMENSION), dtype=np.float32)
        yield range(first, first + count), _unit(rows)


def draw(frame: Frame, count: int) -> list[Near]:
    """Questions about posts of the corpus."""
    rng, topics = np.random.default_rng([5, len(frame)]), _topics()
    noise = rng.standard_normal((count, DIMENSION), dtype=np.float32)
    rows = _unit(topics[rng.integers(_TOPICS, size=count)] + _SCATTER * noise)
    return [Near(row, frame.window(int(rng.integers(len(frame))), rng)) for row in rows]


class Engine(Protocol):
    """One store in a folder. Point n is post n of the frame."""

    def __init__(self, frame: Frame, folder: Path) -> None: ...

    def put(self, numbers: range, rows: Rows) -> None:
        """Write vectors; they are found, and safe, when this returns."""

    def search(self, near: Near) -> list[int]:
        """The posts nearest to a vector, nearest first."""

    def within(self, near: Near) -> list[int]:
        """The nearest of those that pass the filter."""

    def reopen(self) -> None:
        """Open what was closed."""

    def close(self) -> None:
        """Bring everything to disk and let go of it."""


class Ours:
    """rag_core.index.vectors, embedded: candidates by sign bits, compared by 16-bit numbers."""

    def __init__(self, frame: Frame, folder: Path) -> None:
        self.frame, self.folder = frame, folder
        self.run = asyncio.Runner().run
        self.all = SearchFilter(frozenset(channel.chat_id for channel in CHANNELS))
        self.reopen()

    def reopen(self) -> None:
        self.store: VectorStore = self.run(open_vector_store(self.folder / "store", model="bench", dimension=DIMENSION))

    def put(self, numbers: range, rows: Rows) -> None:
        points = [
            VectorPoint(PassageRef(self.frame.key(n), 0, 0, 100), self.frame.when(n), "ru", f"{n:032x}", row)
            for n, row in zip(numbers, rows, strict=True)
        ]
        self.run(self.store.upsert(points))

    def search(self, near: Near) -> list[int]:
        return self.find(near, self.all)

    def within(self, near: Near) -> list[int]:
        window = near.window
        return self.find(near, SearchFilter(window.channels, window.since, window.until))

    def find(self, near: Near, only: SearchFilter) -> list[int]:
        """The posts nearest to a vector that pass a filter, nearest first."""
        return [place.key.message_id - 1 for place, _ in self.run(self.store.search(near.vector, only, MOST))]

    def close(self) -> None:
        self.run(self.store.close())


class LocalQdrant:
    """qdrant-client's local mode: a folder and a scan in Python."""

    def __init__(self, frame: Frame, folder: Path) -> None:
        from qdrant_client import models

        warnings.filterwarnings("ignore", "Local mode is not recommended")
        self.frame, self.folder, self.m = frame, folder, models
        self.reopen()
        size = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
        self.client.create_collection("bench", size)

    def reopen(self) -> None:
        from qdrant_client import QdrantClient

        self.client = QdrantClient(path=str(self.folder))

    def put(self, numbers: range, rows: Rows) -> None:
        about = [{"chat": self.frame.key(n).chat_id, "date": int(self.frame.date[n])} for n in numbers]
        points = [
            self.m.PointStruct(id=n, vector=row.tolist(), payload=payload)
            for n, row, payload in zip(numbers, rows, about, strict=True)
        ]
        self.client.upsert("bench", points)

    def search(self, near: Near, only: Any = None) -> list[int]:
        found = self.client.query_points("bench", near.vector, query_filter=only, limit=MOST, with_payload=False)
        return [int(point.id) for point in found.points]

    def within(self, near: Near) -> list[int]:
        m, window = self.m, near.window
        dates = m.Range(gte=window.since.timestamp(), lt=window.until.timestamp())
        chats = m.FieldCondition(key="chat", match=m.MatchAny(any=list(window.channels)))
        return self.search(near, m.Filter(must=[chats, m.FieldCondition(key="date", range=dates)]))

    def close(self) -> None:
        self.client.close()


class NumpyScan:
    """A matrix and a product: what any engine must be held against."""

    def __init__(self, frame: Frame, folder: Path) -> None:
        self.frame, self.file = frame, folder / "rows.npy"
        self.rows = np.zeros((len(frame), DIMENSION), np.float32)

    def reopen(self) -> None:
        self.rows = np.load(self.file)

    def put(self, numbers: range, rows: Rows) -> None:
        self.rows[numbers.start : numbers.stop] = rows

    def search(self, near: Near) -> list[int]:
        return _nearest(self.rows @ near.vector, np.arange(len(self.rows)))

    def within(self, near: Near) -> list[int]:
        passing = np.flatnonzero(self.frame.inside(near.window))
        return _nearest(self.rows[passing] @ near.vector, passing)

    def close(self) -> None:
        np.save(self.file, self.rows)


def _nearest(cosines: Rows, numbers: NDArray[np.int64]) -> list[int]:
    best = np.argpartition(-cosines, MOST - 1)[:MOST] if len(cosines) > MOST else np.arange(len(cosines))
    found: list[int] = numbers[best[np.argsort(-cosines[best])]].tolist()
    return found


ENGINES: dict[str, type[Engine]] = {"citegram": Ours, "qdrant-client local": LocalQdrant, "numpy scan": NumpyScan}
NEEDS = {"qdrant-client local": "qdrant_client"}  # engine -> module
