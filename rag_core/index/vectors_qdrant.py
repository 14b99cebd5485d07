"""Qdrant vector store: a collection on a server or cluster, also one that is unreachable for a while.

Imported only if QDRANT__URL is set. Model and dimension are in the collection's metadata (since Qdrant 1.16), so that
the collection and they are created in one request.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np
import stamina
from httpx import TimeoutException
from pydantic import ValidationError
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from rag_core.errors import CollectionLost, QdrantGone, VectorsUnavailable, translate_errors
from rag_core.index.vector_store import PAYLOAD_FIELDS, REF_FIELDS, PointBatch, StoreFilter, StoreInfo, VectorArray
from rag_core.settings import QdrantSettings

_FIRST_RETRY_PAUSE_S, _MAX_RETRY_PAUSE_S = 0.1, 1.0
_RETRIES = 2  # where the server refuses to connect
_BUSY_STATUSES = (429, 502, 503, 504)
_PASSED_OVER_S = 5.0  # a node that did not answer; without another one it is asked all the same
_READ_TIMEOUT_S = 1  # of a search, where another node can be asked: within the budget of a search

_SERVER_SILENT = "The Qdrant server at {where} does not answer ({said}). Check that it runs, and QDRANT__URL."
_SERVER_UNKNOWN = (
    "What answers at {where} is no Qdrant server that we know. Check QDRANT__URL, and that it is 1.16 or later."
)
_KEY_REFUSED = "The Qdrant server at {where} refuses the key. Check QDRANT__KEY."
_SERVER_FAILED = "The Qdrant server at {where} could not do its work ({said})."
_COLLECTION_LOST = "The Qdrant server at {where} has lost a collection ({said}): it is filled again from the archive."

T = TypeVar("T")
log = logging.getLogger(__name__)


def _is_transient_error(exc: Exception) -> bool:
    """Whether to retry a call: not after a timeout, which would happen again."""
    if isinstance(exc, UnexpectedResponse):
        return exc.status_code in _BUSY_STATUSES
    if isinstance(exc, ResponseHandlingException):
        return not isinstance(exc.source, TimeoutException | ValidationError | ValueError)
    return isinstance(exc, ResourceExhaustedResponse)  # 429 with the seconds to wait


@dataclass(slots=True)
class _Node:
    """Node of the cluster: `reads` is a client that gives up sooner, so that another node can be asked in time."""

    where: str
    client: QdrantClient
    reads: QdrantClient
    down_until: float = 0.0


class QdrantConnection:
    """Connection to a Qdrant server or to the nodes of a cluster, with retries. Every call must be repeatable.

    A node that does not answer is passed over for some seconds. `where` names the nodes in messages, by the hosts of
    their URLs, which may hold a password.
    """

    def __init__(self, settings: QdrantSettings) -> None:
        """Make the clients, without a request yet. Raises VectorsUnavailable for an invalid URL."""
        key, several = settings.key.get_secret_value(), len(settings.urls) > 1
        # As a header: given as `api_key` it makes the client warn, for localhost too.
        make_client = partial(QdrantClient, metadata={"api-key": key} if key else {}, check_compatibility=False)
        self._attempts = 1 if several else _RETRIES + 1  # another node is the better second attempt
        self._nodes: list[_Node] = []
        for url in settings.urls:
            parts = urlsplit(url)
            where = parts.netloc.rpartition("@")[2] or url
            if key and parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
                log.warning(
                    "the key for %s goes over the network in clear: use https unless the network is yours", where
                )
            say = "QDRANT__URL is not the address of a server ({}): write http://host:6333."
            with translate_errors(VectorsUnavailable, ValueError, say=say):
                client = make_client(url=url, timeout=settings.timeout)
                hurried = several and settings.timeout > _READ_TIMEOUT_S
                reads = make_client(url=url, timeout=_READ_TIMEOUT_S) if hurried else client
            self._nodes.append(_Node(where, client, reads))
        self.where = ", ".join(node.where for node in self._nodes)

    def __call__(self, work: Callable[[QdrantClient], T], *, read: bool = False) -> T:
        """Call `work` with a client of the first node that answers, with retries at each.

        `read`: a short request, that another node may answer sooner. Raises VectorsUnavailable; QdrantGone if it may
        work later.
        """
        now = time.monotonic()
        for node in sorted(self._nodes, key=lambda node: max(now, node.down_until)):  # stable: the first that is up
            try:
                return self._ask(node, work, read)
            except CollectionLost:
                raise
            except QdrantGone as exc:
                node.down_until = time.monotonic() + _PASSED_OVER_S
                failure = exc
        raise failure

    def _ask(self, node: _Node, work: Callable[[QdrantClient], T], read: bool) -> T:
        pauses = {"wait_initial": _FIRST_RETRY_PAUSE_S, "wait_max": _MAX_RETRY_PAUSE_S, "timeout": None}
        where = node.where
        try:
            for attempt in stamina.retry_context(on=_is_transient_error, attempts=self._attempts, **pauses):  # type: ignore[arg-type]
                with attempt:
                    return work(node.reads if read else node.client)
        except UnexpectedResponse as exc:
            if exc.status_code in (401, 403):
                raise VectorsUnavailable(_KEY_REFUSED, code="qdrant-key-refused", where=where) from exc
            said, status = f"{exc.status_code} {exc.reason_phrase}", exc.status_code or 500
            if status == 404:
                raise CollectionLost(_COLLECTION_LOST, where=where, said=said) from exc
            kind = QdrantGone if status >= 500 or status in _BUSY_STATUSES else VectorsUnavailable
            raise kind(_SERVER_FAILED, code="qdrant-failed", where=where, said=said) from exc
        except ResponseHandlingException as exc:
            if isinstance(exc.source, ValidationError | ValueError):
                raise VectorsUnavailable(_SERVER_UNKNOWN, code="qdrant-unknown", where=where) from exc
            raise QdrantGone(_SERVER_SILENT, code="qdrant-silent", where=where, said=exc) from exc
        except (ApiException, QdrantException) as exc:
            raise QdrantGone(_SERVER_FAILED, code="qdrant-failed", where=where, said=exc) from exc
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Close the connections."""
        for node in self._nodes:
            node.client.close()
            node.reads.close()


def _match_any(key: str, values: Sequence[int]) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))


_OTHER_SHARD_COUNT = (
    "The collection {name} on the Qdrant server at {where} has {there} shards, not {wanted} as QDRANT__SHARDS says, "
    "and that cannot be changed. Set it to {there}, or name another collection with QDRANT__COLLECTION: it is filled "
    "from the archive."
)
_OVERSAMPLING = 3.0  # times as many quantized hits as wanted are compared by whole vectors
_BUILD_NEIGHBOURS, _SEARCH_NEIGHBOURS = 128, 256  # looked at in the HNSW graph while it is built, and by a search
_QUANTILE = 0.99  # of a vector's numbers: outliers beyond it are cut, as in Qdrant's documentation


# By the names of QDRANT__QUANTIZATION.
_QUANTIZATIONS: dict[str, models.ScalarQuantization | models.BinaryQuantization | None] = {
    "none": None,
    "int8": models.ScalarQuantization(
        scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=_QUANTILE, always_ram=True)
    ),
    "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
}


def _make_hnsw_config(settings: QdrantSettings) -> models.HnswConfigDiff:
    return models.HnswConfigDiff(m=settings.links, ef_construct=_BUILD_NEIGHBOURS if settings.links else None)


def make_search_params(settings: QdrantSettings) -> models.SearchParams:
    """Make search parameters: exact, unless there is a graph or quantization; quantized hits are rescored."""
    if not settings.links and settings.quantization == "none":
        return models.SearchParams(exact=True)
    rescoring = models.QuantizationSearchParams(rescore=True, oversampling=_OVERSAMPLING)
    return models.SearchParams(
        hnsw_ef=_SEARCH_NEIGHBOURS if settings.links else None,
        quantization=None if settings.quantization == "none" else rescoring,
    )


def _apply_settings(calls: QdrantConnection, name: str, info: models.CollectionInfo, settings: QdrantSettings) -> None:
    config, params = info.config, info.config.params
    there = params.shard_number
    if settings.shards and there and there != settings.shards:
        raise VectorsUnavailable(_OTHER_SHARD_COUNT, name=name, where=calls.where, there=there, wanted=settings.shards)
    dense = params.vectors.get("dense") if isinstance(params.vectors, dict) else None
    graph = config.hnsw_config.m, config.hnsw_config.ef_construct if settings.links else _BUILD_NEIGHBOURS
    copies = params.replication_factor or 1, params.write_consistency_factor or 1
    if (
        graph == (settings.links, _BUILD_NEIGHBOURS)
        and type(config.quantization_config) is type(_QUANTIZATIONS[settings.quantization])
        and bool(dense and dense.on_disk) == settings.on_disk
        and copies == (settings.replicas, settings.consistency)
    ):
        return
    log.info("the collection %s is laid out anew, as the settings say: the server works at it beside questions", name)
    if copies[0] < settings.replicas:
        log.warning("replicas of shards that exist are added on the server, not by Citegram: see deploy/CAPACITY.md")
    calls(
        lambda client: client.update_collection(
            name,
            vectors_config={"dense": models.VectorParamsDiff(on_disk=settings.on_disk)},
            hnsw_config=_make_hnsw_config(settings),
            quantization_config=_QUANTIZATIONS[settings.quantization] or models.Disabled.DISABLED,
            collection_params=models.CollectionParamsDiff(
                replication_factor=settings.replicas, write_consistency_factor=settings.consistency
            ),
        )
    )


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
# Integers are looked up by value, dates by a range.
_LOOKUP_INDEX = models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False)
_PAYLOAD_INDEXES = {
    "chat": _LOOKUP_INDEX,
    "message": _LOOKUP_INDEX,
    "hash": _LOOKUP_INDEX,
    "date": models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=False, range=True),
    "lang": models.PayloadSchemaType.KEYWORD,
}


def _read_dense_vector(vector: Any) -> VectorArray:
    return np.asarray(vector["dense"], np.float32)


def _find_or_create(
    calls: QdrantConnection, settings: QdrantSettings, model: str, dimension: int, archive: str
) -> tuple[str, models.CollectionInfo | None, Any]:
    """Find the collection of a model and an archive, or create it under the first free name.

    Returns its name, its description (None if the server does not show it yet), and Citegram's part of its metadata.
    """
    made: dict[str, Any] = {}
    ours = {"model": model, "archive": archive}
    kind, on_disk = models.Datatype.FLOAT16, settings.on_disk or None
    dense = models.VectorParams(size=dimension, distance=models.Distance.COSINE, datatype=kind, on_disk=on_disk)

    def create(name: str, client: QdrantClient) -> None:
        try:
            client.create_collection(
                name,
                vectors_config={"dense": dense},
                hnsw_config=_make_hnsw_config(settings),
                quantization_config=_QUANTIZATIONS[settings.quantization],
                shard_number=settings.shards or None,
                replication_factor=settings.replicas,
                write_consistency_factor=settings.consistency,
                on_disk_payload=True,  # fields of filters are in payload indexes
                metadata={_METADATA_KEY: made},
            )
        except UnexpectedResponse as exc:
            # 409: another process created it, or our first attempt did and its reply was lost
            if exc.status_code != 409:
                raise

    beside = f"{settings.collection}-{model}"
    names = [settings.collection, beside, f"{beside}-{archive[:8]}"]
    exist = {name: calls(methodcaller("collection_exists", name)) for name in names}
    for name in sorted(names, key=lambda name: not exist[name]):  # those that exist first
        if not exist[name]:
            made |= {"identity": secrets.token_hex(8), **ours, "dimension": dimension}
            calls(partial(create, name))
            if not calls(methodcaller("collection_exists", name)):
                return name, None, made
        info = calls(methodcaller("get_collection", name))
        there = (info.config.metadata or {}).get(_METADATA_KEY)
        # of two bots that create it at once, one goes on to the next name
        if not isinstance(there, dict) or ours.items() <= there.items():
            break
    return name, info, there


class QdrantVectorStore:
    """Open collection. Blocking calls; every one raises VectorsUnavailable if the server cannot answer."""

    def __init__(self, calls: QdrantConnection, settings: QdrantSettings, name: str, about: StoreInfo) -> None:
        self._calls, self._name, self.about = calls, name, about
        self._params = make_search_params(settings)

    @classmethod
    def open(cls, settings: QdrantSettings, model: str, dimension: int, archive: str) -> QdrantVectorStore:
        """Open the collection for a model, its dimension and an archive, or create it if there is none.

        A collection of the settings with vectors of another model or archive is left alone, as a check or a change of
        model would remove them: ours is beside it, named after both. The settings are applied to an existing
        collection. Raises VectorsUnavailable, QdrantGone.
        """
        calls = QdrantConnection(settings)
        try:
            name, info, ours = _find_or_create(calls, settings, model, dimension, archive)
            try:
                about = StoreInfo(str(ours["identity"]), str(ours["model"]), int(ours["dimension"]))
            except (TypeError, KeyError, ValueError):
                raise VectorsUnavailable(_FOREIGN_COLLECTION, name=name, where=calls.where) from None
            if info:
                _apply_settings(calls, name, info, settings)
            if (about.model, about.dimension) != (model, dimension):
                raise VectorsUnavailable(
                    _OTHER_MODEL, name=name, where=calls.where, made=about, model=model, size=dimension
                )
            if name != settings.collection:
                log.info("vectors are in %s: %s is of another model or archive", name, settings.collection)
            there = calls(lambda client: client.get_collection(name)).payload_schema
            for field, index in _PAYLOAD_INDEXES.items():
                if field not in there:  # the collection is new, or its creation was interrupted
                    calls(lambda client, f=field, i=index: client.create_payload_index(name, f, i, wait=True))  # type: ignore[misc]
            return cls(calls, settings, name, about)
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
            models.Filter(must=[_match_any("chat", [chat]), _match_any("message", messages)])
            for chat, messages in posts.items()
        ]
        selector = models.FilterSelector(filter=models.Filter(should=each, must_not=[*kept]))
        if each:
            self._calls(lambda client: client.delete(self._name, selector, wait=True))

    def search(self, vector: VectorArray, only: StoreFilter, n: int) -> list[tuple[Mapping[str, Any], float]]:
        """Find the n nearest allowed points: payloads and cosines."""
        each: list[list[models.Condition]] = [[_match_any("chat", only["channels"])]]
        if only["posts"] is not None:  # channel by channel, as in edge_shard_process.py
            each = [[_match_any("chat", [chat]), _match_any("message", messages)] for chat, messages in only["posts"]]
        common: list[models.Condition] = []
        if only["since"] is not None or only["until"] is not None:
            dates = models.Range(gte=only["since"], lt=only["until"])
            common.append(models.FieldCondition(key="date", range=dates))
        if only["lang"] is not None:
            common.append(models.FieldCondition(key="lang", match=models.MatchValue(value=only["lang"])))
        make_request = partial(models.QueryRequest, query=vector.tolist(), using="dense", params=self._params, limit=n)
        requests = [
            make_request(filter=models.Filter(must=[*of, *common]), with_payload=list(REF_FIELDS)) for of in each
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
        some = models.Filter(must=[_match_any("hash", numbers)])
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
