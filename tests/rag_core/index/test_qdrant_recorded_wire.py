"""Both legs on the replies of a real Qdrant server: what the client sends is compared, what the server said is read.

The server's part is played from `tests/data/qdrant/wire.json`. Where QDRANT_BIN names a server it is asked, and
QDRANT_RECORD=1 writes the recording anew: do that when a request of ours has changed on purpose.
"""

import asyncio
import itertools
import json
import os
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from httpx import Response
from pydantic import SecretStr
from qdrant_node import needs_binary, run_node

from rag_core.errors import QdrantGone, VectorsUnavailable
from rag_core.index import vector_store
from rag_core.index.vector_store import VectorPoint
from rag_core.index.vectors_edge import open_vector_store
from rag_core.settings import QdrantSettings
from rag_core.types import PassageRef, PostKey, PostKeySet, SearchFilter

pytestmark = pytest.mark.slow

RECORDING = Path(__file__).parents[2] / "data" / "qdrant" / "wire.json"
DAY = datetime(2025, 3, 1, tzinfo=UTC)
ALL = SearchFilter(frozenset({-1, -2}))
ONE = SearchFilter(frozenset({-1}))
KEY = "s3cret"
SEND = "qdrant_client.http.api_client.ApiClient.send_inner"


def describe_request(request):
    """What is compared of a request. Numbers are rounded: their last digits may differ between processors.

    The values of a condition are a set, in any order.
    """

    def sort_values(part):
        return {name: sorted(value) if name == "any" else value for name, value in part.items()}

    path, content = request.url.raw_path.decode(), request.read() or b"null"
    body = json.loads(content, parse_float=lambda digits: round(float(digits), 6), object_hook=sort_values)
    return {"asked": f"{request.method} {path}", "key": request.headers.get("api-key", ""), "body": body}


def record_wire(patch):
    """Keep each request and its reply."""
    from qdrant_client.http.api_client import ApiClient  # a second, for every process that collects the tests

    calls = []
    plain = ApiClient.send_inner

    def send(client, request):
        reply = plain(client, request)
        try:
            said = reply.json()
        except ValueError:
            said = reply.text
        if isinstance(said, dict):
            said = {name: value for name, value in said.items() if name != "usage"} | {"time": 0.0}
        calls.append({**describe_request(request), "status": reply.status_code, "said": said})
        return reply

    patch.setattr(SEND, send)
    return calls


def replay_wire(patch, calls):
    """Answer requests from a recording, in its order; any other request fails. Nothing is sent to the network."""

    def send(client, request):
        recorded = calls.pop(0)
        assert describe_request(request) == {name: recorded[name] for name in ("asked", "key", "body")}
        said = recorded["said"]
        content = said if isinstance(said, str) else json.dumps(said)
        return Response(recorded["status"], content=content, request=request)

    patch.setattr(SEND, send)


@pytest.fixture
def numbered_names(monkeypatch):
    """Random names are numbers, the same in every run; a lost collection is opened again at once."""
    numbers = itertools.count(1)
    monkeypatch.setattr(secrets, "token_hex", lambda size: f"{next(numbers):0{2 * size}x}")
    monkeypatch.setattr(vector_store, "RECONNECT_EVERY_S", 0.05)


def point(number, *vector, chat=-1, lang="ru", days=0):
    place = PassageRef(PostKey(chat, number), 0, 0, 9)
    text_hash = f"hash {number % 3}"
    return VectorPoint(place, DAY + timedelta(days), lang, text_hash, np.array(vector, np.float32))


def numbers(hits):
    return [place.key.message_id for place, _ in hits]


async def until_open(what):
    """Wait until a collection that was lost has been opened again; nothing is asked meanwhile."""
    async with asyncio.timeout(30):
        while True:
            try:
                what()
                return
            except QdrantGone:
                await asyncio.sleep(0.01)


async def use_server(url, folder):
    """All that Citegram asks a server, in one order."""
    from qdrant_client import QdrantClient  # as above

    ours = QdrantSettings(url=url, key=SecretStr(KEY), shards=2)

    async def opened(**more):
        settings = ours.model_copy(update=more)
        return await open_vector_store(folder, model="tiny", dimension=2, qdrant=settings)

    with pytest.raises(VectorsUnavailable, match=r"refuses the key\. Check QDRANT__KEY"):
        await opened(key=SecretStr("wrong"))
    await use_vectors(await opened())
    with pytest.raises(VectorsUnavailable, match="has 2 shards, not 3 as QDRANT__SHARDS says"):
        await opened(shards=3)
    store = await opened(quantization="int8", links=8)  # what exists is laid out anew
    assert numbers(await store.search(np.array([1, 0], np.float32), ALL, 2)) == [1, 2]
    client = QdrantClient(url=url, metadata={"api-key": KEY}, check_compatibility=False)
    await asyncio.to_thread(client.delete_collection, "citegram")
    before = store.about.identity
    with pytest.raises(QdrantGone, match="has lost a collection"):
        await store.count()
    await until_open(lambda: store.about.identity)
    assert (store.about.identity != before, await store.count()) == (True, 0)
    await store.close()
    await asyncio.to_thread(client.create_collection, "foreign", vectors_config={})
    with pytest.raises(VectorsUnavailable, match="was not made by Citegram"):
        await opened(collection="foreign")
    client.close()


async def use_vectors(store):
    await store.upsert(
        [
            point(1, 1, 0),
            point(2, 0.8, 0.6, days=1),
            point(3, 0, 1, lang="en", days=2),
            point(4, 1, 0, chat=-2, days=3),
            point(5, -1, 0, days=4),
        ]
    )
    await store.upsert([point(5, -0.6, 0.8, days=4)])  # in place of the one before
    assert await store.count() == 5

    async def near(only, n=9, lang=None):
        return numbers(await store.search(np.array([1, 0], np.float32), only, n, lang))

    assert await near(ALL) == [4, 1, 2, 3, 5]
    assert await near(ONE, 2) == [1, 2]
    assert await near(ALL, lang="en") == [3]
    assert await near(SearchFilter(ALL.channels, DAY + timedelta(1), DAY + timedelta(3))) == [2, 3]
    named = SearchFilter(ALL.channels, keys=PostKeySet.of([PostKey(-1, 2), PostKey(-2, 4), PostKey(-1, 9)]))
    assert await near(named) == [4, 2]
    found = await store.by_hash(["hash 0", "hash 2", "hash 7"])
    assert set(found) == {"hash 0", "hash 2"}
    np.testing.assert_allclose(found["hash 0"], [0, 1], atol=1e-3)
    places = [point(number, 1, 0).place for number in (5, 6)]
    assert set(await store.vectors_of(places)) == {places[0]}
    await store.remove([PostKey(-1, 1), PostKey(-1, 3), PostKey(-2, 4)], but=[point(1, 1, 0).place])
    held = [one for page in [page async for page in store.iterate_points()] for one in page]
    assert sorted(one.place.key.message_id for one in held) == [1, 2, 5]
    assert {one.text_hash for one in held} == {"hash 1", "hash 2"}
    await store.close()


@pytest.mark.usefixtures("numbered_names")
async def test_the_store_reads_what_a_server_said(tmp_path, monkeypatch):
    calls = json.loads(RECORDING.read_text("utf-8"))
    replay_wire(monkeypatch, calls)
    await use_server("http://127.0.0.1:1", tmp_path / "index")
    assert calls == []


@pytest.fixture
def server(tmp_path):
    with run_node(tmp_path / "node", key=KEY) as node:
        yield node.url


@needs_binary
@pytest.mark.usefixtures("numbered_names")
async def test_a_server_says_what_is_recorded(server, tmp_path, monkeypatch):
    calls = record_wire(monkeypatch)
    await use_server(server, tmp_path / "index")
    if os.environ.get("QDRANT_RECORD"):
        RECORDING.parent.mkdir(exist_ok=True)
        RECORDING.write_text("[\n" + ",\n".join(json.dumps(call) for call in calls) + "\n]\n", "utf-8")
    recorded = json.loads(RECORDING.read_text("utf-8"))
    assert [(call["asked"], call["body"]) for call in calls] == [(call["asked"], call["body"]) for call in recorded]
    assert [call["status"] for call in calls] == [call["status"] for call in recorded]
