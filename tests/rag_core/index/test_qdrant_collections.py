"""What the settings make of a collection, and of one that is there already."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fake_qdrant import FakeQdrant
from pydantic import SecretStr, ValidationError

from rag_core.engine import make_lexical_index
from rag_core.errors import QdrantGone, VectorsUnavailable
from rag_core.index.qdrant_collections import make_search_params
from rag_core.index.vector_store import open_vector_store
from rag_core.settings import QdrantSettings

pytestmark = pytest.mark.slow


async def made(qdrant: FakeQdrant, **given: Any) -> dict[str, Any]:
    """Open the collection with these settings, and what the server says of it then."""
    settings = QdrantSettings(url=qdrant.url, retries=0, **given)
    await (await open_vector_store(Path("nowhere"), model="tiny", dimension=2, qdrant=settings)).close()
    return qdrant.info("citegram")


async def test_a_collection_is_made_as_the_settings_say(qdrant: FakeQdrant) -> None:
    info = await made(
        qdrant, shards=6, replicas=3, consistency=2, quantization="int8", on_disk=True, links=24, ef_construct=200
    )
    params = info["config"]["params"]
    assert (params["shard_number"], params["replication_factor"], params["write_consistency_factor"]) == (6, 3, 2)
    assert (
        params["vectors"]["dense"] | {"datatype": "float16", "on_disk": True, "size": 2} == params["vectors"]["dense"]
    )
    assert info["config"]["quantization_config"]["scalar"] == {"type": "int8", "quantile": 0.99, "always_ram": True}
    hnsw = info["config"]["hnsw_config"]
    assert (hnsw["m"], hnsw["ef_construct"]) == (24, 200)
    assert set(info["payload_schema"]) == {"chat", "message", "hash", "date", "lang"}


async def test_without_settings_vectors_are_whole_and_searches_exact(qdrant: FakeQdrant) -> None:
    info = await made(qdrant)
    assert info["config"]["hnsw_config"]["m"] == 0
    assert info["config"].get("quantization_config") is None
    assert make_search_params(QdrantSettings()).exact is True


async def test_what_can_be_changed_is_changed_and_shards_are_refused_in_one_sentence(qdrant: FakeQdrant) -> None:
    await made(qdrant, shards=2)
    info = await made(qdrant, shards=2, quantization="binary", links=16, replicas=2, on_disk=True)
    assert "binary" in info["config"]["quantization_config"]
    assert info["config"]["hnsw_config"]["m"] == 16
    assert info["config"]["params"]["replication_factor"] == 2
    assert info["config"]["params"]["vectors"]["dense"]["on_disk"] is True
    asked = len(qdrant.asked)
    await made(qdrant, shards=2, quantization="binary", links=16, replicas=2, on_disk=True)
    assert not any(one.startswith("PATCH") for one in qdrant.asked[asked:])
    assert (await made(qdrant, shards=2))["config"].get("quantization_config") is None
    with pytest.raises(
        VectorsUnavailable, match=r"has 2 shards, not 4 as QDRANT__SHARDS says, .* Set it to 2, or name"
    ):
        await made(qdrant, shards=4)
    assert await made(qdrant)  # left to the server, whatever it has


async def test_the_collection_of_words_has_the_same_shards_and_replicas(qdrant: FakeQdrant) -> None:
    settings = QdrantSettings(url=qdrant.url, words=True, shards=4, replicas=2, collection="news")
    (await asyncio.to_thread(make_lexical_index, settings)).close()
    (name,) = qdrant.collections
    assert name.startswith("news-words-")
    info = qdrant.info(name)
    assert info["config"]["params"]["shard_number"] == 4
    assert info["config"]["params"]["replication_factor"] == 2
    # no IDF modifier: the server would count the channels that the asker may not read
    assert not info["config"]["params"]["sparse_vectors"]["words"].get("modifier")
    assert set(info["payload_schema"]) == {"chat", "message", "part", "terms", "date"}


def test_quantised_hits_are_measured_again_by_whole_vectors() -> None:
    params = make_search_params(QdrantSettings(quantization="binary", oversampling=4, links=16, ef=300))
    assert params.quantization is not None
    assert (params.exact, params.hnsw_ef) == (None, 300) or (params.exact, params.hnsw_ef) == (False, 300)
    assert (params.quantization.rescore, params.quantization.oversampling) == (True, 4)


def test_settings_that_cannot_be_met_are_refused() -> None:
    with pytest.raises(ValidationError, match="asks for more copies than REPLICAS 1 makes"):
        QdrantSettings(consistency=2)
    with pytest.raises(ValidationError):
        QdrantSettings(quantization="int4")


async def test_the_key_is_sent_and_never_shown(qdrant: FakeQdrant) -> None:
    qdrant.key = "s3cret"
    with pytest.raises(VectorsUnavailable, match=r"refuses the key\. Check QDRANT__KEY"):
        await made(qdrant)
    settings = QdrantSettings(url=qdrant.url, key=SecretStr("s3cret"))
    assert "s3cret" not in repr(settings)
    await (await open_vector_store(Path("nowhere"), model="tiny", dimension=2, qdrant=settings)).close()


async def test_a_busy_server_is_asked_again_and_one_that_hangs_is_given_up(qdrant: FakeQdrant) -> None:
    settings = QdrantSettings(url=qdrant.url, retries=2, timeout=1)
    store = await open_vector_store(Path("nowhere"), model="tiny", dimension=2, qdrant=settings)
    before, qdrant.status = len(qdrant.asked), 503
    with pytest.raises(QdrantGone, match="could not do its work"):
        await store.count()
    assert len(qdrant.asked) - before == 3
    before, qdrant.status, qdrant.delay = len(qdrant.asked), 0, 3
    with pytest.raises(QdrantGone, match="does not answer"):
        await store.count()
    assert len(qdrant.asked) - before == 1
    qdrant.delay = 0
    assert await store.count() == 0
    await store.close()


async def test_what_is_no_qdrant_is_said_so(qdrant: FakeQdrant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qdrant, "_of", lambda *_: "hello")
    with pytest.raises(VectorsUnavailable, match="is no Qdrant server that we know"):
        await made(qdrant)
