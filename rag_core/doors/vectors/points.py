"""What every vector store shares: the contract, what a point holds, which vectors are refused.

Point ids are made of the place alone, so that writing a passage twice leaves it there once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from itertools import islice
from typing import Any, Protocol, TypedDict, TypeVar
from uuid import UUID, uuid5

import numpy as np
from numpy.typing import NDArray

from rag_core.doors.lexical import Filter, Place
from rag_core.errors import VectorRefused, raised_as
from rag_core.types import PostKey

__all__ = [
    "FIELDS",
    "About",
    "Batch",
    "Floats",
    "Only",
    "Point",
    "Vectors",
    "best_first",
    "hash_number",
    "point_id",
    "prepared",
    "slices",
    "spelt_out",
    "unit",
]

Floats = NDArray[np.float32]
T = TypeVar("T")

BATCH = 256  # points a store takes at once: 15 ms of its time, so that a search waits no longer than that
FIELDS = ("chat", "message", "part", "start", "end")  # of the payload: the place
_IDS = UUID("8f0ae19f-31c5-4a55-9a52-6b0c5d8f5a61")  # any fixed namespace: changing it means a reindex


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """A passage's vector on its way into the store; `text_hash` names the text it was made of."""

    place: Place
    date: datetime
    lang: str
    text_hash: str
    vector: Floats


class Vectors(Protocol):
    """Vectors of passages, searched by cosine; every method raises VectorsUnavailable where the store cannot answer.

    Vectors are brought to length 1 and kept in 16 bits: what comes back differs in the third decimal.
    """

    @property
    def identity(self) -> str:
        """A random id given when the store was created: what is known of its content hangs on it."""

    @property
    def model(self) -> str:
        """The embedding model the store was created for."""

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""

    async def upsert(self, points: Sequence[Point]) -> None:
        """Write points, each in place of the one with the same post and part.

        When it returns they survive a kill -9; a power cut only after `flush`. Raises VectorRefused before
        anything is written when a vector is missing, not finite, zero or of the wrong length.
        """

    async def remove(self, keys: Iterable[PostKey]) -> None:
        """Take out all parts of these posts; unknown posts are no error."""

    async def search(
        self, vector: Floats, only: Filter, n: int = 50, lang: str | None = None
    ) -> list[tuple[Place, float]]:
        """The n nearest passages among those the filter and the language allow, with their cosine, best first.

        Exact: the same as comparing with every allowed vector. Raises VectorRefused.
        """

    async def vectors_of(self, places: Sequence[Place]) -> dict[Place, Floats]:
        """The stored vectors of these posts' parts; places that are not in the store are left out."""

    async def by_hash(self, hashes: Sequence[str]) -> dict[str, Floats]:
        """The stored vectors of texts with these hashes; unknown ones are left out."""

    async def count(self) -> int:
        """How many points there are."""

    async def flush(self) -> None:
        """Bring everything to disk: after it a power cut loses nothing."""

    async def close(self) -> None:
        """Flush and let go. Closing twice is no error."""


@dataclass(frozen=True, slots=True)
class About:
    """What a store was made for; `identity` is its own random name."""

    identity: str
    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Batch:
    """At most BATCH points, checked: ids, payloads and a float32 matrix, row by row."""

    ids: list[str]
    payloads: list[dict[str, int | str]]
    vectors: Floats


class Only(TypedDict):
    """A filter in plain values, as the stores put it inside their query; dates in whole seconds."""

    channels: list[int]
    since: int | None
    until: int | None
    lang: str | None


def slices(items: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    """The items in lists of at most `size`."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part


def point_id(place: Place) -> str:
    """The id of a passage: the same for the same post and part, in every store."""
    return str(uuid5(_IDS, f"{place.key.chat_id}/{place.key.message_id}/{place.part}"))


def hash_number(text_hash: str) -> int:
    """63 bits of a text's hash: an index over numbers takes a third of one over texts."""
    return int.from_bytes(blake2b(text_hash.encode(), digest_size=8).digest(), "big") >> 1


def unit(vector: object, dimension: int, what: str = "The vector") -> Floats:
    """The vector at length 1. Raises VectorRefused; `what` begins its sentence."""
    if vector is None:
        raise VectorRefused(f"{what} is missing.")
    with raised_as(VectorRefused, TypeError, ValueError, say=f"{what} is not a row of numbers ({{}})."):
        row = np.asarray(vector, np.float64)
    if row.shape != (dimension,):
        raise VectorRefused(
            f"{what} has the shape {row.shape}, but this index holds vectors of {dimension} numbers: "
            "it was made by another embedding model."
        )
    length = float(np.linalg.norm(row))
    if not np.isfinite(length):
        raise VectorRefused(f"{what} holds values that are not numbers: the embedding model did not work.")
    if length == 0:
        raise VectorRefused(f"{what} is zero and has no direction: the embedding model did not work.")
    return np.asarray(row / length, np.float32)


def prepared(points: Sequence[Point], dimension: int) -> list[Batch]:
    """Batches ready to be written, all of them checked; of points with the same id the last counts."""
    rows = {point_id(point.place): point for point in points}
    return [
        Batch(
            [name for name, _ in part],
            [_payload(point) for _, point in part],
            _units([point for _, point in part], dimension),
        )
        for part in slices(rows.items())
    ]


def _units(points: list[Point], dimension: int) -> Floats:
    """What `unit` makes of each, row by row; together they take a fifth of the time."""
    with suppress(TypeError, ValueError):  # not of one shape, or no numbers: one of them is refused below
        rows = np.array([point.vector for point in points], np.float64)
        if rows.shape == (len(points), dimension):
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            if (lengths > 0).all() and np.isfinite(lengths).all():
                return np.asarray(rows / lengths, np.float32)
    names = [f"The vector of post {p.place.key.message_id} in {p.place.key.chat_id}" for p in points]
    return np.stack([unit(p.vector, dimension, name) for p, name in zip(points, names, strict=True)])


def _payload(point: Point) -> dict[str, int | str]:
    place = point.place
    return {
        "chat": place.key.chat_id,
        "message": place.key.message_id,
        "part": place.part,
        "start": place.start,
        "end": place.end,
        "date": int(point.date.timestamp()),
        "lang": point.lang,
        "hash": hash_number(point.text_hash),
        "text_hash": point.text_hash,
    }


def spelt_out(only: Filter, lang: str | None) -> Only:
    """The filter as the stores take it; Telegram's dates have no fractions, so bounds are rounded up."""
    return {
        "channels": sorted(only.channels),
        "since": None if only.since is None else math.ceil(only.since.timestamp()),
        "until": None if only.until is None else math.ceil(only.until.timestamp()),
        "lang": lang,
    }


def best_first(found: Iterable[tuple[Mapping[str, Any], float]]) -> list[tuple[Place, float]]:
    """Payloads and cosines as places, in one order for equal cosines."""
    hits = [
        (Place(PostKey(int(row["chat"]), int(row["message"])), int(row["part"]), int(row["start"]), int(row["end"])),
         float(score))
        for row, score in found
    ]  # fmt: skip
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))
