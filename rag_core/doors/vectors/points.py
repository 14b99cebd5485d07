"""What every vector store shares: what a point holds, which vectors are refused, how a filter is spelt out.

Point ids are made of the place alone, so that writing a passage twice leaves it there once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any, TypedDict, TypeVar
from uuid import UUID, uuid5

import numpy as np

from rag_core.doors.lexical import Filter, Keys, Place
from rag_core.doors.vectors.contract import Floats, Held, Point
from rag_core.doors.vectors.slots import slot, slots
from rag_core.errors import VectorRefused, VectorsUnavailable, raised_as
from rag_core.types import PostKey

__all__ = [
    "ABOUT",
    "FIELDS",
    "MOST_POSTS",
    "About",
    "Batch",
    "Only",
    "best_first",
    "hash_number",
    "held",
    "point_id",
    "prepared",
    "slices",
    "spelt_out",
    "unit",
]

T = TypeVar("T")

BATCH = 256  # points a store takes at once: 15 ms of its time, so that a search waits no longer than that
MOST_POSTS = 50_000  # that a filter may name: 0.1 s of the embedded store, in which no other search is answered
FIELDS = ("chat", "message", "part", "start", "end")  # of the payload: the place
ABOUT = (*FIELDS, "date", "lang", "text_hash")
_IDS = UUID("8f0ae19f-31c5-4a55-9a52-6b0c5d8f5a61")  # any fixed namespace: changing it means a reindex


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
    """A filter in plain values, as the stores put it inside their query; dates in whole seconds.

    `posts`: where single posts are meant, pairs of a channel and its message ids; of no channel but `channels`.
    `slots`: of all points that the channels and dates allow, but those from `later` on. They bound nothing:
    a store may gather by them. None where they are no help.
    """

    channels: list[int]
    slots: list[int] | None
    later: int | None
    posts: list[tuple[int, list[int]]] | None
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
    place, date = point.place, int(point.date.timestamp())
    return {
        "chat": place.key.chat_id,
        "message": place.key.message_id,
        "part": place.part,
        "start": place.start,
        "end": place.end,
        "date": date,
        "slot": slot(place.key.chat_id, date),
        "lang": point.lang,
        "hash": hash_number(point.text_hash),
        "text_hash": point.text_hash,
    }


def spelt_out(only: Filter, lang: str | None) -> Only:
    """The filter as the stores take it; Telegram's dates have no fractions, so bounds are rounded up.

    Raises VectorsUnavailable where it names too many posts.
    """
    since = None if only.since is None else math.ceil(only.since.timestamp())
    until = None if only.until is None else math.ceil(only.until.timestamp())
    named, later = slots(only.channels, since, until, int(time.time())) or (None, None)
    return {
        "channels": sorted(only.channels),
        "slots": named,
        "later": later,
        "posts": None if only.keys is None else _posts(only.keys, only.channels),
        "since": since,
        "until": until,
        "lang": lang,
    }


def _posts(keys: Keys, channels: frozenset[int]) -> list[tuple[int, list[int]]]:
    named = [(chat, ids.tolist()) for chat, ids in sorted(keys.by_chat.items()) if chat in channels and len(ids)]
    if sum(len(ids) for _, ids in named) > MOST_POSTS:
        raise VectorsUnavailable(
            f"More than {MOST_POSTS:,} posts fit the filter: they were searched by words only. "
            "Ask about one channel to search by meaning too."
        )
    return named


def best_first(found: Iterable[tuple[Mapping[str, Any], float]]) -> list[tuple[Place, float]]:
    """Payloads and cosines as places, in one order for equal cosines."""
    hits = [(_place(row), float(score)) for row, score in found]
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))


def held(row: Mapping[str, Any]) -> Held:
    """What a payload says."""
    return Held(_place(row), int(row["date"]), str(row["lang"]), str(row["text_hash"]))


def _place(row: Mapping[str, Any]) -> Place:
    chat, message, part, start, end = (int(row[name]) for name in FIELDS)
    return Place(PostKey(chat, message), part, start, end)
