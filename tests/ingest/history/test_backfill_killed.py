"""A backfill that is killed again and again: every post, none twice."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
from fake_mtproto_server import CHANNEL, CHAT_ID, TelegramServer, serve

from ingest.history.backfill import BackfillRunner, PacedSource
from ingest.history.mtproto_client import HistoryAccount, HistoryClient
from rag_core.storage import Archive, channel_history, channels, posts

KILLS = 20
# with holes; the pauses below keep twenty processes from fetching all of it
EXPECTED = {number for number in range(1, 5401) if number % 14 != 7}


async def fetch(folder: Path, batches: int, pause: float) -> None:
    """Go on with the backfill for so many batches."""
    server = TelegramServer()
    server.post(*EXPECTED)
    with pytest.MonkeyPatch.context() as patch:
        serve(patch, server)
        archive = await Archive.open(folder)
        try:
            source = PacedSource(HistoryClient(HistoryAccount(1, "hash", "42:token"), folder), pause=pause)
            for _ in range(batches):
                if not await BackfillRunner(archive, source, lambda: None).run_once():
                    return
        finally:
            await archive.close()


def fetch_until_killed(folder: Path, begun: Event) -> None:
    begun.set()
    asyncio.run(fetch(folder, 100, 0.05))


def kill_one(context: ForkServerContext, folder: Path, seconds: float) -> bool:
    """Let a process fetch for some time and kill it; whether it was still at work."""
    begun = context.Event()
    running = context.Process(target=fetch_until_killed, args=(folder, begun))
    running.start()
    assert begun.wait(60)
    time.sleep(seconds)
    working = running.is_alive()
    running.kill()
    running.join()
    return working


@pytest.mark.slow
async def test_five_thousand_posts_are_complete_after_twenty_kills(tmp_path: Path) -> None:
    archive = await Archive.open(tmp_path)
    try:
        await channels.save_channel(archive, CHANNEL)
        await channel_history.begin_backfill(archive, CHAT_ID)
        await fetch(tmp_path, 1, 0)  # the newest id
        chance = random.Random(20)
        context = multiprocessing.get_context("forkserver")  # which imports for all of them
        context.set_forkserver_preload(["pytest", "ingest.history.backfill", "ingest.history.mtproto_client"])
        for _ in range(KILLS):
            assert await asyncio.to_thread(kill_one, context, tmp_path, chance.uniform(0.1, 0.35))
            job = (await channel_history.list_backfills(archive))[CHAT_ID]
            assert await posts.count_posts(archive, CHAT_ID) == job.saved
        assert 0 < job.saved < len(EXPECTED)
        await fetch(tmp_path, 100, 0)
        assert await posts.list_message_ids(archive, CHAT_ID) == EXPECTED
        job = (await channel_history.list_backfills(archive))[CHAT_ID]
        assert (job.state, job.saved) == ("done", len(EXPECTED))
        assert (await archive.rows("SELECT count(*) FROM post_versions"))[0][0] == 0
    finally:
        await archive.close()
