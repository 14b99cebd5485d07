"""Qdrant vector store: a collection on a server or cluster, also one that is unreachable for a while.

Imported only if QDRANT__URL is set. Model and dimension are in the collection's metadata (since Qdrant 1.16), so that
the collection and they are created in one request.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from qdrant_client import models

from rag_core.errors import VectorsUnavailable
from rag_core.index.qdrant_collections import (
    DATE_INDEX,
    INTEGER_INDEX,
    PayloadIndexes,
    apply_collection_settings,
    create_missing_indexes,
    find_or_create_collection,
    make_collection_options,
    make_date_conditions,
    make_search_params,
    match_any,
)
from rag_core.index.qdrant_connection import QdrantConnection, connect_qdrant
from rag_core.index.store_filter import StoreFilter
from rag_core.index.store_points import PAYLOAD_FIELDS, REF_FIELDS, PointBatch, StoreInfo, VectorArray
from rag_core.settings import QdrantSettings

_METADATA_KEY = "citegram"  # key of Citegram's part of the metadata

_FOREIGN_COLLECTION = (
    "The collection {name} on the Qdrant server at {where} was not made by Citegram, or the server is older than "
    "1.16. Choose another collection, or update the server."
)
_OTHER_MODEL = (
    "The collection {name} on the Qdrant server at {where} was made for the model {made.model} ({made.dimension} "
    "numbers), not for {model} ({size}). Choose that model again, or name another collection with QDRANT__COLLECTION: "
    "it is filled from the archive."
)
_PAYLOAD_INDEXES: PayloadIndexes = {
    "chat": INTEGER_INDEX,
    "message": INTEGER_INDEX,
    "hash": INTEGER_INDEX,
    "date": DATE_INDEX,
    "lang": models.PayloadSchemaType.KEYWORD,
}


def _read_dense_vector(vector: Any) -> VectorArray:
    return np.asarray(vector["dense"], np.float32)


class QdrantVectorStore:
    """Open collection. Blocking calls; every one raises VectorsUnavailable if the server cannot answer."""

    def __init__(self, calls: QdrantConnection, settings: QdrantSettings, name: str, about: StoreInfo) -> None:
        self._calls, self._name, self.about = calls, name, about
        # Local mode is always exact, and warns if exact search is requested.
        self._params = None if calls.local else make_search_params(settings)

    @classmethod
    def open(
        cls, settings: QdrantSettings, about: tuple[str, int], calls: QdrantConnection | None = None
    ) -> QdrantVectorStore:
        """Open the collection for `about`, a model and its dimension, or create it if there is none.

        Where the collection of the settings holds vectors of another model, it is one beside it, named after the
        model. The settings are applied to an existing collection. Raises VectorsUnavailable, QdrantGone.
        """
        calls, beside = calls or connect_qdrant(settings), f"{settings.collection}-{about[0]}"
        try:
            new, options = {"model": about[0], "dimension": about[1]}, make_collection_options(settings, about[1])
            finding = partial(find_or_create_collection, calls, key=_METADATA_KEY, about=new, options=options)
            name, info, ours = finding((settings.collection, beside))
            if isinstance(ours, dict) and ours.get("model", about[0]) != about[0]:
                name, info, ours = finding((beside,))
            try:
                found = StoreInfo(str(ours["identity"]), str(ours["model"]), int(ours["dimension"]))
            except (TypeError, KeyError, ValueError):
                raise VectorsUnavailable(_FOREIGN_COLLECTION.format(name=name, where=calls.where)) from None
            if info:
                apply_collection_settings(calls, name, info, settings)
            if (found.model, found.dimension) != about:
                raise VectorsUnavailable(
                    _OTHER_MODEL.format(name=name, where=calls.where, made=found, model=about[0], size=about[1])
                )
            create_missing_indexes(calls, name, _PAYLOAD_INDEXES)
            return cls(calls, settings, name, found)
        except BaseException:
            calls.close()
            raise

    def write(self, batch: PointBatch) -> None:
        """Write points; they replace those with the same ids."""
        rows = zip(batch.ids, batch.vectors.tolist(), batch.payloads, strict=True)
        points = [models.PointStruct(id=name, vector={"dense": row}, payload=payload) for name, row, payload in rows]
        self._calls(lambda client: client.upsert(self._name, points, wait=True))

    def remove(self, posts: Mapping[int, list[int]], but: list[str]) -> None:
        """Remove all parts of posts, given as message ids by channel, except the point ids in `but`."""
        kept = [models.HasIdCondition(has_id=list(but))] if but else []
        # one request for all channels: each waits until all copies have it
        each: list[models.Condition] = [
            models.Filter(must=[match_any("chat", [chat]), match_any("message", messages)])
            for chat, messages in posts.items()
        ]
        selector = models.FilterSelector(filter=models.Filter(should=each, must_not=[*kept]))
        if each:
            self._calls(lambda client: client.delete(self._name, selector, wait=True))

    def search(self, vector: VectorArray, only: StoreFilter, n: int) -> list[tuple[Mapping[str, Any], float]]:
        """Find the n nearest allowed points: payloads and cosines."""
        each: list[list[models.Condition]] = [[match_any("chat", only["channels"])]]
        if only["posts"] is not None:  # channel by channel, as in edge_shard_process.py
            each = [[match_any("chat", [chat]), match_any("message", messages)] for chat, messages in only["posts"]]
        common: list[models.Condition] = [*make_date_conditions(only["since"], only["until"])]
        if only["lang"] is not None:
            common.append(models.FieldCondition(key="lang", match=models.MatchValue(value=only["lang"])))
        requests = [
            models.QueryRequest(
                query=vector.tolist(),
                using="dense",
                filter=models.Filter(must=[*of, *common]),
                params=self._params,
                limit=n,
                with_payload=list(REF_FIELDS),
            )
            for of in each
        ]
        found = self._calls(lambda client: client.query_batch_points(self._name, requests), read=True)
        points = sorted((point for reply in found for point in reply.points), key=lambda point: -point.score)
        return [(point.payload or {}, point.score) for point in points[:n]]

    def vectors(self, ids: list[str]) -> dict[str, VectorArray]:
        """Read the vectors of the ids that exist."""
        found = self._calls(
            lambda client: client.retrieve(self._name, ids, with_payload=False, with_vectors=["dense"]), read=True
        )
        return {str(record.id): _read_dense_vector(record.vector) for record in found}

    def vectors_by_hash(self, numbers: list[int]) -> list[tuple[str, VectorArray]]:
        """Read one page of text hashes and vectors of points with these hash numbers."""
        some = models.Filter(must=[match_any("hash", numbers)])
        found, _next = self._calls(
            lambda client: client.scroll(
                self._name, some, limit=2 * len(numbers), with_payload=["text_hash"], with_vectors=["dense"]
            )
        )
        return [((record.payload or {})["text_hash"], _read_dense_vector(record.vector)) for record in found]

    def count(self) -> int:
        """Count the points."""
        return self._calls(lambda client: client.count(self._name, exact=True)).count

    def page(self, after: str | None, n: int) -> tuple[list[Mapping[str, Any]], str | None]:
        """Read the payloads of the next n points in the server's order, and the next `after`; None at the end."""
        found, following = self._calls(
            lambda client: client.scroll(
                self._name, limit=n, offset=after, with_payload=list(PAYLOAD_FIELDS), with_vectors=False
            )
        )
        return [record.payload or {} for record in found], None if following is None else str(following)

    def flush(self) -> None:
        """Do nothing: every write waits until the server has it."""

    def drop(self) -> None:
        """Delete the collection."""
        self._calls(lambda client: client.delete_collection(self._name))

    def close(self) -> None:
        """Close the connections."""
        self._calls.close()
