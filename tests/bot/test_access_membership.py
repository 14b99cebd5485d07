"""Who is in a channel is asked of Telegram, remembered for minutes, forgotten with an update, and closed in doubt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import pytest
from aiogram import Bot
from aiogram.client.telegram import TelegramAPIServer
from driver import ADMIN, CREW, GROUP, OTTO, RITA, SAFE, open_archive, press, say, say_text, wait_until_handled

from bot import access
from bot.access import MembershipCache
from bot.sandbox import Sandbox
from bot.sandbox.chat_rights import set_chat_member
from bot.telegram.session import TelegramSession
from rag_core.storage import channels
from rag_core.types import Channel

PADLOCK = "Which digits open the boathouse padlock?"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def asked(sandbox: Sandbox) -> AsyncIterator[tuple[MembershipCache, Clock]]:
    clock = Clock()
    async with Bot(sandbox.token, TelegramSession(api=TelegramAPIServer.from_base(sandbox.url))).context() as bot:
        yield MembershipCache(bot, clock), clock


async def joined(who: MembershipCache, user_id: int, chats: Collection[int]) -> set[int]:
    return {chat for chat, inside in (await who.look_up(user_id, chats)).items() if inside}


def calls(sandbox: Sandbox) -> int:
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
async def test_who_counts_as_a_member(
    sandbox: Sandbox, asked: tuple[MembershipCache, Clock], status: str, is_member: bool, inside: bool
) -> None:
    set_chat_member(sandbox.world, CREW, OTTO, status, is_member=is_member)
    assert await joined(asked[0], OTTO, [CREW]) == ({CREW} if inside else set())


async def test_a_member_is_asked_about_once_in_four_minutes(
    sandbox: Sandbox, asked: tuple[MembershipCache, Clock]
) -> None:
    who, clock = asked
    set_chat_member(sandbox.world, CREW, OTTO, "member")
    for _ in range(3):
        assert await joined(who, OTTO, [CREW]) == {CREW}
    assert calls(sandbox) == 1
    set_chat_member(sandbox.world, CREW, OTTO, "left")  # and no update of it arrives
    clock.now += 300  # five minutes are the promise
    assert await joined(who, OTTO, [CREW]) == set()
    assert calls(sandbox) == 2


async def test_who_joins_unseen_waits_for_half_a_minute_at_most(
    sandbox: Sandbox, asked: tuple[MembershipCache, Clock]
) -> None:
    who, clock = asked
    assert await joined(who, OTTO, [CREW]) == set()
    set_chat_member(sandbox.world, CREW, OTTO, "member")
    assert await joined(who, OTTO, [CREW]) == set()
    clock.now += 31
    assert await joined(who, OTTO, [CREW]) == {CREW}


async def test_an_update_makes_it_be_asked_at_once(sandbox: Sandbox, asked: tuple[MembershipCache, Clock]) -> None:
    who, _ = asked
    set_chat_member(sandbox.world, CREW, OTTO, "member")
    await joined(who, OTTO, [CREW])
    set_chat_member(sandbox.world, CREW, OTTO, "kicked")
    who.forget(CREW, OTTO)
    assert await joined(who, OTTO, [CREW]) == set()


async def test_what_was_asked_before_the_update_counts_for_nothing(sandbox: Sandbox) -> None:
    class Late(Bot):
        """A bot whose question is overtaken by the update that it should have known of."""

        async def get_chat_member(self, *args: Any, **more: Any) -> Any:
            member = await super().get_chat_member(*args, **more)
            who.forget(CREW, OTTO)
            return member

    set_chat_member(sandbox.world, CREW, OTTO, "member")
    async with Late(sandbox.token, TelegramSession(api=TelegramAPIServer.from_base(sandbox.url))).context() as bot:
        who = MembershipCache(bot, Clock())
        assert await joined(who, OTTO, [CREW]) == set()


@pytest.mark.parametrize("kind", ["429", "500", "502html", "drop", "stall"])
async def test_where_telegram_does_not_say_it_is_closed(
    sandbox: Sandbox, asked: tuple[MembershipCache, Clock], kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_TIMEOUT_SECONDS", 0.3)
    set_chat_member(sandbox.world, CREW, OTTO, "member")
    sandbox.faults.fail_next("getChatMember", kind, times=50, retry_after=60, seconds=1)
    assert await joined(asked[0], OTTO, [CREW]) == set()
    sandbox.faults.clear()
    assert await joined(asked[0], OTTO, [CREW]) == {CREW}  # doubt is not remembered


async def test_where_the_bot_is_out_or_the_person_unknown_it_is_closed(
    sandbox: Sandbox, asked: tuple[MembershipCache, Clock]
) -> None:
    assert await joined(asked[0], 999_999, [CREW]) == set()
    set_chat_member(sandbox.world, CREW, OTTO, "member")
    set_chat_member(sandbox.world, CREW, sandbox.world.bot.id, "kicked")
    assert await joined(asked[0], OTTO, [CREW]) == set()


@pytest.mark.parametrize("nobody", [0, GROUP, CREW])
async def test_who_writes_as_a_chat_is_nobody(
    sandbox: Sandbox, asked: tuple[MembershipCache, Clock], nobody: int
) -> None:
    assert await joined(asked[0], nobody, [CREW]) == set()
    assert not await asked[0].leads(nobody, GROUP)
    assert calls(sandbox) == 0


async def test_one_question_asks_telegram_a_few_times_only_and_the_next_goes_on(
    sandbox: Sandbox, asked: tuple[MembershipCache, Clock]
) -> None:
    chats = [-1002000000 - n for n in range(30)]
    for chat in chats:
        sandbox.world.add_channel(chat, str(chat), members=[ADMIN, OTTO])
    assert len(await joined(asked[0], OTTO, chats)) == 20
    assert calls(sandbox) == 20
    assert len(await joined(asked[0], OTTO, chats)) == 30


async def test_who_leads_a_group(sandbox: Sandbox, asked: tuple[MembershipCache, Clock]) -> None:
    who, clock = asked
    assert await who.leads(OTTO, GROUP)  # the owner
    assert not await who.leads(RITA, GROUP)
    set_chat_member(sandbox.world, GROUP, RITA, "administrator")
    clock.now += 61
    assert await who.leads(RITA, GROUP)


async def inside(home: Path, *chats: int) -> None:
    async with open_archive(home) as archive:
        for chat in chats:
            await channels.record_bot_joined(archive, chat)


async def test_a_member_reads_the_channel_until_they_leave(sandbox: Sandbox, live: Any, home: Path) -> None:
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


async def test_the_update_alone_closes_it_at_once(sandbox: Sandbox, live: Any, home: Path) -> None:
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


async def test_a_channel_the_bot_is_not_in_is_for_admins(sandbox: Sandbox, live: Any, home: Path) -> None:
    set_chat_member(sandbox.world, CREW, RITA, "member")  # the archive knows it from an export only
    async with live():
        assert "4417" not in await say_text(sandbox, RITA, PADLOCK)
        assert "4417" in await say_text(sandbox, ADMIN, PADLOCK)
    assert calls(sandbox) == 0


async def test_the_bot_thrown_out_closes_the_channel_to_its_members(sandbox: Sandbox, live: Any, home: Path) -> None:
    await inside(home, CREW)
    set_chat_member(sandbox.world, CREW, RITA, "member")
    async with live():
        assert "4417" in await say_text(sandbox, RITA, PADLOCK)
        set_chat_member(sandbox.world, CREW, sandbox.world.bot.id, "kicked", by=ADMIN)
        await wait_until_handled(sandbox)
        assert "4417" not in await say_text(sandbox, RITA, PADLOCK)


async def test_an_admin_opens_a_channel_to_its_members_with_a_button(sandbox: Sandbox, live: Any, home: Path) -> None:
    await inside(home, SAFE)
    set_chat_member(sandbox.world, SAFE, RITA, "member")
    trophy = "where did the treasurer hide the silver trophy?"
    async with live():
        assert "staircase" not in await say_text(sandbox, RITA, trophy)
        listed = await say(sandbox, ADMIN, "/channels")
        await press(sandbox, listed, "The safe", ADMIN)
        await press(sandbox, listed, "Members", ADMIN)
        assert "staircase" in await say_text(sandbox, RITA, trophy)
        assert "staircase" not in await say_text(sandbox, OTTO, trophy)


def test_a_channel_begins_closed() -> None:
    assert not Channel(-1, "new").bindable
