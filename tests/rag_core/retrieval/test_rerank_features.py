"""Reranking by features: the newest post with the wanted kind of answer comes first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rag_core.index.postings import TermStatistics
from rag_core.retrieval.rerank import rerank_by_features
from rag_core.retrieval.retrieval_result import RetrievalResult
from rag_core.types import Kind, Passage, PassageRef, Plan, PostKey, Question, Viewer

CHAT = -1
NOW = datetime(2026, 6, 1, tzinfo=UTC)
TEXTS = {
    1: (datetime(2024, 5, 1, tzinfo=UTC), "A sauna ticket costs 300 ₽."),
    2: (datetime(2026, 5, 1, tzinfo=UTC), "A sauna ticket costs 450 ₽."),
    3: (datetime(2026, 5, 2, tzinfo=UTC), "The sauna has a new bench; keep your ticket."),
}
STATISTICS = TermStatistics(1000, 8.0, lambda term: 3)


def order(text: str, scores: dict[int, float]) -> list[int]:
    places = {n: PassageRef(PostKey(CHAT, n), 0, 0, len(said)) for n, (_, said) in TEXTS.items()}
    passages = {
        places[n]: Passage(PostKey(CHAT, n), 0, "Steam", said, 0, len(said), date) for n, (date, said) in TEXTS.items()
    }
    question = Question(text, "en", NOW, Viewer(1, frozenset({CHAT})))
    found = RetrievalResult([(places[n], s) for n, s in scores.items()], {}, None)
    ranked = rerank_by_features(found, passages, Plan((text,)), question, STATISTICS)
    assert ranked[0][1] == pytest.approx(1.0)
    assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)
    return [place.key.message_id for place, _ in ranked]


def test_the_newest_price_comes_before_an_older_one_and_before_a_post_without_a_price() -> None:
    assert order("how much is a sauna ticket", {1: 9.0, 2: 8.6}) == [2, 1]
    assert order("how much is a sauna ticket", {3: 8.8, 2: 8.6}) == [2, 3]


def test_a_question_about_the_past_gives_new_posts_no_bonus() -> None:
    assert order("how much was a sauna ticket in 2024", {1: 9.0, 2: 8.6, 3: 1.0}) == [1, 2, 3]


async def test_a_question_without_a_topic_is_searched_by_date(library: Any, make_post: Any) -> None:
    from rag_core.retrieval.search import search_passages
    from rag_core.tracing import Run

    posts = [make_post(n, f"Bulletin {n}: wind and rain.", chat=library.harbour) for n in range(30, 90)]
    await library.keep(*posts)
    rag = library.rag
    question = Question("what is new", "en", NOW, Viewer(1, frozenset({library.harbour})))
    hits = await search_passages(
        Plan((question.text,), Kind.POSTED), question, rag, Run(rag.settings.budgets, "search")
    )
    dates = [hit.passage.date for hit in hits]
    assert len(hits) == rag.settings.retrieval.keep
    assert dates == sorted(dates, reverse=True)


def test_a_post_that_only_the_dense_search_found_near_comes_before_one_it_did_not_find() -> None:
    places = {n: PassageRef(PostKey(CHAT, n), 0, 0, len(TEXTS[n][1])) for n in (1, 2)}
    date = TEXTS[1][0]
    passages = {
        place: Passage(place.key, 0, "Steam", TEXTS[n][1], 0, len(TEXTS[n][1]), date) for n, place in places.items()
    }
    question = Question("sauna ticket", "en", NOW, Viewer(1, frozenset({CHAT})))
    found = RetrievalResult([(places[1], 1.0), (places[2], 0.9)], {}, None, cosines={places[2]: 0.6})
    ranked = rerank_by_features(found, passages, Plan((question.text,)), question, STATISTICS)
    assert [place for place, _ in ranked] == [places[2], places[1]]
