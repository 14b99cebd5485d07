"""Rich messages in the chats that chose them: answers, drafts, verdicts, digests; what is said where they fail."""

import asyncio

import pytest
from aiogram.utils.formatting import Text
from driver import (
    ADMIN,
    GROUP,
    HARBOUR,
    OTTO,
    ask_until,
    buttons,
    current,
    execute,
    press,
    query_archive,
    say,
    say_text,
    sent,
    wait_until,
    wait_until_idle,
)
from rich_text import find_notes, join_words, list_links, list_marks, outline

from bot.sandbox.state import set_chat_member
from bot.worker import question_worker
from rag_core.storage import readers

FERRY = "When does the ferry to Owl Island leave?"
REGATTA = "The winter regatta of model boats begins at eleven on the frozen millpond."
REGATTA_ASKED = "When does the winter regatta of model boats begin?"
REST = "Old maps, ropes and brass lamps are sold at the office. " * 8  # more than a quote holds
LINK = "https://t.me/harbour_news/10"
NOTE = "[1] The ferry to Owl Island leaves at 7:30 every morning from pier four."


@pytest.fixture
def rich_home(home):
    """The home where Otto and the group have chosen rich messages; the group reads the harbour."""
    for chat in (OTTO, GROUP):
        query_of(home, lambda archive, chat=chat: readers.save_rich_chat(archive, chat, rich=True))
    query_of(home, lambda archive: readers.bind_channel(archive, GROUP, HARBOUR))
    return home


def query_of(home, ask):
    return asyncio.run(query_archive(home, ask))


def words(message):
    return "\n".join(outline(message["rich_message"]["blocks"]))


def methods(sandbox, chat=OTTO):
    """The methods that brought a message or draft to a chat, in order; a refused call has no chat."""
    calls = [call for call in sandbox.transcript if str(call["params"].get("chat_id", chat)) == str(chat)]
    return [call["method"] for call in calls if call["method"].startswith(("sendMessage", "sendRich"))]


async def test_a_chat_chooses_footnotes_and_the_next_answer_has_them(sandbox, home, ask, live_bot):
    assert "text" in await ask(OTTO, FERRY)
    asked = await say(sandbox, OTTO, "/mode")
    assert "My answers are ordinary messages." in asked["text"]
    await press(sandbox, asked, "Footnotes and tables", OTTO)
    assert "My answers have footnotes and tables." in current(sandbox, asked)["text"]
    assert "Ordinary messages" in buttons(current(sandbox, asked))
    answer = await ask(OTTO, "Where does the ferry to Owl Island leave?")
    assert "text" not in answer
    note = find_notes(answer["rich_message"])["p1"]
    assert list_marks(answer["rich_message"]) == ["p1"]
    assert join_words(note["text"]) == NOTE
    assert set(list_links(answer["rich_message"])) == {LINK}
    assert "More" in buttons(answer)
    assert (await say_text(sandbox, OTTO, "/sources")).startswith("Source")  # views of it are plain messages
    await say(sandbox, OTTO, "/mode plain")
    assert "text" in await ask(OTTO, FERRY)


async def test_in_a_group_its_admins_choose(sandbox, rich_home, ask, live_bot):
    answer = await ask(OTTO, f"/ask@citegram_bot {FERRY}", chat_id=GROUP)
    assert join_words(find_notes(answer["rich_message"])["p1"]["text"]) == NOTE
    assert answer["reply_to_message"]
    refusal = await say_text(sandbox, 500, "/mode@citegram_bot plain", GROUP)
    assert refusal == "Менять это здесь могут только администраторы."
    assert "ordinary" in await say_text(sandbox, OTTO, "/mode@citegram_bot plain", GROUP)


@pytest.mark.parametrize("kind", ["404", "400"])
@pytest.mark.parametrize("chat", [OTTO, GROUP])
async def test_where_a_rich_message_is_refused_the_plain_one_comes_and_is_remembered(
    sandbox, live, rich_home, ask, kind, chat
):
    said = FERRY if chat == OTTO else f"/ask@citegram_bot {FERRY}"
    sandbox.faults.fail_next("sendRichMessage", kind)
    async with live():
        answer = await ask(OTTO, said, chat_id=chat)
        assert "7:30" in answer["text"]
        assert LINK in str(answer["entities"])
        assert "More" in buttons(answer)
        assert methods(sandbox, chat) == ["sendRichMessage", "sendMessage"]
        assert not await query_archive(rich_home, lambda archive: readers.is_rich_chat(archive, chat))
        assert "text" in await ask(OTTO, said.replace("When", "Where"), chat_id=chat)
        assert methods(sandbox, chat).count("sendRichMessage") == 1
    assert execute(rich_home, "SELECT json_extract(answer, '$.rich') FROM questions") == [(0,), (0,)]


@pytest.mark.parametrize("refused", [False, True])
async def test_a_long_answer_stays_one_rich_message_and_is_three_plain_ones(
    sandbox, live, rich_home, monkeypatch, refused
):
    long = Text("\n\n".join(f"Paragraph {n}. " + "word " * 60 for n in range(30)))
    monkeypatch.setattr(question_worker, "render_answer", lambda *_: long)
    if refused:
        sandbox.faults.fail_next("sendRichMessage", "404")
    async with live():
        await sandbox.say(OTTO, FERRY)
        await wait_until_idle(sandbox, rich_home)
    told = sent(sandbox, OTTO)
    assert ["rich_message" in one for one in told] == ([False] * 3 if refused else [True])
    assert ["reply_markup" in one for one in told] == ([False, False, True] if refused else [True])
    assert all(f"Paragraph {n}." in str(told) for n in range(30))


@pytest.mark.parametrize("kind", [None, "404", "400"])
async def test_what_the_asker_alone_is_sent_is_rich_too_and_plain_where_that_is_refused(sandbox, live, rich_home, kind):
    await query_archive(rich_home, lambda archive: readers.change_group_rules(archive, GROUP, asker_only=True))
    set_chat_member(sandbox.world, GROUP, sandbox.world.bot.id, "administrator", by=OTTO)
    if kind:
        sandbox.faults.fail_next("sendRichMessage", kind)
    async with live():
        await sandbox.say(OTTO, f"/ask@citegram_bot {FERRY}", chat_id=GROUP)
        await wait_until_idle(sandbox, rich_home)
        told = [one for one in sandbox.world.room(GROUP).messages.values() if "7:30" in str(one) and "from" in one]
    (answer,) = [one for one in told if one["from"]["is_bot"]]
    assert answer["receiver_user"]["id"] == OTTO
    if kind:
        assert "7:30" in answer["text"]
    else:
        assert join_words(find_notes(answer["rich_message"])["p1"]["text"]) == NOTE


async def test_a_refusal_of_both_forms_says_nothing_of_the_first(sandbox, live, rich_home):
    """A chat that takes no message at all has not shown that it takes no rich ones."""
    sandbox.faults.fail_next("sendRichMessage", "400")
    sandbox.faults.fail_next("sendMessage", "400")
    async with live():
        await sandbox.say(OTTO, FERRY)
        assert await wait_until(lambda: execute(rich_home, "SELECT state FROM questions") == [("failed",)])
    assert await query_archive(rich_home, lambda archive: readers.is_rich_chat(archive, OTTO))


async def ask_of_regatta(sandbox, home):
    """Post of the regatta, and ask until the answer quotes it: the number of the post, and the answer."""
    number = (await sandbox.post(HARBOUR, f"{REGATTA}\n\n{REST} Dogs stay at home."))["message_id"]
    await wait_until_idle(sandbox, home)
    return int(number), await ask_until(sandbox, OTTO, REGATTA_ASKED, "eleven")


@pytest.fixture
def soon(monkeypatch):
    """Answers are corrected within half a second, as often as posts change."""
    monkeypatch.setattr("bot.notifications._ANSWER_INTERVAL_SECONDS", 0.1)
    monkeypatch.setattr("bot.notifications._DEBOUNCE_SECONDS", 0.3)
    monkeypatch.setattr("bot.notifications._MIN_EDIT_INTERVAL_SECONDS", 0.1)


@pytest.mark.usefixtures("soon")
@pytest.mark.timeout(120)
async def test_a_note_follows_its_post_and_the_answer_says_what_is_gone(sandbox, rich_home, live_bot):
    number, reply = await ask_of_regatta(sandbox, rich_home)
    assert "Dogs stay at home." in words(reply)

    def now():
        return words(current(sandbox, reply))

    await sandbox.edit(HARBOUR, number, f"{REGATTA}\n\n{REST} Dogs are welcome.")  # beside the cited words
    assert await sandbox.until(lambda: "Dogs are welcome." in now()), now()
    assert "at home" not in now()
    assert "✏️" not in now()
    assert f"paragraph: {REGATTA}" in now()
    assert current(sandbox, reply)["reply_markup"] == reply["reply_markup"]
    await sandbox.edit(HARBOUR, number, REGATTA.replace("eleven", "noon"))
    assert await sandbox.until(lambda: now().startswith("paragraph: ✏️ Changed since: [1] was edited.")), now()
    assert "eleven" not in now()
    assert not list_marks(current(sandbox, reply)["rich_message"])
    asked = await say(sandbox, ADMIN, f"/delete t.me/harbour_news/{number}")
    await press(sandbox, asked, next(iter(buttons(asked))), ADMIN)
    assert await sandbox.until(lambda: "[1] was deleted" in now()), now()
    assert "millpond" not in now()


@pytest.mark.usefixtures("soon")
async def test_a_verdict_is_rich_as_well_and_falls_with_its_words(sandbox, rich_home, live_bot):
    number, _ = await ask_of_regatta(sandbox, rich_home)
    reply = await say(sandbox, OTTO, f"/verify {REGATTA}")
    assert f"expandable_blockquote: {REGATTA} — Harbour News" in words(reply)
    await sandbox.edit(HARBOUR, number, REGATTA.replace("eleven", "noon"))
    assert await sandbox.until(lambda: "✏️ Changed since" in words(current(sandbox, reply)))
    assert "eleven" not in words(current(sandbox, reply))


async def test_the_buttons_of_a_rich_answer_quote_its_post(sandbox, live, rich_home):
    async with live():
        number, answer = await ask_of_regatta(sandbox, rich_home)
        await press(sandbox, answer, "❝ Quote 1", OTTO)
        (quote,) = await sandbox.replies(OTTO)
    assert quote["quote"]["text"].startswith(REGATTA)
    assert quote["external_reply"]["message_id"] == number


@pytest.mark.parametrize("refused", [False, True])
async def test_a_digest_has_headings_and_is_plain_where_that_is_refused(sandbox, live, rich_home, refused):
    if refused:
        sandbox.faults.fail_next("sendRichMessage", "404")
    async with live():
        await sandbox.post(HARBOUR, REGATTA)
        await wait_until_idle(sandbox, rich_home)
        digest = await say(sandbox, OTTO, "/digest now")
    assert REGATTA in (digest["text"] if refused else words(digest))
    if not refused:
        assert digest["rich_message"]["blocks"][0]["type"] == "heading"
        assert len(list_links(digest["rich_message"])) == 1
    assert await query_archive(rich_home, lambda archive: readers.is_rich_chat(archive, OTTO)) is not refused


@pytest.mark.parametrize("chat", [OTTO, GROUP])
async def test_what_is_shown_meanwhile_has_the_form_of_the_chat(sandbox, live, rich_home, monkeypatch, chat):
    monkeypatch.setattr("bot.worker.streaming._FIRST_UPDATE_SECONDS", 0.0)
    true_answer = question_worker.answer_question

    async def late(*given, **named):
        named["on_stage"]("read")
        await sandbox.until(lambda: any("Rich" in method for method in methods(sandbox, chat)))
        return await true_answer(*given, **named)

    monkeypatch.setattr(question_worker, "answer_question", late)
    async with live():
        await sandbox.say(OTTO, FERRY if chat == OTTO else f"/ask@citegram_bot {FERRY}", chat_id=chat)
        await wait_until_idle(sandbox, rich_home)
    shown = [call["params"]["rich_message"] for call in sandbox.transcript if call["method"].startswith("sendRich")]
    assert ("thinking" in shown[0]) is (chat == OTTO)
    assert "sendMessage" not in methods(sandbox, chat)
    (answer,) = [one for one in sandbox.world.room(chat).messages.values() if "rich_message" in one]
    assert join_words(find_notes(answer["rich_message"])["p1"]["text"]) == NOTE
