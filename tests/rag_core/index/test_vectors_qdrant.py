"""Vectors on a Qdrant server: settings of a collection, what is refused, a server that goes and comes back."""

import asyncio
import importlib
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from local_server import find_free_port
from pydantic import ValidationError
from vector_store_helpers import numbers, point

from rag_core.errors import QdrantGone, VectorsUnavailable
from rag_core.index.vector_store import PointBatch
from rag_core.index.vectors_edge import open_vector_store
from rag_core.settings import QdrantSettings
from rag_core.types import PostKey, SearchFilter

pytestmark = pytest.mark.slow


@pytest.fixture
def direct(qdrant):
    """The module itself, imported where it is used: its client takes a second."""
    return importlib.import_module("rag_core.index.vectors_qdrant")


async def opened(url, **given):
    settings = QdrantSettings.model_validate({"url": url, **given})
    return await open_vector_store(Path("nowhere"), model="tiny", dimension=2, qdrant=settings)


async def made(qdrant, **given):
    """Open the collection with these settings, and what the server says of it then."""
    await (await opened(qdrant.url, **given)).close()
    return qdrant.info("citegram")


async def test_a_collection_is_made_as_the_settings_say(qdrant, direct):
    info = await made(qdrant, shards=6, replicas=3, consistency=2, quantization="int8", on_disk=True, links=24)
    params = info["config"]["params"]
    assert (params["shard_number"], params["replication_factor"], params["write_consistency_factor"]) == (6, 3, 2)
    assert (
        params["vectors"]["dense"] | {"datatype": "float16", "on_disk": True, "size": 2} == params["vectors"]["dense"]
    )
    assert info["config"]["quantization_config"]["scalar"] == {"type": "int8", "quantile": 0.99, "always_ram": True}
    hnsw = info["config"]["hnsw_config"]
    assert (hnsw["m"], hnsw["ef_construct"]) == (24, 128)
    params = direct.make_search_params(QdrantSettings(quantization="binary", links=16))
    assert params.quantization is not None
    assert (params.exact or False, params.hnsw_ef) == (False, 256)
    assert (params.quantization.rescore, params.quantization.oversampling) == (True, 3)
    with pytest.raises(ValidationError, match="asks for more copies than REPLICAS 1 makes"):
        QdrantSettings(consistency=2)
    assert set(info["payload_schema"]) == {"chat", "message", "hash", "date", "lang"}


async def test_what_can_be_changed_is_changed_and_shards_are_refused_in_one_sentence(qdrant, direct):
    info = await made(qdrant, shards=2)
    assert (info["config"]["hnsw_config"]["m"], info["config"].get("quantization_config")) == (0, None)
    assert direct.make_search_params(QdrantSettings()).exact is True
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


async def test_a_busy_server_is_asked_again_and_one_that_hangs_is_given_up(qdrant):
    store = await opened(qdrant.url, timeout=1)
    for status, requests in ((503, 3), (429, 3), (500, 1)):
        before, qdrant.status = len(qdrant.asked), status
        with pytest.raises(QdrantGone, match="could not do its work"):
            await store.count()
        assert len(qdrant.asked) - before == requests
    before, qdrant.status, qdrant.delay = len(qdrant.asked), 0, 3
    with pytest.raises(QdrantGone, match="does not answer"):
        await store.count()
    assert len(qdrant.asked) - before == 1
    qdrant.delay = 0
    assert await store.count() == 0
    await store.close()


async def test_what_is_no_qdrant_is_said_so(qdrant, monkeypatch):
    monkeypatch.setattr(qdrant, "_of", lambda *_: "hello")
    with pytest.raises(VectorsUnavailable, match="is no Qdrant server that we know"):
        await made(qdrant)


ONE = PointBatch(
    ["5d2b7d1e-0000-5000-8000-000000000001"],
    [{"chat": -1, "message": 1, "part": 0, "start": 0, "end": 3, "date": 0, "lang": "ru", "hash": 5, "text_hash": "h"}],
    np.array([[1, 0]], np.float32),
)


async def refused(url):
    with pytest.raises(VectorsUnavailable) as told:
        store = await opened(url)
        try:
            await store.count()
        finally:
            await store.close()
    return told.value.reason


async def test_a_server_that_does_not_answer_is_one_sentence_without_the_password():
    port = find_free_port()
    said = await refused(f"http://user:secret@127.0.0.1:{port}")
    assert said.startswith(f"The Qdrant server at 127.0.0.1:{port} does not answer (")
    assert "secret" not in said
    assert "QDRANT__URL" in said


def list_subclasses(kind):
    for one in kind.__subclasses__():
        yield from (one, *list_subclasses(one))


@pytest.mark.parametrize("url", ["not a url", "ftp://host:1", "http://host:port"])
async def test_an_address_that_is_none_names_the_setting(url):
    assert (await refused(url)).startswith("QDRANT__URL is not the address of a server")


async def test_vectors_of_another_model_are_in_a_collection_beside(qdrant, direct):
    def kept(model="tiny", dimension=2):
        return direct.QdrantVectorStore.open(QdrantSettings(url=qdrant.url), model, dimension, "mine")

    def look():
        first = kept()
        first.write(ONE)
        other = kept("other", 3)
        assert (first.count(), other.count()) == (1, 0)
        other.close()
        first.drop()
        first.close()
        again = kept("other", 3)  # also where it alone is left
        assert again.about == other.about
        again.close()

    await asyncio.to_thread(look)


ALL = SearchFilter(frozenset({-1}))


async def found(store):
    return numbers(await store.search(np.array([1, 0], np.float32), ALL))


async def test_what_was_written_is_found_again_when_the_server_is_back(qdrant):
    store = await opened(qdrant.url)
    await store.upsert([point(1, 1, 0), point(2, 1, 1)])
    await store.remove([PostKey(-1, 7)])
    await qdrant.stop()
    with pytest.raises(VectorsUnavailable, match="does not answer"):
        await store.search(np.array([1, 0], np.float32), ALL)
    with pytest.raises(VectorsUnavailable, match="does not answer"):
        await store.upsert([point(3, 1, 0)])
    await qdrant.start()
    assert await found(store) == [1, 2]
    assert set(await store.by_hash(["hash of -1 2 0", "hash of -1 9 0"])) == {"hash of -1 2 0"}
    assert [len(page) async for page in store.iterate_points()] == [2]
    await store.close()
    again = await opened(qdrant.url)
    assert (again.about.identity, await again.count()) == (store.about.identity, 2)
    await again.close()


async def test_of_several_nodes_the_first_that_answers_is_asked():
    from fake_qdrant import FakeQdrant  # its client takes a second to import

    async with FakeQdrant() as first, FakeQdrant() as second:
        second._local, second._made, second._indexed = first._local, first._made, first._indexed  # one cluster
        second._thread = first._thread
        store = await opened(f"{first.url}, {second.url}")
        await store.upsert([point(1, 1, 0)])
        assert not second.asked
        await first.stop()
        assert await found(store) == [1]
        await store.upsert([point(2, 1, 0)])
        await first.start()
        before = len(first.asked)
        assert await found(store) == [1, 2]
        assert len(first.asked) == before  # it is passed over for some seconds
        second.delay = 60
        assert await found(store) == [1, 2]  # one that hangs is given up in time for another
        await first.stop()
        with pytest.raises(VectorsUnavailable, match=f"{urlsplit(first.url).netloc}|{urlsplit(second.url).netloc}"):
            await store.search(np.array([1, 0], np.float32), ALL)
        second.delay = 0
        await store.close()
