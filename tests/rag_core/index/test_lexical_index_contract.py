"""The contract of the lexical leg, in the folder and on a server: the same posts, the same answers."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fake_qdrant import FakeQdrant
from pydantic import SecretStr
from qdrant_node import needs_server

from rag_core.engine import load_saved_lexical_index, make_lexical_index
from rag_core.errors import IndexUnavailable, QdrantGone
from rag_core.index import sparse_qdrant
from rag_core.index.lexical_index import Bm25Index, IndexEntry, LexicalIndex
from rag_core.settings import QdrantSettings
from rag_core.types import PassageRef, PostKey, PostKeySet, SearchFilter

pytestmark = pytest.mark.slow

DAY = datetime(2025, 3, 1, tzinfo=UTC)
ALL = SearchFilter(frozenset({-1, -2}))


def entry(number: int, *terms: str, chat: int = -1, date: datetime = DAY, part: int = 0) -> IndexEntry:
    return IndexEntry(PassageRef(PostKey(chat, number), part, 0, 10), date, terms)


def frequency(index: LexicalIndex, term: str, channels: frozenset[int] = ALL.channels) -> int:
    return index.statistics(channels).frequency(term)


def numbers(index: LexicalIndex, *terms: str, only: SearchFilter = ALL) -> list[int]:
    return [place.key.message_id for place, _ in index.search(terms, only)]


@pytest.fixture(params=["folder", "memory", pytest.param("server", marks=needs_server)])
def index(request: pytest.FixtureRequest) -> Iterator[LexicalIndex]:
    given = {"folder": "", "memory": ":memory:"}
    url = given[request.param] if request.param in given else request.getfixturevalue("qdrant_server")
    key = SecretStr(os.environ.get("QDRANT__KEY", ""))
    settings = QdrantSettings(url=url, key=key, words=True, collection=f"citegram-test-{secrets.token_hex(4)}")
    made = make_lexical_index(settings)
    assert isinstance(made, Bm25Index) == (request.param == "folder")
    yield made
    made.close()
    if request.param == "server":
        from qdrant_client import QdrantClient

        client = QdrantClient(url=url, api_key=key.get_secret_value() or None, check_compatibility=False)
        for one in client.get_collections().collections:
            if one.name.startswith(settings.collection):
                client.delete_collection(one.name)
        client.close()


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
    if isinstance(index, Bm25Index):  # in the order in which they came
        assert numbers(index, "cat")[:3] == [7, 3, 9]
    else:
        found = index.search(["cat"], ALL, 4)
        assert [place.key.message_id for place, _ in found] == [1, 2, 3, 4]


def test_too_long_a_list_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_qdrant, "MAX_LISTED_PASSAGES", 5)
    index = make_lexical_index(QdrantSettings(url=":memory:", words=True))
    index.replace((), [entry(n, "cat") for n in range(6)])
    with pytest.raises(IndexUnavailable, match=r"^6 passages fit: ask about one channel"):
        index.matching(["cat"], ALL)
    index.close()


def served(qdrant: FakeQdrant) -> QdrantSettings:
    return QdrantSettings(url=qdrant.url, words=True)


async def test_what_is_kept_here_is_found_again_with_its_watermark(qdrant: FakeQdrant, tmp_path: Path) -> None:
    settings = served(qdrant)
    index = await asyncio.to_thread(make_lexical_index, settings)
    await asyncio.to_thread(index.replace, (), [entry(n, "cat", f"w{n}") for n in range(50)])
    index.watermark = 77
    await asyncio.to_thread(index.save, tmp_path, "ours")
    index.close()
    assert await asyncio.to_thread(load_saved_lexical_index, settings, tmp_path, "another") is None
    assert Bm25Index.load(tmp_path, "ours") is None
    again = await asyncio.to_thread(load_saved_lexical_index, settings, tmp_path, "ours")
    assert again is not None
    assert (again.watermark, len(again), again.chats, frequency(again, "cat")) == (77, 50, [-1], 50)
    assert await asyncio.to_thread(numbers, again, "w7") == [7]
    again.close()


async def test_a_server_that_lost_everything_is_filled_from_the_beginning(qdrant: FakeQdrant) -> None:
    settings = served(qdrant)
    index = await asyncio.to_thread(make_lexical_index, settings)
    await asyncio.to_thread(index.replace, (), [entry(1, "cat")])
    index.watermark = 7
    qdrant.forget()
    with pytest.raises(QdrantGone, match="has lost a collection"):
        await asyncio.to_thread(numbers, index, "cat")
    for _ in range(200):
        if index.watermark == 0:
            break
        await asyncio.sleep(0.05)
    assert (index.watermark, len(index)) == (0, 0)
    assert await asyncio.to_thread(numbers, index, "cat") == []
    index.close()


async def test_an_index_built_beside_takes_the_place_and_the_old_collection_goes_with_the_next_save(
    qdrant: FakeQdrant, tmp_path: Path
) -> None:
    index = await asyncio.to_thread(make_lexical_index, served(qdrant))
    await asyncio.to_thread(index.replace, (), [entry(1, "old")])
    beside = await asyncio.to_thread(index.make_empty)
    await asyncio.to_thread(beside.replace, (), [entry(2, "new")])
    beside.watermark = 9
    assert await asyncio.to_thread(numbers, index, "old", "new") == [1]
    await asyncio.to_thread(beside.save, tmp_path, "ours")
    await asyncio.to_thread(index.adopt, beside)
    assert (index.watermark, len(index)) == (9, 1)
    assert await asyncio.to_thread(numbers, index, "old", "new") == [2]
    assert len(qdrant.collections) == 2
    await asyncio.to_thread(index.save, tmp_path, "ours")
    assert len(qdrant.collections) == 1
    assert await asyncio.to_thread(numbers, index, "new") == [2]
    index.close()


@pytest.mark.parametrize("failing", ["write", "delete"])
def test_a_write_that_failed_half_way_is_counted_once_when_repeated(
    monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    index = make_lexical_index(QdrantSettings(url=":memory:", words=True, collection="citegram-test-half"))
    index.replace((), [entry(1, "cat"), entry(1, "tail", part=1), entry(2, "dog")])
    real, writes = getattr(sparse_qdrant.SparseCollection, failing), []

    def fail_once(self: object, *given: object) -> None:
        real(self, *given)
        writes.append(1)
        if len(writes) == 1:
            raise QdrantGone("half way")

    monkeypatch.setattr(sparse_qdrant.SparseCollection, failing, fail_once)
    keys, entries = [PostKey(-1, 1), PostKey(-1, 3)], [entry(1, "fox"), entry(3, "dog"), entry(3, "owl", part=1)]
    with pytest.raises(QdrantGone):
        index.replace(keys, entries)
    index.replace(keys, entries)
    assert len(index) == 4
    words = "cat", "tail", "dog", "fox", "owl"
    assert [frequency(index, word) for word in words] == [0, 0, 2, 1, 1]
    index.replace(keys, [])
    assert [len(index), *(frequency(index, word) for word in words)] == [1, 0, 0, 1, 0, 0]
    index.close()


@pytest.mark.parametrize("way", ["adopted", "removed"])
def test_what_failed_half_way_is_forgotten_with_its_counts(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    index = make_lexical_index(QdrantSettings(url=":memory:", words=True, collection=f"citegram-test-{way}"))
    index.replace((), [entry(1, "cat")])
    with monkeypatch.context() as failing:
        failing.setattr(sparse_qdrant.SparseCollection, "delete", _raise_half_way)
        with pytest.raises(QdrantGone):
            index.replace([PostKey(-1, 1)], [entry(1, "fox")])
    if way == "removed":
        index.remove_channel(-1)
        index.replace([PostKey(-1, 1)], [entry(1, "owl")])
    else:
        beside = index.make_empty()
        beside.replace((), [entry(1, "owl")])
        index.adopt(beside)
        index.replace([PostKey(-1, 1)], [entry(1, "owl")])
    assert [len(index), *(frequency(index, word) for word in ("cat", "fox", "owl"))] == [1, 0, 0, 1]
    index.close()


def _raise_half_way(*_: object) -> None:
    raise QdrantGone("half way")


async def test_a_server_that_is_gone_at_the_start_is_used_when_it_is_there(qdrant: FakeQdrant) -> None:
    await qdrant.stop()
    index = await asyncio.to_thread(make_lexical_index, served(qdrant))
    with pytest.raises(QdrantGone, match="does not answer"):
        index.search(["cat"], ALL)
    await qdrant.start()
    for _ in range(200):
        try:
            await asyncio.to_thread(index.replace, (), [entry(1, "cat")])
            break
        except QdrantGone:
            await asyncio.sleep(0.05)
    assert await asyncio.to_thread(numbers, index, "cat") == [1]
    index.close()
