import gc
import weakref

import pytest
from aiogram import Bot
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import TelegramRetryAfter
from aiogram.methods import SendMessage
from driver import HARBOUR, OTTO

from bot.telegram.session import RetryMiddleware, TelegramSession
from bot.telegram.updates import InboxMiddleware
from rag_core.errors import ArchiveUnavailable
from rag_core.storage import raw_updates


@pytest.fixture
async def bot(sandbox, archive):
    session = TelegramSession(api=TelegramAPIServer.from_base(sandbox.url))
    session.middleware(RetryMiddleware(tries=3, pause=0.01))
    session.middleware(InboxMiddleware(archive))
    async with Bot(sandbox.token, session).context() as bot:
        sandbox.world.people[OTTO].started = True
        yield bot


async def test_an_update_that_cannot_be_read_is_kept_apart_and_the_others_go_on(sandbox, bot, archive):
    await sandbox.say(OTTO, "first")
    sandbox.push({"brand_new_kind": {"of": "update"}})
    post = await sandbox.post(HARBOUR, "a post")
    sandbox.push({"channel_post": post | {"forward_origin": {"type": "from_the_future", "date": 1}}})
    sandbox.push({"message": {"message_id": "words", "text": "private words"}})
    await sandbox.say(OTTO, "last")
    batch = await bot.get_updates()
    assert [update.message.text if update.message else None for update in batch] == ["first", *[None] * 4, "last"]
    assert [u.update_id for u in batch] == list(range(batch[0].update_id, batch[0].update_id + 6))
    assert await raw_updates.count_updates_by_state(archive) == {"pending": 3, "poison": 3, "done": 0}
    errors = [row["error"] for row in await archive.rows("SELECT error FROM updates WHERE state = 'poison'")]
    assert "brand_new_kind" in errors[0]
    assert "forward_origin" in errors[1]
    assert not any("private words" in error for error in errors)


async def test_a_batch_that_cannot_be_kept_is_not_confirmed(sandbox, bot, archive, monkeypatch):
    await sandbox.say(OTTO, "do not lose me")

    async def disk_full(*_):
        raise ArchiveUnavailable("The disk is full.")

    with monkeypatch.context() as broken:
        broken.setattr(raw_updates, "save_updates", disk_full)
        with pytest.raises(ArchiveUnavailable):
            await bot.get_updates()
    (again,) = await bot.get_updates()
    assert again.message and again.message.text == "do not lose me"
    assert (await raw_updates.count_updates_by_state(archive))["pending"] == 1


async def test_a_wait_that_telegram_asks_for_is_kept(sandbox, bot):
    sandbox.faults.fail_next("sendMessage", "429", retry_after=1)
    await bot.send_message(OTTO, "hello")
    first, second = (call["at"] for call in sandbox.transcript if call["method"] == "sendMessage")
    assert second - first >= 1


async def test_a_wait_of_minutes_is_not_kept(sandbox, bot):
    sandbox.faults.fail_next("sendMessage", "429", retry_after=3600)
    with pytest.raises(TelegramRetryAfter):
        await bot.send_message(OTTO, "hello")


async def test_the_model_of_a_reply_is_kept():
    """Else it is built anew after each collection of garbage, and the event loop waits for it."""
    session, bot = TelegramSession(), Bot("42:TEST")
    content = '{"ok": true, "result": {"message_id": 1, "date": 1, "chat": {"id": 1, "type": "private"}, "text": "a"}}'
    kept = weakref.ref(type(session.check_response(bot, SendMessage(chat_id=1, text="a"), 200, content)))
    gc.collect()
    assert kept() is not None
    await bot.session.close()
