import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from rag_core.errors import IndexUnavailable
from rag_core.index.lexical_index import IndexEntry, LexicalIndex
from rag_core.types import PassageRef, PostKey, SearchFilter

pytestmark = pytest.mark.slow

DAY = datetime(2025, 3, 1, tzinfo=UTC)
ALL = SearchFilter(frozenset({-1, -2}))


def entry(number, *terms, chat=-1, date=DAY, part=0):
    return IndexEntry(PassageRef(PostKey(chat, number), part, 0, 10), date, terms)


@pytest.fixture
def index():
    return LexicalIndex()


def numbers(index, *terms, only=ALL):
    return [place.key.message_id for place, _ in index.search(terms, only)]


@contextmanager
def repeated_in_threads(read):
    """Call `read` again and again in two threads meanwhile; what it raises is raised at the end."""
    stop = threading.Event()

    def repeat():
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


def test_the_revision_grows_with_all_that_changes_what_is_found(tmp_path):
    index, seen = LexicalIndex(), []
    changes = [
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


def versioned(turn, parts):
    """Version `turn` of post 7: so many passages, each of which starts where the version says."""
    return [
        IndexEntry(PassageRef(PostKey(-1, 7), part, turn, turn + 1), DAY, ["cat", f"v{turn}"]) for part in range(parts)
    ]


def test_a_search_finds_the_old_version_or_the_new_one_never_both_and_never_none():
    index = LexicalIndex()
    index.replace((), [entry(n, "dog") for n in range(100, 300)])
    index.replace((), versioned(0, 2))

    def read():
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


def shelf(*chats, turn):
    """An index of many posts of channels in this order."""
    index = LexicalIndex()
    for chat in chats:
        index.replace(
            (), [IndexEntry(PassageRef(PostKey(chat, n), 0, turn, turn + 1), DAY, ["cat"]) for n in range(50)]
        )
    index.watermark = turn
    return index


def test_an_index_that_is_exchanged_in_a_search_shows_nobody_another_channel():
    """Channels have other numbers in the other index: a search that mixed the two would show a closed channel."""
    index, allowed = shelf(-1, -2, turn=0), SearchFilter(frozenset({-1}))

    def read():
        places = [place for place, _ in index.search(["cat"], allowed, 1000)] + index.matching(["cat"], allowed)
        assert [place.key.chat_id for place in places] == [-1] * 100

    with repeated_in_threads(read):
        for turn in range(1, 100):
            index.adopt(shelf(*((-2, -1) if turn % 2 else (-1, -2)), turn=turn))
    assert index.watermark == 99
    index.replace([PostKey(-1, 5)], [entry(5, "dog")])
    assert numbers(index, "dog") == [5]


def test_a_disk_that_is_full_leaves_the_saved_index_and_no_half_one(tmp_path):
    index = LexicalIndex()
    index.replace((), [entry(n, "cat", f"w{n}") for n in range(3000)])
    index.save(tmp_path)
    index.replace((), [entry(n, "dog", f"w{n}") for n in range(3000, 6000)])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))  # as much as a full disk would take
    try:
        with pytest.raises(IndexUnavailable, match=r"cannot be written to disk \(.*\): free some space, or"):
            index.save(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    loaded = LexicalIndex.load(tmp_path)
    assert loaded is not None
    assert len(loaded) == 3000
    assert len([p for p in tmp_path.iterdir() if p.is_dir()]) == 1


def test_words_that_no_post_has_any_more_leave_the_dictionary_and_change_no_score(tmp_path):
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


def test_since_is_inclusive_and_until_exclusive(index):
    index.replace((), [entry(day, "cat", date=DAY.replace(day=day)) for day in (1, 2, 3, 4)])
    found = SearchFilter(frozenset({-1}), DAY.replace(day=2), DAY.replace(day=4))
    assert sorted(numbers(index, "cat", only=found)) == [2, 3]
    assert [p.key.message_id for p in index.all_of(found)] == [2, 3]


def test_weights_are_greatest_for_what_was_never_seen_and_a_score_grows_with_rarity(index):
    index.replace((), [entry(n, "cat", *(["owl"] if n < 3 else [])) for n in range(100)])
    of = index.statistics(ALL.channels)
    assert 0 < of.weight("cat") < of.weight("owl") < of.weight("never")
    assert (of.frequency("owl"), of.frequency("never")) == (3, 0)
    assert of.score(["owl"], ["owl", "x"]) > of.score(["cat"], ["cat", "x"]) > 0
    assert of.score(["owl"], ["x"]) == 0


def test_a_channel_outside_the_filter_changes_no_score_and_no_statistic(index):
    texts = {n: ["cat", f"w{n % 3}", *(["owl"] * (n % 4))] for n in range(30)}
    index.replace((), [entry(n, *words) for n, words in texts.items()])
    mine = frozenset({-1})

    def seen():
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
