"""Answers that stay true: words that were edited or deleted leave the answer, which says so once."""

import asyncio
import time

import pytest
from driver import (
    ADMIN,
    CREW,
    HARBOUR,
    KILN,
    OTTO,
    RITA,
    ask_until,
    current,
    open_channels,
    press,
    query_archive,
    say,
    say_text,
    sent,
    wait_until_idle,
)

from bot.sandbox.state import set_chat_member
from bot.views.format import split_pages
from rag_core.storage import channels, posts
from rag_core.types import PostKey

REGATTA = "The winter regatta of model boats begins at eleven on the frozen millpond."
REGATTA_ASKED = "When does the winter regatta of model boats begin?"
CHESS = "The chess tournament of lighthouse keepers takes place in the old ropeyard."
CHESS_ASKED = "Where does the chess tournament of lighthouse keepers take place?"


@pytest.fixture
def soon(monkeypatch):
    """Answers are corrected within half a second; the first test takes the bot's own time."""
    monkeypatch.setattr("bot.notifications._ANSWER_INTERVAL_SECONDS", 0.1)
    monkeypatch.setattr("bot.notifications._DEBOUNCE_SECONDS", 0.3)


async def ask_of(sandbox, home, chat, text, asked, who):
    """Post a text, and ask until the answer quotes it: the number of the post, and the answer."""
    number = (await sandbox.post(chat, text))["message_id"]
    await wait_until_idle(sandbox, home)
    return int(number), await ask_until(sandbox, who, asked, text)


def count_edits(sandbox, message):
    return sum(
        line["method"] == "editMessageText" and str(line["params"].get("message_id")) == str(message["message_id"])
        for line in sandbox.transcript
        if str(line["params"].get("chat_id")) == str(message["chat"]["id"])
    )


async def wait_for_note(sandbox, message):
    assert await sandbox.until(lambda: current(sandbox, message)["text"].startswith("✏️"))
    return str(current(sandbox, message)["text"])


async def test_an_answer_says_that_its_post_was_edited_and_why_shows_how(sandbox, home, live_bot):
    number, reply = await ask_of(sandbox, home, HARBOUR, REGATTA, REGATTA_ASKED, OTTO)
    began = time.monotonic()
    await sandbox.edit(HARBOUR, number, REGATTA.replace("eleven", "noon"))
    text = await wait_for_note(sandbox, reply)
    assert time.monotonic() - began < 10
    assert text.startswith("✏️ Changed since: [1] was edited.")
    assert "eleven" not in text
    assert current(sandbox, reply)["reply_markup"] == reply["reply_markup"]
    assert "noon" in await say_text(sandbox, OTTO, "/why", reply_to=reply["message_id"])


@pytest.mark.usefixtures("soon")
async def test_a_deleted_post_leaves_the_answer(sandbox, home, live_bot):
    number, reply = await ask_of(sandbox, home, HARBOUR, REGATTA, REGATTA_ASKED, OTTO)
    asked = await say(sandbox, ADMIN, f"/delete t.me/harbour_news/{number}")
    first = asked["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
    await press(sandbox, asked, first, ADMIN)
    text = await wait_for_note(sandbox, reply)
    assert "[1] was deleted" in text
    assert "millpond" not in text


@pytest.mark.usefixtures("soon")
async def test_a_verdict_falls_with_the_words_it_stands_on(sandbox, home, live_bot):
    number, _ = await ask_of(sandbox, home, HARBOUR, REGATTA, REGATTA_ASKED, OTTO)
    reply = await say(sandbox, OTTO, f"/verify {REGATTA}")
    assert reply["reply_markup"]
    assert REGATTA in current(sandbox, reply)["text"].partition("\n")[2]
    await sandbox.edit(HARBOUR, number, REGATTA.replace("eleven", "noon"))
    text = await wait_for_note(sandbox, reply)
    assert text == (
        "✏️ Changed since: [1] was edited. The verdict may no longer hold: please check the text again with /verify."
    )
    assert current(sandbox, reply)["reply_markup"] == reply["reply_markup"]


@pytest.mark.usefixtures("soon")
async def test_words_that_still_stand_and_other_answers_are_left_alone(sandbox, home, live_bot):
    number, reply = await ask_of(sandbox, home, HARBOUR, REGATTA, REGATTA_ASKED, OTTO)
    other, later = await ask_of(sandbox, home, KILN, CHESS, CHESS_ASKED, OTTO)
    await sandbox.edit(HARBOUR, number, f"{REGATTA} Tea is served.")
    await wait_until_idle(sandbox, home)
    await sandbox.edit(KILN, other, CHESS.replace("old ropeyard", "town hall"))
    await wait_for_note(sandbox, later)
    assert current(sandbox, reply)["text"] == reply["text"]


@pytest.mark.usefixtures("soon")
async def test_a_storm_of_edits_edits_an_answer_once(sandbox, home, live_bot):
    number, reply = await ask_of(sandbox, home, HARBOUR, REGATTA, REGATTA_ASKED, OTTO)
    other, later = await ask_of(sandbox, home, KILN, CHESS, CHESS_ASKED, OTTO)
    before = count_edits(sandbox, reply)
    for n in range(60):
        await sandbox.edit(HARBOUR, number, REGATTA.replace("eleven", f"{n % 12 + 1} sharp"))
        await asyncio.sleep(0.015)  # longer in all than the wait for the last edit of several
    await wait_for_note(sandbox, reply)
    await wait_until_idle(sandbox, home)
    await sandbox.edit(KILN, other, CHESS.replace("old ropeyard", "town hall"))
    await wait_for_note(sandbox, later)
    assert count_edits(sandbox, reply) == before + 1


@pytest.mark.usefixtures("soon")
async def test_an_edit_while_telegram_takes_the_answer_corrects_it(sandbox, home, live_bot):
    number, _ = await ask_of(sandbox, home, HARBOUR, REGATTA, REGATTA_ASKED, OTTO)
    sandbox.faults.fail_next("sendMessage", "late", seconds=2)
    reply = await say(sandbox, OTTO, REGATTA_ASKED)
    await sandbox.edit(HARBOUR, number, REGATTA.replace("eleven", "noon"))
    assert "eleven" not in await wait_for_note(sandbox, reply)


@pytest.mark.usefixtures("soon")
async def test_who_left_a_channel_learns_nothing_of_its_edits(sandbox, live, home):
    set_chat_member(sandbox.world, CREW, RITA, "member")
    async with live():
        number, reply = await ask_of(sandbox, home, CREW, REGATTA, REGATTA_ASKED, RITA)
        other, later = await ask_of(sandbox, home, HARBOUR, CHESS, CHESS_ASKED, OTTO)
        set_chat_member(sandbox.world, CREW, RITA, "left")
        await sandbox.edit(CREW, number, REGATTA.replace("eleven", "noon"))
        await wait_until_idle(sandbox, home)
        await sandbox.edit(HARBOUR, other, CHESS.replace("old ropeyard", "town hall"))
        await wait_for_note(sandbox, later)
        assert current(sandbox, reply)["text"] == reply["text"]


async def test_a_change_while_the_bot_was_off_is_told_after_the_start_where_allowed(sandbox, live, home):
    async with live(update_answers=False):
        number, reply = await ask_of(sandbox, home, HARBOUR, REGATTA, REGATTA_ASKED, OTTO)
        await sandbox.edit(HARBOUR, number, REGATTA.replace("eleven", "noon"))
        await wait_until_idle(sandbox, home)
    assert current(sandbox, reply)["text"] == reply["text"]
    async with live():
        await wait_for_note(sandbox, reply)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("running", [True, False])
async def test_a_removed_channel_leaves_the_answers_that_quote_it(sandbox, live, home, running):
    async with live():
        _, reply = await ask_of(sandbox, home, HARBOUR, REGATTA, REGATTA_ASKED, OTTO)
        _, other = await ask_of(sandbox, home, KILN, CHESS, CHESS_ASKED, OTTO)
        if running:
            card = await open_channels(sandbox)
            await card.press("Harbour News", "Remove…", "Yes, delete all of it")
            await wait_for_note(sandbox, reply)
    if not running:
        await query_archive(home, lambda archive: channels.remove_channel(archive, HARBOUR))
    async with live():
        text = await wait_for_note(sandbox, reply)
        assert text == "✏️ Changed since: [1] was deleted. I took out what is no longer there."
        assert current(sandbox, other)["text"] == other["text"]


@pytest.mark.usefixtures("soon")
async def test_words_leave_the_messages_of_an_answer_that_are_left(sandbox, live, home, monkeypatch):
    """An answer of several messages, of which its reader deleted the first."""
    monkeypatch.setattr(split_pages, "__defaults__", (70,))
    async with live():
        number = (await sandbox.post(HARBOUR, REGATTA))["message_id"]
        await wait_until_idle(sandbox, home)
        await sandbox.say(OTTO, REGATTA_ASKED)
        assert await sandbox.until(lambda: len(sent(sandbox, OTTO)) >= 3)
        await wait_until_idle(sandbox, home)
        first, *others = sent(sandbox, OTTO)
        assert any("millpond" in message["text"] for message in others)
        await sandbox.delete(OTTO, first["message_id"])
        await sandbox.edit(HARBOUR, number, "No regatta of model boats this year.")
        assert await sandbox.until(lambda: not any("millpond" in one["text"] for one in sent(sandbox, OTTO)), 10)


@pytest.mark.usefixtures("soon")
async def test_a_start_asks_telegram_of_no_reader_whose_answers_still_hold(sandbox, live, home):
    """Of thousands of readers that would take minutes."""
    async with live():
        await ask_of(sandbox, home, KILN, CHESS, CHESS_ASKED, RITA)
        number, reply = await ask_of(sandbox, home, HARBOUR, REGATTA, REGATTA_ASKED, OTTO)
    await query_archive(
        home, lambda archive: posts.mark_posts_deleted(archive, [PostKey(HARBOUR, number)], how="admin")
    )
    sandbox.transcript.clear()
    async with live():
        await wait_for_note(sandbox, reply)
        looked = [line["params"]["user_id"] for line in sandbox.transcript if line["method"] == "getChatMember"]
    assert set(looked) == {str(OTTO)}
