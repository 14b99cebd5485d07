"""The dense leg and a plain scan behind one contract: the same vectors, the same filters, the 50 nearest.

Vectors are invented: 500 topics, posts scattered around them. The numpy scan is the yardstick for what is
found; it keeps 32-bit numbers, because numpy multiplies 16-bit ones twenty times slower.
"""

import asyncio
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from bench.synthetic_posts import CHANNELS, Window
from numpy.typing import NDArray

from rag_core.index.vector_store import VectorPoint
from rag_core.index.vectors_edge import open_vector_store
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


def _unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def _topics():
    return np.random.default_rng(3).normal(size=(_TOPICS, DIMENSION)).astype(np.float32)


def slices(size):
    topics = _topics()
    for first in range(0, size, _SLICE):
        rng, count = np.random.default_rng([4, first]), min(_SLICE, size - first)
        rows = topics[rng.integers(_TOPICS, size=count)]
        rows += _SCATTER * rng.standard_normal((count, DIMENSION), dtype=np.float32)
        yield range(first, first + count), _unit(rows)


def draw(frame, count):
    rng, topics = np.random.default_rng([5, len(frame)]), _topics()
    noise = rng.standard_normal((count, DIMENSION), dtype=np.float32)
    rows = _unit(topics[rng.integers(_TOPICS, size=count)] + _SCATTER * noise)
    return [Near(row, frame.window(int(rng.integers(len(frame))), rng)) for row in rows]


class Engine(Protocol):
    """One store in a folder. Point n is post n of the frame."""

    def __init__(self, frame, folder): ...

    def put(self, numbers, rows):
        """Write vectors; they are found, and safe, when this returns."""

    def search(self, near):
        """The posts nearest to a vector, nearest first."""

    def within(self, near):
        """The nearest of those that pass the filter."""

    def reopen(self):
        """Open what was closed."""

    def close(self):
        """Bring everything to disk and let go of it."""


class Ours(Engine):
    """rag_core.index.vector_store; embedded: candidates by a sketch of two bits, compared by 16-bit numbers."""

    def __init__(self, frame, folder):
        self.frame, self.folder = frame, folder
        self.run = asyncio.Runner().run
        self.all = SearchFilter(frozenset(channel.chat_id for channel in CHANNELS))
        self.reopen()

    def reopen(self):
        opening = open_vector_store(self.folder / "store", model="bench", dimension=DIMENSION)
        self.store = self.run(opening)

    def put(self, numbers, rows):
        points = [
            VectorPoint(PassageRef(self.frame.key(n), 0, 0, 100), self.frame.when(n), "ru", f"{n:032x}", row)
            for n, row in zip(numbers, rows, strict=True)
        ]
        self.run(self.store.upsert(points))

    def search(self, near):
        return self._find(near, self.all)

    def within(self, near):
        return self._find(near, near.window)

    def _find(self, near, only):
        return [place.key.message_id - 1 for place, _ in self.run(self.store.search(near.vector, only, MOST))]

    def close(self):
        self.run(self.store.close())


class NumpyScan(Engine):
    """A matrix and a product: what any engine must be held against."""

    def __init__(self, frame, folder):
        self.frame, self.file = frame, folder / "rows.npy"
        self.rows = np.zeros((len(frame), DIMENSION), np.float32)

    def reopen(self):
        self.rows = np.load(self.file)

    def put(self, numbers, rows):
        self.rows[numbers.start : numbers.stop] = rows

    def search(self, near):
        return find_nearest(self.rows @ near.vector, np.arange(len(self.rows)))

    def within(self, near):
        passing = np.flatnonzero(self.frame.inside(near.window))
        return find_nearest(self.rows[passing] @ near.vector, passing)

    def close(self):
        np.save(self.file, self.rows)


def find_nearest(cosines, numbers):
    best = np.argpartition(-cosines, MOST - 1)[:MOST] if len(cosines) > MOST else np.arange(len(cosines))
    return numbers[best[np.argsort(-cosines[best])]].tolist()


ENGINES = {"citegram": Ours, "numpy scan": NumpyScan}
