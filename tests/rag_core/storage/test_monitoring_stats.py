import json
from datetime import UTC, datetime, timedelta

from stored_updates import save_updates

from rag_core.storage import questions, raw_updates, readers
from rag_core.storage.questions import QuestionStats
from rag_core.storage.readers import forget_question_texts

NOW = datetime(2025, 3, 10, 12, tzinfo=UTC)
SAID, REFUSED, CLOSED = {"sentences": [{"support": 1}], "found": [[1, 2]]}, {"sentences": [], "found": []}, {}
UNSURE = SAID | {"certainty": "probable"}


async def ask(archive, number, days_ago, answer):
    moment = NOW - timedelta(days=days_ago)
    asked = {"bot_id": 1, "update_id": number, "chat_id": 5, "message_id": number, "thread": 3}
    asked |= {"user_id": 5 + number, "text": f"question {number}", "lang": "ru" if number % 2 else "en"}
    question = await questions.queue_question(archive, questions.QuestionRow(**asked, asked_at=moment, private=True))
    assert question
    if answer == "waiting":
        return question
    state = "answered" if answer is not None else "failed"
    kept = json.dumps(answer) if answer is not None else None
    await questions.finish_question(archive, question, state=state, answer=kept, message_id=number + 1)
    async with archive.writing() as connection:
        sql = "UPDATE questions SET finished_at = ? WHERE id = ?"
        await connection.execute(sql, (int(moment.timestamp()), question))
    return question


async def fill(archive):
    outcomes = [(0, SAID), (0, REFUSED), (0, None), (0, "waiting"), (3, SAID), (3, CLOSED), (40, UNSURE), (41, REFUSED)]
    for number, (days_ago, answer) in enumerate(outcomes):
        await ask(archive, number, days_ago + 0.1, answer)


async def test_questions_are_counted_by_what_became_of_them(archive):
    await fill(archive)
    assert await questions.count_questions_since(archive, NOW - timedelta(days=1)) == QuestionStats(4, 1, 0, 1, 1)
    assert await questions.count_questions_since(archive, NOW - timedelta(days=7)) == QuestionStats(6, 2, 0, 2, 1)
    assert await questions.count_questions_since(archive, NOW - timedelta(days=99)) == QuestionStats(8, 2, 1, 3, 1)
    assert await questions.count_questions_since(archive, NOW) == QuestionStats()


async def test_old_questions_are_forgotten_and_still_counted(archive):
    await fill(archive)
    everything = NOW - timedelta(days=100)
    before = await questions.count_questions_since(archive, everything)
    assert await forget_question_texts(archive, NOW - timedelta(days=30)) == 2
    assert await forget_question_texts(archive, NOW - timedelta(days=30)) == 0
    assert await questions.count_questions_since(archive, everything) == before
    old = await archive.rows("SELECT * FROM questions WHERE asked_at < ?", (int(NOW.timestamp()) - 20 * 86400,))
    assert [(r["text"], r["user_id"], r["chat_id"], r["message_id"], r["answer_message_id"]) for r in old] == [
        ("", 0, 0, 0, None)
    ] * 2
    assert [json.loads(row["answer"]) for row in old] == [
        {"refused": False, "certainty": "probable"}, {"refused": True, "certainty": None},
    ]  # fmt: skip
    fresh = await archive.rows("SELECT text FROM questions WHERE text <> ''")
    assert len(fresh) == 6


async def test_a_question_that_still_waits_is_not_forgotten(archive):
    await ask(archive, 1, 400, "waiting")
    assert await forget_question_texts(archive, NOW) == 0
    taken = await questions.take_next_question(archive)
    assert taken and taken.text == "question 1"


async def test_the_language_of_a_user_is_that_of_their_last_question(archive):
    await fill(archive)
    assert await readers.get_user_language(archive, 6) == "ru"
    assert await readers.get_user_language(archive, 7) == "en"
    assert await readers.get_user_language(archive, 999) is None


async def test_what_waits_in_the_inbox_is_posts_and_what_nobody_handles(archive):
    kinds = ("channel_post", "message", "edited_channel_post", "message")
    await save_updates(archive, 42, [{"update_id": n, kind: {}} for n, kind in enumerate(kinds)])
    assert await raw_updates.count_unhandled_updates(archive) == 2
    async with archive.writing() as connection:
        await connection.execute("UPDATE updates SET received_at = received_at - 90 WHERE update_id = 1")
    assert await raw_updates.count_unhandled_updates(archive) == 3
