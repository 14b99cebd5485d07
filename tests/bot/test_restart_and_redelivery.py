import asyncio
from datetime import UTC, datetime

import pytest
from driver import ADMIN, OTTO, RITA, buttons, current, open_archive, query_archive, say, wait_until_handled
from stored_updates import save_updates
from test_webhook import hook

from bot.sandbox.page_api import press_button
from rag_core.errors import ArchiveUnavailable
from rag_core.storage import questions, raw_updates

__all__ = ["hook"]  # a fixture

FERRY = "When does the ferry to Owl Island leave?"


def waiting(sandbox):
    return [raw for _, raw in sandbox.world.queue.kept.values()]


def sent(sandbox, chat):
    return len(sandbox.world.sent.get(chat, ()))


@pytest.fixture(params=[False, True], ids=["polled", "by webhook"])
def sections(request, hook):
    return {"webhook": hook} if request.param else {}


async def test_poison_in_the_middle_of_a_batch_does_not_keep_others_from_their_answers(sandbox, live, home, sections):
    await sandbox.say(OTTO, FERRY)
    sandbox.push({"brand_new_kind": {}})
    sandbox.push({"message": {"message_id": "words", "text": "half a pair \ud83d"}})
    await sandbox.say(RITA, "Когда открывается запись на курс керамики?")
    async with live(sections=sections):
        (english,), (russian,) = await sandbox.replies(OTTO), await sandbox.replies(RITA)
        await sandbox.say(OTTO, "/help")
        await sandbox.replies(OTTO)
    assert "7:30" in english["text"]
    assert "пятого сентября" in russian["text"]
    async with open_archive(home) as archive:
        assert (await raw_updates.count_updates_by_state(archive))["poison"] == 2


async def test_what_could_not_be_kept_is_delivered_again_and_answered(sandbox, live, monkeypatch, sections):
    keep, failed = raw_updates.save_updates, 0

    async def fails_twice(*args):
        nonlocal failed
        failed += 1
        if failed <= 2:
            raise ArchiveUnavailable("The disk is full.")
        await keep(*args)

    monkeypatch.setattr(raw_updates, "save_updates", fails_twice)
    monkeypatch.setattr("aiogram.utils.backoff.Backoff.asleep", lambda self: asyncio.sleep(0.01))
    await sandbox.say(OTTO, FERRY)
    async with live(sections=sections):
        (reply,) = await sandbox.replies(OTTO)
    assert "7:30" in reply["text"]
    assert failed >= 3
    if sections:
        assert sandbox.world.queue.failed[1] == "Wrong response from the webhook: 503 Service Unavailable"


async def test_a_redelivered_question_is_not_answered_twice(sandbox, live):
    await sandbox.say(OTTO, FERRY)
    await sandbox.say(OTTO, "/start")
    batch = waiting(sandbox)
    async with live():
        await sandbox.replies(OTTO, 2)
    for raw in batch:  # as after a crash before the batch was confirmed
        sandbox.push(raw)
    await sandbox.say(OTTO, "/help")
    async with live():
        (reply,) = await sandbox.replies(OTTO)
        assert reply["text"].startswith("Just write your question")
    assert sent(sandbox, OTTO) == 3


async def test_a_question_queued_before_a_crash_is_answered_after_it(sandbox, live, home):
    asked = await sandbox.say(OTTO, FERRY)
    sandbox.world.queue.kept.clear()  # delivered and confirmed; then the process died while answering
    async with open_archive(home) as archive:
        row = {"bot_id": 42, "update_id": 7, "chat_id": OTTO, "message_id": asked["message_id"], "thread": None}
        row |= {"user_id": OTTO, "text": FERRY, "lang": "en", "private": True}
        await questions.queue_question(archive, questions.QuestionRow(**row, asked_at=datetime.now(UTC)))
        assert await questions.take_next_question(archive)
    async with live():
        (reply,) = await sandbox.replies(OTTO)
    assert "7:30" in reply["text"]


async def test_an_update_kept_before_a_crash_is_handled_after_it(sandbox, live, home):
    await sandbox.say(OTTO, FERRY)
    await sandbox.say(RITA, "/help")
    await query_archive(home, lambda archive: save_updates(archive, 42, waiting(sandbox)))
    sandbox.world.queue.kept.clear()  # confirmed, and then the process died before its handlers began
    async with live():
        (answer,), (help_text,) = await sandbox.replies(OTTO), await sandbox.replies(RITA)
    assert "7:30" in answer["text"]
    assert help_text["text"].startswith("Просто напишите вопрос")


async def test_a_press_that_telegram_gave_up_is_done_and_called_no_failure(sandbox, live):
    """The bot was away for longer than Telegram lets a press be answered: "query is too old"."""
    async with live():
        asked = await say(sandbox, ADMIN, "/reindex")
    press = press_button(sandbox.world, ADMIN, ADMIN, asked["message_id"], buttons(asked)["Cancel"])
    sandbox.world.queries[press].answer = {}
    async with live():
        await wait_until_handled(sandbox)
    assert current(sandbox, asked)["text"] == "Nothing was changed."
    assert sent(sandbox, ADMIN) == 1
