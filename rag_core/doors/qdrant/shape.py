"""How a collection of vectors is laid out on the server, as the settings say: made so, and kept so."""

from __future__ import annotations

import logging
from typing import Any

from qdrant_client import models

from rag_core.doors.qdrant.calls import Calls
from rag_core.errors import VectorsUnavailable
from rag_core.settings import QdrantSettings

__all__ = ["adjusted", "checked_shards", "laid_out", "scattered", "searching"]

_SHARDS = (
    "The collection {name} on the Qdrant server at {where} has {there} shards, not {wanted} as QDRANT__SHARDS says, "
    "and that cannot be changed. Set it to {there}, or name another collection with QDRANT__COLLECTION: it is filled "
    "from the archive."
)
_QUANTILE = 0.99  # of a vector's numbers: the outliers beyond are cut, as Qdrant's documentation proposes

log = logging.getLogger(__name__)


def scattered(settings: QdrantSettings) -> dict[str, Any]:
    """Shards and replicas, as `create_collection` takes them."""
    shards = {"shard_number": settings.shards} if settings.shards else {}
    copies = {"replication_factor": settings.replicas, "write_consistency_factor": settings.consistency}
    return {**shards, **copies}


def laid_out(settings: QdrantSettings, dimension: int) -> dict[str, Any]:
    """A collection of vectors in 16 bits, as `create_collection` takes it."""
    dense = models.VectorParams(
        size=dimension,
        distance=models.Distance.COSINE,
        datatype=models.Datatype.FLOAT16,
        on_disk=settings.on_disk or None,
    )
    return {
        "vectors_config": {"dense": dense},
        "hnsw_config": _graph(settings),
        "quantization_config": _quantised(settings),
        "on_disk_payload": True,  # what is filtered by is in indexes
        **scattered(settings),
    }


def searching(settings: QdrantSettings) -> models.SearchParams:
    """Exact, unless there is a graph or quantised vectors: then the best are measured again by the whole vectors."""
    if not settings.links and settings.quantization == "none":
        return models.SearchParams(exact=True)
    again = models.QuantizationSearchParams(rescore=True, oversampling=settings.oversampling)
    return models.SearchParams(
        hnsw_ef=settings.ef if settings.links else None,
        quantization=None if settings.quantization == "none" else again,
    )


def checked_shards(name: str, where: str, there: int | None, settings: QdrantSettings) -> None:
    """Raises VectorsUnavailable where a collection has another number of shards than is asked for."""
    if settings.shards and there and there != settings.shards:
        raise VectorsUnavailable(_SHARDS.format(name=name, where=where, there=there, wanted=settings.shards))


def adjusted(calls: Calls, name: str, info: models.CollectionInfo, settings: QdrantSettings) -> None:
    """Bring an existing collection to the settings where that can be done. Raises VectorsUnavailable where not."""
    params = info.config.params
    if calls.local:
        return
    checked_shards(name, calls.where, params.shard_number, settings)
    if _as_wanted(info, settings):
        return
    log.info("the collection %s is laid out anew, as the settings say: the server works at it beside questions", name)
    if (params.replication_factor or 1) < settings.replicas:
        log.warning("replicas of shards that exist are added on the server, not by Citegram: see deploy/CAPACITY.md")
    calls(
        lambda client: client.update_collection(
            name,
            vectors_config={"dense": models.VectorParamsDiff(on_disk=settings.on_disk)},
            hnsw_config=_graph(settings),
            quantization_config=_quantised(settings) or models.Disabled.DISABLED,
            collection_params=models.CollectionParamsDiff(
                replication_factor=settings.replicas, write_consistency_factor=settings.consistency
            ),
        )
    )


def _as_wanted(info: models.CollectionInfo, settings: QdrantSettings) -> bool:
    config, params = info.config, info.config.params
    dense = params.vectors.get("dense") if isinstance(params.vectors, dict) else None
    kinds: dict[type, str] = {models.ScalarQuantization: "int8", models.BinaryQuantization: "binary"}
    graph = config.hnsw_config.m == settings.links and (
        not settings.links or config.hnsw_config.ef_construct == settings.ef_construct
    )
    return (
        graph
        and kinds.get(type(config.quantization_config), "none") == settings.quantization
        and bool(dense and dense.on_disk) == settings.on_disk
        and (params.replication_factor or 1) == settings.replicas
        and (params.write_consistency_factor or 1) == settings.consistency
    )


def _graph(settings: QdrantSettings) -> models.HnswConfigDiff:
    return models.HnswConfigDiff(m=settings.links, ef_construct=settings.ef_construct if settings.links else None)


def _quantised(settings: QdrantSettings) -> models.ScalarQuantization | models.BinaryQuantization | None:
    if settings.quantization == "int8":
        scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=_QUANTILE, always_ram=True)
        return models.ScalarQuantization(scalar=scalar)
    if settings.quantization == "binary":
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
    return None
