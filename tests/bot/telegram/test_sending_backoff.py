"""What no reader waits for has one back-off: whatever Telegram says, it is asked three times a minute at most."""

import asyncio
import logging
import time
from collections import Counter

import pytest
from aiogram import Bot
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramBadRequest,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNetworkError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramServerError,
)
from aiogram.methods import SendMessage
from driver import ADMIN, GROUP, HARBOUR, KILN, OTTO, RITA, bind, execute, say_text, sent
from sandbox_faults import MOVED_TO

from bot.telegram import session
from bot.telegram.recheck import RecheckUnavailable
from bot.telegram.session import RetryMiddleware, SendingBackoff, get_backoff, send_in_background

NEWS = "The old walrus came back to the harbour this morning and sleeps on the pier beside the fish market again."
CALL = SendMessage(chat_id=1, text="news")
PASSING = [
    TelegramRetryAfter(CALL, "Too Many Requests", retry_after=30),
    TelegramRetryAfter(CALL, "Too Many Requests", retry_after=600),
    TelegramServerError(CALL, "Internal Server Error"),
    TelegramNetworkError(CALL, "ServerDisconnectedError"),
    TelegramAPIError(CALL, "Conflict"),
    ClientDecodeError("Failed to decode", ValueError(), "<html>"),
    RecheckUnavailable("Telegram did not say whether the reader is still a member."),
]
REFUSED = [
    TelegramBadRequest(CALL, "chat not found"),
    TelegramForbiddenError(CALL, "bot was blocked by the user"),
    TelegramNotFound(CALL, "Not Found"),
    TelegramMigrateToChat(CALL, "upgraded", migrate_to_chat_id=-100),
    TelegramEntityTooLarge(CALL, "Request Entity Too Large"),
]


class Telegram:
    """A bot whose session ends in `ask`, and a clock that tests move; `errors`: what chats get, `asked`: when."""

    def __init__(self, monkeypatch):
        self.now, self.errors, self.asked = 0.0, {}, []
        self.bot, self.retry = Bot("42:TEST"), RetryMiddleware(pause=0.001)
        monkeypatch.setitem(session._BACKOFFS, self.bot.session, SendingBackoff(lambda: self.now))
        self.backoff = get_backoff(self.bot)

    async def ask(self, bot, method):
        self.asked.append((self.now, method.chat_id))
        await asyncio.sleep(0)
        if method.chat_id in self.errors:
            raise self.errors[method.chat_id]

    async def send(self, chat):
        try:
            await self.retry(self.ask, self.bot, SendMessage(chat_id=chat, text="news"))
        except Exception:
            return False
        return True

    async def send_in_background(self, chats, seconds):
        """All chats try at once, every half second, as long as they have not got theirs."""
        waiting = set(chats)
        for _ in range(2 * seconds):
            with send_in_background():
                ready = [chat for chat in waiting if not self.backoff.get_wait(chat)]
                done = await asyncio.gather(*map(self.send, ready))
            waiting -= {chat for chat, arrived in zip(ready, done, strict=True) if arrived}
            self.now += 0.5

    def most_in_a_minute(self):
        times = [at for at, _ in self.asked]
        return max(sum(at <= other < at + 60 for other in times) for at in times)


@pytest.fixture
def telegram(monkeypatch):
    return Telegram(monkeypatch)


@pytest.mark.parametrize("chats", [1, 40])
@pytest.mark.parametrize("error", PASSING, ids=repr)
async def test_an_error_that_passes_is_met_three_times_a_minute_by_all_chats(telegram, error, chats):
    telegram.errors = dict.fromkeys(range(1, chats + 1), error)
    await telegram.send_in_background(range(1, chats + 1), 1500)
    assert telegram.most_in_a_minute() <= 3
    telegram.errors = {}
    telegram.asked = []
    await telegram.send_in_background(range(1, chats + 1), 700)
    assert {chat for _, chat in telegram.asked} == set(range(1, chats + 1))


@pytest.mark.parametrize("error", REFUSED, ids=repr)
async def test_a_chat_that_refuses_rests_for_hours_and_no_other_with_it(telegram, error):
    telegram.errors = dict.fromkeys(range(1, 20), error)
    await telegram.send_in_background(range(1, 41), 4000)
    asked = Counter(chat for _, chat in telegram.asked)
    assert asked == dict.fromkeys(range(1, 20), 2) | dict.fromkeys(range(20, 41), 1)
    assert all(at == 0 for at, chat in telegram.asked if chat >= 20)
    assert telegram.backoff.was_refused_before(1)
    telegram.errors = {}
    assert await telegram.send(1)  # an answer to a question there
    assert not telegram.backoff.get_wait(1)


async def test_a_flood_wait_of_one_chat_holds_up_no_other_and_that_of_two_holds_up_all(telegram):
    telegram.errors = {1: PASSING[1]}
    assert not await telegram.send(1)
    assert await telegram.send(2)
    assert not await telegram.send(1)
    assert [chat for _, chat in telegram.asked] == [1, 2]  # during the wait nothing is asked, for answers neither
    telegram.errors[3] = telegram.errors[4] = PASSING[1]
    telegram.now = 700
    for chat in (3, 4, 2, 2):
        assert not await telegram.send(chat)
    assert [chat for _, chat in telegram.asked[2:]] == [3, 4]
    telegram.now = 740  # one answer tries whether it was all chats indeed
    assert await telegram.send(2)
    assert await telegram.send(5)
    assert not await telegram.send(3)


@pytest.mark.parametrize("kind", ["429", "403", "garbled", "lost"])  # every error is in PASSING and REFUSED
async def test_no_sender_asks_more_than_three_times_a_minute(sandbox, live, home, monkeypatch, kind):
    """A minute of the back-off lasts a second here."""
    monkeypatch.setattr(SendingBackoff.__init__, "__defaults__", (lambda: 60 * time.monotonic(),))
    monkeypatch.setattr("bot.notifications._DIGEST_INTERVAL_SECONDS", 0.1)
    monkeypatch.setattr("bot.admin_notifications._GATHER_SECONDS", 0.1)
    monkeypatch.setattr("bot.notifications._DEBOUNCE_SECONDS", 0.1)
    await bind(home, HARBOUR)
    async with live():
        await say_text(sandbox, OTTO, "/watch walrus")
        await say_text(sandbox, RITA, "/digest daily 9")
        await say_text(sandbox, ADMIN, "/start")
        number = (await sandbox.post(HARBOUR, "The tide mill opens at 9:15 on Sundays."))["message_id"]
        await sandbox.say(OTTO, "/ask@citegram_bot When does the tide mill open on Sundays?", chat_id=GROUP)
        assert await sandbox.until(lambda: any("9:15" in one["text"] for one in sent(sandbox, GROUP)))
        before = len(sandbox.transcript)
        for method in ("sendMessage", "editMessageText"):
            sandbox.faults.fail_next(method, kind, times=100_000, retry_after=600)
        await sandbox.edit(HARBOUR, number, "The tide mill opens at 10:45 on Sundays.")
        await sandbox.post(HARBOUR, NEWS)
        execute(home, "UPDATE digests SET due = 0, since = 0")
        logging.getLogger("bot.test").error("something failed")
        await asyncio.sleep(1)
        asked = sum(call["method"] in {"sendMessage", "editMessageText"} for call in sandbox.transcript[before:])
    # refused by each of four chats, which is no sign that all will fail
    assert 1 <= asked <= (3 * 4 if kind == "403" else 3)


async def test_watches_and_digests_follow_a_group_to_its_new_id(sandbox, live, home):
    await bind(home, HARBOUR)
    sandbox.world.add_group(MOVED_TO, "Moved", members=[OTTO, RITA])
    async with live():
        await sandbox.say(OTTO, "/watch@citegram_bot walrus", chat_id=GROUP)
        assert await sandbox.until(lambda: bool(sent(sandbox, GROUP)))
        sandbox.faults.fail_next("sendMessage", "moved")
        await sandbox.post(HARBOUR, NEWS)
        assert await sandbox.until(lambda: any(NEWS in one["text"] for one in sent(sandbox, MOVED_TO)))
        await sandbox.post(KILN, "The walrus is not for readers of this group.")
    assert execute(home, "SELECT DISTINCT chat_id FROM watches") == [(MOVED_TO,)]
