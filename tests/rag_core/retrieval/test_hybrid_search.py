from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.indexer import DenseIndexer
from rag_core.answer import answer_question
from rag_core.errors import IndexUnavailable, ModelUnavailable, VectorsUnavailable
from rag_core.models.active_models import select_model
from rag_core.models.catalog import ModelRole
from rag_core.planning.rule_planner import plan_by_rules
from rag_core.retrieval.search import search_passages
from rag_core.tracing import Run
from rag_core.types import Hit, PostKey

pytestmark = pytest.mark.slow


@pytest.fixture
async def hybrid(tmp_path: Path, open_library: Any, offline_models: Path, make_post: Any) -> AsyncIterator[Any]:
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
        await DenseIndexer(library.rag.archive, library.rag.dense.vectors, library.rag.dense.embedder).catch_up()
        yield library


async def hits(library: Any, text: str, **who: Any) -> tuple[Hit, ...]:
    question = library.question(text, **who)
    run = Run(library.rag.settings.budgets, "test")
    return await search_passages(plan_by_rules(question), question, library.rag, run)


async def test_meaning_finds_what_words_do_not_and_only_what_the_asker_may_read(hybrid: Any) -> None:
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


async def test_without_its_vectors_words_answer_and_the_shortfall_is_said(hybrid: Any) -> None:
    class Down:
        identity, revision = "down", 0

        async def search(self, *args: Any) -> Any:
            raise VectorsUnavailable("The vectors are on holiday.")

    rag = replace(hybrid.rag, dense=replace(hybrid.rag.dense, vectors=Down()))
    given = await answer_question(hybrid.question("When does the ferry to Owl Island leave?"), rag)
    assert "7:30" in given.sentences[0].text
    assert [(s.stage, s.reason) for s in given.shortfalls] == [("dense", "The vectors are on holiday.")]


async def test_meaning_stands_in_for_words_that_cannot_be_searched_and_that_is_said(
    hybrid: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*args: Any) -> Any:
        raise IndexUnavailable("The index is down.")

    monkeypatch.setattr(hybrid.rag.lexical, "search", down)
    given = await answer_question(hybrid.question("When does the ferry to Owl Island leave?"), hybrid.rag)
    assert given.found[0].passage.key == PostKey(hybrid.harbour, 1)
    assert [(s.stage, s.reason) for s in given.shortfalls] == [("lexical", "The index is down.")]


async def test_a_model_that_is_named_and_not_there_is_said_with_every_answer(
    tmp_path: Path, open_library: Any, make_post: Any
) -> None:
    wanted = {"dir": tmp_path / "models", "embedder": "multilingual-e5-small"}
    async with open_library(tmp_path / "data", models=wanted) as library:
        await library.keep(make_post(1, "The ferry leaves at seven.", chat=library.harbour))
        given = await answer_question(library.question("When does the ferry leave?"), library.rag)
    assert given.sentences
    assert [s.stage for s in given.shortfalls] == ["dense"]
    assert "citegram models pull" in given.shortfalls[0].reason


def test_auto_takes_what_was_pulled_and_none_takes_nothing(offline_models: Path, tmp_path: Path) -> None:
    pulled = offline_models.parent
    row = select_model(ModelRole.EMBEDDER, "auto", pulled)
    assert row is not None
    assert row.name == "minilm-navec"
    assert select_model(ModelRole.EMBEDDER, "auto", tmp_path) is None
    assert select_model(ModelRole.EMBEDDER, "none", pulled) is None
    with pytest.raises(ModelUnavailable):
        select_model(ModelRole.EMBEDDER, "no-such-model", pulled)
