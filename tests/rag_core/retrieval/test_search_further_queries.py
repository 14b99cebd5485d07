from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rag_core.retrieval.search import (
    append_expansion_hits,
    extract_expansion_names,
    list_further_queries,
    search_each_query,
)
from rag_core.types import Passage, PassageRef, Plan, PostKey, SearchFilter


def place(number: int, part: int = 0) -> PassageRef:
    return PassageRef(PostKey(-1, number), part, 0, 10)


def ranked(*numbers: int) -> list[tuple[PassageRef, float]]:
    return [(place(n), 10.0 / rank) for rank, n in enumerate(numbers, 1)]


def passage(text: str, header: str = "Harbour News · 2025-03-01") -> Passage:
    return Passage(PostKey(-1, 1), 0, header, text, 0, len(text), datetime(2025, 3, 1, tzinfo=UTC))


def test_nothing_comes_before_the_first_five_posts_of_the_question_itself() -> None:
    own, other = ranked(1, 2, 3, 4, 5, 6, 7), ranked(9, 7, 8)
    for weight, sixth in ((0.15, 7), (0.5, 7), (100.0, 9)):  # 7 is found by both
        found = [one.key.message_id for one, _ in append_expansion_hits(own, [(other, weight)] * 5)]
        assert found[:6] == [1, 2, 3, 4, 5, sixth]
        assert set(found) == {1, 2, 3, 4, 5, 6, 7, 8, 9}


def test_what_only_another_query_finds_has_no_score_of_its_own() -> None:
    found = dict(append_expansion_hits(ranked(1), [(ranked(2), 0.15)]))
    assert found == {place(1): 10.0, place(2): 0.0}
    assert append_expansion_hits(ranked(1, 2), []) == ranked(1, 2)
    assert [one for one, _ in append_expansion_hits([], [(ranked(3, 4), 0.15)])] == [place(3), place(4)]


def test_equal_votes_keep_the_order_of_the_queries() -> None:
    votes = [(ranked(901, 77, 5003), 0.15), (ranked(42, 640, 31), 0.15)]
    found = [one.key.message_id for one, _ in append_expansion_hits([], votes)]
    assert found == [901, 42, 77, 640, 5003, 31]


def test_a_long_post_of_many_passages_is_one_of_the_five() -> None:
    own = [*((place(1, part), 9.0) for part in range(10)), *ranked(2, 3, 4, 5, 6)]
    found = append_expansion_hits(own, [(ranked(6, 7), 100.0)])
    assert [one.key.message_id for one, _ in found[:14]] == [1] * 10 + [2, 3, 4, 5]


def test_the_names_that_the_best_posts_bring_are_looked_for() -> None:
    posts = [passage("Captain Grey sails to Owl Island. Owl Island is small."), passage("Captain Grey of Oslo is old.")]
    assert extract_expansion_names("Who sails the ferry?", posts) == "Owl Island Captain Grey Captain Grey of Oslo"
    asked = extract_expansion_names("Where does Captain Grey live?", posts)
    assert "Owl Island" in asked
    assert "Grey" not in asked
    assert extract_expansion_names("Who sails?", []) == ""
    assert "Third" not in extract_expansion_names(
        "Who?", [*posts, passage("The Third Post")]
    )  # of the first two posts alone


def test_what_must_stand_in_a_post_has_a_query_of_its_own() -> None:
    plan = Plan(("When does “White Gull” sail?", "sail"), must=("White Gull", "#ferry"))
    assert list_further_queries(plan) == ("sail", "White Gull #ferry")
    assert list_further_queries(Plan(("ferry",))) == ()


async def test_each_query_is_searched_within_the_filter(library: Any) -> None:
    only = SearchFilter(frozenset({library.harbour}))
    ferry, museum, none = await search_each_query(("ferry", "museum", "обжиг"), only, 2, library.rag)
    assert len(ferry) == 2
    assert [one.key.message_id for one, _ in museum] == [3]
    assert none == []
    assert await search_each_query((), only, 2, library.rag) == []
