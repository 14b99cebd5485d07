from dataclasses import replace
from datetime import UTC, datetime

import pytest
from driver import ADMIN, GROUP, HARBOUR, KILN, OTTO, RITA, SAFE, bind, execute, open_more, query_archive
from sandbox_chat_changes import create_topic

from bot.handlers.citations import build_native_quote, load_cited_words, locate_quote
from bot.i18n import get_translator
from bot.sandbox.state import get_message_key
from bot.stored_answer import CitedPost, CitedSpan, StoredAnswer, StoredSentence, hash_text_version
from bot.views import keyboards
from bot.views.keyboards import Press
from rag_core.storage import channels, posts, readers, visible_posts
from rag_core.types import Entity, Post, PostKey, Visibility

FERRY = "When does the ferry to Owl Island leave?"
LEAVES = "The ferry to Owl Island leaves at 7:30 every morning from pier four."
FIRING = "Когда обжиг изделий?"
FIRED = "Обжиг проходит по четвергам, забирайте изделия после шести вечера."
TROPHY = "Where did the treasurer hide the silver trophy?"
HID = "The treasurer hid the silver trophy under the staircase."


@pytest.fixture
def sandbox(sandbox):
    """The posts of the archive stand in the channels as well."""
    for chat, number, text in ((HARBOUR, 10, LEAVES), (KILN, 11, FIRED), (SAFE, 10, HID)):
        sandbox.world.add_history(chat, [Post(PostKey(chat, number), datetime(2024, 3, 12, 9, tzinfo=UTC), text)])
    return sandbox


def receipts(message):
    rows = message["reply_markup"]["inline_keyboard"]
    found = [(button["text"], button["callback_data"]) for row in rows for button in row if "callback_data" in button]
    return [(label, data) for label, data in found if label.startswith("❝")]


@pytest.fixture
def ask(ask, sandbox):
    async def asked(who, *text, **more):
        return await open_more(sandbox, await ask(who, *text, **more), who)

    return asked


async def press(sandbox, who, message, data=None):
    """Press the first receipt of an answer; what the bot says to the press."""
    data = data or receipts(message)[0][1]
    pressed = await sandbox.press(who, message["chat"]["id"], get_message_key(message), data)
    return str(pressed["answer"].get("text") or "")


async def receipt(sandbox, who, message):
    assert await press(sandbox, who, message) == ""
    (told,) = await sandbox.replies(message["chat"]["id"])
    return told


def folded(message):
    spans = [(e["offset"], e["length"]) for e in message["entities"] if e["type"] == "expandable_blockquote"]
    return [message["text"][at : at + length] for at, length in spans]


async def test_a_receipt_is_a_native_quote_of_the_post(sandbox, live, ask):
    async with live():
        answer = await ask(OTTO, FERRY)
        ((label, data),) = receipts(answer)
        assert label == "❝ Quote 1"
        assert len(data.encode()) <= 64
        assert str(HARBOUR)[4:] not in data
        told = await receipt(sandbox, OTTO, answer)
        assert await press(sandbox, OTTO, answer) == "It is already in the chat, a little below."
    assert told["text"] == "[1] Harbour News · 12 March 2024"
    source = told["external_reply"]
    assert (source["chat"]["id"], source["message_id"]) == (HARBOUR, 10)
    assert told["quote"] == {"text": LEAVES, "position": 0, "is_manual": True}
    assert len(sandbox.world.sent[OTTO]) == 2


async def test_old_buttons_quote_the_words_where_they_now_stand(sandbox, live, ask, eyes):
    edited = f"🚢 Summer timetable. {LEAVES}"
    async with live():
        answer = await ask(OTTO, FERRY)
    async with live(watch=eyes):
        await sandbox.edit(HARBOUR, 10, edited)
        await eyes.see(edited)
        told = await receipt(sandbox, OTTO, answer)
    assert (told["quote"]["text"], told["quote"]["position"]) == (LEAVES, 21)
    assert " · edited " in told["text"]


async def test_words_that_were_edited_away_come_as_text_and_that_is_said(sandbox, live, ask, eyes):
    async with live(watch=eyes):
        answer, other = await ask(RITA, FIRING), await ask(OTTO, FERRY)
        await sandbox.edit(KILN, 11, "Обжиг перенесён на пятницу.")
        await eyes.see("Обжиг перенесён на пятницу.")
        told = await receipt(sandbox, RITA, answer)
        # an edit that the bot has not heard of is found out by Telegram
        sandbox.world.change(sandbox.world.room(HARBOUR), 10, text="The ferry is out of service.")
        unheard = await receipt(sandbox, OTTO, other)
    assert "external_reply" not in told
    assert told["reply_to_message"]["message_id"] == answer["message_id"]
    assert folded(told) == [FIRED]
    assert told["text"].endswith("После ответа пост изменили: этих слов в нём больше нет.")
    assert [e["url"] for e in told["entities"] if e["type"] == "text_link"] == ["https://t.me/pech_i_glina/11"]
    assert folded(unheard) == [LEAVES]
    assert "Telegram would not quote these words," in unheard["text"]


async def test_of_a_deleted_post_no_words_are_shown(sandbox, live, ask, home):
    async with live():
        one, other = await ask(OTTO, FERRY), await ask(RITA, FIRING)
        await sandbox.delete(KILN, 11)  # the bot is told nothing
        told = await receipt(sandbox, RITA, other)
        assert "Telegram не находит этот пост" in told["text"]
        assert FIRED not in told["text"]
        gone = [PostKey(HARBOUR, 10)]
        await query_archive(home, lambda archive: posts.mark_posts_deleted(archive, gone, how="admin"))
        told = await receipt(sandbox, OTTO, one)
    assert told["text"].startswith("[1] Harbour News · 12 March 2024\nThis post is deleted, or closed to you now")
    assert "7:30" not in told["text"]


async def test_access_is_checked_at_the_press(sandbox, live, ask, home):
    async with live():
        answer = await ask(OTTO, FERRY)
        await query_archive(home, lambda archive: channels.set_channel_visibility(archive, HARBOUR, Visibility.ADMINS))
        assert await press(sandbox, OTTO, answer) == "This post is from a channel that is closed to you here."
    assert len(sandbox.world.sent[OTTO]) == 1


async def test_a_button_means_nothing_elsewhere_or_made_up_or_without_its_answer(sandbox, live, ask, home):
    lost = "I no longer have this answer. Please ask again."
    async with live():
        secret, mine = await ask(ADMIN, TROPHY), await ask(OTTO, FERRY)
        again = await ask(OTTO, "From which pier does the ferry to Owl Island leave?")
        assert await press(sandbox, OTTO, mine, receipts(secret)[0][1]) == lost
        assert await press(sandbox, OTTO, mine, receipts(again)[0][1]) == lost
        for made_up in ("b:quote::0", "b:quote:1:0", "b:quote:AAAAAAAAAAAA:0"):
            assert await press(sandbox, OTTO, mine, made_up)
        execute(home, "DELETE FROM questions")
        assert await press(sandbox, OTTO, mine) == lost
    assert len(sandbox.world.sent[OTTO]) == 2


async def test_in_a_group_its_members_may_press_and_the_receipt_stays_in_the_topic(sandbox, live, ask, home):
    await bind(home, HARBOUR)
    sandbox.world.add_person(900, "Stranger", lang="en")
    topic = create_topic(sandbox.world, GROUP, ADMIN, "Boats")
    async with live():
        answer, old = [await ask(OTTO, f"/ask@citegram_bot {FERRY}", GROUP, thread=topic) for _ in range(2)]
        assert await press(sandbox, 900, answer) == "This is for members of this group."
        assert len(sandbox.world.sent[GROUP]) == 2
        told = await receipt(sandbox, RITA, answer)
        assert (told["message_thread_id"], told["quote"]["text"]) == (topic, LEAVES)
        assert await press(sandbox, OTTO, answer) == "It is already in the chat, a little below."
        del sandbox.world.room(GROUP).messages[old["message_id"]]  # too old to be sent along with the press
        assert (await receipt(sandbox, RITA, old))["message_thread_id"] == topic
    await query_archive(home, lambda archive: readers.unbind_channel(archive, GROUP, HARBOUR))
    async with live():
        assert await press(sandbox, RITA, answer) == "Этот пост — из канала, который вам здесь не открыт."


async def test_a_channel_that_protects_its_posts_gives_words_as_text(sandbox, live, ask):
    sandbox.world.room(HARBOUR).protected = True
    async with live():
        told = await receipt(sandbox, OTTO, await ask(OTTO, FERRY))
        room = sandbox.world.room(OTTO)
        assert await sandbox.until(lambda: "edit_date" in room.messages[told["message_id"]])
    told = room.messages[told["message_id"]]
    assert folded(told) == [LEAVES]
    assert told["text"].endswith("The channel does not let its posts be quoted, so here are the words as text.")


async def test_a_private_channel_without_the_bot_gives_words_as_text(sandbox, live, ask):
    async with live():
        outside, imported = [await ask(ADMIN, TROPHY) for _ in range(2)]
        del sandbox.world.room(SAFE).members[sandbox.world.bot.id]
        told = [await receipt(sandbox, ADMIN, outside)]
        del sandbox.world.rooms[SAFE]
        told.append(await receipt(sandbox, ADMIN, imported))
    for one in told:
        assert folded(one) == [HID]
        assert "I am not in this channel, so here are" in one["text"]
        assert [e["url"] for e in one["entities"] if e["type"] == "text_link"] == ["https://t.me/c/1000004/10"]


async def test_several_places_of_a_post_have_a_button_each(empty_library):
    archive, one, other = empty_library.rag.archive, PostKey(-1, 1), PostKey(-1, 2)
    date = empty_library.now
    quotes = (CitedSpan(*one, 0, 5), CitedSpan(*other, 0, 9), CitedSpan(*one, 7, 9))
    said = (StoredSentence("", 0, quotes[:2]), StoredSentence("", 0, quotes[1:]))
    given = StoredAnswer((CitedPost(*one, date, ""), CitedPost(*other, date, "")), (), (), "t", said)
    assert given.quotes == quotes
    shown = keyboards.build_quote_keyboard(given, archive, get_translator("ru"))
    (row,) = shown.inline_keyboard
    assert [button.text for button in row] == ["❝ Цитата 1.1", "❝ Цитата 1.2", "❝ Цитата 2"]
    tokens = [Press.unpack(str(button.callback_data)).token for button in row]
    meant = [keyboards.find_quote_by_token(given, archive, token) for token in tokens]
    assert meant == [quotes[0], quotes[2], quotes[1]]
    many = tuple(CitedSpan(*one, n, n + 1) for n in range(30))
    rows = keyboards.build_quote_keyboard(
        StoredAnswer(given.cited, (), (), "", (StoredSentence("", 0, many),)), archive, get_translator("ru")
    )
    assert [button.text for button in rows.inline_keyboard[3]] == ["❝ 1.16", "❝ 1.17", "❝ 1.18", "❝ 1.19", "❝ 1.20"]
    assert len(rows.inline_keyboard) == 4
    assert keyboards.find_quote_by_token(replace(given, trace_id="u"), archive, tokens[0]) is None


async def test_of_an_album_the_right_caption_is_quoted(empty_library, make_post):
    library = empty_library
    first = make_post(7, "Дом 🏠 у моря.", chat=library.harbour, album="a")
    second = make_post(8, "Сад за домом.", chat=library.harbour, album="a", entities=(Entity("bold", 0, 3),))
    await library.keep(first, make_post(9, "", chat=library.harbour, album="a"), second, index=False)
    archive, key = library.rag.archive, first.key
    union = (await visible_posts.fetch_posts(archive, [key]))[key].text
    start = union.index("Сад")
    cited = CitedPost(*key, first.date, hash_text_version(union))
    found = await load_cited_words(archive, CitedSpan(*key, start, len(union)), cited)
    assert found is not None
    place = await locate_quote(archive, found)
    assert place is not None
    said_in, quote = place
    assert (said_in.message_id, quote.text, quote.position) == (8, "Сад за домом.", 0)
    assert [(e.type, e.offset, e.length) for e in quote.entities] == [("bold", 0, 3)]
    both = await load_cited_words(archive, CitedSpan(*key, 0, len(union)), cited)
    assert both is not None
    assert await locate_quote(archive, both) is None  # no message has them both


def test_a_quote_has_the_styles_of_its_words_and_its_place_in_units():
    text = "🚢 Паром уходит в 7:30."
    marks = (Entity("bold", 3, 12), Entity("text_link", 3, 5, "https://x.org"), Entity("italic", 18, 5))
    quote = build_native_quote(text, 8, 20, marks)
    assert (quote.text, quote.position) == ("уходит в 7:3", 9)
    assert [(e.type, e.offset, e.length) for e in quote.entities] == [("bold", 0, 6), ("italic", 9, 3)]


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("🔥 Открылись в пять", (Entity("custom_emoji", 0, 2),)),
        ("Первая строка\r\nвторая", ()),
        ("в A\u030angstrom идёт дождь", ()),
        ("a \u202erev\u202c конец", ()),
        ("one \u200f\u200e two", ()),
        ("слово " * 171, ()),  # 1025 characters
        (" \n ", ()),
    ],
)
def test_what_telegram_would_change_or_refuse_is_no_native_quote(text, marks):
    assert build_native_quote(text, 0, len(text), marks) is None


def test_a_quote_stands_beside_what_could_not_be_quoted():
    text = "🔥 Открылись в пять 🔥"
    quote = build_native_quote(text, 1, len(text) - 1, (Entity("custom_emoji", 0, 2), Entity("custom_emoji", 20, 2)))
    assert quote is not None and (quote.text, quote.position) == ("Открылись в пять", 3)
