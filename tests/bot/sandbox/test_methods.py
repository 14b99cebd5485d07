from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from aiogram import Bot
from aiogram.exceptions import (
    TelegramBadRequest,
    TelegramConflictError,
    TelegramForbiddenError,
    TelegramUnauthorizedError,
)
from aiogram.types import BotCommand, BotCommandScopeChat, BufferedInputFile, Update
from driven_sandbox import DrivenSandbox
from driver import ADMIN, make_local_bot
from sandbox_chat_changes import set_bot_blocked

from bot.sandbox import Sandbox

READER = 500
CHANNEL = -1001


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    sandbox = DrivenSandbox()
    world = sandbox.world
    world.add_person(READER, "Rita", lang="ru")
    world.add_person(ADMIN, "Ada")
    world.add_channel(CHANNEL, "Harbour News", "harbour", members=[ADMIN])
    await sandbox.start()
    yield sandbox
    await sandbox.stop()


async def next_updates(bot: Bot, count: int = 1) -> list[Update]:
    updates = await bot.get_updates(timeout=20)
    assert len(updates) == count
    await bot.get_updates(offset=updates[-1].update_id + 1, timeout=0)
    return updates


async def called(sandbox: Sandbox) -> None:
    """Wait for the first call to begin."""
    async with asyncio.timeout(30):
        while not sandbox.transcript:  # noqa: ASYNC110 - the bell rings at its end
            await asyncio.sleep(0.01)


async def test_an_update_comes_again_until_the_offset_acknowledges_it(sandbox: Sandbox, bot: Bot) -> None:
    for text in ("one", "two", "three"):
        await sandbox.say(READER, text)
    first = await bot.get_updates(limit=2)
    again = await bot.get_updates()
    assert [u.update_id for u in again][:2] == [u.update_id for u in first]
    assert len(again) == 3
    rest = await bot.get_updates(offset=first[-1].update_id + 1)
    assert [u.message.text for u in rest if u.message] == ["three"]
    assert len(await bot.get_updates(offset=-1)) == 1


async def test_allowed_updates_are_remembered(sandbox: Sandbox, bot: Bot) -> None:
    await bot.get_updates(allowed_updates=["channel_post"])
    await sandbox.say(READER, "nobody hears this")
    await sandbox.post(CHANNEL, "a post")
    [update] = await next_updates(bot)
    assert update.channel_post is not None
    info = await bot.get_webhook_info()
    assert info.allowed_updates == ["channel_post"]


async def test_a_second_poller_sends_the_first_away(sandbox: Sandbox, bot: Bot) -> None:
    first = asyncio.create_task(bot.get_updates(timeout=30))
    await called(sandbox)
    second = asyncio.create_task(bot.get_updates(timeout=20))
    with pytest.raises(TelegramConflictError, match="terminated by other getUpdates request; make sure"):
        await first
    await sandbox.say(READER, "x")
    assert len(await second) == 1


async def test_there_are_no_updates_beside_a_webhook(sandbox: Sandbox, bot: Bot) -> None:
    await bot.set_webhook("https://example.org/hook")
    with pytest.raises(TelegramConflictError, match="while webhook is active"):
        await bot.get_updates()
    await bot.delete_webhook()
    assert await bot.get_updates() == []


async def test_a_wrong_token_and_an_unknown_method_are_refused(sandbox: Sandbox) -> None:
    async with make_local_bot(sandbox.url, "42:WRONG") as stranger:
        with pytest.raises(TelegramUnauthorizedError, match="Unauthorized"):
            await stranger.get_me()
    async with aiohttp.ClientSession() as http:
        answer = await http.post(f"{sandbox.url}/bot{sandbox.token}/sendNothing")
        body = await answer.json()
    assert (answer.status, body["ok"], body["description"]) == (404, False, "Not Found: method not found")


@pytest.mark.parametrize("how", ["json", "data", "params"])
async def test_parameters_come_as_json_form_or_query(sandbox: Sandbox, how: str) -> None:
    await sandbox.say(READER, "hi")
    entities = [{"type": "bold", "offset": 0, "length": 3}]
    body = {
        "chat_id": READER,
        "text": '["not", "decoded"]',
        "entities": entities if how == "json" else json.dumps(entities),
    }
    async with aiohttp.ClientSession() as http:
        send: Callable[..., aiohttp.client._RequestContextManager] = http.post
        answer = await send(f"{sandbox.url}/bot{sandbox.token}/sendmessage", **{how: body})
        message = (await answer.json())["result"]
    assert message["text"] == '["not", "decoded"]'
    assert message["entities"] == entities


async def test_commands_are_kept_by_scope_and_language(sandbox: Sandbox, bot: Bot) -> None:
    english = [BotCommand(command="ask", description="Ask")]
    russian = [BotCommand(command="ask", description="Спросить")]
    scope = BotCommandScopeChat(chat_id=ADMIN)
    await bot.set_my_commands(english)
    await bot.set_my_commands(russian, language_code="ru")
    await bot.set_my_commands([*english, BotCommand(command="stats", description="Stats")], scope=scope)
    own, kept = json.dumps({"chat_id": ADMIN, "type": "chat"}), sandbox.world.commands
    default = json.dumps({"type": "default"})
    assert {key: [c["description"] for c in commands] for key, commands in kept.items()} == {
        (default, ""): ["Ask"], (default, "ru"): ["Спросить"], (own, ""): ["Ask", "Stats"],
    }  # fmt: skip
    await bot.delete_my_commands(scope=scope)
    assert (own, "") not in kept


async def test_a_document_is_uploaded_and_fetched_again(sandbox: Sandbox, bot: Bot) -> None:
    await sandbox.say(READER, "hi")
    sent = await bot.send_document(READER, BufferedInputFile(b"\x00\x01data", "отчёт.bin"), caption="here")
    assert sent.document is not None and sent.document.file_name == "отчёт.bin"
    file = await bot.download(sent.document.file_id)
    assert file is not None and file.read() == b"\x00\x01data"
    with pytest.raises(TelegramBadRequest, match="wrong file_id"):
        await bot.get_file("nonsense")


async def test_the_bot_cannot_write_to_strangers_or_to_who_blocked_it(sandbox: Sandbox, bot: Bot) -> None:
    with pytest.raises(TelegramForbiddenError, match="can't initiate conversation"):
        await bot.send_message(READER, "hello?")
    await sandbox.say(READER, "hi")
    set_bot_blocked(sandbox.world, READER)
    with pytest.raises(TelegramForbiddenError, match="bot was blocked by the user"):
        await bot.send_message(READER, "hello?")
    with pytest.raises(TelegramBadRequest, match="chat not found"):
        await bot.send_message(999, "hello?")
    updates = await next_updates(bot, 2)
    assert updates[1].my_chat_member is not None
    assert updates[1].my_chat_member.new_chat_member.status == "kicked"


async def test_updates_older_than_a_day_are_lost() -> None:
    now = 1_800_000_000.0
    sandbox = DrivenSandbox(clock=lambda: now)
    sandbox.world.add_channel(CHANNEL, "News")
    await sandbox.post(CHANNEL, "yesterday")
    now += 24 * 3600 + 1
    await sandbox.post(CHANNEL, "today")
    [update] = await sandbox.world.queue.poll(0, 100, 0)
    assert update["channel_post"]["text"] == "today"


# Faults that tests inject.
