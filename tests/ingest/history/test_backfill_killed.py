import asyncio
import multiprocessing
import random
import threading
import time

import pytest
from fake_mtproto_server import CHANNEL, CHAT_ID, TelegramServer, serve
from sample_sizes import choose_size

from ingest.history import BackfillRunner, PacedSource
from ingest.mtproto import HistoryClient
from rag_core.storage import Archive, channel_history, channels, posts

KILLS = choose_size(20, 10)
EACH = 2  # batches of a process, after which it waits to be killed: all together are too few to fetch everything
# with holes
EXPECTED = {number for number in range(1, choose_size(5401, 2701)) if number % 14 != 7}


async def fetch(folder, batches, on_reply=lambda: None):
    """Go on with the backfill for so many batches."""
    server = TelegramServer()
    server.post(*EXPECTED)

    async def note_reply(_):
        on_reply()

    with pytest.MonkeyPatch.context() as patch:
        serve(patch, server)
        archive = await Archive.open(folder)
        try:
            source = PacedSource(HistoryClient(1, "hash", "42:token", folder), sleep=note_reply)
            for _ in range(batches):
                if not await BackfillRunner(archive, source, lambda: None).run_once():
                    return
        finally:
            await archive.close()


def fetch_until_killed(folder, steps):
    steps.release()
    asyncio.run(fetch(folder, EACH, steps.release))
    threading.Event().wait()


def kill_one(context, folder, steps, seconds):
    """Kill a process that fetches some time after it began, or after its first or second reply, which it then saves."""
    done = context.Semaphore(0)
    running = context.Process(target=fetch_until_killed, args=(folder, done))
    running.start()
    assert all(done.acquire(timeout=60) for _ in range(1 + steps))
    time.sleep(seconds)
    assert running.is_alive()
    running.kill()
    running.join()


@pytest.mark.slow
async def test_five_thousand_posts_are_complete_after_many_kills(tmp_path):
    archive = await Archive.open(tmp_path)
    try:
        await channels.save_channel(archive, CHANNEL)
        await channel_history.begin_backfill(archive, CHAT_ID)
        await fetch(tmp_path, 1)  # the newest id
        chance = random.Random(20)
        context = multiprocessing.get_context("forkserver")  # which imports for all of them
        context.set_forkserver_preload(["pytest", "ingest.history", "ingest.mtproto"])
        for _ in range(KILLS):
            steps, seconds = chance.randint(0, EACH), chance.uniform(0, 0.02)
            await asyncio.to_thread(kill_one, context, tmp_path, steps, seconds)
            job = (await channel_history.list_backfills(archive))[CHAT_ID]
            assert await posts.count_posts(archive, CHAT_ID) == job.saved
        assert 0 < job.saved < len(EXPECTED)
        await fetch(tmp_path, 100)
        assert await posts.list_message_ids(archive, CHAT_ID) == EXPECTED
        job = (await channel_history.list_backfills(archive))[CHAT_ID]
        assert (job.state, job.saved) == ("done", len(EXPECTED))
        assert (await archive.rows("SELECT count(*) FROM post_versions"))[0][0] == 0
    finally:
        await archive.close()
