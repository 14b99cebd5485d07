"""A collection on a Qdrant server or cluster, through qdrant-client. Imported only where a URL is set.

What the collection was made for stands in its metadata (since Qdrant 1.16), so that the two are made at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from rag_core.doors.qdrant.calls import Calls, connected
from rag_core.doors.qdrant.conditions import INTEGER, any_of, bounds
from rag_core.doors.qdrant.shape import adjusted, laid_out, searching
from rag_core.doors.vectors.contract import Floats
from rag_core.doors.vectors.points import ABOUT, FIELDS, About, Batch, Only
from rag_core.errors import VectorsUnavailable
from rag_core.settings import QdrantSettings

__all__ = ["Collection"]

_OURS = "citegram"  # the key of our part of the metadata

_FOREIGN = (
    "The collection {name} on the Qdrant server at {where} was not made by Citegram, or the server is older than "
    "1.16. Choose another collection, or update the server."
)
_OTHER = (
    "The collection {name} on the Qdrant server at {where} was made for the model {made.model} ({made.dimension} "
    "numbers), not for {model} ({size}). Choose that model again, or name another collection with QDRANT__COLLECTION: "
    "it is filled from the archive."
)
_INDEXES: dict[str, models.PayloadSchemaType | models.IntegerIndexParams] = {
    "chat": INTEGER,
    "message": INTEGER,
    "hash": INTEGER,
    "date": models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=False, range=True),
    "lang": models.PayloadSchemaType.KEYWORD,
}


def _bounds(only: Only) -> Iterator[models.Condition]:
    yield from bounds(only["since"], only["until"])
    if only["lang"] is not None:
        yield models.FieldCondition(key="lang", match=models.MatchValue(value=only["lang"]))


def _dense(vector: Any) -> Floats:
    return np.asarray(vector["dense"], np.float32)


class Collection:
    """An open collection. Blocking calls; every one raises VectorsUnavailable where the server cannot answer."""

    def __init__(self, calls: Calls, settings: QdrantSettings, about: About) -> None:
        self._calls, self._name, self.about = calls, settings.collection, about
        # Local mode is always exact, and warns where it is asked to be.
        self._params = None if calls.local else searching(settings)

    @classmethod
    def open(cls, settings: QdrantSettings, about: tuple[str, int], calls: Calls | None = None) -> Collection:
        """Open the collection for `about`, a model and its dimension, or create it where there is none.

        An existing one is brought to the settings. Raises VectorsUnavailable, QdrantGone.
        """
        calls = calls or connected(settings)
        try:
            name = settings.collection
            found = _known(calls, settings) or _made(calls, settings, *about)
            if (found.model, found.dimension) != about:
                raise VectorsUnavailable(
                    _OTHER.format(name=name, where=calls.where, made=found, model=about[0], size=about[1])
                )
            if not calls.local:
                for field, index in _INDEXES.items():  # there already, or not if the maker was interrupted
                    calls(lambda client, f=field, i=index: client.create_payload_index(name, f, i, wait=True))  # type: ignore[misc]
            return cls(calls, settings, found)
        except BaseException:
            calls.close()
            raise

    def write(self, batch: Batch) -> None:
        """Write points in place of those with the same ids."""
        rows = zip(batch.ids, batch.vectors.tolist(), batch.payloads, strict=True)
        points = [models.PointStruct(id=name, vector={"dense": row}, payload=payload) for name, row, payload in rows]
        self._calls(lambda client: client.upsert(self._name, points, wait=True))

    def remove(self, posts: Mapping[int, list[int]], but: list[str]) -> None:
        """Take out all parts of posts, given as message ids by channel, but the points with these ids."""
        kept = [models.HasIdCondition(has_id=list(but))] if but else []
        for chat, messages in posts.items():
            some = models.Filter(must=[any_of("chat", [chat]), any_of("message", messages)], must_not=[*kept])
            selector = models.FilterSelector(filter=some)
            self._calls(lambda client, s=selector: client.delete(self._name, s, wait=True))  # type: ignore[misc]

    def search(self, vector: Floats, only: Only, n: int) -> list[tuple[Mapping[str, Any], float]]:
        """Payloads and cosines of the n nearest that are allowed."""
        each: list[list[models.Condition]] = [[any_of("chat", only["channels"])]]
        if only["posts"] is not None:  # channel by channel, as in engine.py
            each = [[any_of("chat", [chat]), any_of("message", messages)] for chat, messages in only["posts"]]
        requests = [
            models.QueryRequest(
                query=vector.tolist(),
                using="dense",
                filter=models.Filter(must=[*of, *_bounds(only)]),
                params=self._params,
                limit=n,
                with_payload=list(FIELDS),
            )
            for of in each
        ]
        found = self._calls(lambda client: client.query_batch_points(self._name, requests))
        points = sorted((point for reply in found for point in reply.points), key=lambda point: -point.score)
        return [(point.payload or {}, point.score) for point in points[:n]]

    def vectors(self, ids: list[str]) -> dict[str, Floats]:
        """The vectors of those ids that are there."""
        found = self._calls(lambda client: client.retrieve(self._name, ids, with_payload=False, with_vectors=["dense"]))
        return {str(record.id): _dense(record.vector) for record in found}

    def hashed(self, numbers: list[int]) -> list[tuple[str, Floats]]:
        """Text hashes and vectors of points with these hash numbers, a page of them."""
        some = models.Filter(must=[any_of("hash", numbers)])
        found, _next = self._calls(
            lambda client: client.scroll(
                self._name, some, limit=2 * len(numbers), with_payload=["text_hash"], with_vectors=["dense"]
            )
        )
        return [((record.payload or {})["text_hash"], _dense(record.vector)) for record in found]

    def count(self) -> int:
        """How many points there are."""
        return self._calls(lambda client: client.count(self._name, exact=True)).count

    def page(self, after: str | None, n: int) -> tuple[list[Mapping[str, Any]], str | None]:
        """The payloads of the next n points in the server's order, and where to go on; None at the end."""
        found, following = self._calls(
            lambda client: client.scroll(
                self._name, limit=n, offset=after, with_payload=list(ABOUT), with_vectors=False
            )
        )
        return [record.payload or {} for record in found], None if following is None else str(following)

    def flush(self) -> None:
        """Nothing to do: every write waited until the server had it."""

    def close(self) -> None:
        """End the connections."""
        self._calls.close()


def _known(calls: Calls, settings: QdrantSettings) -> About | None:
    name = settings.collection
    if not calls(lambda client: client.collection_exists(name)):
        return None
    info = calls(lambda client: client.get_collection(name))
    ours = (info.config.metadata or {}).get(_OURS)
    try:
        about = About(str(ours["identity"]), str(ours["model"]), int(ours["dimension"]))  # type: ignore[index]
    except (TypeError, KeyError, ValueError):
        raise VectorsUnavailable(_FOREIGN.format(name=name, where=calls.where)) from None
    adjusted(calls, name, info, settings)
    return about


def _made(calls: Calls, settings: QdrantSettings, model: str, dimension: int) -> About:
    about = About(secrets.token_hex(8), model, dimension)

    def create(client: QdrantClient) -> None:
        try:
            metadata = {_OURS: asdict(about)}
            client.create_collection(settings.collection, metadata=metadata, **laid_out(settings, dimension))
        except UnexpectedResponse as exc:
            if exc.status_code != 409:  # another was quicker, or we were, and did not hear of it
                raise

    calls(create)
    return _known(calls, settings) or about
