import json

from aiogram.methods import AnswerCallbackQuery, AnswerInlineQuery, SendMessage, SendPhoto
from aiogram.types import (
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InlineQueryResultArticle,
    InputTextMessageContent,
    MessageEntity,
)
from driver import GROUP, HARBOUR, OTTO, bind, say, sent, wait_until, wait_until_idle

from bot.sandbox.page_api import type_inline_query
from bot.telegram.recheck import hide_spoilers
from rag_core.text.post_text import list_spoilers
from rag_core.types import Entity

TEXT = "🎣 The code is MARLIN."
HIDDEN = MessageEntity(type="spoiler", offset=15, length=6)


def test_texts_and_captions_get_the_format_and_labels_and_alerts_are_covered(make_post):
    spoilers = list_spoilers([make_post(1, TEXT, entities=(Entity("spoiler", 15, 6),))])
    bold = MessageEntity(type="bold", offset=0, length=2)
    keyboard = InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text="MARLIN?", callback_data="x")]])
    message = hide_spoilers(SendMessage(chat_id=1, text=TEXT, entities=[bold], reply_markup=keyboard), spoilers)
    assert (message.text, message.entities) == (TEXT, [bold, HIDDEN])
    assert message.reply_markup.inline_keyboard[0][0].text == "▒▒▒▒▒▒?"
    assert hide_spoilers(SendPhoto(chat_id=1, photo="p", caption=TEXT), spoilers).caption_entities == [HIDDEN]
    assert (
        hide_spoilers(AnswerCallbackQuery(callback_query_id="1", text=TEXT), spoilers).text == "🎣 The code is ▒▒▒▒▒▒."
    )
    article = InlineQueryResultArticle(
        id="1", title=TEXT, description="MARLIN", input_message_content=InputTextMessageContent(message_text=TEXT)
    )
    (result,) = hide_spoilers(AnswerInlineQuery(inline_query_id="1", results=[article]), spoilers).results
    assert (result.title, result.description) == ("🎣 The code is ▒▒▒▒▒▒.", "▒▒▒▒▒▒")
    assert result.input_message_content.entities == [HIDDEN]


def test_in_code_and_beside_too_many_entities_words_are_covered(make_post):
    spoilers = list_spoilers([make_post(1, TEXT, entities=(Entity("spoiler", 15, 6),))])
    code = MessageEntity(type="code", offset=12, length=9)
    assert hide_spoilers(SendMessage(chat_id=1, text=TEXT, entities=[code]), spoilers).text.endswith("is ▒▒▒▒▒▒.")
    many = [MessageEntity(type="bold", offset=0, length=1)] * 100
    assert hide_spoilers(SendMessage(chat_id=1, text=TEXT, entities=many), spoilers).text.endswith("is ▒▒▒▒▒▒.")


NEWS = "The old walrus came back to the harbour this morning, and the quiz code is MARLIN."


async def test_answers_searches_digests_notices_and_inline_results_hide_spoilers(sandbox, live, home):
    async with live():
        await bind(home, HARBOUR)
        await say(sandbox, OTTO, "/watch walrus")
        spoiler = {"type": "spoiler", "offset": NEWS.index("MARLIN"), "length": 6}
        await sandbox.post(HARBOUR, NEWS, extra={"entities": [spoiler]})
        await wait_until_idle(sandbox, home)
        await wait_until(lambda: any("🔔" in message["text"] for message in sent(sandbox, OTTO)))
        for text in (
            "What is the quiz code of the walrus?",
            "/search walrus",
            "/digest now",
            "/verify The quiz code is EEL.",
        ):
            await say(sandbox, OTTO, text)
        await say(sandbox, OTTO, "@citegram_bot What is the quiz code of the walrus?", GROUP)
        query = sandbox.world.queries[type_inline_query(sandbox.world, OTTO, "What is the quiz code of the walrus?")]
        await wait_until(lambda: query.answer is not None)
        await wait_until(lambda: sum("MARLIN" in message["text"] for message in sent(sandbox, OTTO, GROUP)) >= 5)
    shown = [message for message in sent(sandbox, OTTO, GROUP) if "MARLIN" in message["text"]]
    for message in shown:
        assert [e for e in message["entities"] if e["type"] == "spoiler"], message["text"]
    told = json.dumps(query.answer, default=str)
    assert "spoiler" in told
