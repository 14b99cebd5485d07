"""The child that builds an index anew: what it builds, and how it ends."""

import asyncio
import os
import resource
import shutil
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import isclose
from pathlib import Path

import pytest

from ingest.indexer import LexicalIndexer
from ingest.rebuild import build_next_index, get_next_index_folder, load_next_index
from rag_core import RagSettings, open_engine
from rag_core.errors import IndexUnavailable, RebuildRefused
from rag_core.index.lexical_index import LexicalIndex, get_lexical_folder
from rag_core.storage import channels, index_state, posts
from rag_core.text.tokens import tokenize
from rag_core.types import Channel, Post, PostKey, SearchFilter

pytestmark = pytest.mark.slow

PIER, KILN = -1001, -1002
BOATS, FIRINGS = 4000, 500  # three batches
ALL = SearchFilter(frozenset({PIER, KILN}))
QUERIES = ("boat", "number 7", "обжиг глина", "pier kiln", "late", "answer 12")


def post(number, text, chat=PIER, **fields):
    date = datetime(2025, 3, 1, tzinfo=UTC) + timedelta(minutes=number)
    return Post(PostKey(chat, number), date, text, **fields)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Two channels with edits, deletions, replies and albums, and their index."""
    folder = tmp_path_factory.mktemp("filled")

    async def fill():
        async with open_engine(RagSettings.model_validate({"data": {"dir": folder}})) as rag:
            await channels.save_channel(rag.archive, Channel(PIER, "The pier"))
            await channels.save_channel(rag.archive, Channel(KILN, "Печь"))
            boats = [post(n, f"Boat number {n}.") for n in range(1, BOATS)]
            firings = [post(n, f"Обжиг {n}, глина.", KILN, album=f"a{n // 3}") for n in range(1, FIRINGS)]
            await posts.save_posts(rag.archive, boats + firings, source="import")
            indexer = LexicalIndexer(rag.archive, rag.lexical)
            await indexer.catch_up()
            edited = [replace(p, text=f"{p.text} Late.", edited=p.date + timedelta(days=9)) for p in boats[::50]]
            replies = [post(9000 + n, f"Answer {n}", reply_to=n * 7) for n in range(1, 40)]
            await posts.save_posts(rag.archive, edited + replies, source="live")
            await posts.mark_posts_deleted(rag.archive, [PostKey(PIER, n) for n in range(3, 900, 40)], how="test")
            await indexer.catch_up()
            await indexer.save()

    asyncio.run(fill())
    return folder


@pytest.fixture
async def rag(filled, tmp_path):
    folder = shutil.copytree(filled, tmp_path / "data")
    async with open_engine(RagSettings.model_validate({"data": {"dir": folder}})) as rag:
        yield rag


class Told:
    """What the child says; it is made to wait after `hold` lines, until `go`."""

    def __init__(self, hold=10**6):
        self.done = []
        self.renewed = 0
        self.hold, self.held, self.go = hold, asyncio.Event(), asyncio.Event()

    async def __call__(self, done, total, renewed):
        self.done.append(done)
        self.renewed = renewed
        assert done <= total
        if len(self.done) == self.hold:
            self.held.set()
            await self.go.wait()


async def begun(rag, chat_id=None):
    rebuild = await index_state.begin_rebuild(rag.archive, chat_id)
    assert rebuild is not None
    return rebuild


def found(lexical):
    """What is found, without regard to the order of equal scores."""
    return {words: dict(lexical.search(tokenize(words), ALL, 10_000)) for words in QUERIES}


def find_the_same(built, expected):
    """Whether the same is found with the same scores, but for the last digits of a float."""
    return all(
        places.keys() == others.keys() and all(isclose(score, others[place]) for place, score in places.items())
        for places, others in zip(found(built).values(), found(expected).values(), strict=True)
    )


async def fresh(rag):
    lexical = LexicalIndex()
    await LexicalIndexer(rag.archive, lexical).catch_up(save=False)
    lexical.compact()
    return lexical


def children():
    """The processes that build an index and that this one started."""
    ours = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
    pids = [int(pid) for pid in Path(ours).read_text().split()]
    return [pid for pid in pids if "ingest.rebuild" in Path(f"/proc/{pid}/cmdline").read_text()]


async def test_a_rebuilt_index_finds_what_a_fresh_one_finds_with_the_same_scores(rag):
    rebuild, told = await begun(rag), Told(hold=2)
    building = asyncio.create_task(build_next_index(rag.archive, None, rebuild, told))
    await told.held.wait()
    sunk = post(1, "Boat number 1 sank.", edited=datetime(2026, 1, 1, tzinfo=UTC))
    await posts.save_posts(rag.archive, [sunk, post(20_000, "A zeppelin.")], source="live")
    await posts.mark_posts_deleted(rag.archive, [PostKey(PIER, 2)], how="test")
    told.go.set()
    await building
    built, expected = await load_next_index(rag.archive, rebuild), await fresh(rag)
    assert built.watermark == expected.watermark == await posts.get_last_seq(rag.archive)
    assert [p.key.message_id for p in built.matching(tokenize("sank"), ALL)] == [1]
    assert [p.key.message_id for p in built.matching(tokenize("zeppelin"), ALL)] == [20_000]
    assert PostKey(PIER, 2) not in {place.key for place in built.matching(tokenize("boat"), ALL)}
    assert find_the_same(built, expected)
    assert told.done[0] == 0
    assert told.done[-1] == await posts.count_posts(rag.archive) + 1  # with the one that was read and then erased


async def test_a_rebuilt_channel_is_read_anew_and_the_others_are_left_as_they_are(rag):
    rag.lexical.replace([PostKey(PIER, 7), PostKey(KILN, 300)], ())
    await save(rag)
    await channels.save_channel(rag.archive, Channel(KILN, "Zeppelin"))
    await channels.save_channel(rag.archive, Channel(PIER, "Zeppelin"))
    rebuild = await begun(rag, KILN)
    await build_next_index(rag.archive, None, rebuild, Told())
    built = await load_next_index(rag.archive, rebuild)
    titled = {place.key.chat_id for place, _ in built.search(["zeppelin"], ALL, 10_000)}
    assert titled == {KILN}
    assert PostKey(PIER, 7) not in {place.key for place in built.matching(tokenize("boat"), ALL)}
    assert len(built.matching(tokenize("обжиг"), ALL)) == (FIRINGS - 1) // 3 + 1


async def save(rag):
    await asyncio.to_thread(rag.lexical.save, get_lexical_folder(rag.archive.folder), rag.archive.identity)


async def test_a_killed_child_is_said_in_one_sentence_and_a_cancelled_one_ends(rag):
    rebuild, told = await begun(rag), Told(hold=2)
    building = asyncio.create_task(build_next_index(rag.archive, None, rebuild, told))
    await told.held.wait()
    (child,) = children()
    os.kill(child, signal.SIGKILL)
    told.go.set()
    with pytest.raises(RebuildRefused, match=r"ended \(killed by signal 9\)\. Check that memory is free"):
        await building
    assert (get_next_index_folder(rag.archive.folder) / "rebuild.log").exists()
    again = Told(hold=2)
    building = asyncio.create_task(build_next_index(rag.archive, None, rebuild, again))
    await again.held.wait()
    building.cancel()
    await asyncio.gather(building, return_exceptions=True)
    assert children() == []


async def test_a_disk_that_is_full_is_said_by_the_child_in_one_sentence(rag):
    rebuild, told = await begun(rag), Told(hold=1)
    building = asyncio.create_task(build_next_index(rag.archive, None, rebuild, told))
    await told.held.wait()
    (child,) = children()
    resource.prlimit(child, resource.RLIMIT_FSIZE, (20_000, 20_000))  # as much as a full disk would take
    told.go.set()
    with pytest.raises(IndexUnavailable, match=r"The index cannot be written to disk \(.*\): free some space, or"):
        await building
    folder = get_next_index_folder(rag.archive.folder)
    assert not [path for path in folder.iterdir() if path.is_dir()]  # half an index only takes room


async def test_a_folder_that_cannot_be_used_is_said_in_one_sentence(rag):
    rebuild = await begun(rag)
    with pytest.raises(RebuildRefused, match=r"cannot be read back from .*lexical\.next\. Check the disk"):
        await load_next_index(rag.archive, rebuild)
    get_next_index_folder(rag.archive.folder).write_text("in the way")
    with pytest.raises(IndexUnavailable, match="cannot be written to disk"):
        await build_next_index(rag.archive, None, rebuild, Told())
