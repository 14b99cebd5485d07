"""Points of passages: ids, payload fields and batches, for vectors and for words on a Qdrant server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar
from uuid import UUID, uuid5

from rag_core.types import PassageRef, PostKey

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


def read_passage_ref(row: Mapping[str, Any]) -> PassageRef:
    """Decode the passage reference in a payload."""
    chat, message, part, start, end = (int(row[name]) for name in REF_FIELDS)
    return PassageRef(PostKey(chat, message), part, start, end)
