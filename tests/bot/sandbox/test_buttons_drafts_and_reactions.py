from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator

import pytest
from aiogram import Bot
from aiogram.exceptions import TelegramBadRequest
from aiogram.types import InlineKeyboardButton, InlineKeyboardMarkup, Message, ReactionTypeEmoji

from bot.sandbox import Sandbox
from bot.sandbox.methods import ALLOWED_REACTIONS
from bot.sandbox.user_actions import stop_draft_as_person

READER, CHANNEL = 500, -1001
BUTTON = InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text="why", callback_data="w:1")]])


@pytest.fixture
def now() -> list[float]:
    return [1_800_000_000.0]


@pytest.fixture
async def sandbox(now: list[float]) -> AsyncIterator[Sandbox]:
    sandbox = Sandbox(clock=lambda: now[0])
    sandbox.world.add_person(READER, "Rita")
    sandbox.world.add_channel(CHANNEL, "Harbour News", "harbour")
    await sandbox.start()
    await sandbox.say(READER, "hi")
    yield sandbox
    await sandbox.stop()


async def test_buttons_are_checked(bot: Bot) -> None:
    def one(**fields: str) -> InlineKeyboardMarkup:
        return InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text="x", **fields)]])  # type: ignore[arg-type]

    with pytest.raises(TelegramBadRequest, match="BUTTON_DATA_INVALID"):
        await bot.send_message(READER, "x", reply_markup=one(callback_data="я" * 33))
    with pytest.raises(TelegramBadRequest, match="Text buttons are unallowed"):
        await bot.send_message(READER, "x", reply_markup=one())
    with pytest.raises(TelegramBadRequest, match="is invalid"):
        await bot.send_message(READER, "x", reply_markup=one(url="nonsense"))


async def test_a_pressed_button_is_answered_once(sandbox: Sandbox, bot: Bot) -> None:
    sent = await bot.send_message(READER, "answer", reply_markup=BUTTON)
    press = asyncio.create_task(sandbox.press(READER, READER, sent.message_id, "w:1"))
    update = (await bot.get_updates(timeout=20))[-1]
    query = update.callback_query
    assert query is not None and query.data == "w:1" and query.from_user.id == READER
    assert isinstance(query.message, Message) and query.message.text == "answer"
    await query.answer("because", show_alert=True).as_(bot)
    assert (await press)["answer"] == {"text": "because", "alert": True, "url": None}
    with pytest.raises(TelegramBadRequest, match="query is too old"):
        await query.answer().as_(bot)


async def test_a_draft_lives_half_a_minute_or_until_the_message(sandbox: Sandbox, bot: Bot, now: list[float]) -> None:
    drafts = sandbox.world.drafts
    await bot.send_message_draft(READER, 7, text="so far", can_stop=True)
    assert drafts[READER, 0].text == "so far"
    await bot.send_message(READER, "so far, so good")
    assert drafts == {}
    await bot.send_message_draft(READER, 8, can_stop=True)
    assert drafts[READER, 0].expires == now[0] + 30
    stop_draft_as_person(sandbox.world, READER, 8)
    assert drafts == {}
    stopped = (await bot.get_updates())[-1].stopped_message_generation
    assert stopped is not None and stopped.draft_id == 8
    with pytest.raises(TelegramBadRequest, match="non-zero"):
        await bot.send_message_draft(READER, 0, text="x")
    with pytest.raises(TelegramBadRequest, match="only in private chats"):
        await bot.send_message_draft(CHANNEL, 1, text="x")


async def test_typing_lasts_five_seconds(sandbox: Sandbox, bot: Bot, now: list[float]) -> None:
    await bot.send_chat_action(READER, "typing")
    assert sandbox.world.actions[READER, 0] == ("typing", now[0] + 5)
    with pytest.raises(TelegramBadRequest, match="wrong parameter action"):
        await bot.send_chat_action(READER, "pondering")


async def test_a_bot_has_one_reaction_of_the_known_ones(sandbox: Sandbox, bot: Bot) -> None:
    eyes, pen = ReactionTypeEmoji(emoji="👀"), ReactionTypeEmoji(emoji="✍")
    await bot.set_message_reaction(READER, 1, [eyes])
    await bot.set_message_reaction(READER, 1, [pen])
    assert sandbox.world.reactions[READER, 1] == {42: ["✍"]}
    with pytest.raises(TelegramBadRequest, match="REACTIONS_TOO_MANY"):
        await bot.set_message_reaction(READER, 1, [eyes, pen])
    with pytest.raises(TelegramBadRequest, match="REACTION_INVALID"):
        await bot.set_message_reaction(READER, 1, [ReactionTypeEmoji(emoji="⏳")])
    with pytest.raises(TelegramBadRequest, match="message to react not found"):
        await bot.set_message_reaction(READER, 77, [eyes])


def test_the_reactions_are_those_that_aiogram_lists() -> None:
    listed = inspect.getsource(ReactionTypeEmoji).split("Reaction emoji.")[1].split('"""')[0]
    assert set(re.findall(r'"([^"]+)"', listed)) == ALLOWED_REACTIONS
