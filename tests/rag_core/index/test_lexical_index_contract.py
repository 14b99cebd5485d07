"""The contract of the lexical leg, in the folder and on a server: the same posts, the same answers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from rag_core.index.lexical_index import IndexEntry, LexicalIndex
from rag_core.types import PassageRef, PostKey, PostKeySet, SearchFilter

DAY = datetime(2025, 3, 1, tzinfo=UTC)
ALL = SearchFilter(frozenset({-1, -2}))


def entry(number: int, *terms: str, chat: int = -1, date: datetime = DAY, part: int = 0) -> IndexEntry:
    return IndexEntry(PassageRef(PostKey(chat, number), part, 0, 10), date, terms)


def frequency(index: LexicalIndex, term: str, channels: frozenset[int] = ALL.channels) -> int:
    return index.statistics(channels).frequency(term)


def numbers(index: LexicalIndex, *terms: str, only: SearchFilter = ALL) -> list[int]:
    return [place.key.message_id for place, _ in index.search(terms, only)]


@pytest.fixture
def index() -> LexicalIndex:
    return LexicalIndex()


def test_the_filter_is_inside_the_query_not_after_the_cut(index: LexicalIndex) -> None:
    index.replace((), [entry(n, "cat", "cat", "cat") for n in range(100)])
    index.replace((), [entry(7, "cat", "and", "dog", chat=-2)])
    assert [p.key for p, _ in index.search(["cat"], SearchFilter(frozenset({-2})), n=5)] == [PostKey(-2, 7)]
    assert index.search(["cat"], SearchFilter(frozenset())) == []
    assert index.search([], ALL) == []


def test_since_is_inclusive_and_until_exclusive(index: LexicalIndex) -> None:
    index.replace((), [entry(day, "cat", date=DAY.replace(day=day)) for day in (1, 2, 3, 4)])
    found = SearchFilter(frozenset({-1}), DAY.replace(day=2), DAY.replace(day=4))
    assert sorted(numbers(index, "cat", only=found)) == [2, 3]
    assert [p.key.message_id for p in index.all_of(found)] == [2, 3]


def test_single_posts_may_be_named_and_the_rest_of_the_filter_still_bounds_them(index: LexicalIndex) -> None:
    index.replace((), [entry(n, "cat", "cat", "cat") for n in range(100)])
    index.replace((), [entry(n, "cat", "and", "dog", chat=-2, date=DAY.replace(day=1 + n)) for n in range(5)])
    keys = PostKeySet.of([PostKey(-1, 30), PostKey(-2, 1), PostKey(-2, 3), PostKey(-2, 99), PostKey(-9, 1)])
    both = frozenset({-1, -2})
    assert sorted(tuple(place.key) for place, _ in index.search(["cat"], SearchFilter(both, keys=keys), n=3)) == [
        (-2, 1), (-2, 3), (-1, 30),
    ]  # fmt: skip
    assert sorted(numbers(index, "cat", only=SearchFilter(frozenset({-2}), keys=keys))) == [1, 3]
    assert numbers(index, "cat", only=SearchFilter(both, since=DAY.replace(day=3), keys=keys)) == [3]
    assert numbers(index, "cat", only=SearchFilter(both, keys=PostKeySet({}))) == []
    assert [place.key.message_id for place in index.all_of(SearchFilter(both, keys=keys))] == [30, 1, 3]
    assert [place.key.message_id for place in index.matching(["dog"], SearchFilter(both, keys=keys))] == [1, 3]
    assert not index.known("dog", SearchFilter(both, keys=PostKeySet.of([PostKey(-1, 30)])))
    assert index.known("dog", SearchFilter(both, keys=keys))


def test_a_word_that_no_post_has_any_more_leaves_with_a_save(index: LexicalIndex, tmp_path: Path) -> None:
    index.replace((), [entry(1, "cat"), entry(2, "dog", "cat", chat=-2)])
    index.replace([PostKey(-1, 1)], [entry(1, "bird")])
    index.remove_channel(-2)
    index.replace((), [entry(3, "fish")])
    index.save(tmp_path)
    assert sorted(index.list_vocabulary()) == ["bird", "fish"]
    assert (numbers(index, "bird"), numbers(index, "fish"), numbers(index, "cat")) == ([1], [3], [])


def test_a_post_that_is_put_in_again_loses_its_old_passages_and_their_terms(index: LexicalIndex) -> None:
    index.replace([PostKey(-1, 1)], [entry(1, "cat", part=part) for part in range(3)])
    assert (len(index), frequency(index, "cat")) == (3, 3)
    before = index.revision
    index.replace([PostKey(-1, 1), PostKey(-1, 9)], [entry(1, "dog", "dog")])
    assert index.revision > before
    assert numbers(index, "cat") == []
    assert numbers(index, "dog") == [1]
    assert [part.tolist() for part in index.parts_of(-1)] == [[1], [0]]
    assert index.known("dog", ALL)
    assert not index.known("cat", ALL)
    index.replace([PostKey(-1, 1)], ())
    assert index.all_of(ALL) == []


def test_a_channel_is_taken_out_and_no_other(index: LexicalIndex) -> None:
    index.replace((), [entry(n, "cat", chat=chat) for n in range(5) for chat in (-1, -2)])
    index.remove_channel(-1)
    index.remove_channel(-9)
    assert sorted((p.key.chat_id, p.key.message_id) for p in index.matching(["cat"], ALL)) == [
        (-2, n) for n in range(5)
    ]
    assert [sorted(part.tolist()) for part in index.parts_of(-2)] == [[0, 1, 2, 3, 4], [0] * 5]
    assert [part.tolist() for part in index.parts_of(-1)] == [[], []]
    assert set(index.chats) >= {-2}


def test_all_that_hold_all_of_the_terms_or_all_of_others_are_found_oldest_first(index: LexicalIndex) -> None:
    texts = {1: ["a", "b"], 2: ["a"], 3: ["b", "c"], 4: ["c"], 5: ["b", "a", "c"]}
    index.replace((), [entry(n, *terms, date=DAY.replace(day=9 - n)) for n, terms in texts.items()])
    assert [p.key.message_id for p in index.matching(["a", "b"], ALL)] == [5, 1]
    assert [p.key.message_id for p in index.matching(["a", "b"], ALL, ["c"])] == [5, 4, 3, 1]


def test_weights_are_greatest_for_what_was_never_seen_and_a_score_grows_with_rarity(index: LexicalIndex) -> None:
    index.replace((), [entry(n, "cat", *(["owl"] if n < 3 else [])) for n in range(100)])
    of = index.statistics(ALL.channels)
    assert 0 < of.weight("cat") < of.weight("owl") < of.weight("never")
    assert (of.frequency("owl"), of.frequency("never")) == (3, 0)
    assert of.score(["owl"], ["owl", "x"]) > of.score(["cat"], ["cat", "x"]) > 0
    assert of.score(["owl"], ["x"]) == 0


def test_a_channel_outside_the_filter_changes_no_score_and_no_statistic(index: LexicalIndex) -> None:
    texts = {n: ["cat", f"w{n % 3}", *(["owl"] * (n % 4))] for n in range(30)}
    index.replace((), [entry(n, *words) for n, words in texts.items()])
    mine = frozenset({-1})

    def seen() -> tuple[object, ...]:
        of = index.statistics(mine)
        words = ("cat", "owl", "w1", "fox", "never")
        weights = [(of.frequency(word), of.weight(word)) for word in words]
        found = [index.search(query, SearchFilter(mine), 5) for query in (["cat"], ["owl", "w1"], ["fox", "cat", "w2"])]
        return of.count, of.average_length, weights, found, of.score(["owl", "fox"], ["owl", "x", "x"])

    before = seen()
    index.replace((), [entry(n, "fox", "owl", "cat", *["x"] * 9, chat=-2) for n in range(40)])
    assert seen() == before
    index.replace([PostKey(-2, 3)], [entry(3, "fox", "w1", chat=-2)])
    index.replace([PostKey(-2, n) for n in range(10, 30)], ())
    assert seen() == before
    assert index.statistics(ALL.channels).frequency("fox") == 20
    index.remove_channel(-2)
    assert seen() == before == (30, *before[1:])


def test_what_was_replaced_counts_no_more(index: LexicalIndex) -> None:
    index.replace((), [entry(n, "cat", "owl") for n in range(10)])
    index.replace([PostKey(-1, n) for n in range(4)], [entry(n, "dog") for n in range(4)])
    of = index.statistics(ALL.channels)
    assert [of.frequency(word) for word in ("cat", "owl", "dog")] == [6, 6, 4]
    assert of.count == 10


def test_hits_of_one_score_come_in_the_order_of_their_posts_also_where_the_cut_falls(index: LexicalIndex) -> None:
    numbered = [entry(n, "cat", f"w{n}") for n in (7, 3, 9, 1, 5, 8, 2, 6, 4)]
    index.replace((), numbered)
    if isinstance(index, LexicalIndex):  # in the order in which they came
        assert numbers(index, "cat")[:3] == [7, 3, 9]
    else:
        found = index.search(["cat"], ALL, 4)
        assert [place.key.message_id for place, _ in found] == [1, 2, 3, 4]
