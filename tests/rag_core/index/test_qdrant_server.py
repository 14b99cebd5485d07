"""What only a real Qdrant server shows: TLS, keys, versions, snapshots, and a cluster that loses a node."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from aiohttp import web
from local_server import LocalServer
from qdrant_client import QdrantClient
from qdrant_node import QdrantNode, needs_binary, run_cluster, run_node
from vector_store_helpers import numbers, point

from rag_core.errors import QdrantGone, VectorsUnavailable
from rag_core.index.vector_store import VectorPoint, VectorStore
from rag_core.index.vectors_edge import open_vector_store
from rag_core.settings import QdrantSettings
from rag_core.types import PostKey, SearchFilter

pytestmark = [pytest.mark.slow, needs_binary]

ALL = SearchFilter(frozenset({-1}))


async def opened(url: str, **more: object) -> VectorStore:
    settings = QdrantSettings.model_validate({"url": url, **more})
    return await open_vector_store(Path("nowhere"), model="tiny", dimension=2, qdrant=settings)


def point_at(number: int) -> VectorPoint:
    return point(number, np.cos(number / 1000), np.sin(number / 1000))


async def found(store: VectorStore, n: int = 50) -> list[int]:
    return numbers(await store.search(np.array([1, 0], np.float32), ALL, n))


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of loopback that signs itself, and its key."""
    paths = folder / "cert.pem", folder / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    named = ["-days", "1", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, *named, "-out", paths[0], "-keyout", paths[1]], check=True, capture_output=True)
    return paths


async def test_a_wrong_key_is_one_sentence_and_the_right_one_is_enough(tmp_path: Path) -> None:
    with run_node(tmp_path, key="s3cret") as node:
        with pytest.raises(VectorsUnavailable, match=r"refuses the key\. Check QDRANT__KEY"):
            await opened(node.url, key="wrong")
        store = await opened(node.url, key="s3cret")
        await store.upsert([point_at(1)])
        assert await found(store) == [1]
        await store.close()


async def test_an_old_or_new_server_is_used_if_it_keeps_what_we_need(tmp_path: Path) -> None:
    """Behind a proxy that tells another version, and one that loses what servers before 1.16 did not know."""
    with run_node(tmp_path) as node:
        for number, version in enumerate(("1.15.5", "2.0.0")):
            async with _proxy(node, version, metadata=True) as url:
                store = await opened(url, collection=f"of{number}")
                await store.upsert([point_at(1)])
                assert await found(store) == [1]
                await store.close()
        async with _proxy(node, "1.15.5", metadata=False) as url:
            with pytest.raises(VectorsUnavailable, match=r"the server is older than\s+1\.16"):
                await opened(url, collection="none")
                store = await opened(url, collection="none")


@asynccontextmanager
async def _proxy(node: QdrantNode, version: str, *, metadata: bool) -> AsyncIterator[str]:
    async def passed(request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        if not metadata and request.method == "PUT" and body:
            body.pop("metadata", None)
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, f"{node.url}{request.path_qs}", json=body) as reply,
        ):
            said = await reply.read()
        if request.path == "/":
            said = said.replace(b'"1.16.3"', f'"{version}"'.encode())
        return web.Response(body=said, status=reply.status, content_type=reply.content_type)

    async with LocalServer(web.route("*", "/{path:.*}", passed)) as server:
        yield server.url


async def test_over_tls_a_certificate_that_nobody_vouches_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = write_certificate(tmp_path)
    tls = {"SERVICE__ENABLE_TLS": "true", "TLS__CERT": str(certificate), "TLS__KEY": str(key)}
    node = QdrantNode(tmp_path / "node", more=tls)
    try:
        await asyncio.to_thread(node.start)
        with pytest.raises(QdrantGone, match="does not answer"):
            await (await opened(node.url)).count()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        store = await opened(node.url)
        await store.upsert([point_at(1)])
        assert await found(store) == [1]
        await store.close()
    finally:
        node.kill()


async def test_a_snapshot_brings_back_what_was_there(tmp_path: Path) -> None:
    with run_node(tmp_path) as node:
        store = await opened(node.url)
        await store.upsert([point_at(number) for number in range(200)])
        client = QdrantClient(url=node.url, check_compatibility=False)
        try:
            kept = await asyncio.to_thread(client.create_snapshot, "citegram")
            assert kept is not None
            await store.remove([PostKey(-1, number) for number in range(150)], but=[])
            assert await store.count() == 50
            place = f"file://{tmp_path / 'snapshots' / 'citegram' / kept.name}"
            await asyncio.to_thread(client.recover_snapshot, "citegram", place)
            assert await store.count() == 200
            assert await found(store, 3) == [0, 1, 2]
        finally:
            client.close()
            await store.close()


async def test_a_cluster_answers_while_most_of_it_lives_and_says_so_when_it_does_not(tmp_path: Path) -> None:
    from cluster.qdrant_cluster_faults import wait_until_active

    with run_cluster(tmp_path) as nodes:
        url = ",".join(node.url for node in nodes)
        store = await opened(url, shards=6, replicas=2)
        await store.upsert([point_at(number) for number in range(1000)])
        for lost in (nodes[1], nodes[0]):
            await asyncio.to_thread(lost.kill)
            await store.upsert([point_at(1000)])
            assert await found(store, 5) == [0, 1, 2, 3, 4]
            await asyncio.to_thread(lost.start)
            await wait_until_active(nodes[2], 60)
        assert await store.count() == 1001
        for node in nodes[:2]:
            await asyncio.to_thread(node.kill)
        with pytest.raises(QdrantGone):
            await found(store)
        await store.close()
