from __future__ import annotations

import resource
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rag_core.errors import IndexUnavailable
from rag_core.index.bm25 import Bm25Index, IndexEntry
from rag_core.types import PassageRef, PostKey, PostKeySet, SearchFilter

pytestmark = pytest.mark.slow

DAY = datetime(2025, 3, 1, tzinfo=UTC)
ALL = SearchFilter(frozenset({-1, -2}))


def entry(number: int, *terms: str, chat: int = -1, date: datetime = DAY) -> IndexEntry:
    return IndexEntry(PassageRef(PostKey(chat, number), 0, 0, 10), date, terms)


def numbers(index: Bm25Index, *terms: str, only: SearchFilter = ALL) -> list[int]:
    return [place.key.message_id for place, _ in index.search(terms, only)]


def test_the_filter_is_inside_the_query_not_after_the_cut() -> None:
    index = Bm25Index()
    index.add([entry(n, "cat", "cat", "cat") for n in range(100)])
    index.add([entry(7, "cat", "and", "dog", chat=-2)])
    assert [p.key for p, _ in index.search(["cat"], SearchFilter(frozenset({-2})), n=5)] == [PostKey(-2, 7)]


def test_no_channel_allowed_finds_nothing() -> None:
    index = Bm25Index()
    index.add([entry(1, "cat")])
    assert numbers(index, "cat", only=SearchFilter(frozenset())) == []


def test_since_is_inclusive_and_until_exclusive() -> None:
    index = Bm25Index()
    index.add([entry(day, "cat", date=DAY.replace(day=day)) for day in (1, 2, 3, 4)])
    found = numbers(index, "cat", only=SearchFilter(frozenset({-1}), DAY.replace(day=2), DAY.replace(day=4)))
    assert sorted(found) == [2, 3]


def test_single_posts_may_be_named_and_the_rest_of_the_filter_still_bounds_them() -> None:
    index = Bm25Index()
    index.add([entry(n, "cat", "cat", "cat") for n in range(100)])
    index.add([entry(n, "cat", "and", "dog", chat=-2, date=DAY.replace(day=1 + n)) for n in range(5)])
    keys = PostKeySet.of([PostKey(-1, 30), PostKey(-2, 1), PostKey(-2, 3), PostKey(-2, 99), PostKey(-9, 1)])
    both = frozenset({-1, -2})
    found = index.search(["cat"], SearchFilter(both, keys=keys), n=3)
    assert [tuple(place.key) for place, _ in found] == [(-1, 30), (-2, 1), (-2, 3)]
    assert numbers(index, "cat", only=SearchFilter(frozenset({-2}), keys=keys)) == [1, 3]
    assert numbers(index, "cat", only=SearchFilter(both, since=DAY.replace(day=3), keys=keys)) == [3]
    assert numbers(index, "cat", only=SearchFilter(both, keys=PostKeySet({}))) == []
    assert [place.key.message_id for place in index.all_of(SearchFilter(both, keys=keys))] == [30, 1, 3]
    assert [place.key.message_id for place in index.matching(["dog"], SearchFilter(both, keys=keys))] == [1, 3]
    assert not index.known("dog", SearchFilter(both, keys=PostKeySet.of([PostKey(-1, 30)])))


def test_the_revision_grows_with_all_that_changes_what_is_found(tmp_path: Path) -> None:
    index, seen = Bm25Index(), list[int]()
    changes: list[Callable[[], object]] = [
        lambda: index.add([entry(n, "cat", chat=-1 - n % 2) for n in range(6)]),
        lambda: index.replace([PostKey(-1, 2)], [entry(2, "dog")]),
        lambda: index.remove([PostKey(-1, 0)]),
        lambda: index.remove_channel(-2),
        lambda: index.compact(),
        lambda: index.adopt(Bm25Index()),
        lambda: index.adopt(Bm25Index()),
    ]
    for change in changes:
        seen.append(index.revision)
        change()
        assert index.revision > seen[-1], seen
    before = index.revision
    index.search(["cat"], ALL)
    index.save(tmp_path)
    assert not index.compact()
    assert index.revision == before


def test_a_removed_post_is_gone_at_once_and_after_saving(tmp_path: Path) -> None:
    index = Bm25Index()
    index.add([entry(n, "cat") for n in range(5)])
    assert index.remove([PostKey(-1, 3), PostKey(-2, 4), PostKey(-9, 1)]) == 1
    assert sorted(numbers(index, "cat")) == [0, 1, 2, 4]
    index.save(tmp_path)
    loaded = Bm25Index.load(tmp_path)
    assert loaded is not None
    assert sorted(numbers(loaded, "cat")) == [0, 1, 2, 4]


def test_saving_and_loading_keeps_everything(tmp_path: Path) -> None:
    index = Bm25Index()
    index.add([entry(n, "кот", f"w{n}", chat=-1 - n % 2) for n in range(50)])
    index.watermark = 77
    before = index.search(["кот", "w3"], ALL)
    index.save(tmp_path)
    loaded = Bm25Index.load(tmp_path)
    assert loaded is not None
    assert (loaded.watermark, len(loaded)) == (77, 50)
    assert [p for p, _ in loaded.search(["кот", "w3"], ALL)] == [p for p, _ in before]
    loaded.add([entry(99, "кот", "fresh")])
    assert numbers(loaded, "fresh") == [99]


@pytest.mark.parametrize("harm", ["truncate", "garbage", "vocabulary", "manifest", "missing"])
def test_a_damaged_index_is_no_index(tmp_path: Path, harm: str) -> None:
    index = Bm25Index()
    index.add([entry(n, "cat", f"w{n}") for n in range(200)])
    index.save(tmp_path)
    (folder,) = (p for p in tmp_path.iterdir() if p.is_dir())
    if harm == "truncate":
        data = (folder / "postings.npz").read_bytes()
        (folder / "postings.npz").write_bytes(data[: len(data) // 2])
    elif harm == "garbage":
        (folder / "postings.npz").write_bytes(b"PK" + b"\0" * 1000)
    elif harm == "vocabulary":
        (folder / "vocabulary.txt").write_text("cat", encoding="utf-8")
    elif harm == "manifest":
        (tmp_path / "current.json").write_text('{"format": 1', encoding="utf-8")
    else:
        (folder / "postings.npz").unlink()
    assert Bm25Index.load(tmp_path) is None


def test_a_second_save_leaves_one_index_on_disk(tmp_path: Path) -> None:
    index = Bm25Index()
    for n in range(3):
        index.add([entry(n, "cat")])
        index.save(tmp_path)
    assert len([p for p in tmp_path.iterdir() if p.is_dir()]) == 1


def test_readers_see_whole_answers_while_a_writer_adds_and_compacts() -> None:
    index = Bm25Index()
    index.add([entry(0, "cat")])
    wrong: list[object] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                found = index.search(["cat"], ALL, n=10_000)
            except Exception as exc:
                wrong.append(exc)
                return
            # every post that was there is either whole or gone; its date column says which number it has
            if any(place.key.message_id < 0 or place.end != 10 for place, _ in found):
                wrong.append(found)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for n in range(1, 400):
        index.add([entry(n * 10 + k, "cat", f"w{k}") for k in range(10)])
        index.remove([PostKey(-1, n * 10)])
        if n % 50 == 0:
            index.compact()
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong
    assert len(numbers(index, "w1")) == 50
    assert len(index) == 1 + 399 * 9


def versioned(turn: int, parts: int) -> list[IndexEntry]:
    """Version `turn` of post 7: so many passages, each of which starts where the version says."""
    return [
        IndexEntry(PassageRef(PostKey(-1, 7), part, turn, turn + 1), DAY, ["cat", f"v{turn}"]) for part in range(parts)
    ]


def test_a_search_finds_the_old_version_or_the_new_one_never_both_and_never_none() -> None:
    index = Bm25Index()
    index.add([entry(n, "dog") for n in range(100, 300)])
    index.add(versioned(0, 2))
    wrong: list[object] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            found = [place for place, _ in index.search(["cat"], ALL)]
            turns = {place.start for place in found}
            if len(turns) != 1 or len(found) != 2 + turns.pop() % 2 or not index.known("cat", ALL):
                wrong.append(found)
            if len(index.matching(["cat"], ALL)) not in (2, 3):
                wrong.append("matching")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for turn in range(1, 1500):
        index.replace([PostKey(-1, 7)], versioned(turn, 2 + turn % 2))
        if turn % 100 == 0:
            index.compact()
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert len(index) == 203


def test_replacing_counts_what_went_and_leaves_the_statistics_after_compacting() -> None:
    index, expected = Bm25Index(), Bm25Index()
    index.add([entry(n, "cat", f"w{n}") for n in range(20)])
    assert index.replace([PostKey(-1, 3), PostKey(-1, 4), PostKey(-2, 3)], [entry(3, "dog"), entry(40, "cat")]) == 2
    assert index.replace([PostKey(-1, 5)], []) == 1
    expected.add([entry(n, "cat", f"w{n}") for n in range(20) if n not in (3, 4, 5)])
    expected.add([entry(3, "dog"), entry(40, "cat")])
    index.compact()
    for query in (["cat"], ["dog"], ["cat", "w7"]):
        assert index.search(query, ALL) == expected.search(query, ALL)


def test_a_channel_goes_at_once_and_no_other_with_it() -> None:
    index = Bm25Index()
    index.add([entry(n, "cat", chat=chat) for chat in (-1, -2) for n in (1, 2)])
    index.remove_channel(-1)
    index.remove_channel(-9)
    assert [p.key for p, _ in index.search(["cat"], ALL)] == [PostKey(-2, 1), PostKey(-2, 2)]
    assert [part.tolist() for part in index.parts_of(-2)] == [[1, 2], [0, 0]]
    assert [part.tolist() for part in index.parts_of(-1)] == [[], []]


def shelf(*chats: int, turn: int) -> Bm25Index:
    """An index of many posts of channels in this order."""
    index = Bm25Index()
    for chat in chats:
        index.add([IndexEntry(PassageRef(PostKey(chat, n), 0, turn, turn + 1), DAY, ["cat"]) for n in range(200)])
    index.watermark = turn
    return index


def test_an_index_that_is_exchanged_while_it_is_searched_shows_nobody_another_channel() -> None:
    """Channels have other numbers in the other index: a search that mixed the two would show a closed channel."""
    index = shelf(-1, -2, turn=0)
    wrong: list[object] = []
    stop, allowed = threading.Event(), SearchFilter(frozenset({-1}))

    def read() -> None:
        while not stop.is_set():
            places = [place for place, _ in index.search(["cat"], allowed, 1000)] + index.matching(["cat"], allowed)
            if len(places) != 400 or {place.key.chat_id for place in places} != {-1}:
                wrong.append(places)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for turn in range(1, 300):
        index.adopt(shelf(*((-2, -1) if turn % 2 else (-1, -2)), turn=turn))
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert index.watermark == 299
    index.replace([PostKey(-1, 5)], [entry(5, "dog")])
    assert numbers(index, "dog") == [5]


def test_a_disk_that_is_full_leaves_the_saved_index_and_no_half_one(tmp_path: Path) -> None:
    index = Bm25Index()
    index.add([entry(n, "cat", f"w{n}") for n in range(3000)])
    index.save(tmp_path)
    index.add([entry(n, "dog", f"w{n}") for n in range(3000, 6000)])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))  # as much as a full disk would take
    try:
        with pytest.raises(IndexUnavailable, match=r"cannot be written to disk \(.*\): free some space\."):
            index.save(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    loaded = Bm25Index.load(tmp_path)
    assert loaded is not None
    assert len(loaded) == 3000
    assert len([p for p in tmp_path.iterdir() if p.is_dir()]) == 1


def test_a_term_nobody_uses_weighs_most_and_none_weighs_nothing() -> None:
    index = Bm25Index()
    index.add([entry(n, "cat", f"w{n}") for n in range(10)])
    of = index.statistics(frozenset({-1}))
    assert of.weight("unseen") > of.weight("w1") > of.weight("cat") > 0


def test_words_that_no_post_has_any_more_leave_the_dictionary_and_change_no_score(tmp_path: Path) -> None:
    index, expected = Bm25Index(), Bm25Index()
    index.add([entry(n, "cat", f"old{n}") for n in range(50)])
    for n in range(50):
        index.replace([PostKey(-1, n)], [entry(n, f"new{n}", "cat")])
    expected.add([entry(n, f"new{n}", "cat") for n in range(50)])
    assert len(index.list_vocabulary()) == 101
    index.save(tmp_path)
    loaded = Bm25Index.load(tmp_path)
    assert loaded
    for one in (index, loaded):
        assert sorted(one.list_vocabulary()) == sorted(expected.list_vocabulary())
        for query in (["cat"], ["new7", "cat"], ["old7"]):
            assert one.search(query, ALL) == expected.search(query, ALL)
        assert not one.known("old7", ALL)
    index.remove_channel(-1)
    index.compact()
    assert index.list_vocabulary() == []
    index.add([entry(1, "cat", "new1")])
    assert numbers(index, "new1") == [1]
