from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiogram import Bot
from aiogram.exceptions import TelegramForbiddenError
from aiogram.methods import GetChatMember
from aiogram.types import Chat, Message, User
from driver import ADMIN, GROUP, open_archive

from bot.access import AdminRegistry, MembershipCache, Reader, build_viewer, get_reader_id, is_admin
from bot.sandbox import Sandbox
from rag_core.storage import Archive, channels, readers
from rag_core.types import Channel, Visibility

READER, OTHER_GROUP = 500, -1010
PUBLIC, MEMBERS, ADMINS, PENDING = -1001, -1002, -1003, -1004
ANONYMOUS = 1087968824
SECRETS = {
    "which digits open the boathouse padlock?": "4417",
    "where did the treasurer hide the silver trophy?": "staircase",
}


@pytest.fixture
async def archive(tmp_path: Path) -> AsyncIterator[Archive]:
    async with open_archive(tmp_path) as archive:
        for chat_id, visibility in (
            (PUBLIC, Visibility.PUBLIC),
            (MEMBERS, Visibility.MEMBERS),
            (ADMINS, Visibility.ADMINS),
        ):
            await channels.save_channel(archive, Channel(chat_id, str(chat_id), visibility=visibility))
        await channels.save_channel(archive, Channel(PENDING, "new", visibility=Visibility.PUBLIC, state="pending"))
        await readers.bind_channel(archive, GROUP, MEMBERS)
        await readers.bind_channel(archive, GROUP, PENDING)
        yield archive


class BotInNoChannel(Bot):
    """A bot that sends nothing: Telegram says that it is in no chat."""

    async def get_chat_member(self, *args: Any, **more: Any) -> Any:
        raise TelegramForbiddenError(GetChatMember(chat_id=args[0], user_id=args[1]), "bot is not a member")


def rights(archive: Archive, *admins: int) -> AdminRegistry:
    """Of a bot that is in no channel."""
    return AdminRegistry(admins, MembershipCache(BotInNoChannel("42:unused")), archive)


@pytest.mark.parametrize(
    ("who", "where", "seen"),
    [
        (ADMIN, ADMIN, {PUBLIC, MEMBERS, ADMINS}),
        (READER, READER, {PUBLIC}),
        (ADMIN, GROUP, {MEMBERS}),
        (READER, GROUP, {MEMBERS}),
        (ANONYMOUS, GROUP, {MEMBERS}),
        (ADMIN, OTHER_GROUP, set()),
        (READER, OTHER_GROUP, set()),
        (0, 0, {PUBLIC}),
    ],
)
async def test_who_reads_what_where(archive: Archive, who: int, where: int, seen: set[int]) -> None:
    viewer = await build_viewer(rights(archive, ADMIN), Reader(who, where, where >= 0))
    assert (viewer.user_id, viewer.channels) == (who, seen)


async def test_without_admins_nobody_is_one(archive: Archive) -> None:
    viewer = await build_viewer(rights(archive), Reader(ADMIN, ADMIN, True))
    assert viewer.channels == {PUBLIC}


def message(**fields: Any) -> Message:
    group = Chat(id=GROUP, type="supergroup")
    return Message(message_id=1, date=datetime(2024, 1, 1, tzinfo=UTC), chat=group, **fields)


def test_an_admin_who_writes_as_a_chat_is_not_recognised() -> None:
    person = User(id=ADMIN, is_bot=False, first_name="Ada")
    assert is_admin(message(from_user=person), (ADMIN,))
    for sender in (Chat(id=GROUP, type="supergroup"), Chat(id=PUBLIC, type="channel")):
        masked = message(from_user=person, sender_chat=sender)
        assert not is_admin(masked, (ADMIN,))
        assert get_reader_id(masked) == sender.id
    assert not is_admin(message(), (ADMIN,))


async def ask_everything(sandbox: Sandbox, who: int, chat: int | None = None) -> str:
    before = "" if chat is None else "/ask@citegram_bot "
    for question in SECRETS:
        await sandbox.say(who, before + question, chat_id=chat)
    return "\n".join(reply["text"] for reply in await sandbox.replies(chat or who, len(SECRETS)))


async def test_a_reader_hears_nothing_of_closed_channels(sandbox: Sandbox, live: Any) -> None:
    async with live():
        heard = await ask_everything(sandbox, 502)
        heard += await ask_everything(sandbox, 502, -1009)
    assert not any(secret in heard for secret in SECRETS.values())
    assert "Crew only" not in heard
    assert "The safe" not in heard


async def test_an_admin_hears_it_in_private_and_not_in_a_group(sandbox: Sandbox, live: Any) -> None:
    async with live():
        heard = await ask_everything(sandbox, 501)
        in_group = await ask_everything(sandbox, 501, -1009)
    assert all(secret in heard for secret in SECRETS.values())
    assert not any(secret in in_group for secret in SECRETS.values())


async def test_the_one_thing_to_do_is_said_where_nothing_can_be_read(sandbox: Sandbox, live: Any, home: Path) -> None:
    async with open_archive(home) as archive:
        for chat_id in await channels.load_channels(archive):
            await channels.set_channel_state(archive, chat_id, "pending")
    async with live():
        for who in (500, 502, 501):
            await sandbox.say(who, "when is it?" if who != 500 else "когда это?")
        heard = [(await sandbox.replies(who))[0]["text"] for who in (500, 502, 501)]
    assert heard[0].startswith("Для вас пока не открыт ни один канал.")
    assert heard[1].startswith("No channel is open to you yet")
    assert heard[2].startswith("No channel is approved yet. See what is waiting for you: /channels")
