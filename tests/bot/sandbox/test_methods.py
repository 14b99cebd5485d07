import asyncio
import json

import aiohttp
import pytest
from aiogram.exceptions import (
    TelegramBadRequest,
    TelegramConflictError,
    TelegramForbiddenError,
    TelegramUnauthorizedError,
)
from aiogram.types import (
    BotCommand,
    BotCommandScopeChat,
)
from driven_sandbox import DrivenSandbox
from driver import ADMIN, make_local_bot
from sandbox_chat_changes import set_bot_blocked

from bot.sandbox.state import set_chat_member

READER = 500
CHANNEL, GROUP, FORUM, OUTSIDE = -1001, -1002, -1003, -1004
KINDS = ["message", "edited_message", "channel_post", "edited_channel_post"]
MEMBERS = ["my_chat_member", "chat_member", "message_reaction"]


@pytest.fixture
async def sandbox():
    sandbox = DrivenSandbox()
    world = sandbox.world
    world.add_person(READER, "Rita", lang="ru")
    world.add_person(ADMIN, "Ada")
    world.add_channel(CHANNEL, "Harbour News", "harbour", members=[ADMIN])
    world.add_channel(OUTSIDE, "Elsewhere", members=[ADMIN], bot=False)
    world.add_group(GROUP, "Neighbours", members=[ADMIN, READER])
    world.add_group(FORUM, "Forum", members=[ADMIN, READER], forum=True, bot="administrator")
    world.queue.allow(KINDS + MEMBERS)
    await sandbox.start()
    yield sandbox
    await sandbox.stop()


async def heard(bot):
    updates = await bot.get_updates()
    if updates:
        await bot.get_updates(offset=updates[-1].update_id + 1)
    return updates


async def texts(bot):
    return [update.message.text for update in await heard(bot) if update.message]


# Updates.


async def test_an_update_comes_again_until_the_offset_acknowledges_it(sandbox, bot):
    for text in ("one", "two", "three"):
        await sandbox.say(READER, text)
    first = await bot.get_updates(limit=2)
    again = await bot.get_updates()
    assert [u.update_id for u in again][:2] == [u.update_id for u in first]
    assert len(again) == 3
    rest = await bot.get_updates(offset=first[-1].update_id + 1)
    assert [u.message.text for u in rest if u.message] == ["three"]
    assert len(await bot.get_updates(offset=-1)) == 1


async def test_allowed_updates_are_remembered(sandbox, bot):
    await bot.get_updates(allowed_updates=["channel_post"])
    await sandbox.say(READER, "nobody hears this")
    await sandbox.post(CHANNEL, "a post")
    [update] = await heard(bot)
    assert update.channel_post is not None
    assert (await bot.get_webhook_info()).allowed_updates == ["channel_post"]


async def test_updates_go_to_one_poller_and_to_none_beside_a_webhook(sandbox, bot):
    first = asyncio.create_task(bot.get_updates(timeout=30))
    async with asyncio.timeout(30):
        while not sandbox.transcript:  # noqa: ASYNC110 - the bell rings at its end
            await asyncio.sleep(0.01)
    second = asyncio.create_task(bot.get_updates(timeout=20))
    with pytest.raises(TelegramConflictError, match="terminated by other getUpdates request; make sure"):
        await first
    await sandbox.say(READER, "x")
    assert len(await second) == 1
    await bot.set_webhook("https://example.org/hook")
    with pytest.raises(TelegramConflictError, match="while webhook is active"):
        await bot.get_updates()
    await bot.delete_webhook()
    assert len(await heard(bot)) == 1


# Calls.


async def test_a_wrong_token_and_an_unknown_method_are_refused(sandbox):
    async with make_local_bot(sandbox.url, "42:WRONG") as stranger:
        with pytest.raises(TelegramUnauthorizedError, match="Unauthorized"):
            await stranger.get_me()
    async with aiohttp.ClientSession() as http:
        answer = await http.post(f"{sandbox.url}/bot{sandbox.token}/sendNothing")
        body = await answer.json()
    assert (answer.status, body["ok"], body["description"]) == (404, False, "Not Found: method not found")


async def test_commands_are_kept_by_scope_and_language(sandbox, bot):
    english = [BotCommand(command="ask", description="Ask")]
    scope = BotCommandScopeChat(chat_id=ADMIN)
    await bot.set_my_commands(english)
    await bot.set_my_commands([BotCommand(command="ask", description="Спросить")], language_code="ru")
    await bot.set_my_commands([*english, BotCommand(command="stats", description="Stats")], scope=scope)
    own, kept = json.dumps({"chat_id": ADMIN, "type": "chat"}), sandbox.world.commands
    default = json.dumps({"type": "default"})
    assert {key: [c["description"] for c in commands] for key, commands in kept.items()} == {
        (default, ""): ["Ask"], (default, "ru"): ["Спросить"], (own, ""): ["Ask", "Stats"],
    }  # fmt: skip
    await bot.delete_my_commands(scope=scope)
    assert (own, "") not in kept


# Chats and members.


async def test_the_bot_cannot_write_to_strangers_or_to_who_blocked_it(sandbox, bot):
    with pytest.raises(TelegramForbiddenError, match="can't initiate conversation"):
        await bot.send_message(READER, "hello?")
    await sandbox.say(READER, "hi")
    set_bot_blocked(sandbox.world, READER)
    with pytest.raises(TelegramForbiddenError, match="bot was blocked by the user"):
        await bot.send_message(READER, "hello?")
    with pytest.raises(TelegramBadRequest, match="chat not found"):
        await bot.send_message(999, "hello?")
    _, update = await heard(bot)
    assert update.my_chat_member.new_chat_member.status == "kicked"


async def test_a_channel_without_the_bot_is_silent_and_closed_unless_it_is_public(sandbox, bot):
    await sandbox.post(OUTSIDE, "secret")
    assert await heard(bot) == []
    stranger = "bot is not a member of the channel chat"
    for call in (bot.get_chat(OUTSIDE), bot.send_message(OUTSIDE, "x")):
        with pytest.raises(TelegramForbiddenError, match=stranger):
            await call
    set_chat_member(sandbox.world, CHANNEL, 42, "left", by=ADMIN)
    assert (await bot.get_chat(CHANNEL)).title == "Harbour News"
    assert (await bot.get_chat_member(CHANNEL, 42)).status == "left"
    with pytest.raises(TelegramForbiddenError, match=stranger):
        await bot.send_message(CHANNEL, "x")
    set_chat_member(sandbox.world, CHANNEL, 42, "kicked", by=ADMIN)
    with pytest.raises(TelegramForbiddenError, match="bot was kicked from the channel chat"):
        await bot.get_chat(CHANNEL)


async def test_privacy_mode_lets_through_what_is_meant_for_the_bot(sandbox, bot):
    async def say(text, reply_to=None):
        await sandbox.say(READER, text, chat_id=GROUP, reply_to=reply_to)

    commands = ("/ask when", "/ask@citegram_bot when", "/ask@other_bot when")
    for text in ("gossip", *commands, "hi @other", "hi @citegram_bot"):
        await say(text)
    assert await texts(bot) == ["/ask@citegram_bot when", "hi @citegram_bot"]
    sent = await bot.send_message(GROUP, "at nine")
    await say("thanks", sent.message_id)
    await say("/ask again")
    assert await texts(bot) == ["thanks", "/ask again"]
    # a bot that reads all, or leads, hears everything
    sandbox.world.reads_groups = True
    await say("gossip")
    sandbox.world.reads_groups = False
    set_chat_member(sandbox.world, GROUP, 42, "administrator", by=ADMIN)
    await say("more gossip")
    assert await texts(bot) == ["gossip", "more gossip"]


# Files.
