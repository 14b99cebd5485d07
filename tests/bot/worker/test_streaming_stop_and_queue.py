import asyncio
import re
import sqlite3
import time
from contextlib import closing

import pytest
from driver import ADMIN, GROUP, HARBOUR, OTTO, RITA, bind, say, sent, wait_until_idle
from slow_model import SlowLlm, use_writer

from rag_core.answer import answer_question

FERRY = "When does the ferry to Owl Island leave?"
VERBATIM = "The ferry to Owl Island leaves at 7:30 every morning from pier four."
WRITTEN = "The ferry leaves at 7:30 every morning. [1]\nIt leaves from pier four. [1]\n"
LINK = "https://t.me/harbour_news/10"


@pytest.fixture
def writes(monkeypatch):
    def given(seconds, reply=WRITTEN, *, plans=False):
        model = SlowLlm(reply, seconds)
        use_writer(monkeypatch, model, plans=plans)
        monkeypatch.setattr("bot.worker.streaming.DraftScreen.every", 0.05)
        return model

    return given


def calls(sandbox, method, chat_id=OTTO):
    """What was called with what, in order; refused calls are left out."""
    found = [line for line in sandbox.transcript if line["method"] == method and line["ok"]]
    return [line["params"] for line in found if line["params"].get("chat_id") == str(chat_id)]


@pytest.fixture(autouse=True)
def readers_wait(nobody_waits, monkeypatch):
    monkeypatch.setattr("bot.worker.streaming._FIRST_UPDATE_SECONDS", 0.8)


async def queued(home, reader, number):
    asked = "SELECT count(*) FROM questions WHERE user_id = ?"
    with closing(sqlite3.connect(f"file:{home / 'citegram.db'}?mode=ro", uri=True)) as archive:
        async with asyncio.timeout(30):
            while archive.execute(asked, (reader,)).fetchone()[0] < number:  # noqa: ASYNC110 - an archive rings no bell
                await asyncio.sleep(0.01)


async def drafted(sandbox, chat_id=OTTO):
    assert await sandbox.until(lambda: bool(calls(sandbox, "sendMessageDraft", chat_id)), 30)
    return calls(sandbox, "sendMessageDraft", chat_id)[-1]


async def test_the_posts_own_words_are_there_at_once_then_the_model_s_and_then_the_message(sandbox, live, writes):
    writes(1.2)
    async with live():
        asked = time.monotonic()
        await sandbox.say(OTTO, FERRY)
        first = await drafted(sandbox)
        assert time.monotonic() - asked < 1.0
        assert VERBATIM in first["text"]
        assert LINK in first["entities"]
        (reply,) = await sandbox.replies(OTTO)
    texts = [draft["text"] for draft in calls(sandbox, "sendMessageDraft")]
    assert any("It leaves" not in text and text.startswith("The ferry leaves at 7:30 every") for text in texts)
    assert re.search(r"The ferry leaves at 7:30 every morning. \[1\].*It leaves from pier four. \[1\]", reply["text"])
    assert "Written by slow" in reply["text"]
    assert {draft["draft_id"] for draft in calls(sandbox, "sendMessageDraft")} == {first["draft_id"]}


@pytest.mark.parametrize("way", ["/stop", "draft"])
async def test_stopping_ends_the_model_and_leaves_what_was_cited_so_far(sandbox, live, writes, way):
    from bot.sandbox.page_api import stop_draft_as_person

    model = writes(30.0)
    async with live():
        await sandbox.say(OTTO, FERRY)
        draft = await drafted(sandbox)
        if way == "draft":
            stop_draft_as_person(sandbox.world, OTTO, int(draft["draft_id"]))
        else:
            await sandbox.say(OTTO, "/stop")
        (reply,) = await sandbox.replies(OTTO, timeout=30)
        assert f"{VERBATIM} [1]" in reply["text"]
        assert "Stopped. This is what I had so far." in reply["text"]
        assert (model.begun, model.ended, model.waiting) == (1, 0, 0)
        reply = await say(sandbox, OTTO, "/stop")
        assert reply["text"].startswith("There is nothing to stop")


async def test_nobody_stops_the_question_of_somebody_else(sandbox, live, home, writes):
    await bind(home, HARBOUR)
    writes(1.5)
    async with live():
        shown = await say(sandbox, OTTO, f"/ask@citegram_bot {FERRY}", GROUP)
        (button,) = shown["reply_markup"]["inline_keyboard"][0]
        pressed = await sandbox.press(RITA, GROUP, shown["message_id"], button["callback_data"])
        assert pressed["answer"]["text"].startswith("Остановить может только тот")
        pressed = await sandbox.press(OTTO, GROUP, shown["message_id"], button["callback_data"])
        room = sandbox.world.room(GROUP)
        assert await sandbox.until(lambda: "Stopped. " in room.messages[shown["message_id"]]["text"], 30)


async def test_in_a_group_one_message_becomes_the_answer(sandbox, live, home, writes):
    await bind(home, HARBOUR)
    writes(1.0)
    async with live():
        asked = await sandbox.say(OTTO, f"/ask@citegram_bot {FERRY}", chat_id=GROUP)
        (shown,) = await sandbox.replies(GROUP)
        assert VERBATIM in shown["text"]
        room = sandbox.world.room(GROUP)
        now = lambda: room.messages[shown["message_id"]]  # noqa: E731
        assert await sandbox.until(lambda: "Written by slow" in now()["text"], 30)
    assert len(sandbox.world.sent[GROUP]) == 1
    assert now()["reply_to_message"]["message_id"] == asked["message_id"]
    assert "b:stop" not in str(now().get("reply_markup"))
    assert sandbox.world.reactions[GROUP, asked["message_id"]][42] == ["👀"]
    assert calls(sandbox, "sendMessageDraft", GROUP) == []


async def test_who_waits_is_told_how_many_are_before_them(sandbox, live, writes, monkeypatch):
    monkeypatch.setattr("bot.worker.question_worker._WORKER_COUNT", 1)
    monkeypatch.setattr("bot.worker.question_worker._UPDATE_INTERVAL_SECONDS", 0.1)
    writes(1.0)
    async with live():
        await sandbox.say(RITA, "Когда обжиг?")
        await drafted(sandbox, chat_id=RITA)
        await sandbox.say(OTTO, FERRY)
        first = await drafted(sandbox)
        assert first["text"] == "1 question is ahead of yours."
        (reply,) = await sandbox.replies(OTTO)
        assert "7:30" in reply["text"]


async def test_a_reader_with_twenty_questions_keeps_another_waiting_for_one(sandbox, live, home, writes, monkeypatch):
    monkeypatch.setattr("bot.worker.question_worker._WORKER_COUNT", 1)
    model = writes(0.1)
    async with live():
        for number in range(20):
            await sandbox.say(RITA, f"Когда обжиг, номер {number}?")
        await queued(home, RITA, 20)
        await sandbox.say(ADMIN, FERRY)
        await sandbox.say(OTTO, FERRY)
        await queued(home, OTTO, 1)
        before = model.begun
        await sandbox.replies(OTTO)
        assert model.begun - before <= 4  # the one that ran, one more that began meanwhile, the admin's, and his own
        await sandbox.say(RITA, "/stop")


async def test_a_place_in_the_queue_is_not_told_once_the_question_is_answered(sandbox, live, home, monkeypatch):
    """Many wait, and to tell all their places takes longer than to answer the last of them."""
    monkeypatch.setattr("bot.worker.question_worker._UPDATE_INTERVAL_SECONDS", 0.1)
    monkeypatch.setattr("bot.worker.question_worker._CALL_SPACING_SECONDS", 1.5)
    answering = asyncio.Event()

    async def wait_and_answer(*args, **more):
        await answering.wait()
        return await answer_question(*args, **more)

    monkeypatch.setattr("bot.worker.question_worker.answer_question", wait_and_answer)
    await bind(home, HARBOUR)
    async with live():
        for _ in range(4):
            await sandbox.say(OTTO, f"/ask@citegram_bot {FERRY}", chat_id=GROUP)
        (place,) = await sandbox.replies(GROUP)
        assert "7:30" not in place["text"]
        answering.set()
        await wait_until_idle(sandbox, home)
        await asyncio.sleep(4)
        texts = [message["text"] for message in sent(sandbox, GROUP)]
    assert [text for text in texts if "7:30" not in text] == []
    assert len(texts) == 4
