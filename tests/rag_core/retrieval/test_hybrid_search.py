"""Search by words and by meaning; what is deleted or suspected is found by neither, from that moment on."""

from datetime import timedelta

import pytest

from ingest.indexer import DenseIndexer
from rag_core.answer import answer_question
from rag_core.planning.plan import plan_by_rules
from rag_core.retrieval.search import search_dense, search_lexical, search_passages
from rag_core.run import Run
from rag_core.storage import posts
from rag_core.storage.posts import fetch_passages
from rag_core.types import PostKey, SearchFilter

pytestmark = pytest.mark.slow


FERRY = "When does the ferry to Owl Island leave?"


@pytest.fixture
async def hybrid(tmp_path, open_library, offline_models, make_post):
    """A library searched by words and by meaning."""
    async with open_library(tmp_path / "data", models={"dir": offline_models.parent}) as library:
        texts = {
            library.harbour: {
                1: "The ferry to Owl Island leaves at 7:30 every morning.",
                2: "Fresh mackerel is sold on the quay on Fridays.",
                3: "Please keep your dogs on a leash near the cliffs.",
            },
            library.kiln: {1: "Абонемент в мастерскую стоит 2 750 рублей.", 2: "Обжиг проходит по четвергам."},
            library.safe: {1: "The boat to the island departs at 5:15 for members: the early sailing."},
        }
        kept = [make_post(n, t, chat=chat, days=n) for chat, posts in texts.items() for n, t in posts.items()]
        await library.keep(*kept)
        library.ferry = kept[0]
        library.dense = DenseIndexer(library.rag.archive, library.rag.dense.vectors, library.rag.dense.embedder)
        await library.dense.catch_up()
        yield library


async def hits(library, text, **who):
    question = library.question(text, **who)
    run = Run(library.rag.budgets, "test")
    return await search_passages(plan_by_rules(question), question, library.rag, run)


async def test_meaning_finds_what_words_do_not_and_only_what_the_asker_may_read(hybrid):
    found = await hits(hybrid, "Can I buy seafood somewhere?")
    assert found[0].passage.key == PostKey(hybrid.harbour, 2)
    assert found[0].leg == "dense"
    assert 0 < found[0].likeness <= 1
    found = await hits(hybrid, "When does the ferry to the island leave?")  # by both legs: it stands first
    assert (found[0].passage.key, found[0].leg) == (PostKey(hybrid.harbour, 1), "both")
    asked = "When does the boat to the island depart for members?"
    assert hybrid.safe not in {hit.passage.key.chat_id for hit in await hits(hybrid, asked)}
    inside = await hits(hybrid, asked, see=(hybrid.safe,))
    assert [hit.passage.key.chat_id for hit in inside] == [hybrid.safe]


async def test_a_model_that_is_named_and_not_there_is_said_with_every_answer(tmp_path, open_library, make_post):
    wanted = {"dir": tmp_path / "models", "embedder": "multilingual-e5-small"}
    async with open_library(tmp_path / "data", models=wanted) as library:
        await library.keep(make_post(1, "The ferry leaves at seven.", chat=library.harbour))
        given = await answer_question(library.question("When does the ferry leave?"), library.rag)
    assert given.sentences
    assert [s.stage for s in given.shortfalls] == ["dense"]
    assert "citegram models pull" in given.shortfalls[0].reason


async def legs(library):
    """Which legs name the post, and whether its text is fetched."""
    only = SearchFilter(frozenset({library.harbour}))
    words = [place for place, _ in await search_lexical(FERRY, only, 10, library.rag)]
    meaning = [place for place, _ in (await search_dense(FERRY, only, 10, library.rag.dense))[0]]
    fetched = await fetch_passages(library.rag.archive, [*words, *meaning])
    key = library.ferry.key
    found = {"words": words, "meaning": meaning, "fetched": fetched}
    return {name: any(place.key == key for place in places) for name, places in found.items()}


@pytest.mark.parametrize("way", ["admin", "suspected"])
async def test_it_is_gone_at_once_and_leaves_both_indexes(hybrid, way):
    assert await legs(hybrid) == {"words": True, "meaning": True, "fetched": True}
    key = hybrid.ferry.key
    marked = posts.mark_posts_suspected(hybrid.rag.archive, [key]) if way == "suspected" else None
    await (marked or posts.mark_posts_deleted(hybrid.rag.archive, [key], how=way))
    assert await legs(hybrid) == {"words": True, "meaning": True, "fetched": False}
    assert key not in {
        source.passage.key for source in (await answer_question(hybrid.question(FERRY), hybrid.rag)).found
    }

    await hybrid.indexer.catch_up()
    await hybrid.dense.catch_up()
    assert await legs(hybrid) == {"words": False, "meaning": False, "fetched": False}


async def test_what_is_cleared_or_edited_is_back_in_both(hybrid, make_post):
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
