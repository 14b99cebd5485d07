"""Who is in a channel is asked of Telegram, remembered for minutes, forgotten with an update, and closed in doubt."""

import asyncio
import time

import pytest
from aiogram import Bot
from aiogram.client.telegram import TelegramAPIServer
from aiogram.types import Update
from driver import ADMIN, CREW, GROUP, OTTO, RITA, SAFE, execute, open_archive, say_text, wait_until_handled

from bot import access
from bot.access import MembershipCache
from bot.sandbox.state import set_chat_member
from bot.telegram.session import TelegramSession
from rag_core.storage import channels

PADLOCK = "Which digits open the boathouse padlock?"


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
async def asked(sandbox):
    clock = Clock()
    async with Bot(sandbox.token, TelegramSession(api=TelegramAPIServer.from_base(sandbox.url))).context() as bot:
        yield MembershipCache(bot, clock), clock


async def joined(who, user_id, chats):
    return {chat for chat, inside in (await who.look_up(user_id, chats)).items() if inside}


def calls(sandbox):
    return sum(call["method"] == "getChatMember" for call in sandbox.transcript)


@pytest.mark.parametrize(
    ("status", "is_member", "inside"),
    [
        ("creator", True, True),
        ("administrator", True, True),
        ("member", True, True),
        ("restricted", True, True),
        ("restricted", False, False),
        ("left", True, False),
        ("kicked", True, False),
    ],
)
async def test_who_counts_as_a_member(sandbox, asked, status, is_member, inside):
    set_chat_member(sandbox.world, CREW, OTTO, status, is_member=is_member)
    assert await joined(asked[0], OTTO, [CREW]) == ({CREW} if inside else set())


async def test_a_member_is_asked_about_once_in_four_minutes(sandbox, asked):
    who, clock = asked
    set_chat_member(sandbox.world, CREW, OTTO, "member")
    for _ in range(3):
        assert await joined(who, OTTO, [CREW]) == {CREW}
    assert calls(sandbox) == 1
    set_chat_member(sandbox.world, CREW, OTTO, "left")  # and no update of it arrives
    clock.now += 300  # five minutes are the promise
    assert await joined(who, OTTO, [CREW]) == set()
    assert calls(sandbox) == 2


async def test_what_was_asked_before_the_update_counts_for_nothing(sandbox):
    class Late(Bot):
        """A bot whose question is overtaken by the update that it should have known of."""

        async def get_chat_member(self, *args, **more):
            member = await super().get_chat_member(*args, **more)
            who.forget(CREW, OTTO)
            return member

    set_chat_member(sandbox.world, CREW, OTTO, "member")
    async with Late(sandbox.token, TelegramSession(api=TelegramAPIServer.from_base(sandbox.url))).context() as bot:
        who = MembershipCache(bot, Clock())
        assert await joined(who, OTTO, [CREW]) == set()


@pytest.mark.parametrize("kind", ["429", "500", "502html", "drop", "stall"])
async def test_where_telegram_does_not_say_it_is_closed(sandbox, asked, kind, monkeypatch):
    monkeypatch.setattr(access, "_TIMEOUT_SECONDS", 0.3)
    set_chat_member(sandbox.world, CREW, OTTO, "member")
    sandbox.faults.fail_next("getChatMember", kind, times=50, retry_after=60, seconds=1)
    assert await joined(asked[0], OTTO, [CREW]) == set()
    sandbox.faults.clear()
    assert await joined(asked[0], OTTO, [CREW]) == {CREW}  # doubt is not remembered


async def test_where_the_bot_is_out_or_the_person_unknown_it_is_closed(sandbox, asked):
    assert await joined(asked[0], 999_999, [CREW]) == set()
    set_chat_member(sandbox.world, CREW, OTTO, "member")
    set_chat_member(sandbox.world, CREW, sandbox.world.bot.id, "kicked")
    assert await joined(asked[0], OTTO, [CREW]) == set()


@pytest.mark.parametrize("nobody", [0, GROUP, CREW])
async def test_who_writes_as_a_chat_is_nobody(sandbox, asked, nobody):
    assert await joined(asked[0], nobody, [CREW]) == set()
    assert not await asked[0].leads(nobody, GROUP)
    assert calls(sandbox) == 0


async def test_the_first_question_of_a_member_of_many_channels_is_whole(sandbox, asked):
    who, clock = asked
    chats = [-1002000000 - n for n in range(50)]
    for chat in chats:
        sandbox.world.add_channel(chat, str(chat), members=[ADMIN, OTTO])
    began = time.monotonic()
    assert len(await joined(who, OTTO, chats)) == 50
    assert time.monotonic() - began > 1  # 30 calls a second
    await asyncio.sleep(0.1)  # the last of them have ended
    clock.now += 300
    assert len(await joined(who, OTTO, chats)) == 50
    assert calls(sandbox) == 70  # a few whose answers are old are asked about anew, the others count meanwhile


async def test_an_outdated_update_is_skipped(sandbox, asked):
    who, _ = asked
    set_chat_member(sandbox.world, CREW, sandbox.world.bot.id, "administrator")
    sandbox.world.queue.allow(["chat_member"])
    for status in ("member", "left"):
        set_chat_member(sandbox.world, CREW, OTTO, status)
    joining, leaving = (
        Update.model_validate(update)
        for update in (kept for _, kept in sandbox.world.queue.kept.values())
        if "chat_member" in update and update["chat_member"]["new_chat_member"]["user"]["id"] == OTTO
    )
    for update in (leaving, joining):  # updates are handled concurrently
        assert update.chat_member
        await who.record(update.chat_member, update.update_id)
    assert await joined(who, OTTO, [CREW]) == set()
    assert calls(sandbox) == 0


MISSED = ("В каналах для участников поискать сейчас не удалось", "Channels for members could not be looked at now")


def misses_some(text):
    return any(words in text for words in MISSED)


@pytest.mark.parametrize("kind", ["500", "stall"])
async def test_what_was_not_looked_at_is_said_to_who_may_be_a_member(sandbox, live, home, kind, monkeypatch):
    monkeypatch.setattr(access, "_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr("bot.telegram.session.RetryMiddleware.__init__.__defaults__", (2, 0.02))
    await inside(home, CREW, SAFE)
    set_chat_member(sandbox.world, CREW, RITA, "member")
    asking = (PADLOCK, "/search padlock", "/verify The boathouse padlock opens with 4417.", "/start", "/digest now")
    asking += ("how many posts mention the padlock?",)
    async with live():
        sandbox.faults.fail_next("getChatMember", kind, times=10_000, seconds=8)
        for text in asking:
            for who in (RITA, OTTO):  # nothing tells which of them is a member
                assert misses_some(await say_text(sandbox, who, text)), text
        sandbox.faults.clear()
        with monkeypatch.context() as patient:
            patient.setattr(access, "_TIMEOUT_SECONDS", 3.0)
            assert "4417" in await say_text(sandbox, RITA, PADLOCK)
    execute(home, "UPDATE memberships SET seen_at = seen_at - 90000")
    # before the process begins: a look in the background would make her answers wait for the next look
    sandbox.faults.fail_next("getChatMember", kind, times=10_000, seconds=8)
    async with live():  # a member is known to the next process, and is told how many
        for text in asking:
            heard = await say_text(sandbox, RITA, text)
            assert "В 1 из ваших каналов поискать" in heard or "1 of your channels could not be looked at" in heard, (
                text
            )
            assert misses_some(await say_text(sandbox, OTTO, text)), text
        set_chat_member(sandbox.world, CREW, RITA, "left")
        await wait_until_handled(sandbox)
        assert misses_some(await say_text(sandbox, RITA, PADLOCK))


@pytest.mark.parametrize("closed", [0, 2])
async def test_an_outage_is_told_in_the_same_words_where_there_is_no_channel_for_members(
    sandbox, live, home, monkeypatch, closed
):
    monkeypatch.setattr(access, "_TIMEOUT_SECONDS", 0.3)
    if closed:
        await inside(home, CREW, SAFE)
    async with live():
        sandbox.faults.fail_next("getChatMember", "500", times=10_000)
        assert MISSED[1] in await say_text(sandbox, OTTO, PADLOCK)


async def test_who_leads_a_group(sandbox, asked):
    who, clock = asked
    assert await who.leads(OTTO, GROUP)  # the owner
    assert not await who.leads(RITA, GROUP)
    set_chat_member(sandbox.world, GROUP, RITA, "administrator")
    clock.now += 61
    assert await who.leads(RITA, GROUP)


async def inside(home, *chats):
    async with open_archive(home) as archive:
        for chat in chats:
            await channels.record_bot_joined(archive, chat)


async def test_a_member_reads_the_channel_until_they_leave(sandbox, live, home):
    await inside(home, CREW)
    set_chat_member(sandbox.world, CREW, RITA, "member")
    async with live():
        assert "4417" not in await say_text(sandbox, OTTO, PADLOCK)
        assert "4417" in await say_text(sandbox, RITA, PADLOCK)
        assert "Crew only" in await say_text(sandbox, RITA, "/start")
        assert "Crew only" not in await say_text(sandbox, OTTO, "/start")
        set_chat_member(sandbox.world, CREW, OTTO, "member")
        set_chat_member(sandbox.world, CREW, RITA, "kicked", by=ADMIN)
        await wait_until_handled(sandbox)
        assert "4417" not in await say_text(sandbox, RITA, PADLOCK)
        assert "4417" in await say_text(sandbox, OTTO, PADLOCK)


async def test_the_update_alone_closes_it_at_once(sandbox, live, home):
    """Between two questions nothing but the update tells that the membership has gone."""
    await inside(home, CREW)
    set_chat_member(sandbox.world, CREW, RITA, "member")
    async with live():
        assert "4417" in await say_text(sandbox, RITA, PADLOCK)
        before = calls(sandbox)
        assert "4417" in await say_text(sandbox, RITA, PADLOCK)
        assert calls(sandbox) == before + 1  # before the answer is sent; the search goes by what is remembered
        set_chat_member(sandbox.world, CREW, RITA, "left")
        await wait_until_handled(sandbox)
        assert "4417" not in await say_text(sandbox, RITA, PADLOCK)


async def test_a_channel_the_bot_is_not_in_is_for_admins(sandbox, live, home):
    set_chat_member(sandbox.world, CREW, RITA, "member")  # the archive knows it from an export only
    async with live():
        assert "4417" not in await say_text(sandbox, RITA, PADLOCK)
        assert "4417" in await say_text(sandbox, ADMIN, PADLOCK)
    asked = [call["params"]["chat_id"] for call in sandbox.transcript if call["method"] == "getChatMember"]
    assert [*map(str, asked)] == [str(RITA)]  # only whether Telegram answers
