"""What admins are told: gaps, repairs, failing jobs; errors once, summarised, and only those of ours."""

import asyncio
import logging
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace

import pytest
from aiogram import Bot
from aiogram.client.telegram import TelegramAPIServer
from driver import ADMIN, HARBOUR, OTTO, RITA, open_archive

from bot import access, admin_notifications, jobs
from bot.admin_notifications import notify_admins, notify_of_errors
from bot.settings import BotSettings, Settings
from bot.telegram.session import TelegramSession
from ingest.outages import GapsFound, IndexesRepaired, JobFailing
from rag_core.storage import questions
from rag_core.storage.channel_history import Gap
from rag_core.types import Channel

DAY = datetime(2025, 3, 1, 23, tzinfo=UTC)


@pytest.fixture
async def told(sandbox, home):
    async with open_archive(home) as archive:
        for person in (ADMIN, OTTO):
            sandbox.world.people[person].started = True
        async with Bot(sandbox.token, TelegramSession(api=TelegramAPIServer.from_base(sandbox.url))).context() as bot:
            settings = Settings(bot=BotSettings(timezone="Europe/Moscow"))
            context = SimpleNamespace(archive=archive, settings=settings, admins=(ADMIN, OTTO), history=None)
            yield partial(notify_admins, bot=bot, context=context)


async def said(sandbox, chat=ADMIN):
    (message,) = await sandbox.replies(chat)
    return str(message["text"])


async def test_gaps_are_told_in_one_message_with_the_way_to_fill_them(sandbox, told):
    channel = Channel(HARBOUR, "Harbour News", "harbour_news")
    between = Gap(1, HARBOUR, DAY, DAY + timedelta(days=3))
    before = Gap(2, HARBOUR, None, DAY)
    assert await told(GapsFound(((channel, between), (channel, before))))
    text = await said(sandbox)
    assert "Harbour News: 2 March 2025 – 5 March 2025" in text  # in the admins' time zone
    assert "Harbour News: before 2 March 2025" in text
    assert "/import" in text
    assert "citegram import" in text
    assert text == await said(sandbox, OTTO)


async def test_an_admin_is_told_in_the_language_of_their_questions(sandbox, told, home):
    row = {"bot_id": 42, "update_id": 1, "chat_id": ADMIN, "message_id": 1, "thread": None}
    row |= {"user_id": ADMIN, "text": "когда?", "lang": "ru", "asked_at": DAY, "private": True}
    await questions.queue_question(told.keywords["context"].archive, questions.QuestionRow(**row))
    await told(JobFailing("backup", "There is no room for a backup."))
    assert "резервная копия. There is no room for a backup." in await said(sandbox)
    assert "backup. There is no room for a backup." in await said(sandbox, OTTO)
    await told(IndexesRepaired(again=3, out=1))
    assert "добавлено снова: 3" in await said(sandbox)


async def test_a_bot_that_was_off_for_three_days_tells_its_admins_once(sandbox, live, home, monkeypatch):
    monkeypatch.setattr(jobs, "_HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(jobs, "_FIRST_HEARTBEAT_SECONDS", 0.05)
    with closing(sqlite3.connect(home / "citegram.db")) as archive:
        past = int((datetime.now(UTC) - timedelta(days=3)).timestamp())
        archive.execute("INSERT INTO heartbeat VALUES (0, ?)", (past,))
        archive.execute("UPDATE channels SET joined_at = 1, state = 'active' WHERE chat_id = ?", (HARBOUR,))
        archive.commit()
    sandbox.world.people[ADMIN].started = True
    for _ in range(2):
        async with live():
            for _ in range(8):  # Telegram answers now and then
                await sandbox.say(OTTO, "/help")
                await sandbox.replies(OTTO)
                await asyncio.sleep(0.05)
    assert "Harbour News" in await said(sandbox)
    assert len(sandbox.world.sent[ADMIN]) == 1


ours = logging.getLogger("bot.somewhere")


class Admins:
    def __init__(self, *, reached=True):
        self.reached, self.heard = reached, []
        self._bell = asyncio.Event()

    async def __call__(self, notice):
        self.heard.append(notice.lines)
        self._bell.set()
        return self.reached

    async def next(self):
        async with asyncio.timeout(30):
            await self._bell.wait()
        self._bell.clear()
        return self.heard[-1]


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(admin_notifications, "_GATHER_SECONDS", 0.05)
    monkeypatch.setattr(admin_notifications, "_MIN_INTERVAL_SECONDS", 0.05)


async def test_many_errors_are_one_message():
    admins = Admins()
    async with notify_of_errors(admins):
        for number in range(5):
            ours.error("question %d failed: %s", number, "The archive is busy.")
        ours.error("another thing")
        assert await admins.next() == (("question 0 failed: The archive is busy.", 5), ("another thing", 1))


async def test_the_same_is_told_once_and_something_new_is_told():
    admins = Admins()
    async with notify_of_errors(admins):
        ours.error("question %d failed", 1)
        await admins.next()
        ours.error("question %d failed", 2)
        await asyncio.sleep(0.2)
        assert len(admins.heard) == 1
        ours.error("the disk is full")
        assert await admins.next() == (("the disk is full", 1),)


async def test_where_nobody_was_reached_it_is_told_again():
    admins = Admins(reached=False)
    async with notify_of_errors(admins):
        ours.error("the disk is full")
        await admins.next()
        admins.reached = True
        assert await admins.next() == (("the disk is full", 1),)
        await asyncio.sleep(0.2)
    assert len(admins.heard) == 2


async def test_what_is_not_ours_or_no_error_or_told_elsewhere_is_silent():
    admins = Admins()
    async with notify_of_errors(admins):
        logging.getLogger("aiogram.dispatcher").error("Failed to fetch updates")
        logging.getLogger("bot.jobs").error("backup: there is no room")
        ours.warning("hm")
        await asyncio.sleep(0.2)
    assert admins.heard == []
    ours.error("after the end")


@pytest.mark.plants_secrets
async def test_a_thread_may_fail_and_a_token_stays_hidden():
    admins = Admins()
    async with notify_of_errors(admins):
        said = "no way to https://api.telegram.org/bot123456:" + "A" * 35
        threading.Thread(target=ours.error, args=(said,)).start()
        ((line, _),) = await admins.next()
    assert "AAAA" not in line
    assert "<token>" in line


async def test_a_question_that_fails_is_told_to_the_admins_once(sandbox, live, monkeypatch):
    async def broken(*_, **__):
        raise RuntimeError("when does the ferry leave?")

    monkeypatch.setattr(access, "build_viewer", broken)
    monkeypatch.setattr(admin_notifications, "_GATHER_SECONDS", 1.0)
    sandbox.world.people[ADMIN].started = sandbox.world.people[RITA].started = True
    async with live(admins=(ADMIN, RITA), language="ru"):
        for _ in range(3):
            await sandbox.say(OTTO, "when does the ferry leave?")
        await sandbox.replies(OTTO, 3)
        (told,), (also,) = await sandbox.replies(ADMIN), await sandbox.replies(RITA)
    assert "failed: RuntimeError (×3)" in told["text"]
    assert "с прошлого сообщения" in told["text"]
    assert told["text"] == also["text"]
    assert "ferry" not in told["text"]
