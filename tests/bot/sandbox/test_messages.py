from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiogram import Bot
from aiogram.exceptions import TelegramBadRequest
from aiogram.types import (
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    Message,
    MessageEntity,
    ReactionTypeEmoji,
    ReplyParameters,
)
from driven_sandbox import DrivenSandbox

from bot.sandbox import Sandbox
from bot.sandbox.page_api import stop_draft_as_person

READER, CHANNEL = 500, -1001
BUTTON = InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text="why", callback_data="w:1")]])


@pytest.fixture
def now() -> list[float]:
    return [1_800_000_000.0]


@pytest.fixture
async def sandbox(now: list[float]) -> AsyncIterator[Sandbox]:
    sandbox = DrivenSandbox(clock=lambda: now[0])
    sandbox.world.add_person(READER, "Rita")
    sandbox.world.add_channel(CHANNEL, "Harbour News", "harbour")
    await sandbox.start()
    await sandbox.say(READER, "hi")
    yield sandbox
    await sandbox.stop()


def mark(offset: int, length: int, kind: str = "bold", url: str | None = None) -> MessageEntity:
    return MessageEntity(type=kind, offset=offset, length=length, url=url)


@pytest.mark.parametrize(
    ("entity", "complaint"),
    [
        (mark(0, 9), "is not within 0 to 6"),
        (mark(-1, 2), "is not within"),
        (mark(0, 0), "is not within"),
        (mark(5, 1), "cuts a surrogate pair"),
        (mark(0, 4, "blink"), "unsupported type 'blink'"),
        (mark(0, 4, "text_link", "javascript:alert(1)"), "not an http, https or tg link"),
        (mark(0, 4, "text_link"), "not an http, https or tg link"),
    ],
)
async def test_broken_entities_are_refused(bot: Bot, entity: MessageEntity, complaint: str) -> None:
    with pytest.raises(TelegramBadRequest, match=f"can't parse entities: .*{complaint}"):
        await bot.send_message(READER, "text🚢", entities=[entity])


async def test_a_text_may_have_4096_code_points_however_wide(bot: Bot) -> None:
    sent = await bot.send_message(READER, "🚢" * 4096 + " \n")
    assert sent.text == "🚢" * 4096
    with pytest.raises(TelegramBadRequest, match="message is too long"):
        await bot.send_message(READER, "a" * 4097)
    with pytest.raises(TelegramBadRequest, match="message is too long"):
        await bot.edit_message_text("a" * 4097, chat_id=READER, message_id=sent.message_id)


async def test_text_is_trimmed_and_entities_follow(bot: Bot) -> None:
    sent = await bot.send_message(READER, "\n a\r\nbold text  \n", entities=[mark(5, 9)])
    assert sent.text == "a\nbold text"
    assert [(e.offset, e.length) for e in sent.entities or ()] == [(2, 9)]


async def test_markup_is_refused(bot: Bot) -> None:
    for mode in ("HTML", "MarkdownV2"):
        with pytest.raises(TelegramBadRequest, match="the sandbox reads no markup"):
            await bot.send_message(READER, "*b* <b>b</b>", parse_mode=mode)


async def test_an_edit_returns_the_message_and_must_change_something(sandbox: Sandbox, bot: Bot) -> None:
    sent = await bot.send_message(READER, "thinking", reply_markup=BUTTON)
    with pytest.raises(TelegramBadRequest, match="message is not modified: specified new message content"):
        await sent.edit_text("thinking", reply_markup=BUTTON)
    edited = await sent.edit_text("answer")
    assert isinstance(edited, Message)
    assert (edited.text, edited.reply_markup) == ("answer", None)
    assert edited.edit_date is not None
    again = await sent.edit_reply_markup(reply_markup=BUTTON)
    assert isinstance(again, Message) and again.reply_markup is not None
    assert [m["text"] for m in await sandbox.replies(READER)] == ["answer"]


async def test_a_deleted_message_is_gone(bot: Bot, now: list[float]) -> None:
    sent = await bot.send_message(READER, "oops")
    await bot.delete_message(READER, sent.message_id)
    with pytest.raises(TelegramBadRequest, match="message to delete not found"):
        await bot.delete_message(READER, sent.message_id)
    old = await bot.send_message(READER, "old")
    now[0] += 48 * 3600 + 1
    with pytest.raises(TelegramBadRequest, match="message can't be deleted"):
        await bot.delete_message(READER, old.message_id)


async def test_a_quote_must_be_in_the_message_with_its_styles(sandbox: Sandbox, bot: Bot) -> None:
    said = await bot.send_message(READER, "🚢 ferries run, ferries stop", entities=[mark(3, 7)])
    source = said.message_id

    async def reply(quote: str, **more: object) -> Message:
        wanted = ReplyParameters.model_validate({"message_id": source, "quote": quote} | more)
        return await bot.send_message(READER, "re", reply_parameters=wanted)

    plain = await reply("ferries", quote_position=17)
    assert plain.quote is not None and plain.quote.position == 16
    styled = await reply("ferries run", quote_entities=[mark(0, 7)])
    assert styled.quote is not None and styled.quote.position == 3
    for quote in ("Ferries", "ferries run", "ferries  stop"):
        with pytest.raises(TelegramBadRequest, match="QUOTE_TEXT_INVALID"):
            await reply(quote)


async def test_a_reply_needs_its_message(sandbox: Sandbox, bot: Bot) -> None:
    with pytest.raises(TelegramBadRequest, match="message to be replied not found"):
        await bot.send_message(READER, "re", reply_parameters=ReplyParameters(message_id=77))
    lenient = ReplyParameters(message_id=77, allow_sending_without_reply=True)
    assert (await bot.send_message(READER, "re", reply_parameters=lenient)).reply_to_message is None
    post = await sandbox.post(CHANNEL, "the source")
    across = ReplyParameters(message_id=post["message_id"], chat_id=CHANNEL, quote="source")
    sent = await bot.send_message(READER, "re", reply_parameters=across)
    assert sent.external_reply is not None and sent.quote is not None
    assert sent.external_reply.message_id == post["message_id"]


# Buttons, drafts, actions and reactions.


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
