import asyncio
import logging
import sqlite3
from contextlib import asynccontextmanager, closing
from types import SimpleNamespace

import pytest
from aiogram.types import Update
from driver import OTTO, SAFE, wait_until
from stored_updates import save_updates

from bot.middlewares import DeduplicationMiddleware
from bot.worker import question_worker
from rag_core.storage import Archive, raw_updates, visible_posts
from rag_core.types import PostKey

FERRY = "When does the ferry to Owl Island leave?"
LONG = "The regatta of wooden sailboats begins on Saturday at noon. " + "слово " * 400


@pytest.fixture(autouse=True)
def _hasty(monkeypatch):
    """What waits after a failure waits shorter."""
    monkeypatch.setattr("aiogram.utils.backoff.Backoff.asleep", lambda self: asyncio.sleep(0.02))
    monkeypatch.setattr("bot.worker.delivery.FAILURE_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr("bot.middlewares._CLAIM_RETRY_SECONDS", 0.02)
    monkeypatch.setattr("bot.indexing._MAX_PAUSE_SECONDS", 0.05)


@pytest.fixture
def archives(monkeypatch):
    """The archives that are opened, the last one last."""
    opened = []
    really = Archive.open.__func__

    async def noted(cls, *given):
        opened.append(await really(cls, *given))
        return opened[-1]

    monkeypatch.setattr(Archive, "open", classmethod(noted))
    return opened


@asynccontextmanager
async def full(archive):
    async with archive._turn:
        ((pages,),) = await archive._writer.execute_fetchall("PRAGMA page_count")
        await archive._writer.execute(f"PRAGMA max_page_count = {pages}")
    try:
        yield
    finally:
        async with archive._turn:
            await archive._writer.execute("PRAGMA max_page_count = 1000000")


def offset(sandbox):
    """What Telegram was told is confirmed."""
    asked = [call["params"] for call in sandbox.transcript if call["method"] == "getUpdates"]
    return int(asked[-1].get("offset") or 0) if asked else 0


async def test_with_a_full_disk_nothing_is_confirmed_and_all_goes_on_when_there_is_room(
    sandbox, live, archives, eyes, caplog
):
    caplog.set_level(logging.WARNING)
    async with live(watch=eyes):
        await sandbox.say(OTTO, FERRY)
        await sandbox.replies(OTTO)
        archive = archives[-1]
        async with full(archive):
            before = len(sandbox.transcript)
            sent = [await sandbox.post(SAFE, f"{LONG}{number}") for number in range(20)]
            await sandbox.say(OTTO, FERRY)
            confirmed = offset(sandbox)
            await wait_until(lambda: sum(call["method"] == "getUpdates" for call in sandbox.transcript[before:]) > 20)
            assert offset(sandbox) == confirmed
            said = [record for record in caplog.records if record.levelno >= logging.ERROR]
            assert [record.getMessage().count("is full") for record in said] == [1] * len(said)
            assert 1 <= len(said) <= 3  # updates, and perhaps the indexes and a question's worker
            assert not any(record.exc_info for record in said)
        (reply,) = await sandbox.replies(OTTO)
        assert "7:30" in reply["text"]
        for message in sent:
            await eyes.see(message["text"].strip())
        kept = await visible_posts.fetch_posts(archive, [PostKey(SAFE, message["message_id"]) for message in sent])
        assert {post.text for post in kept.values()} == {message["text"] for message in sent}
        assert (await raw_updates.count_updates_by_state(archive))["poison"] == 0


async def test_an_answer_that_was_sent_with_a_full_disk_is_not_sent_again(sandbox, live, archives, monkeypatch):
    asking, go_on, really = asyncio.Event(), asyncio.Event(), question_worker.answer_question

    async def slowly(*given, **told):
        asking.set()
        await go_on.wait()
        return await really(*given, **told)

    monkeypatch.setattr(question_worker, "answer_question", slowly)
    async with live():
        await sandbox.say(OTTO, FERRY)
        await asking.wait()
        async with archives[-1].writing() as connection:
            await connection.execute("PRAGMA query_only = ON")  # a disk that turned read-only
        go_on.set()
        (reply,) = await sandbox.replies(OTTO)
        assert "7:30" in reply["text"]
        await asyncio.sleep(0.1)
        async with archives[-1]._turn:
            await archives[-1]._writer.execute("PRAGMA query_only = OFF")
        await sandbox.say(OTTO, FERRY)
        await sandbox.replies(OTTO)
    assert len(sandbox.world.sent[OTTO]) == 2


def _over(home):
    asked = "SELECT count(*) FROM questions WHERE state IN ('queued', 'running')"
    with closing(sqlite3.connect(f"file:{home / 'citegram.db'}?mode=ro", uri=True)) as connection:
        return connection.execute(asked).fetchone() == (0,)


async def test_an_archive_that_another_program_locks_is_waited_for(sandbox, live, home, ask, archives, caplog):
    async with live():
        await ask(OTTO, FERRY)
        await wait_until(lambda: _over(home))  # it is noted after it was sent
        async with archives[-1]._turn:
            await archives[-1]._writer.execute("PRAGMA busy_timeout = 50")
        other = sqlite3.connect(home / "citegram.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await sandbox.say(OTTO, FERRY)
        await wait_until(
            lambda: "Failed to fetch updates" in caplog.text and "is locked by another program" in caplog.text
        )
        await asyncio.sleep(0.3)
        assert caplog.text.count("Failed to fetch updates") == 1
        other.execute("ROLLBACK")
        other.close()
        (reply,) = await sandbox.replies(OTTO)
    assert "7:30" in reply["text"]
    assert "Traceback" not in caplog.text


async def test_an_update_that_was_handled_with_a_full_disk_is_claimed_later(home):
    archive, handled = await Archive.open(home), []
    raw = {"update_id": 7, "message": {"message_id": 1, "date": 1, "chat": {"id": OTTO, "type": "private"}}}
    await save_updates(archive, 42, [raw])
    update, once = Update.model_validate(raw), DeduplicationMiddleware(archive)

    async def handler(event, data):
        handled.append(event.update_id)
        async with archive.writing() as connection:
            await connection.execute("PRAGMA query_only = ON")
        return "handled"

    given = {"bot": SimpleNamespace(id=42)}
    assert await once(handler, update, given) == "handled"
    assert [number for number, *_ in await raw_updates.list_unclaimed_updates(archive, 42)] == [7]
    async with archive._turn:
        await archive._writer.execute("PRAGMA query_only = OFF")
    async with asyncio.timeout(40):
        while await raw_updates.list_unclaimed_updates(archive, 42):  # noqa: ASYNC110 - the archive rings no bell
            await asyncio.sleep(0.01)
    await once(handler, update, given)
    assert handled == [7]
    await once.idle()
    await archive.close()
