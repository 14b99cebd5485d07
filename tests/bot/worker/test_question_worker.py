import asyncio
from datetime import UTC, datetime

import pytest
from driver import OTTO, RITA, say
from sandbox_chat_changes import set_bot_blocked

from bot.worker import delivery, question_worker
from rag_core.errors import ArchiveUnavailable, IndexUnavailable, StageTimeout
from rag_core.storage import Archive, questions

FERRY = "When does the ferry to Owl Island leave?"


async def rows(home):
    archive = await Archive.open(home)
    found = [dict(row) for row in await archive.rows("SELECT * FROM questions ORDER BY id")]
    await archive.close()
    return found


def raising(error):
    async def answer(*_, **__):
        raise error

    return answer


@pytest.mark.parametrize(
    ("error", "russian", "english"),
    [
        (
            IndexUnavailable("index /srv/x is damaged"),
            "Поиск сейчас не работает, и я не знаю,",
            "The search is down right now, so I",
        ),
        (
            ArchiveUnavailable("/srv/x is locked"),
            "Сейчас не могу добраться до постов.",
            "I cannot reach the posts right now.",
        ),
        (
            StageTimeout("search took too long: /srv/x"),
            "Сейчас я отвечаю медленно и не успел.",
            "I am slow right now and had to stop.",
        ),
        (ZeroDivisionError("/srv/x"), "У меня что-то сломалось. Попробуйте", "Something went wrong on my side. Please"),
    ],
)
async def test_what_goes_wrong_is_a_sentence_and_never_nothing_found(
    sandbox, live, home, monkeypatch, error, russian, english
):
    monkeypatch.setattr(question_worker, "answer_question", raising(error))
    async with live():
        await sandbox.say(RITA, "Когда уходит паром?")
        await sandbox.say(OTTO, FERRY)
        (to_rita,), (to_otto,) = await sandbox.replies(RITA), await sandbox.replies(OTTO)
    assert to_rita["text"].startswith(russian)
    assert to_otto["text"].startswith(english)
    assert "/srv/x" not in to_rita["text"] + to_otto["text"]
    assert [row["state"] for row in await rows(home)] == ["failed", "failed"]


async def test_a_reader_has_one_question_running_and_others_do_not_wait_for_them(sandbox, live, monkeypatch):
    running = []
    most = []
    otto, real = asyncio.Event(), question_worker.answer_question

    async def answer(question, rag, **told):
        running.append(question.viewer.user_id)
        most.append(running.count(RITA))
        if question.viewer.user_id == OTTO:
            otto.set()
        else:
            await asyncio.wait_for(otto.wait(), 30)
        try:
            return await real(question, rag, **told)
        finally:
            running.remove(question.viewer.user_id)

    monkeypatch.setattr(question_worker, "answer_question", answer)
    async with live():
        for _ in range(3):
            await sandbox.say(RITA, FERRY)
        await sandbox.say(OTTO, FERRY)
        await sandbox.replies(OTTO)
        await sandbox.replies(RITA, 3)
    assert max(most) == 1


async def test_a_reader_who_blocked_the_bot_stops_nobody(sandbox, live, home):
    await sandbox.say(RITA, FERRY)
    set_bot_blocked(sandbox.world, RITA)
    await sandbox.say(OTTO, FERRY)
    async with live():
        (reply,) = await sandbox.replies(OTTO)
    assert "7:30" in reply["text"]
    assert {row["user_id"]: row["state"] for row in await rows(home)} == {RITA: "failed", OTTO: "answered"}


async def test_a_question_that_takes_the_process_down_again_and_again_is_given_up(sandbox, live, home):
    sandbox.world.people[OTTO].started = True
    archive = await Archive.open(home)
    row = {"bot_id": 42, "update_id": 7, "chat_id": OTTO, "message_id": 1, "thread": None, "user_id": OTTO}
    row |= {"text": FERRY, "lang": "en", "private": True, "asked_at": datetime(2024, 1, 1, tzinfo=UTC)}
    await questions.queue_question(archive, questions.QuestionRow(**row))
    for _ in range(10):
        assert await questions.take_next_question(archive)
        await questions.requeue_questions(archive)
    await archive.close()
    async with live():
        (reply,) = await sandbox.replies(OTTO)
    assert reply["text"].startswith("Something went wrong on my side")
    assert [row["state"] for row in await rows(home)] == ["failed"]


async def test_what_fails_around_an_answer_does_not_keep_its_reader_from_asking(sandbox, live, monkeypatch):
    failures = [ArchiveUnavailable("busy"), ZeroDivisionError("a bug")]
    real_load, real_requeue = questions.load_delivery, questions.requeue_questions

    async def load(*args):
        if failures:
            raise failures.pop()
        return await real_load(*args)

    async def requeue(*args):
        if len(failures) == 1:
            failures.append(ArchiveUnavailable("busy"))
            monkeypatch.setattr(questions, "requeue_questions", real_requeue)
            raise ArchiveUnavailable("busy")
        await real_requeue(*args)

    monkeypatch.setattr(questions, "load_delivery", load)
    monkeypatch.setattr(questions, "requeue_questions", requeue)
    monkeypatch.setattr(delivery, "FAILURE_PAUSE_SECONDS", 0.05)
    async with live():
        assert "7:30" in (await say(sandbox, OTTO, FERRY))["text"]
        assert "7:30" in (await say(sandbox, OTTO, FERRY))["text"]
    assert failures == []
