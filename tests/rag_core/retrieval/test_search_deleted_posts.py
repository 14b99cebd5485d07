"""What is deleted or suspected is found by neither leg, from that moment on: before the indexes know, and after."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.indexer import DenseIndexer
from rag_core.answer import answer_question
from rag_core.retrieval.hybrid import search_dense, search_lexical
from rag_core.storage import posts
from rag_core.storage.post_lookup import fetch_passages
from rag_core.types import PostKey, SearchFilter

pytestmark = pytest.mark.slow

FERRY = "When does the ferry to Owl Island leave?"


@pytest.fixture
async def hybrid(tmp_path: Path, open_library: Any, offline_models: Path, make_post: Any) -> AsyncIterator[Any]:
    """A library searched by words and by meaning."""
    async with open_library(tmp_path / "data", models={"dir": offline_models.parent}) as library:
        library.dense = DenseIndexer(library.rag.archive, library.rag.dense.vectors, library.rag.dense.embedder)
        ferry = make_post(1, "The ferry to Owl Island leaves at 7:30 every morning.", chat=library.harbour)
        await library.keep(ferry, make_post(2, "Fresh mackerel is sold on the quay.", chat=library.harbour))
        await library.dense.catch_up()
        library.ferry = ferry
        yield library


async def legs(library: Any) -> dict[str, bool]:
    """Which legs name the post, and whether its text is fetched."""
    only = SearchFilter(frozenset({library.harbour}))
    words = [place for place, _ in await search_lexical(FERRY, only, 10, library.rag)]
    meaning = [place for place, _ in (await search_dense(FERRY, only, 10, library.rag))[0]]
    fetched = await fetch_passages(library.rag.archive, [*words, *meaning])
    key = library.ferry.key
    found = {"words": words, "meaning": meaning, "fetched": fetched}
    return {name: any(place.key == key for place in places) for name, places in found.items()}


@pytest.mark.parametrize("way", ["admin", "suspected"])
async def test_it_is_gone_at_once_and_leaves_both_indexes(hybrid: Any, way: str) -> None:
    assert await legs(hybrid) == {"words": True, "meaning": True, "fetched": True}
    key: PostKey = hybrid.ferry.key
    marked = posts.mark_posts_suspected(hybrid.rag.archive, [key]) if way == "suspected" else None
    await (marked or posts.mark_posts_deleted(hybrid.rag.archive, [key], how=way))
    assert await legs(hybrid) == {"words": True, "meaning": True, "fetched": False}
    assert key not in {
        source.passage.key for source in (await answer_question(hybrid.question(FERRY), hybrid.rag)).found
    }

    await hybrid.indexer.catch_up()
    await hybrid.dense.catch_up()
    assert await legs(hybrid) == {"words": False, "meaning": False, "fetched": False}


async def test_what_is_cleared_or_edited_is_back_in_both(hybrid: Any, make_post: Any) -> None:
    key, archive = hybrid.ferry.key, hybrid.rag.archive
    edited = make_post(1, f"{hybrid.ferry.text} Daily.", chat=key.chat_id, edited=hybrid.ferry.date + timedelta(1))
    for back in ("cleared", "edited"):
        await posts.mark_posts_suspected(archive, [key])
        await hybrid.indexer.catch_up()
        await hybrid.dense.catch_up()
        assert not any((await legs(hybrid)).values())
        await (
            posts.mark_posts_suspected(archive, [key], suspected=False)
            if back == "cleared"
            else posts.save_posts(archive, [edited], source="live")
        )
        await hybrid.indexer.catch_up()
        await hybrid.dense.catch_up()
        assert all((await legs(hybrid)).values()), back
    assert await posts.mark_posts_suspected(archive, [key], suspected=False) == 0
