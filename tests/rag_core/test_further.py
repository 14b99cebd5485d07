from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rag_core.doors.lexical import Filter, Place
from rag_core.further import behind, by_each, further, names_around
from rag_core.types import Passage, Plan, PostKey


def place(number: int, part: int = 0) -> Place:
    return Place(PostKey(-1, number), part, 0, 10)


def ranked(*numbers: int) -> list[tuple[Place, float]]:
    return [(place(n), 10.0 / rank) for rank, n in enumerate(numbers, 1)]


def passage(text: str, header: str = "Harbour News · 2025-03-01") -> Passage:
    return Passage(PostKey(-1, 1), 0, header, text, 0, len(text), datetime(2025, 3, 1, tzinfo=UTC))


def test_nothing_comes_before_the_first_five_posts_of_the_question_itself() -> None:
    own, other = ranked(1, 2, 3, 4, 5, 6, 7), ranked(9, 7, 8)
    for weight, sixth in ((0.15, 7), (0.5, 7), (100.0, 9)):  # 7 is found by both
        found = [one.key.message_id for one, _ in behind(own, [(other, weight)] * 5)]
        assert found[:6] == [1, 2, 3, 4, 5, sixth]
        assert set(found) == {1, 2, 3, 4, 5, 6, 7, 8, 9}


def test_what_only_another_query_finds_has_no_score_of_its_own() -> None:
    found = dict(behind(ranked(1), [(ranked(2), 0.15)]))
    assert found == {place(1): 10.0, place(2): 0.0}
    assert behind(ranked(1, 2), []) == ranked(1, 2)
    assert [one for one, _ in behind([], [(ranked(3, 4), 0.15)])] == [place(3), place(4)]


def test_a_long_post_of_many_passages_is_one_of_the_five() -> None:
    own = [*((place(1, part), 9.0) for part in range(10)), *ranked(2, 3, 4, 5, 6)]
    found = behind(own, [(ranked(6, 7), 100.0)])
    assert [one.key.message_id for one, _ in found[:14]] == [1] * 10 + [2, 3, 4, 5]


def test_the_names_that_the_best_posts_bring_are_looked_for() -> None:
    posts = [passage("Captain Grey sails to Owl Island. Owl Island is small."), passage("Captain Grey of Oslo is old.")]
    assert names_around("Who sails the ferry?", posts) == "Owl Island Captain Grey Captain Grey of Oslo"
    asked = names_around("Where does Captain Grey live?", posts)
    assert "Owl Island" in asked
    assert "Grey" not in asked
    assert names_around("Who sails?", []) == ""
    assert "Third" not in names_around("Who?", [*posts, passage("The Third Post")])  # of the first two posts alone


def test_what_must_stand_in_a_post_has_a_query_of_its_own() -> None:
    plan = Plan(("When does “White Gull” sail?", "sail"), must=("White Gull", "#ferry"))
    assert further(plan) == ("sail", "White Gull #ferry")
    assert further(Plan(("ferry",))) == ()


async def test_each_query_is_searched_within_the_filter(library: Any) -> None:
    only = Filter(frozenset({library.harbour}))
    ferry, museum, none = await by_each(("ferry", "museum", "обжиг"), only, 2, library.rag)
    assert len(ferry) == 2
    assert [one.key.message_id for one, _ in museum] == [3]
    assert none == []
    assert await by_each((), only, 2, library.rag) == []
