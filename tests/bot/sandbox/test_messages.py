import asyncio
from datetime import UTC, datetime

import pytest
from aiogram.exceptions import TelegramBadRequest
from aiogram.types import (
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputRichBlockParagraph,
    InputRichBlockTable,
    InputRichBlockThinking,
    InputRichMessage,
    Message,
    MessageEntity,
    ReactionTypeEmoji,
    ReplyParameters,
    RichBlockTableCell,
    RichTextBold,
    RichTextReferenceLink,
    RichTextUrl,
)
from driven_sandbox import DrivenSandbox

from bot.sandbox.messages import BotApiError, prepare_rich_message
from bot.sandbox.page_api import stop_draft_as_person
from rag_core.types import Post, PostKey

READER, CHANNEL, CLOSED = 500, -1001, -1002
TEXT = "🚢 Паром уходит в 7:30. Паром приходит в 9:00."
BUTTON = InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text="why", callback_data="w:1")]])


@pytest.fixture
def now():
    return [1_800_000_000.0]


@pytest.fixture
async def sandbox(now):
    sandbox = DrivenSandbox(clock=lambda: now[0])
    world, date = sandbox.world, datetime.fromtimestamp(1_700_000_000, UTC)
    world.add_person(READER, "Rita")
    world.add_channel(CHANNEL, "Harbour News", "harbour", members=[READER])
    world.add_channel(CLOSED, "Bridge", bot=False)
    world.add_history(CHANNEL, [Post(PostKey(CHANNEL, 7), date, TEXT), Post(PostKey(CHANNEL, 8), date, "о" * 1100)])
    marks = [mark(3, 2), mark(5, 3), mark(0, 2, "custom_emoji", emoji="77")]
    world.change(world.room(CHANNEL), 7, entities=[one.model_dump(exclude_none=True) for one in marks])
    world.add_history(CLOSED, [Post(PostKey(CLOSED, 7), date, TEXT)])
    await sandbox.start()
    await sandbox.say(READER, "hi")
    yield sandbox
    await sandbox.stop()


def mark(offset, length, kind="bold", url=None, *, emoji=None):
    return MessageEntity(type=kind, offset=offset, length=length, url=url, custom_emoji_id=emoji)


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
async def test_broken_entities_are_refused(bot, entity, complaint):
    with pytest.raises(TelegramBadRequest, match=f"can't parse entities: .*{complaint}"):
        await bot.send_message(READER, "text🚢", entities=[entity])


async def test_a_text_may_have_4096_code_points_however_wide(bot):
    sent = await bot.send_message(READER, "🚢" * 4096 + " \n")
    assert sent.text == "🚢" * 4096
    with pytest.raises(TelegramBadRequest, match="message is too long"):
        await bot.send_message(READER, "a" * 4097)
    with pytest.raises(TelegramBadRequest, match="message is too long"):
        await bot.edit_message_text("a" * 4097, chat_id=READER, message_id=sent.message_id)


async def test_an_edit_returns_the_message_and_must_change_something(sandbox, bot):
    sent = await bot.send_message(READER, "thinking", reply_markup=BUTTON)
    with pytest.raises(TelegramBadRequest, match="message is not modified: specified new message content"):
        await sent.edit_text("thinking", reply_markup=BUTTON)
    edited = await sent.edit_text("answer")
    assert (edited.text, edited.reply_markup) == ("answer", None)
    assert edited.edit_date is not None
    again = await sent.edit_reply_markup(reply_markup=BUTTON)
    assert isinstance(again, Message) and again.reply_markup is not None
    assert [m["text"] for m in await sandbox.replies(READER)] == ["answer"]


async def test_a_reply_needs_its_message(sandbox, bot):
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


async def test_buttons_are_checked(bot):
    def one(**fields):
        return InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text="x", **fields)]])

    with pytest.raises(TelegramBadRequest, match="BUTTON_DATA_INVALID"):
        await bot.send_message(READER, "x", reply_markup=one(callback_data="я" * 33))
    with pytest.raises(TelegramBadRequest, match="Text buttons are unallowed"):
        await bot.send_message(READER, "x", reply_markup=one())
    with pytest.raises(TelegramBadRequest, match="is invalid"):
        await bot.send_message(READER, "x", reply_markup=one(url="nonsense"))


async def test_a_pressed_button_is_answered_once(sandbox, bot):
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


async def test_a_draft_lives_half_a_minute_or_until_the_message(sandbox, bot, now):
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


async def test_a_bot_has_one_reaction_of_the_known_ones(sandbox, bot):
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


# Rich messages.


def paragraph(text):
    return InputRichBlockParagraph(text=text)


def nest(depth):
    text = "x"
    for _ in range(depth):
        text = RichTextBold.model_construct(text=text)
    return InputRichBlockParagraph.model_construct(text=text)


def table(columns, rows=1):
    cells = [RichBlockTableCell(align="left", valign="top", text="x") for _ in range(columns)]
    return InputRichBlockTable(cells=[cells] * rows)


def rich(*blocks, **more):
    return InputRichMessage.model_construct(blocks=list(blocks), skip_entity_detection=True, **more)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (rich(paragraph("x"), html="<p>x</p>"), "exactly one of html, markdown and blocks"),
        (InputRichMessage(), "exactly one of html, markdown and blocks"),
        (InputRichMessage(html="<p>x</p>"), "the sandbox reads no markup"),
        (InputRichMessage(markdown="x"), "the sandbox reads no markup"),
        (rich(), "is empty"),
        (rich(paragraph("x" * 32_769)), "too long"),
        (rich(*[paragraph("x")] * 501), "too many blocks"),
        (rich(table(1, 500)), "too many blocks"),
        (rich(table(21)), "too many columns"),
        (rich(paragraph(RichTextReferenceLink(text="[1]", reference_name="p1"))), "has no reference 'p1'"),
        (rich(paragraph(RichTextUrl(text="x", url="javascript:alert(1)"))), "is invalid"),
        (rich(InputRichBlockThinking(text="Hm")), "in a draft only"),
    ],
)
async def test_rich_messages_over_the_limits_are_refused(bot, given, complaint):
    with pytest.raises(TelegramBadRequest, match=complaint):
        await bot.send_rich_message(READER, given)


def test_a_rich_message_may_be_sixteen_levels_deep():
    """Through the models: aiogram's take exponential time to read a text that is nested deeply."""
    prepare_rich_message(rich(nest(15)))
    with pytest.raises(BotApiError, match="nested too deeply"):
        prepare_rich_message(rich(nest(17)))


# Quotes.


async def quote(bot, text, *, of=7, chat=CHANNEL, **more):
    given = {"chat_id": chat, "message_id": of, "quote": text, "quote_parse_mode": None} | more
    return await bot.send_message(READER, "re", reply_parameters=ReplyParameters.model_validate(given))


async def test_a_quote_stands_where_it_is_nearest_to_where_it_was_looked_for(bot):
    near = await quote(bot, "Паром", quote_position=30)
    assert (near.quote.text, near.quote.position) == ("Паром", 24)
    # two styles that touch are one
    styled = await quote(bot, "Паром уходит", quote_entities=[mark(0, 5)])
    assert styled.quote.position == 3
    whole = await quote(bot, "🚢", quote_entities=[mark(0, 2, "custom_emoji", emoji="77")])
    assert whole.quote is not None


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("Паром ушёл", []),
        ("паром", []),
        ("Паром уходит", []),  # without its bold
        ("приходит", [mark(0, 8)]),  # with another
        ("🚢", []),
        ("🚢", [mark(0, 2, "custom_emoji", emoji="78")]),
        ("7:30.  Паром", []),
    ],
)
async def test_words_or_styles_that_are_not_there_are_refused(bot, text, marks):
    with pytest.raises(TelegramBadRequest, match="Bad Request: QUOTE_TEXT_INVALID"):
        await quote(bot, text, quote_entities=marks)


async def test_a_quote_is_cleaned_before_it_is_looked_for(bot):
    cleaned = await quote(bot, "  \n\u202eприхо\u2028дит\r в\u030a ", quote_position=27)
    assert (cleaned.quote.text, cleaned.quote.position) == ("приходит в", 30)
    forgotten = await quote(bot, "приходит", quote_entities=[mark(0, 8, "code")])  # a style that is not compared
    assert forgotten.quote is not None and not forgotten.quote.entities
    assert (await quote(bot, "о" * 1024, of=8)).quote is not None
    blank = await quote(bot, " \r\n ")
    assert blank.quote is None
    assert blank.external_reply is not None
    for wrong, post in (("уходит\u200f\u200e в 7:30", 7), ("о" * 1025, 8)):  # direction marks become others
        with pytest.raises(TelegramBadRequest, match="QUOTE_TEXT_INVALID"):
            await quote(bot, wrong, of=post)
