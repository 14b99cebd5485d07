import asyncio
from contextlib import suppress

import pytest
from driver import HARBOUR, OTTO, say

from bot.indexing import IndexingWorker
from ingest.indexer import LexicalIndexer
from rag_core.errors import IndexUnavailable
from rag_core.index.lexical_index import LexicalIndex, get_lexical_folder
from rag_core.storage import channels, posts
from rag_core.types import Channel, SearchFilter


class Stumbling:
    """An indexer that fails as often as it is told, and then counts."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.rounds = 0
        self.worked = asyncio.Event()

    async def catch_up(self):
        if self.errors:
            raise self.errors.pop()
        self.rounds += 1
        self.worked.set()
        return 0

    async def save(self):
        raise IndexUnavailable("The disk is full.")


async def run(indexing, until):
    task = asyncio.create_task(indexing.run())
    try:
        await asyncio.wait_for(until, 30)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_failure_is_logged_and_tried_again(archive, caplog):
    indexer = Stumbling(ZeroDivisionError("a bug"), IndexUnavailable("The index is damaged."))
    await run(IndexingWorker(archive, indexer, every=0.01), indexer.worked.wait())
    assert "The index is damaged." in caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_a_post_does_not_wait_for_the_next_round(archive):
    indexer = Stumbling()
    indexing = IndexingWorker(archive, indexer, every=3600)

    async def woken():
        await indexer.worked.wait()
        indexer.worked.clear()
        indexing.wake()
        await indexer.worked.wait()

    await run(indexing, woken())
    assert indexer.rounds == 2


async def test_an_index_that_cannot_be_saved_is_said_and_ends_nothing(archive, caplog):
    indexer = Stumbling()
    await IndexingWorker(archive, indexer).save()
    assert "The disk is full." in caplog.text


async def test_a_removed_channel_leaves_the_index_and_then_the_archive(archive, make_post):
    await channels.save_channel(archive, Channel(-1001, "Gone"))
    await posts.save_posts(archive, [make_post(1, "ferry"), make_post(2, "harbour", chat=-1002)], source="test")
    lexical = LexicalIndex()
    indexer = LexicalIndexer(archive, lexical)
    await indexer.catch_up()
    await channels.remove_channel(archive, -1001)

    async def gone():
        while await channels.load_channels(archive):  # noqa: ASYNC110, nothing rings
            await asyncio.sleep(0.01)

    await run(IndexingWorker(archive, indexer, every=0.01), gone())
    assert await channels.load_channels(archive) == {}
    saved = LexicalIndex.load(get_lexical_folder(archive.folder), archive.identity)
    assert saved is not None
    for index in (lexical, saved):
        assert len(index) == 1
        assert not index.known("ferri", SearchFilter(frozenset({-1001, -1002})))


@pytest.mark.parametrize("at", ["while the index takes the removal in", "when the bot is killed"])
async def test_a_removal_of_many_posts_is_finished_whatever_comes_between(archive, make_post, monkeypatch, at):
    await channels.save_channel(archive, Channel(-1001, "Gone"))
    await posts.save_posts(archive, [make_post(n, f"ferry {n}") for n in range(1, 4)], source="test")
    mark = channels.mark_posts_deleted

    async def mark_with_interruption(archive, keys, *, how):
        first, *others = keys
        if at == "when the bot is killed":
            await mark(archive, [first], how=how)
            raise asyncio.CancelledError
        await channels.purge_removed_posts(archive, await posts.get_last_seq(archive))
        return await mark(archive, [first, *others], how=how)

    with monkeypatch.context() as patched, suppress(asyncio.CancelledError):
        patched.setattr(channels, "mark_posts_deleted", mark_with_interruption)
        await channels.remove_channel(archive, -1001)
    await posts.save_posts(archive, [make_post(1, "harbour", chat=-1002)], source="test")

    async def gone():
        while await channels.load_channels(archive):  # noqa: ASYNC110, nothing rings
            await asyncio.sleep(0.01)

    await run(IndexingWorker(archive, LexicalIndexer(archive, LexicalIndex()), every=0.01), gone())
    assert await archive.column("SELECT chat_id FROM posts") == [-1002]


async def test_a_post_and_its_edit_are_found_soon(sandbox, live_bot):
    async def is_answered(words):
        async with asyncio.timeout(30):
            while words not in (await say(sandbox, OTTO, "When does the regatta of wooden sailboats begin?"))["text"]:
                pass

    post = await sandbox.post(HARBOUR, "The regatta of wooden sailboats begins on Saturday at noon.")
    await is_answered("Saturday at noon")
    await sandbox.edit(HARBOUR, post["message_id"], "The regatta of wooden sailboats begins on Sunday at nine.")
    await is_answered("Sunday at nine")
