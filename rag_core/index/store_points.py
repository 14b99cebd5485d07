"""Points of passages, as every store takes them: ids, payloads, batches, and checked vectors.

Point ids are made of the passage reference alone, so that writing a passage twice stores it once. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, uuid5

import numpy as np
from numpy.typing import NDArray

from rag_core.errors import VectorRefused, translate_errors
from rag_core.types import PassageRef, PostKey

VectorArray = NDArray[np.float32]
T = TypeVar("T")

BATCH_POINTS = 256  # points of one write: 15 ms of a store's time, for which a search has to wait at most
REF_FIELDS = ("chat", "message", "part", "start", "end")  # payload fields of the passage reference
_POINT_ID_NAMESPACE = UUID("8f0ae19f-31c5-4a55-9a52-6b0c5d8f5a61")  # any fixed namespace: changing it means a reindex


def split_batches(items: Iterable[T], size: int = BATCH_POINTS) -> Iterator[list[T]]:
    """Split items into lists of at most `size`."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part


def make_point_id(place: PassageRef) -> str:
    """Make the point id of a passage: the same for the same post and part, in every store."""
    return str(uuid5(_POINT_ID_NAMESPACE, f"{place.key.chat_id}/{place.key.message_id}/{place.part}"))


def encode_passage_ref(place: PassageRef) -> dict[str, int]:
    """Encode a passage reference as payload fields."""
    key, *span = place
    return dict(zip(REF_FIELDS, (*key, *span), strict=True))


def read_passage_ref(row: Mapping[str, Any]) -> PassageRef:
    """Decode the passage reference in a payload."""
    chat, message, part, start, end = (int(row[name]) for name in REF_FIELDS)
    return PassageRef(PostKey(chat, message), part, start, end)


@dataclass(frozen=True, slots=True, eq=False)
class VectorPoint:
    """Point to be stored: the vector of a passage; `text_hash` is the hash of the embedded text."""

    place: PassageRef
    date: datetime
    lang: str
    text_hash: str
    vector: VectorArray


class StoredPoint(NamedTuple):
    """Payload of a stored vector; the date is in Unix seconds."""

    place: PassageRef
    date: int
    lang: str
    text_hash: str


PAYLOAD_FIELDS = (*REF_FIELDS, "date", "lang", "text_hash")


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """Description of a store: its random identity, and the model and dimension it was made for."""

    identity: str
    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class PointBatch:
    """Batch of at most BATCH_POINTS checked points: ids, payloads, and a float32 matrix with a row for each."""

    ids: list[str]
    payloads: list[dict[str, int | str]]
    vectors: VectorArray


def hash_to_number(text_hash: str) -> int:
    """Reduce a text hash to 63 bits: an index over integers takes a third of the space of one over strings."""
    return int.from_bytes(blake2b(text_hash.encode(), digest_size=8).digest(), "big") >> 1


def normalize_vector(vector: object, dimension: int, what: str = "The vector") -> VectorArray:
    """Normalize a vector to length 1. Raises VectorRefused; `what` begins its message."""
    if vector is None:
        raise VectorRefused(f"{what} is missing.")
    with translate_errors(VectorRefused, TypeError, ValueError, say=f"{what} is not a row of numbers ({{}})."):
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


def prepare_batches(points: Sequence[VectorPoint], dimension: int) -> list[PointBatch]:
    """Check and normalize points and split them into batches; of points with the same id the last counts."""
    rows = {make_point_id(point.place): point for point in points}
    return [
        PointBatch(
            [name for name, _ in part],
            [_make_point_payload(point) for _, point in part],
            _normalize_points([point for _, point in part], dimension),
        )
        for part in split_batches(rows.items())
    ]


def _normalize_points(points: list[VectorPoint], dimension: int) -> VectorArray:
    """Normalize like `normalize_vector`, all points at once, which takes a fifth of the time."""
    with suppress(TypeError, ValueError):  # of different shapes, or not numbers: `normalize_vector` raises below
        rows = np.array([point.vector for point in points], np.float64)
        if rows.shape == (len(points), dimension):
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            if (lengths > 0).all() and np.isfinite(lengths).all():
                return np.asarray(rows / lengths, np.float32)
    names = [f"The vector of post {p.place.key.message_id} in {p.place.key.chat_id}" for p in points]
    return np.stack([normalize_vector(p.vector, dimension, name) for p, name in zip(points, names, strict=True)])


def _make_point_payload(point: VectorPoint) -> dict[str, int | str]:
    return {
        **encode_passage_ref(point.place),
        "date": int(point.date.timestamp()),
        "lang": point.lang,
        "hash": hash_to_number(point.text_hash),
        "text_hash": point.text_hash,
    }
