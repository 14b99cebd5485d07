"""The one rebuild: what is found meanwhile, how it is refused, cancelled, killed and gone on with, how it fails."""

import asyncio
import shutil
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from driver import hold_rebuild, index_posts

from bot.indexing import IndexingWorker, RebuildRunner
from ingest.indexer import LexicalIndexer
from ingest.rebuild import get_next_index_folder
from rag_core import RagSettings, open_engine
from rag_core.engine import load_or_make_lexical_index
from rag_core.errors import ArchiveUnavailable, RebuildRefused
from rag_core.index.lexical_index import get_lexical_folder
from rag_core.storage import channels, posts
from rag_core.text.tokens import tokenize
from rag_core.types import Channel, Post, PostKey, SearchFilter

PIER, KILN = -1001, -1002
BOATS = 300
ALL = SearchFilter(frozenset({PIER, KILN}))


def post(number, text, chat=PIER, **fields):
    return Post(PostKey(chat, number), datetime(2025, 3, 1, tzinfo=UTC) + timedelta(minutes=number), text, **fields)


async def fill(folder):
    async with open_engine(RagSettings.model_validate({"data": {"dir": folder}})) as rag:
        kept = [*(post(n, f"Boat number {n}.") for n in range(1, BOATS)), post(1, "Glazes.", KILN)]
        await index_posts(rag, kept, [Channel(PIER, "The pier", "the_pier"), Channel(KILN, "Печь")])


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled")
    asyncio.run(fill(folder))
    return folder


class Bot:
    """What of the bot matters here."""

    def __init__(self, rag):
        self.rag = rag
        self.indexer = LexicalIndexer(rag.archive, rag.lexical)
        self.reindexing = RebuildRunner(rag.archive, self.indexer)

    def found(self, words):
        places = self.rag.lexical.matching(tokenize(words), ALL)
        return sorted(place.key.message_id for place in places)

    async def keep(self, *new):
        await posts.save_posts(self.rag.archive, new, source="live")
        await self.indexer.catch_up()

    async def ended(self):
        return [state async for state in self.reindexing.states()][-1]

    async def state(self):
        ((state,),) = await self.rag.archive.rows("SELECT state FROM rebuilds ORDER BY id DESC LIMIT 1")
        return str(state)


@pytest.fixture
async def bot(filled, tmp_path):
    folder = shutil.copytree(filled, tmp_path / "data")
    async with open_engine(RagSettings.model_validate({"data": {"dir": folder}})) as rag:
        bot = Bot(rag)
        yield bot
        await bot.reindexing.stop()


async def test_an_end_that_comes_while_an_earlier_state_is_shown_is_shown_as_well(bot):
    await bot.reindexing.start()
    states = []
    async for rebuild in bot.reindexing.states():
        states.append(rebuild.state)
        assert bot.reindexing._task is not None
        await asyncio.wait({bot.reindexing._task})
    assert states == ["running", "done"]


async def test_posts_that_come_meanwhile_are_found_before_and_after(bot):
    old, missed, stop = bot.rag.lexical._now, [], threading.Event()

    def ask():
        while not stop.is_set():
            missed.extend({77} - {place.key.message_id for place, _ in bot.rag.lexical.search(["77"], ALL)})
            time.sleep(0.001)

    asking = threading.Thread(target=ask)
    asking.start()
    with hold_rebuild(bot.rag.archive.folder):
        await bot.reindexing.start()
        await bot.keep(
            post(20_000, "A zeppelin."), post(5, "Boat number 5 sank.", edited=datetime(2026, 1, 1, tzinfo=UTC))
        )
        assert (bot.found("zeppelin"), bot.found("sank")) == ([20_000], [5])
    ended = await bot.ended()
    stop.set()
    asking.join()
    assert (ended.state, ended.done, ended.total) == ("done", BOATS + 1, BOATS + 1)
    assert bot.rag.lexical._now is not old
    assert (bot.found("zeppelin"), bot.found("sank"), bot.found("glazes")) == ([20_000], [5], [1])
    assert missed == []
    assert len(bot.rag.lexical) == await posts.count_posts(bot.rag.archive)
    assert bot.rag.lexical.watermark == await posts.get_last_seq(bot.rag.archive)
    assert not get_next_index_folder(bot.rag.archive.folder).exists()
    assert await bot.state() == "done"
    saved = await load_or_make_lexical_index(bot.rag.archive)
    assert saved.search(tokenize("boat number 77"), ALL) == bot.rag.lexical.search(tokenize("boat number 77"), ALL)
    await bot.keep(post(20_001, "A second zeppelin."))
    assert bot.found("zeppelin") == [20_000, 20_001]


async def test_a_second_start_is_refused_and_a_cancelled_one_leaves_the_old_index(bot):
    old, before = bot.rag.lexical._now, (get_lexical_folder(bot.rag.archive.folder) / "current.json").read_text()
    with hold_rebuild(bot.rag.archive.folder):
        rebuild = await bot.reindexing.start()
        for chat_id in (None, KILN):
            with pytest.raises(RebuildRefused, match=r"^An index is being rebuilt already: .*\.$"):
                await bot.reindexing.start(chat_id)
        both = await asyncio.gather(bot.reindexing.start(), bot.reindexing.start(), return_exceptions=True)
        assert all(isinstance(one, RebuildRefused) for one in both)
        assert bot.reindexing.current == rebuild
        assert not await bot.reindexing.cancel(rebuild.id + 1)  # the button of another rebuild
        assert await bot.reindexing.cancel(rebuild.id)
    assert bot.rag.lexical._now is old
    assert (get_lexical_folder(bot.rag.archive.folder) / "current.json").read_text() == before
    assert not get_next_index_folder(bot.rag.archive.folder).exists()
    assert await bot.state() == "cancelled"
    with pytest.raises(RebuildRefused, match="cancelled: the old index is in use"):
        assert [pair async for pair in bot.reindexing.progress()]
    assert not await bot.reindexing.cancel()
    await bot.reindexing.start()
    assert (await bot.ended()).state == "done"


async def test_a_removed_channel_is_not_deleted_for_good_while_a_rebuild_may_have_read_it(bot):
    """The new index could keep what it read, if the rows that say it is gone were gone too."""
    indexing = asyncio.create_task(IndexingWorker(bot.rag.archive, bot.indexer, every=0.02).run())
    with hold_rebuild(bot.rag.archive.folder):
        await bot.reindexing.start()
        await channels.remove_channel(bot.rag.archive, KILN)
        await asyncio.sleep(0.5)
        assert bot.found("glazes") == []
        assert await bot.rag.archive.rows("SELECT * FROM posts WHERE chat_id = ?", (KILN,))
    assert (await bot.ended()).state == "done"
    for _ in range(500):
        await asyncio.sleep(0.02)
        if not await bot.rag.archive.rows("SELECT * FROM posts WHERE chat_id = ?", (KILN,)):
            break
    else:
        raise AssertionError("the channel was never deleted")
    indexing.cancel()
    await asyncio.gather(indexing, return_exceptions=True)
    assert bot.found("glazes") == []


async def test_who_asked_may_leave(bot):
    asking = asyncio.create_task(bot.reindexing.start())
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await bot.reindexing.wait_until_begun()
    pairs = [pair async for pair in bot.reindexing.progress()]
    assert pairs[-1] == (BOATS, BOATS)
    assert pairs == sorted(pairs)


async def test_after_an_end_that_could_not_be_kept_another_may_begin(bot, caplog):
    """A full disk ends a rebuild, and lets nobody write that it has ended."""

    async def writable(yes):
        async with bot.rag.archive._turn:
            await bot.rag.archive._writer.execute(f"PRAGMA query_only = {'OFF' if yes else 'ON'}")

    with hold_rebuild(bot.rag.archive.folder):
        await bot.reindexing.start()
        await writable(False)
        await bot.reindexing.cancel()
    assert (await bot.ended()).state == "cancelled"
    assert await bot.state() == "running"
    assert "the end of the rebuild was not kept" in caplog.text
    with pytest.raises(ArchiveUnavailable):
        await bot.reindexing.start()
    await writable(True)
    await bot.reindexing.start()
    assert (await bot.ended()).state == "done"
    states = await bot.rag.archive.rows("SELECT state FROM rebuilds ORDER BY id")
    assert [state for (state,) in states] == ["cancelled", "done"]


async def test_a_bug_is_logged_and_said_and_the_old_index_stays(bot, caplog):
    class Broken(LexicalIndexer):
        async def put_in_place(self, fresh):
            raise ZeroDivisionError

    old = bot.rag.lexical._now
    broken = RebuildRunner(bot.rag.archive, Broken(bot.rag.archive, bot.rag.lexical))
    await broken.start()
    ended = [state async for state in broken.states()][-1]
    assert (ended.state, bot.rag.lexical._now is old) == ("failed", True)
    assert "nobody planned for" in ended.reason
    assert "ZeroDivisionError" in caplog.text
