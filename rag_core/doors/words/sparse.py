"""A collection of sparse vectors on a Qdrant server: blocking calls, each of which may be repeated."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from rag_core.doors.qdrant.calls import Calls, connected
from rag_core.doors.qdrant.conditions import INTEGER, any_of
from rag_core.doors.qdrant.shape import checked_shards, scattered
from rag_core.doors.vectors.points import slices
from rag_core.errors import VectorsUnavailable
from rag_core.settings import QdrantSettings

__all__ = ["Condition", "Row", "Sparse", "of_posts"]

Condition = models.FieldCondition | models.Filter
Row = Mapping[str, Any]  # a payload

_OURS = "citegram words"  # the key of our part of the metadata
_USING = "words"
_BATCH = 500  # points of a write: about 400 kB
_PAGE = 2000  # payloads of a read
_FOREIGN = (
    "The collection {name} on the Qdrant server at {where} was not made by Citegram for words. Name another collection "
    "with QDRANT__COLLECTION: it is filled from the archive."
)
_INDEXES = {
    "chat": INTEGER,
    "message": INTEGER,
    "terms": INTEGER,
    "part": INTEGER,
    "date": models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=False, range=True),
}


class Sparse:
    """An open collection; `identity` is its own random name."""

    def __init__(self, calls: Calls, name: str, identity: str) -> None:
        self._calls, self.name, self.identity = calls, name, identity

    @classmethod
    def open(cls, settings: QdrantSettings, name: str, calls: Calls | None = None) -> Sparse:
        """Open the collection, or create it where there is none. Raises VectorsUnavailable, QdrantGone."""
        calls = calls or connected(settings)
        try:
            identity = _known(calls, settings, name) or _made(calls, settings, name)
            if not calls.local:
                for field, index in _INDEXES.items():  # there already, or not if the maker was interrupted
                    calls(lambda client, f=field, i=index: client.create_payload_index(name, f, i, wait=True))  # type: ignore[misc]
            return cls(calls, name, identity)
        except BaseException:
            calls.close()
            raise

    def write(self, rows: Mapping[str, tuple[Mapping[int, float], Row]]) -> None:
        """Write points by id, each a sparse vector and a payload; acknowledged when this returns."""
        for part in slices(rows.items(), _BATCH):
            points = [
                models.PointStruct(id=name, vector={_USING: _vector(values)}, payload=dict(row))
                for name, (values, row) in part
            ]
            self._calls(lambda client, p=points: client.upsert(self.name, p, wait=True))  # type: ignore[misc]

    def delete(self, ids: Sequence[str]) -> None:
        """Take points out."""
        for part in slices(ids, _BATCH):
            some = models.PointIdsList(points=[*part])
            self._calls(lambda client, s=some: client.delete(self.name, s, wait=True))  # type: ignore[misc]

    def best(self, values: Mapping[int, float], ways: Sequence[list[Condition]], n: int) -> list[tuple[Row, float]]:
        """Payloads and scores of the n best of all that one of the filters allows; no point is in two of them."""
        requests = [
            models.QueryRequest(
                query=_vector(values),
                using=_USING,
                filter=models.Filter(must=[*conditions]),
                limit=n,
                with_payload=models.PayloadSelectorExclude(exclude=["terms"]),
            )
            for conditions in ways
        ]
        found = self._calls(lambda client: client.query_batch_points(self.name, requests)) if requests else []
        return [(point.payload or {}, point.score) for reply in found for point in reply.points]

    def count(self, conditions: list[Condition]) -> int:
        """How many points a filter allows."""
        allowed = models.Filter(must=[*conditions])
        return self._calls(lambda client: client.count(self.name, allowed, exact=True)).count

    def rows(self, conditions: list[Condition], *, terms: bool = False) -> Iterator[tuple[str, Row]]:
        """Ids and payloads of all that a filter allows, in the server's order; the terms where they are wanted."""
        allowed, after = models.Filter(must=[*conditions]), None
        fields = True if terms else models.PayloadSelectorExclude(exclude=["terms"])
        while True:
            found, after = self._calls(
                lambda client, a=after: client.scroll(  # type: ignore[misc]
                    self.name, allowed, limit=_PAGE, offset=a, with_payload=fields, with_vectors=False
                )
            )
            yield from ((str(record.id), record.payload or {}) for record in found)
            if after is None:
                return

    def drop(self, name: str) -> None:
        """Delete another collection, which this one took the place of."""
        self._calls(lambda client: client.delete_collection(name))

    def close(self) -> None:
        """End the connections."""
        self._calls.close()


def of_posts(by_chat: Mapping[int, Sequence[int]]) -> list[list[Condition]]:
    """Filters for single posts, channel by channel, of which none names too many."""
    return [
        [any_of("chat", [chat]), any_of("message", part)]
        for chat, messages in by_chat.items()
        for part in slices(messages, _PAGE)
    ]


def _vector(values: Mapping[int, float]) -> models.SparseVector:
    return models.SparseVector(indices=list(values), values=list(values.values()))


def _known(calls: Calls, settings: QdrantSettings, name: str) -> str | None:
    if not calls(lambda client: client.collection_exists(name)):
        return None
    info = calls(lambda client: client.get_collection(name))
    ours = (info.config.metadata or {}).get(_OURS)
    if not isinstance(ours, dict) or "identity" not in ours:
        raise VectorsUnavailable(_FOREIGN.format(name=name, where=calls.where))
    if not calls.local:
        checked_shards(name, calls.where, info.config.params.shard_number, settings)
    return str(ours["identity"])


def _made(calls: Calls, settings: QdrantSettings, name: str) -> str:
    identity = secrets.token_hex(8)
    index = models.SparseIndexParams(on_disk=settings.on_disk)
    words = models.SparseVectorParams(index=index)  # no IDF modifier: it counts all channels

    def create(client: QdrantClient) -> None:
        try:
            client.create_collection(
                name,
                vectors_config={},
                sparse_vectors_config={_USING: words},
                on_disk_payload=True,
                metadata={_OURS: {"identity": identity}},
                **scattered(settings),
            )
        except UnexpectedResponse as exc:
            if exc.status_code != 409:
                raise

    calls(create)
    return _known(calls, settings, name) or identity
