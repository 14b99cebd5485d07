from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from aiogram import Bot
from aiogram.exceptions import TelegramBadRequest, TelegramForbiddenError
from aiogram.types import Message, ReplyParameters
from driven_sandbox import DrivenSandbox

from bot.sandbox import Sandbox
from rag_core.types import Post, PostKey

READER, OPEN, CLOSED = 500, -1001111, -1002222
TEXT = "🚢 Паром уходит в 7:30. Паром приходит в 9:00."


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    sandbox = DrivenSandbox()
    world = sandbox.world
    world.add_person(READER, "Rita")
    world.people[READER].started = True
    world.add_channel(OPEN, "Harbour News", "harbour", members=[READER])
    world.add_channel(CLOSED, "Bridge", bot=False)
    marks = [{"type": "bold", "offset": 3, "length": 2}, {"type": "bold", "offset": 5, "length": 3}]
    marks += [{"type": "custom_emoji", "offset": 0, "length": 2, "custom_emoji_id": "77"}]
    date = datetime.fromtimestamp(1_700_000_000, UTC)
    world.add_history(OPEN, [Post(PostKey(OPEN, 7), date, TEXT), Post(PostKey(OPEN, 8), date, "о" * 1100)])
    world.change(world.room(OPEN), 7, entities=marks)
    world.add_history(CLOSED, [Post(PostKey(CLOSED, 7), date, TEXT)])
    await sandbox.start()
    yield sandbox
    await sandbox.stop()


async def quote(bot: Bot, text: str, *, of: int = 7, chat: int | str = OPEN, **more: Any) -> Message:
    given = {"chat_id": chat, "message_id": of, "quote": text, "quote_parse_mode": None} | more
    return await bot.send_message(READER, "re", reply_parameters=ReplyParameters.model_validate(given))


def mark(kind: str, offset: int, length: int, **more: str) -> dict[str, Any]:
    return {"type": kind, "offset": offset, "length": length, **more}


async def test_a_quote_stands_where_it_is_nearest_to_where_it_was_looked_for(bot: Bot) -> None:
    near = await quote(bot, "Паром", quote_position=30)
    assert near.quote is not None
    assert (near.quote.text, near.quote.position) == ("Паром", 24)
    # two styles that touch are one
    styled = await quote(bot, "Паром уходит", quote_entities=[mark("bold", 0, 5)])
    assert styled.quote is not None
    assert styled.quote.position == 3
    whole = await quote(bot, "🚢", quote_entities=[mark("custom_emoji", 0, 2, custom_emoji_id="77")])
    assert whole.quote is not None


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("Паром ушёл", []),
        ("паром", []),
        ("Паром уходит", []),  # without its bold
        ("приходит", [mark("bold", 0, 8)]),  # with another
        ("🚢", []),
        ("🚢", [mark("custom_emoji", 0, 2, custom_emoji_id="78")]),
        ("7:30.  Паром", []),
    ],
)
async def test_words_or_styles_that_are_not_there_are_refused(bot: Bot, text: str, marks: list[Any]) -> None:
    with pytest.raises(TelegramBadRequest, match="Bad Request: QUOTE_TEXT_INVALID"):
        await quote(bot, text, quote_entities=marks)


async def test_a_quote_has_a_longest_length(bot: Bot) -> None:
    assert (await quote(bot, "о" * 1024, of=8)).quote is not None
    with pytest.raises(TelegramBadRequest, match="QUOTE_TEXT_INVALID"):
        await quote(bot, "о" * 1025, of=8)


async def test_a_quote_is_cleaned_before_it_is_looked_for(bot: Bot) -> None:
    cleaned = await quote(bot, "  \n\u202eприхо\u2028дит\r в\u030a ", quote_position=27)
    assert cleaned.quote is not None
    assert (cleaned.quote.text, cleaned.quote.position) == ("приходит в", 30)
    blank = await quote(bot, " \r\n ")
    assert blank.quote is None
    assert blank.external_reply is not None
    with pytest.raises(TelegramBadRequest, match="QUOTE_TEXT_INVALID"):  # direction marks in a row become others
        await quote(bot, "уходит\u200f\u200e в 7:30")


async def test_styles_that_telegram_does_not_compare_are_forgotten(bot: Bot) -> None:
    sent = await quote(bot, "приходит", quote_entities=[mark("code", 0, 8)])
    assert sent.quote is not None
    assert not sent.quote.entities


async def test_a_post_of_another_chat_must_be_within_reach(sandbox: Sandbox, bot: Bot) -> None:
    with pytest.raises(TelegramForbiddenError, match="bot is not a member of the channel chat"):
        await quote(bot, "приходит", chat=CLOSED)
    with pytest.raises(TelegramBadRequest, match="chat not found"):
        await quote(bot, "приходит", chat=-1003333)
    with pytest.raises(TelegramBadRequest, match="message to be replied not found"):
        await quote(bot, "приходит", of=70, allow_sending_without_reply=True)
    del sandbox.world.room(OPEN).members[sandbox.world.bot.id]
    assert (await quote(bot, "приходит", chat="@harbour")).quote is not None
    assert len(sandbox.world.sent[READER]) == 1


async def test_a_reply_to_a_protected_post_is_dropped_in_silence(sandbox: Sandbox, bot: Bot) -> None:
    sandbox.world.room(OPEN).protected = True
    sent = await quote(bot, "приходит")
    assert (sent.text, sent.quote, sent.external_reply) == ("re", None, None)
