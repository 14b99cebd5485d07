import asyncio
import secrets
import shutil
from threading import Event

import pytest
from qdrant_node import needs_server

from ingest.indexer import DenseIndexer
from ingest.integrity import check_integrity
from rag_core.storage.backups import make_backup, restore_backup

pytestmark = pytest.mark.slow

FERRY = "When does the ferry to Owl Island leave?"


def on(qdrant, models=None):
    """Settings for vectors on the server."""
    chosen = {"dir": models.parent} if models else {"embedder": "none"}
    return {"qdrant": {"url": qdrant.url}, "models": chosen}


@pytest.fixture
def ferries(make_post):
    texts = [
        "The ferry to Owl Island leaves at 7:30 every morning.",
        "Fresh mackerel on Fridays.",
        "Запись на керамику.",
    ]
    return [make_post(n, text, chat=-1001000000001, days=n) for n, text in enumerate(texts, 1)]


async def test_a_question_is_answered_with_vectors_on_the_server(
    tmp_path, qdrant, open_library, offline_models, ferries
):
    async with open_library(tmp_path / "data", **on(qdrant, offline_models)) as library:
        await library.keep(*ferries)
        dense = DenseIndexer(library.rag.archive, library.rag.dense.vectors, library.rag.dense.embedder)
        assert await dense.catch_up() == 3
        given = await library.ask(FERRY)
        assert given.posts()[0].message_id == 1
        assert given.shortfalls == ()
        assert len(qdrant.collections) == 1
        assert not (tmp_path / "data" / "vectors").exists()
        counted = await library.ask("How many posts mention the ferry?")
        assert counted.sentences
        await library.indexer.save()
        found = await check_integrity(library.rag, library.indexer, _untold)
        assert (found.words_wrong, found.vectors_wrong) == ([], [])


async def _untold(*_):
    raise AssertionError("nothing was wrong")


@pytest.mark.parametrize("server", ["fake", pytest.param("real", marks=needs_server)])
async def test_archives_on_one_server_stay_apart_and_a_copy_keeps_its_vectors(
    server, tmp_path, qdrant, open_library, offline_models, ferries, make_post, request
):
    url = qdrant.url if server == "fake" else request.getfixturevalue("qdrant_server")
    settings = on(qdrant, offline_models) | {"qdrant": {"url": url, "collection": f"test-{secrets.token_hex(4)}"}}

    async def embed(library):
        return await DenseIndexer(library.rag.archive, library.rag.dense.vectors, library.rag.dense.embedder).catch_up()

    async def never(_):
        raise AssertionError("embedded again")

    other = make_post(1, "The ferry to Owl Island is cancelled.", chat=-1001000000001)
    async with open_library(tmp_path / "a", **settings) as library:
        async with open_library(tmp_path / "b", **settings) as second:
            await library.keep(*ferries)
            await second.keep(other)
            assert (await embed(library), await embed(second)) == (3, 1)
            for bot, posts in ((library, 3), (second, 1)):
                found = await check_integrity(bot.rag, bot.indexer, _untold)
                assert (found.vectors, found.vectors_wrong) == (posts, [])
        backup = await asyncio.to_thread(make_backup, library.rag.archive.folder, Event())
    await asyncio.to_thread(shutil.copytree, tmp_path / "a", tmp_path / "copied")
    await asyncio.to_thread(shutil.copytree, tmp_path / "a", tmp_path / "restored")
    await asyncio.to_thread(restore_backup, tmp_path / "restored", backup, Event())
    for folder, queued in (("copied", 0), ("restored", 3)):  # a backup is of another moment: all is compared
        async with open_library(tmp_path / folder, **settings) as library:
            library.rag.dense.embedder.passages = never
            assert await embed(library) == queued
            assert await library.rag.dense.vectors.count() == 3
            given = await library.ask(FERRY)
            assert (given.posts()[0].message_id, given.shortfalls) == (1, ())
