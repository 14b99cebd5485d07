"""Qdrant collections: creation, payload indexes, filter conditions, and settings of shards, HNSW and quantization.

Imported only if QDRANT__URL is set.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from rag_core.errors import VectorsUnavailable
from rag_core.index.qdrant_connection import QdrantConnection
from rag_core.settings import QdrantSettings

log = logging.getLogger(__name__)

# Integers are looked up by value, dates by a range.
INTEGER_INDEX = models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False)
DATE_INDEX = models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=False, range=True)
PayloadIndexes = Mapping[str, models.PayloadSchemaType | models.IntegerIndexParams]


def find_or_create_collection(
    calls: QdrantConnection, names: Sequence[str], key: str, about: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[str, models.CollectionInfo | None, Any]:
    """Find the first collection that exists, or create that of the first name: its name, its description, and what its
    metadata has under `key`.

    That is, for a new one, `about` and a random `identity`. The description is None if the server does not show the
    new collection yet.
    """
    made: dict[str, Any] = {}

    def create(client: QdrantClient) -> None:
        try:
            # payloads on disk: fields of filters are in payload indexes
            client.create_collection(name, metadata={key: made}, on_disk_payload=True, **options)
        except UnexpectedResponse as exc:
            # 409: another process created it, or our first attempt did and its reply was lost
            if exc.status_code != 409:
                raise

    found = next((each for each in names if calls(lambda client, each=each: client.collection_exists(each))), None)  # type: ignore[misc]
    name, there = found or names[0], found is not None
    if not there:
        made |= {"identity": secrets.token_hex(8), **about}
        calls(create)
        there = calls(lambda client: client.collection_exists(name))
    if not there:
        return name, None, made
    info = calls(lambda client: client.get_collection(name))
    return name, info, (info.config.metadata or {}).get(key)


def create_missing_indexes(calls: QdrantConnection, name: str, indexes: PayloadIndexes) -> None:
    """Create the payload indexes that a collection lacks: it is new, or its creation was interrupted."""
    if calls.local:
        return
    there = calls(lambda client: client.get_collection(name)).payload_schema
    for field, index in indexes.items():
        if field not in there:
            calls(lambda client, f=field, i=index: client.create_payload_index(name, f, i, wait=True))  # type: ignore[misc]


def match_any(key: str, values: Sequence[int]) -> models.FieldCondition:
    """Condition: `key` is one of these numbers, or a list with one of them."""
    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))


def make_date_conditions(since: int | None, until: int | None) -> Iterator[models.FieldCondition]:
    """Conditions for dates in Unix seconds; `since` is inclusive, `until` exclusive."""
    if since is not None or until is not None:
        yield models.FieldCondition(key="date", range=models.Range(gte=since, lt=until))


_OTHER_SHARD_COUNT = (
    "The collection {name} on the Qdrant server at {where} has {there} shards, not {wanted} as QDRANT__SHARDS says, "
    "and that cannot be changed. Set it to {there}, or name another collection with QDRANT__COLLECTION: it is filled "
    "from the archive."
)
_OVERSAMPLING = 3.0  # times as many quantized hits as wanted are compared by whole vectors
_BUILD_NEIGHBOURS, _SEARCH_NEIGHBOURS = 128, 256  # looked at in the HNSW graph while it is built, and by a search
_QUANTIZATION_QUANTILE = 0.99  # of a vector's numbers: outliers beyond it are cut, as in Qdrant's documentation


def make_shard_options(settings: QdrantSettings) -> dict[str, Any]:
    """Make the options of `create_collection` for shards and replicas."""
    shards = {"shard_number": settings.shards} if settings.shards else {}
    copies = {"replication_factor": settings.replicas, "write_consistency_factor": settings.consistency}
    return {**shards, **copies}


def make_collection_options(settings: QdrantSettings, dimension: int) -> dict[str, Any]:
    """Make the options of `create_collection` for vectors in 16 bits."""
    dense = models.VectorParams(
        size=dimension,
        distance=models.Distance.COSINE,
        datatype=models.Datatype.FLOAT16,
        on_disk=settings.on_disk or None,
    )
    return {
        "vectors_config": {"dense": dense},
        "hnsw_config": _make_hnsw_config(settings),
        "quantization_config": _make_quantization_config(settings),
        **make_shard_options(settings),
    }


def make_search_params(settings: QdrantSettings) -> models.SearchParams:
    """Make search parameters: exact, unless there is a graph or quantization; quantized hits are rescored."""
    if not settings.links and settings.quantization == "none":
        return models.SearchParams(exact=True)
    rescoring = models.QuantizationSearchParams(rescore=True, oversampling=_OVERSAMPLING)
    return models.SearchParams(
        hnsw_ef=_SEARCH_NEIGHBOURS if settings.links else None,
        quantization=None if settings.quantization == "none" else rescoring,
    )


def check_shard_count(name: str, where: str, there: int | None, settings: QdrantSettings) -> None:
    """Raise VectorsUnavailable if a collection has another number of shards than the settings."""
    if settings.shards and there and there != settings.shards:
        raise VectorsUnavailable(_OTHER_SHARD_COUNT.format(name=name, where=where, there=there, wanted=settings.shards))


def apply_collection_settings(
    calls: QdrantConnection, name: str, info: models.CollectionInfo, settings: QdrantSettings
) -> None:
    """Apply the settings to an existing collection. Raises VectorsUnavailable if that is impossible."""
    params = info.config.params
    if calls.local:
        return
    check_shard_count(name, calls.where, params.shard_number, settings)
    if _matches_settings(info, settings):
        return
    log.info("the collection %s is laid out anew, as the settings say: the server works at it beside questions", name)
    if (params.replication_factor or 1) < settings.replicas:
        log.warning("replicas of shards that exist are added on the server, not by Citegram: see deploy/CAPACITY.md")
    calls(
        lambda client: client.update_collection(
            name,
            vectors_config={"dense": models.VectorParamsDiff(on_disk=settings.on_disk)},
            hnsw_config=_make_hnsw_config(settings),
            quantization_config=_make_quantization_config(settings) or models.Disabled.DISABLED,
            collection_params=models.CollectionParamsDiff(
                replication_factor=settings.replicas, write_consistency_factor=settings.consistency
            ),
        )
    )


def _matches_settings(info: models.CollectionInfo, settings: QdrantSettings) -> bool:
    config, params = info.config, info.config.params
    dense = params.vectors.get("dense") if isinstance(params.vectors, dict) else None
    kinds: dict[type, str] = {models.ScalarQuantization: "int8", models.BinaryQuantization: "binary"}
    graph = config.hnsw_config.m == settings.links and (
        not settings.links or config.hnsw_config.ef_construct == _BUILD_NEIGHBOURS
    )
    return (
        graph
        and kinds.get(type(config.quantization_config), "none") == settings.quantization
        and bool(dense and dense.on_disk) == settings.on_disk
        and (params.replication_factor or 1) == settings.replicas
        and (params.write_consistency_factor or 1) == settings.consistency
    )


def _make_hnsw_config(settings: QdrantSettings) -> models.HnswConfigDiff:
    return models.HnswConfigDiff(m=settings.links, ef_construct=_BUILD_NEIGHBOURS if settings.links else None)


def _make_quantization_config(settings: QdrantSettings) -> models.ScalarQuantization | models.BinaryQuantization | None:
    if settings.quantization == "int8":
        scalar = models.ScalarQuantizationConfig(
            type=models.ScalarType.INT8, quantile=_QUANTIZATION_QUANTILE, always_ram=True
        )
        return models.ScalarQuantization(scalar=scalar)
    if settings.quantization == "binary":
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
    return None
