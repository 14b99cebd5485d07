"""Both legs on a server that goes and comes back: questions, posts that come meanwhile, a rebuild beside."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from fake_qdrant import FakeQdrant

from ingest.indexer import DenseIndexer
from ingest.integrity import check_integrity
from ingest.rebuild import IndexBuild, build_next_index, load_next_index
from rag_core.answer import answer_question
from rag_core.errors import IndexUnavailable, QdrantGone
from rag_core.index.bm25_files import get_lexical_folder
from rag_core.index.sparse_qdrant import QdrantLexicalIndex, SparseCollection
from rag_core.settings import QdrantSettings
from rag_core.storage import index_state
from rag_core.text.tokens import tokenize
from rag_core.types import SearchFilter

pytestmark = pytest.mark.slow

FERRY = "When does the ferry to Owl Island leave?"


def on(qdrant: FakeQdrant, models: Path | None = None) -> dict[str, Any]:
    """Settings for both legs on the server."""
    chosen = {"dir": models.parent} if models else {"embedder": "none"}
    return {"qdrant": {"url": qdrant.url, "words": True}, "models": chosen}


@pytest.fixture
def ferries(make_post: Any) -> list[Any]:
    texts = [
        "The ferry to Owl Island leaves at 7:30 every morning.",
        "Fresh mackerel on Fridays.",
        "Запись на керамику.",
    ]
    return [make_post(n, text, chat=-1001000000001, days=n) for n, text in enumerate(texts, 1)]


async def again(work: Any) -> Any:
    """Work until the server is found again."""
    for _ in range(200):
        try:
            return await work()
        except QdrantGone:
            await asyncio.sleep(0.05)
    return await work()


async def test_a_question_is_answered_with_both_legs_on_the_server(
    tmp_path: Path, qdrant: FakeQdrant, open_library: Any, offline_models: Path, ferries: list[Any]
) -> None:
    async with open_library(tmp_path / "data", **on(qdrant, offline_models)) as library:
        await library.keep(*ferries)
        dense = DenseIndexer(library.rag.archive, library.rag.dense.vectors, library.rag.dense.embedder)
        assert await dense.catch_up() == 3
        given = await library.ask(FERRY)
        assert given.posts()[0].message_id == 1
        assert given.shortfalls == ()
        assert len(qdrant.collections) == 2
        assert not (tmp_path / "data" / "vectors").exists()
        counted = await library.ask("How many posts mention the ferry?")
        assert counted.sentences
        await library.indexer.save()
        assert sum(file.stat().st_size for file in get_lexical_folder(library.rag.archive.folder).rglob("*.*")) < 5000
        found = await check_integrity(library.rag, library.indexer, _untold)
        assert (found.words_wrong, found.vectors_wrong) == ([], [])


async def _untold(*_: object) -> None:
    raise AssertionError("nothing was wrong")


async def test_a_server_that_is_gone_is_said_and_what_came_meanwhile_is_found_when_it_is_back(
    tmp_path: Path, qdrant: FakeQdrant, open_library: Any, offline_models: Path, ferries: list[Any], make_post: Any
) -> None:
    async with open_library(tmp_path / "data", **on(qdrant, offline_models)) as library:
        await library.keep(*ferries)
        dense = DenseIndexer(library.rag.archive, library.rag.dense.vectors, library.rag.dense.embedder)
        await dense.catch_up()
        await qdrant.stop()
        with pytest.raises(IndexUnavailable, match="does not answer"):
            await library.ask(FERRY)
        await library.keep(make_post(9, "The kiln opens on Monday.", chat=-1001000000001), index=False)
        with pytest.raises(QdrantGone):
            await library.indexer.catch_up()
        with pytest.raises(QdrantGone):
            await dense.catch_up()
        await qdrant.start()
        assert (await again(library.indexer.catch_up), await again(dense.catch_up)) == (1, 1)
        assert (await library.ask("When does the kiln open?")).sentences
        assert await dense.vectors.count() == 4


async def test_with_words_in_the_folder_a_server_that_is_gone_is_a_shortfall_of_the_other_leg(
    tmp_path: Path, qdrant: FakeQdrant, open_library: Any, offline_models: Path, ferries: list[Any]
) -> None:
    settings = on(qdrant, offline_models)
    settings["qdrant"]["words"] = False
    await qdrant.stop()
    async with open_library(tmp_path / "data", **settings) as library:  # gone already when we begin
        await library.keep(*ferries)
        given = await library.ask(FERRY)
        assert given.sentences
        assert [(s.stage, "does not answer" in s.reason) for s in given.shortfalls] == [("dense", True)]
        await qdrant.start()
        dense = DenseIndexer(library.rag.archive, library.rag.dense.vectors, library.rag.dense.embedder)
        assert await again(dense.catch_up) == 3
        assert (await answer_question(library.question(FERRY), library.rag)).shortfalls == ()


async def test_a_start_goes_on_where_the_last_one_ended_and_another_server_is_filled_anew(
    tmp_path: Path, qdrant: FakeQdrant, open_library: Any, ferries: list[Any]
) -> None:
    async with open_library(tmp_path / "data", **on(qdrant)) as library:
        await library.keep(*ferries)
        await library.indexer.save()
    async with open_library(tmp_path / "data", **on(qdrant)) as library:
        assert await library.indexer.catch_up() == 0
        assert (await library.ask(FERRY)).sentences
    async with FakeQdrant() as another, open_library(tmp_path / "data", **on(another)) as library:
        assert library.rag.lexical.watermark == 0
        assert await library.indexer.catch_up() == 3
        assert (await library.ask(FERRY)).sentences


async def test_a_rebuild_of_an_index_without_passages_is_made_beside_by_a_child_and_takes_the_place(
    tmp_path: Path, qdrant: FakeQdrant, open_library: Any, ferries: list[Any], make_post: Any
) -> None:
    async def moved(*_: int) -> None:
        return

    async with open_library(tmp_path / "data", **on(qdrant)) as library:
        rag, words = library.rag, library.rag.lexical
        await library.keep(*ferries, index=False)
        assert len(words) == 0
        (before,) = qdrant.collections
        # of one channel: all is built anew, because an index on a server cannot be copied
        rebuild = await index_state.begin_rebuild(rag.archive, -1001000000001)
        assert rebuild is not None
        await build_next_index(rag.archive, None, rebuild, moved, like=words)
        await library.keep(make_post(7, "A heron stood on the pier.", chat=-1001000000001), index=False)
        await library.indexer.put_in_place(await load_next_index(rag.archive, rebuild, words))
        assert (await library.ask(FERRY)).sentences
        await library.indexer.save()
        (after,) = qdrant.collections
        assert after != before
        assert words.statistics(frozenset(words.chats)).frequency("heron") == 1
        assert len(words) == 4


async def test_a_rebuild_whose_server_lost_what_was_in_it_begins_anew(
    tmp_path: Path, qdrant: FakeQdrant, open_library: Any, ferries: list[Any]
) -> None:
    settings = on(qdrant)
    async with open_library(tmp_path / "data", **settings) as library:
        archive, told = library.rag.archive, QdrantSettings.model_validate_json(library.rag.lexical.settings_json)
        await library.keep(*ferries, index=False)
        walk = await IndexBuild.resume_or_begin(archive, 1, None, told)
        walk.cursor = walk.lexical.watermark = 3
        await asyncio.to_thread(walk.save)
        walk.lexical.close()
        resumed = await IndexBuild.resume_or_begin(archive, 1, None, told)
        resumed.lexical.close()
        qdrant.forget()
        anew = await IndexBuild.resume_or_begin(archive, 1, None, told)
        anew.lexical.close()
        assert (resumed.cursor, anew.cursor) == (3, 0)


async def test_what_a_server_loses_while_posts_are_read_is_taken_in_from_the_beginning(
    tmp_path: Path, qdrant: FakeQdrant, open_library: Any, ferries: list[Any], make_post: Any, monkeypatch: Any
) -> None:
    async with open_library(tmp_path / "data", **on(qdrant)) as library:
        await library.keep(*ferries)
        await library.keep(make_post(9, "The kiln opens on Monday.", chat=-1001000000001), index=False)
        words, real = library.rag.lexical, QdrantLexicalIndex.replace

        def lost_meanwhile(self: Any, *given: Any) -> int:
            monkeypatch.setattr(QdrantLexicalIndex, "replace", real)
            self.watermark = 0  # as where another thread finds the server empty
            return real(self, *given)

        monkeypatch.setattr(QdrantLexicalIndex, "replace", lost_meanwhile)
        assert await library.indexer.catch_up() == 1 + 4
        assert words.watermark == library.indexer.lexical.watermark > 0


async def test_a_search_that_runs_while_another_index_takes_the_place_comes_to_its_end(
    tmp_path: Path, qdrant: FakeQdrant, open_library: Any, ferries: list[Any], monkeypatch: Any
) -> None:
    async with open_library(tmp_path / "data", **on(qdrant)) as library:
        await library.keep(*ferries)
        words, real = library.rag.lexical, SparseCollection.best
        begun, exchanged = threading.Event(), threading.Event()

        def slow(self: Any, *given: Any, **options: Any) -> Any:
            begun.set()
            exchanged.wait(10)
            return real(self, *given, **options)

        monkeypatch.setattr(SparseCollection, "best", slow)
        search = asyncio.create_task(
            asyncio.to_thread(words.search, tokenize("ferry"), SearchFilter(frozenset({-1001000000001})))
        )
        assert await asyncio.to_thread(begun.wait, 10)
        await library.indexer.put_in_place(await asyncio.to_thread(words.make_empty))
        exchanged.set()
        assert [place.key.message_id for place, _ in await search] == [1]
        await library.indexer.save()
        assert len(qdrant.collections) == 1
