from datetime import UTC, datetime

import pytest
from aiogram import Bot
from aiogram.exceptions import TelegramForbiddenError
from aiogram.methods import GetChatMember
from aiogram.types import Chat, Message, User
from driver import ADMIN, GROUP, open_archive

from bot.access import AdminRegistry, MembershipCache, Reader, build_viewer, get_reader_id, is_admin
from rag_core.storage import channels, readers
from rag_core.types import Channel, Visibility

READER, OTHER_GROUP = 500, -1010
PUBLIC, MEMBERS, ADMINS, PENDING = -1001, -1002, -1003, -1004
ANONYMOUS = 1087968824


@pytest.fixture
async def archive(tmp_path):
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
    async def get_chat_member(self, *args, **more):
        raise TelegramForbiddenError(GetChatMember(chat_id=args[0], user_id=args[1]), "bot is not a member")


def rights(archive, *admins):
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
async def test_who_reads_what_where(archive, who, where, seen):
    viewer = await build_viewer(rights(archive, ADMIN), Reader(who, where, where >= 0))
    assert (viewer.user_id, viewer.channels) == (who, seen)


def message(**fields):
    group = Chat(id=GROUP, type="supergroup")
    return Message(message_id=1, date=datetime(2024, 1, 1, tzinfo=UTC), chat=group, **fields)


def test_an_admin_who_writes_as_a_chat_is_not_recognised():
    person = User(id=ADMIN, is_bot=False, first_name="Ada")
    assert is_admin(message(from_user=person), (ADMIN,))
    for sender in (Chat(id=GROUP, type="supergroup"), Chat(id=PUBLIC, type="channel")):
        masked = message(from_user=person, sender_chat=sender)
        assert not is_admin(masked, (ADMIN,))
        assert get_reader_id(masked) == sender.id
    assert not is_admin(message(), (ADMIN,))


async def test_the_one_thing_to_do_is_said_where_nothing_can_be_read(sandbox, live, home):
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
