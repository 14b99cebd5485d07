"""A collection on a Qdrant server or cluster, through qdrant-client. Imported only where a URL is set.

What the collection was made for stands in its metadata (since Qdrant 1.16), so that the two are made at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from rag_core.doors.vectors.contract import Floats
from rag_core.doors.vectors.points import ABOUT, FIELDS, About, Batch, Only
from rag_core.errors import VectorsUnavailable

__all__ = ["LOCAL", "Collection", "connected"]

LOCAL = ":memory:"
_TIMEOUT_S = 30
_OURS = "citegram"  # the key of our part of the metadata

_SILENT = "The Qdrant server at {where} does not answer ({said}). Check that it runs, and QDRANT__URL."
_REFUSED = "The Qdrant server at {where} refuses the key. Check QDRANT__API_KEY."
_FAILED = "The Qdrant server at {where} could not do its work ({said})."
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
    "chat": models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False),
    "message": models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False),
    "hash": models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False),
    "date": models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=False, range=True),
    "lang": models.PayloadSchemaType.KEYWORD,
}


@contextmanager
def _said_plainly(where: str) -> Iterator[None]:
    try:
        yield
    except UnexpectedResponse as exc:
        if exc.status_code in (401, 403):
            raise VectorsUnavailable(_REFUSED.format(where=where)) from exc
        said = f"{exc.status_code} {exc.reason_phrase}"
        raise VectorsUnavailable(_FAILED.format(where=where, said=said)) from exc
    except ResponseHandlingException as exc:
        raise VectorsUnavailable(_SILENT.format(where=where, said=exc)) from exc
    except ApiException as exc:
        raise VectorsUnavailable(_FAILED.format(where=where, said=exc)) from exc


def connected(url: str, api_key: str | None) -> tuple[QdrantClient, str]:
    """A client, which has not asked anything yet, and the server's name in sentences: a URL may hold a password."""
    if url == LOCAL:
        return QdrantClient(LOCAL), LOCAL
    where = urlsplit(url).netloc.rpartition("@")[2] or url
    try:
        return QdrantClient(url=url, api_key=api_key, timeout=_TIMEOUT_S, check_compatibility=False), where
    except ValueError as exc:
        raise VectorsUnavailable(f"QDRANT__URL is not the address of a server ({exc}).") from exc


def _any(key: str, values: list[int]) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchAny(any=values))


def _dense(vector: Any) -> Floats:
    return np.asarray(vector["dense"], np.float32)


class Collection:
    """An open collection. Blocking calls; every one raises VectorsUnavailable where the server cannot answer."""

    def __init__(self, client: QdrantClient, name: str, where: str, about: About) -> None:
        self._client, self._name, self._where, self.about = client, name, where, about
        # Local mode is always exact, and warns where it is asked to be.
        self._exact = None if where == LOCAL else models.SearchParams(exact=True)

    @classmethod
    def open(cls, client: QdrantClient, where: str, name: str, about: tuple[str, int]) -> Collection:
        """Open the collection for `about`, a model and its dimension, or create it where there is none."""
        try:
            with _said_plainly(where):
                found = _known(client, name, where) or _made(client, name, where, *about)
                if where != LOCAL:
                    for field, index in _INDEXES.items():  # there already, or not if the maker was interrupted
                        client.create_payload_index(name, field, index, wait=True)
            if (found.model, found.dimension) != about:
                raise VectorsUnavailable(
                    _OTHER.format(name=name, where=where, made=found, model=about[0], size=about[1])
                )
            return cls(client, name, where, found)
        except BaseException:
            client.close()
            raise

    def write(self, batch: Batch) -> None:
        """Write points in place of those with the same ids."""
        rows = zip(batch.ids, batch.vectors.tolist(), batch.payloads, strict=True)
        points = [models.PointStruct(id=name, vector={"dense": row}, payload=payload) for name, row, payload in rows]
        with _said_plainly(self._where):
            self._client.upsert(self._name, points, wait=True)

    def remove(self, posts: Mapping[int, list[int]], but: list[str]) -> None:
        """Take out all parts of posts, given as message ids by channel, but the points with these ids."""
        kept = [models.HasIdCondition(has_id=list(but))] if but else []
        for chat, messages in posts.items():
            of_posts = models.Filter(must=[_any("chat", [chat]), _any("message", messages)], must_not=[*kept])
            with _said_plainly(self._where):
                self._client.delete(self._name, models.FilterSelector(filter=of_posts), wait=True)

    def search(self, vector: Floats, only: Only, n: int) -> list[tuple[Mapping[str, Any], float]]:
        """Payloads and cosines of the n nearest that are allowed."""
        must: list[models.Condition] = [_any("chat", only["channels"])]
        if only["since"] is not None or only["until"] is not None:
            must.append(models.FieldCondition(key="date", range=models.Range(gte=only["since"], lt=only["until"])))
        if only["lang"] is not None:
            must.append(models.FieldCondition(key="lang", match=models.MatchValue(value=only["lang"])))
        with _said_plainly(self._where):
            found = self._client.query_points(
                self._name,
                query=vector.tolist(),
                using="dense",
                query_filter=models.Filter(must=must),
                search_params=self._exact,
                limit=n,
                with_payload=list(FIELDS),
            )
        return [(point.payload or {}, point.score) for point in found.points]

    def vectors(self, ids: list[str]) -> dict[str, Floats]:
        """The vectors of those ids that are there."""
        with _said_plainly(self._where):
            found = self._client.retrieve(self._name, ids, with_payload=False, with_vectors=["dense"])
        return {str(record.id): _dense(record.vector) for record in found}

    def hashed(self, numbers: list[int]) -> list[tuple[str, Floats]]:
        """Text hashes and vectors of points with these hash numbers, a page of them."""
        some = models.Filter(must=[_any("hash", numbers)])
        with _said_plainly(self._where):
            found, _next = self._client.scroll(
                self._name, some, limit=2 * len(numbers), with_payload=["text_hash"], with_vectors=["dense"]
            )
        return [((record.payload or {})["text_hash"], _dense(record.vector)) for record in found]

    def count(self) -> int:
        """How many points there are."""
        with _said_plainly(self._where):
            return self._client.count(self._name, exact=True).count

    def page(self, after: str | None, n: int) -> tuple[list[Mapping[str, Any]], str | None]:
        """The payloads of the next n points in the server's order, and where to go on; None at the end."""
        with _said_plainly(self._where):
            found, following = self._client.scroll(
                self._name, limit=n, offset=after, with_payload=list(ABOUT), with_vectors=False
            )
        return [record.payload or {} for record in found], None if following is None else str(following)

    def flush(self) -> None:
        """Nothing to do: every write waited until the server had it."""

    def close(self) -> None:
        """End the connections."""
        self._client.close()


def _known(client: QdrantClient, name: str, where: str) -> About | None:
    if not client.collection_exists(name):
        return None
    ours = (client.get_collection(name).config.metadata or {}).get(_OURS)
    try:
        return About(str(ours["identity"]), str(ours["model"]), int(ours["dimension"]))  # type: ignore[index]
    except (TypeError, KeyError, ValueError):
        raise VectorsUnavailable(_FOREIGN.format(name=name, where=where)) from None


def _made(client: QdrantClient, name: str, where: str, model: str, dimension: int) -> About:
    about = About(secrets.token_hex(8), model, dimension)
    dense = models.VectorParams(size=dimension, distance=models.Distance.COSINE, datatype=models.Datatype.FLOAT16)
    try:
        client.create_collection(
            name,
            vectors_config={"dense": dense},
            hnsw_config=models.HnswConfigDiff(m=0),  # searches are exact: no graph is built
            metadata={_OURS: asdict(about)},
        )
    except UnexpectedResponse as exc:
        if exc.status_code != 409:  # another was quicker
            raise
    return _known(client, name, where) or about
