"""What only a server can do: not answer, refuse the key, hold somebody else's collection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import numpy as np
import pytest
from aiohttp import web
from local_server import LocalServer, find_free_port
from qdrant_client import QdrantClient, models

from rag_core.errors import VectorsUnavailable
from rag_core.index.qdrant_connection import IN_MEMORY_URL, QdrantConnection, connect_qdrant
from rag_core.index.vector_store import PointBatch, open_vector_store
from rag_core.index.vectors_qdrant import QdrantVectorStore
from rag_core.settings import QdrantSettings

pytestmark = pytest.mark.slow

ONE = PointBatch(
    ["5d2b7d1e-0000-5000-8000-000000000001"],
    [{"chat": -1, "message": 1, "part": 0, "start": 0, "end": 3, "date": 0, "lang": "ru", "hash": 5, "text_hash": "h"}],
    np.array([[1, 0]], np.float32),
)


def kept(folder: Path, about: tuple[str, int] = ("tiny", 2)) -> QdrantVectorStore:
    """A collection in a folder, by qdrant-client's local mode: as near to a server as we get without one."""
    client = QdrantClient(path=str(folder))
    return QdrantVectorStore.open(QdrantSettings(), about, QdrantConnection.of(client, IN_MEMORY_URL))


async def refused(url: str) -> str:
    settings = QdrantSettings(url=url, retries=0)
    with pytest.raises(VectorsUnavailable) as told:
        store = await open_vector_store(Path("nowhere"), model="tiny", dimension=2, qdrant=settings)
        try:
            await store.count()
        finally:
            await store.close()
    return told.value.reason


async def test_a_server_that_does_not_answer_is_one_sentence_without_the_password() -> None:
    port = find_free_port()
    said = await refused(f"http://user:secret@127.0.0.1:{port}")
    assert said.startswith(f"The Qdrant server at 127.0.0.1:{port} does not answer (")
    assert "secret" not in said
    assert "QDRANT__URL" in said


@asynccontextmanager
async def refusing_server(status: int, headers: dict[str, str]) -> AsyncIterator[tuple[str, list[str]]]:
    """A server that answers every request with this status: its address, and the paths asked for."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({"status": {"error": "no"}}, status=status, headers=headers)

    async with LocalServer(web.route("*", "/{path:.*}", answer)) as server:
        yield server.url, asked


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "1"}])
async def test_a_server_that_is_busy_is_asked_again(headers: dict[str, str]) -> None:
    async with refusing_server(429, headers) as (url, asked):
        connection = connect_qdrant(QdrantSettings(url=url, retries=2))
        with closing(connection), pytest.raises(VectorsUnavailable):
            await asyncio.to_thread(connection, QdrantClient.get_collections)
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("status", "said"), [(401, "refuses the key"), (403, "Check QDRANT__KEY"), (500, "could not do its work (500")]
)
async def test_what_a_server_refuses_is_told(status: int, said: str) -> None:
    async with refusing_server(status, {}) as (url, _):
        assert said in await refused(url)


@pytest.mark.parametrize("url", ["not a url", "ftp://host:1", "http://host:port"])
async def test_an_address_that_is_none_names_the_setting(url: str) -> None:
    assert (await refused(url)).startswith("QDRANT__URL is not the address of a server")


def test_a_collection_remembers_what_it_was_made_for(tmp_path: Path) -> None:
    made = kept(tmp_path)
    made.write(ONE)
    made.close()
    again = kept(tmp_path)
    assert again.about == made.about
    assert again.count() == 1
    again.close()
    with pytest.raises(VectorsUnavailable, match=r"made for the model tiny \(2 numbers\), not for other \(3\)"):
        kept(tmp_path, ("other", 3))


@pytest.mark.parametrize("metadata", [None, {"citegram": "ours?"}, {"citegram": {"identity": "x"}}])
def test_somebody_elses_collection_is_left_alone(tmp_path: Path, metadata: dict[str, object] | None) -> None:
    client = QdrantClient(path=str(tmp_path))
    params = models.VectorParams(size=2, distance=models.Distance.DOT)
    client.create_collection("citegram", vectors_config=params, metadata=metadata)
    with pytest.raises(VectorsUnavailable, match="not made by Citegram"):
        QdrantVectorStore.open(QdrantSettings(), ("tiny", 2), QdrantConnection.of(client, IN_MEMORY_URL))
    client = QdrantClient(path=str(tmp_path))
    assert client.collection_exists("citegram")
    client.close()
