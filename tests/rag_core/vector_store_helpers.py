"""Points for vector stores, and the embedded store opened as the tests of it need it."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from rag_core.index.vector_store import VectorPoint
from rag_core.index.vectors_edge import EdgeVectorStore, open_vector_store
from rag_core.types import PassageRef, PostKey

DAY = datetime(2025, 3, 1, tzinfo=UTC)
SIZE = 32
_AIR = bytes(1 << 18)


def point(number, *vector, chat=-1, part=0, **fields):
    """A point of a post; `fields` are those of VectorPoint."""
    place = PassageRef(PostKey(chat, number), part, 0, 10)
    values = {"date": DAY, "lang": "ru", "text_hash": f"hash of {chat} {number} {part}", **fields}
    return VectorPoint(place, vector=np.array(vector, np.float32), **values)


def numbers(hits):
    return [place.key.message_id for place, _ in hits]


def points(count, *, chat=-1, seed=0, size=SIZE):
    """Points of a channel, one an hour, a third of them in Russian."""
    vectors = np.random.default_rng(seed).standard_normal((count, size)).astype(np.float32)
    return [
        VectorPoint(
            PassageRef(PostKey(chat, n), 0, 0, 9), DAY + timedelta(hours=n), "en" if n % 3 else "ru", f"{chat} {n}", row
        )
        for n, row in enumerate(vectors)
    ]


async def open_store(folder):
    return await open_vector_store(folder, model="tiny", dimension=SIZE)


def get_engine(vectors):
    """The embedded engine behind a store."""
    assert isinstance(vectors._opened, EdgeVectorStore)
    return vectors._opened


def copy_store(folder, target):
    """Copy the folder of a store, whose files are mostly room for later: 170 MB with 500 points."""
    return Path(shutil.copytree(folder, target, copy_function=_copy_without_air))


def _copy_without_air(source, target):
    with Path(source).open("rb") as old, Path(target).open("wb") as new:
        while data := old.read(len(_AIR)):
            if data == _AIR:
                new.seek(len(_AIR), os.SEEK_CUR)
            else:
                new.write(data)
        new.truncate(old.tell())
