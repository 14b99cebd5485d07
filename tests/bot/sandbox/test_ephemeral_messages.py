"""Ephemeral messages as https://core.telegram.org/bots/api#ephemeral-messages-and-commands says of them."""

import pytest
from aiogram import methods
from aiogram.exceptions import TelegramAPIError, TelegramBadRequest
from aiogram.types import (
    BotCommand,
    BotCommandScopeAllGroupChats,
    BufferedInputFile,
    EphemeralMessageParameters,
    ReplyParameters,
)
from driven_sandbox import DrivenSandbox
from driver import make_local_bot

from bot.sandbox.page_api import build_snapshot, press_button
from bot.sandbox.state import Membership, get_message_key, is_message_visible

RITA, OTTO, GROUP = 500, 501, -1002


class Clock:
    now = 1_800_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def sandbox(clock):
    sandbox = DrivenSandbox(clock=clock)
    for number, name in ((RITA, "Rita"), (OTTO, "Otto")):
        sandbox.world.add_person(number, name)
    sandbox.world.add_group(GROUP, "Neighbours", members=[OTTO, RITA], bot="administrator")
    await sandbox.start()
    async with make_local_bot(sandbox.url, sandbox.token) as bot:
        menu = [BotCommand(command="why", description="Why", is_ephemeral=True)]
        await bot.set_my_commands([BotCommand(command="ask", description="Ask"), *menu], BotCommandScopeAllGroupChats())
    yield sandbox
    await sandbox.stop()


def to(who, **more):
    return EphemeralMessageParameters(receiver_user_id=who, **more)


async def whisper(bot, who, text="for you", **more):
    return await bot.send_message(GROUP, text, ephemeral_message_parameters=more.pop("given", to(who)), **more)


async def test_only_its_receiver_sees_it_and_ids_count_for_each_member(sandbox, bot):
    one, two, other = await whisper(bot, RITA), await whisper(bot, RITA), await whisper(bot, OTTO)
    assert (one.message_id, one.receiver_user and one.receiver_user.id) == (0, RITA)
    assert [m.ephemeral_message_id for m in (one, two, other)] == [1, 2, 1]
    for who, count in ((RITA, 2), (OTTO, 1)):
        seen = [m for m in build_snapshot(sandbox.world, 1, who)["messages"] if m["chat"]["id"] == GROUP]
        assert [m["receiver_user"]["id"] for m in seen] == [who] * count
    await bot.delete_ephemeral_message(GROUP, RITA, 2)
    assert (await whisper(bot, RITA, "another")).ephemeral_message_id == 2  # it is used again
    for wrong, chat in ((999, GROUP), (RITA, RITA)):
        with pytest.raises(TelegramAPIError):
            await bot.send_message(chat, "x", ephemeral_message_parameters=to(wrong))


async def test_a_bot_without_rights_answers_what_a_member_did_within_fifteen_seconds(sandbox, bot, clock):
    sandbox.world.room(GROUP).members[sandbox.world.bot.id] = Membership("member")
    asked = await sandbox.say(RITA, "/why", chat_id=GROUP)
    (update,) = await bot.get_updates()
    assert (update.message.message_id, update.message.ephemeral_message_id) == (0, 1)
    assert is_message_visible(get_message_key(asked), RITA) and not is_message_visible(get_message_key(asked), OTTO)
    reply = ReplyParameters(ephemeral_message_id=1, allow_sending_without_reply=None)
    answer = await whisper(bot, RITA, reply_parameters=reply)
    query = page_press(sandbox, answer)
    await whisper(bot, RITA, given=to(RITA, callback_query_id=query))
    for refused in (
        whisper(bot, RITA),
        whisper(bot, OTTO, reply_parameters=reply),
        whisper(bot, OTTO, given=to(OTTO, callback_query_id=query)),
        whisper(bot, RITA, given=to(RITA, callback_query_id=query, replace_callback_query_message=True)),
        bot.send_message(GROUP, "to all", reply_parameters=reply),
    ):
        with pytest.raises(TelegramBadRequest):
            await refused
    clock.now += 16
    for late in (
        whisper(bot, RITA, reply_parameters=reply),
        whisper(bot, RITA, given=to(RITA, callback_query_id=query)),
    ):
        with pytest.raises(TelegramBadRequest):
            await late
    assert len(sandbox.world.sent[GROUP]) == 2


def page_press(sandbox, message):
    whose = {"receiver_user": {"id": RITA}, "ephemeral_message_id": message.ephemeral_message_id}
    return press_button(sandbox.world, RITA, GROUP, get_message_key(whose), "x")


async def test_only_commands_of_the_menu_are_ephemeral(sandbox, bot):
    for text, hidden in (
        ("/why", True), ("/why@citegram_bot now", True), ("/why@other_bot", False), ("/ask x", False), ("why", False)
    ):  # fmt: skip
        message = await sandbox.say(RITA, text, chat_id=GROUP)
        assert (message["message_id"] == 0) == hidden, text
        assert ("ephemeral_message_id" in message) == hidden


async def test_the_methods_change_the_message_of_this_receiver(sandbox, bot):
    await whisper(bot, RITA)
    await whisper(bot, OTTO)
    file = BufferedInputFile(b"a", "a.txt")
    await bot.send_document(GROUP, file, caption="one", ephemeral_message_parameters=to(RITA))
    place = {"chat_id": GROUP, "receiver_user_id": RITA}
    assert await bot(methods.EditEphemeralMessageText(**place, ephemeral_message_id=1, text="edited")) is True
    for wrong in (
        methods.EditEphemeralMessageReplyMarkup(**place, ephemeral_message_id=1),  # there are none: not modified
        methods.EditEphemeralMessageText(**place, ephemeral_message_id=3, text="x"),
        methods.DeleteEphemeralMessage(**place, ephemeral_message_id=0),
        methods.EditMessageText(chat_id=GROUP, message_id=0, text="x"),
    ):
        with pytest.raises(TelegramBadRequest):
            await bot(wrong)
    shown = {key: m.get("text") or m.get("caption") for key, m in sandbox.world.room(GROUP).messages.items() if key < 0}
    assert list(shown.values()) == ["edited", "for you", "one"]
    assert await bot(methods.DeleteEphemeralMessage(**place, ephemeral_message_id=1)) is True
    assert len([key for key in sandbox.world.room(GROUP).messages if key < 0]) == 2
