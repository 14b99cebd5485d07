from __future__ import annotations

import resource
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rag_core.errors import IndexUnavailable
from rag_core.index.lexical_index import IndexEntry, LexicalIndex
from rag_core.types import PassageRef, PostKey, SearchFilter

pytestmark = pytest.mark.slow

DAY = datetime(2025, 3, 1, tzinfo=UTC)
ALL = SearchFilter(frozenset({-1, -2}))


def entry(number: int, *terms: str, chat: int = -1, date: datetime = DAY) -> IndexEntry:
    return IndexEntry(PassageRef(PostKey(chat, number), 0, 0, 10), date, terms)


def numbers(index: LexicalIndex, *terms: str, only: SearchFilter = ALL) -> list[int]:
    return [place.key.message_id for place, _ in index.search(terms, only)]


@contextmanager
def repeated_in_threads(read: Callable[[], None]) -> Iterator[None]:
    """Call `read` again and again in two threads meanwhile; what it raises is raised at the end."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.is_set():
            read()

    with ThreadPoolExecutor() as threads:
        readers = [threads.submit(repeat) for _ in range(2)]
        try:
            yield
        finally:
            stop.set()
        for reader in readers:
            reader.result()


def test_the_revision_grows_with_all_that_changes_what_is_found(tmp_path: Path) -> None:
    index, seen = LexicalIndex(), list[int]()
    changes: list[Callable[[], object]] = [
        lambda: index.replace((), [entry(n, "cat", chat=-1 - n % 2) for n in range(6)]),
        lambda: index.replace([PostKey(-1, 2)], [entry(2, "dog")]),
        lambda: index.replace([PostKey(-1, 0)], ()),
        lambda: index.remove_channel(-2),
        lambda: index.compact(),
        lambda: index.adopt(LexicalIndex()),
        lambda: index.adopt(LexicalIndex()),
    ]
    for change in changes:
        seen.append(index.revision)
        change()
        assert index.revision > seen[-1], seen
    before = index.revision
    index.search(["cat"], ALL)
    index.save(tmp_path)
    index.compact()
    assert index.revision == before


def test_saving_and_loading_keeps_everything(tmp_path: Path) -> None:
    index = LexicalIndex()
    index.replace((), [entry(n, "кот", f"w{n}", chat=-1 - n % 2) for n in range(50)])
    index.watermark = 77
    before = index.search(["кот", "w3"], ALL)
    index.save(tmp_path)
    loaded = LexicalIndex.load(tmp_path)
    assert loaded is not None
    assert (loaded.watermark, len(loaded)) == (77, 50)
    assert [p for p, _ in loaded.search(["кот", "w3"], ALL)] == [p for p, _ in before]
    loaded.replace((), [entry(99, "кот", "fresh")])
    assert numbers(loaded, "fresh") == [99]


def test_a_second_save_leaves_one_index_on_disk(tmp_path: Path) -> None:
    index = LexicalIndex()
    for n in range(3):
        index.replace((), [entry(n, "cat")])
        index.save(tmp_path)
    assert len([p for p in tmp_path.iterdir() if p.is_dir()]) == 1


def test_readers_see_whole_answers_while_a_writer_adds_and_compacts() -> None:
    index = LexicalIndex()
    index.replace((), [entry(0, "cat")])

    def read() -> None:
        # every post that was there is either whole or gone; its date column says which number it has
        for place, _ in index.search(["cat"], ALL, n=10_000):
            assert (place.key.message_id >= 0, place.end) == (True, 10)

    with repeated_in_threads(read):
        for n in range(1, 200):
            index.replace((), [entry(n * 10 + k, "cat", f"w{k}") for k in range(10)])
            index.replace([PostKey(-1, n * 10)], ())
            if n % 50 == 0:
                index.compact()
    assert len(numbers(index, "w1")) == 50
    assert len(index) == 1 + 199 * 9


def versioned(turn: int, parts: int) -> list[IndexEntry]:
    """Version `turn` of post 7: so many passages, each of which starts where the version says."""
    return [
        IndexEntry(PassageRef(PostKey(-1, 7), part, turn, turn + 1), DAY, ["cat", f"v{turn}"]) for part in range(parts)
    ]


def test_a_search_finds_the_old_version_or_the_new_one_never_both_and_never_none() -> None:
    index = LexicalIndex()
    index.replace((), [entry(n, "dog") for n in range(100, 300)])
    index.replace((), versioned(0, 2))

    def read() -> None:
        found = [place for place, _ in index.search(["cat"], ALL)]
        (turn,) = {place.start for place in found}
        assert len(found) == 2 + turn % 2
        assert index.known("cat", ALL)
        assert len(index.matching(["cat"], ALL)) in (2, 3)

    with repeated_in_threads(read):
        for turn in range(1, 500):
            index.replace([PostKey(-1, 7)], versioned(turn, 2 + turn % 2))
            if turn % 100 == 0:
                index.compact()
    assert len(index) == 203


def test_replacing_counts_what_went_and_leaves_the_statistics_after_compacting() -> None:
    index, expected = LexicalIndex(), LexicalIndex()
    index.replace((), [entry(n, "cat", f"w{n}") for n in range(20)])
    index.replace([PostKey(-1, 3), PostKey(-1, 4), PostKey(-2, 3)], [entry(3, "dog"), entry(40, "cat")])
    index.replace([PostKey(-1, 5)], [])
    expected.replace((), [entry(n, "cat", f"w{n}") for n in range(20) if n not in (3, 4, 5)])
    expected.replace((), [entry(3, "dog"), entry(40, "cat")])
    index.compact()
    for query in (["cat"], ["dog"], ["cat", "w7"]):
        assert index.search(query, ALL) == expected.search(query, ALL)


def shelf(*chats: int, turn: int) -> LexicalIndex:
    """An index of many posts of channels in this order."""
    index = LexicalIndex()
    for chat in chats:
        index.replace(
            (), [IndexEntry(PassageRef(PostKey(chat, n), 0, turn, turn + 1), DAY, ["cat"]) for n in range(50)]
        )
    index.watermark = turn
    return index


def test_an_index_that_is_exchanged_while_it_is_searched_shows_nobody_another_channel() -> None:
    """Channels have other numbers in the other index: a search that mixed the two would show a closed channel."""
    index, allowed = shelf(-1, -2, turn=0), SearchFilter(frozenset({-1}))

    def read() -> None:
        places = [place for place, _ in index.search(["cat"], allowed, 1000)] + index.matching(["cat"], allowed)
        assert [place.key.chat_id for place in places] == [-1] * 100

    with repeated_in_threads(read):
        for turn in range(1, 100):
            index.adopt(shelf(*((-2, -1) if turn % 2 else (-1, -2)), turn=turn))
    assert index.watermark == 99
    index.replace([PostKey(-1, 5)], [entry(5, "dog")])
    assert numbers(index, "dog") == [5]


def test_a_disk_that_is_full_leaves_the_saved_index_and_no_half_one(tmp_path: Path) -> None:
    index = LexicalIndex()
    index.replace((), [entry(n, "cat", f"w{n}") for n in range(3000)])
    index.save(tmp_path)
    index.replace((), [entry(n, "dog", f"w{n}") for n in range(3000, 6000)])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))  # as much as a full disk would take
    try:
        with pytest.raises(IndexUnavailable, match=r"cannot be written to disk \(.*\): free some space\."):
            index.save(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    loaded = LexicalIndex.load(tmp_path)
    assert loaded is not None
    assert len(loaded) == 3000
    assert len([p for p in tmp_path.iterdir() if p.is_dir()]) == 1


def test_words_that_no_post_has_any_more_leave_the_dictionary_and_change_no_score(tmp_path: Path) -> None:
    index, expected = LexicalIndex(), LexicalIndex()
    index.replace((), [entry(n, "cat", f"old{n}") for n in range(50)])
    for n in range(50):
        index.replace([PostKey(-1, n)], [entry(n, f"new{n}", "cat")])
    expected.replace((), [entry(n, f"new{n}", "cat") for n in range(50)])
    assert len(index.list_vocabulary()) == 101
    index.save(tmp_path)
    loaded = LexicalIndex.load(tmp_path)
    assert loaded
    for one in (index, loaded):
        assert sorted(one.list_vocabulary()) == sorted(expected.list_vocabulary())
        for query in (["cat"], ["new7", "cat"], ["old7"]):
            assert one.search(query, ALL) == expected.search(query, ALL)
        assert not one.known("old7", ALL)
    index.remove_channel(-1)
    index.compact()
    assert index.list_vocabulary() == []
    index.replace((), [entry(1, "cat", "new1")])
    assert numbers(index, "new1") == [1]
