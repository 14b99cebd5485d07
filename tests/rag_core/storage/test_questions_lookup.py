"""Questions that were answered, found again by their messages or by who asked."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from rag_core.storage import Archive, questions

BOT, CHAT, OTHER, RITA, OTTO = 42, -1009, -1010, 500, 502
Answer = Callable[..., Awaitable[None]]


@pytest.fixture
def answer(archive: Archive) -> Answer:
    """What asks and answers, such as "text" in message 3, answered in the messages 4 and 7."""
    updates = iter(range(1, 100))

    async def asked(
        text: str, message: int, sent: list[int], *, user: int = RITA, chat: int = CHAT, thread: int | None = None
    ) -> None:
        number = await questions.queue_question(
            archive,
            questions.QuestionRow(
                bot_id=BOT, update_id=next(updates), chat_id=chat, message_id=message, thread=thread, user_id=user,
                text=text, lang="ru", asked_at=datetime(2024, 3, 12, tzinfo=UTC), private=False,
            ),
        )  # fmt: skip
        assert number
        await questions.take_next_question(archive)
        state, kept = ("answered", json.dumps({"messages": sent})) if sent else ("failed", None)
        await questions.finish_question(archive, number, state=state, answer=kept, message_id=sent[0] if sent else None)

    return asked


async def behind(archive: Archive, message: int, chat: int = CHAT) -> str | None:
    found = await questions.find_question_of_message(archive, BOT, chat, message)
    return found.text if found else None


async def last(archive: Archive, user: int = RITA, chat: int = CHAT, thread: int | None = None) -> str | None:
    found = await questions.fetch_last_answered(archive, BOT, chat, user, thread)
    return found.text if found else None


async def test_an_answer_is_found_by_each_of_its_messages_and_by_its_question(archive: Archive, answer: Answer) -> None:
    await answer("one", 10, [12, 14])
    await answer("two", 11, [13], user=OTTO)
    await answer("elsewhere", 10, [12], chat=OTHER)
    assert [await behind(archive, n) for n in (10, 11, 12, 13, 14, 15)] == ["one", "two", "one", "two", "one", None]
    assert await behind(archive, 12, OTHER) == "elsewhere"
    assert await questions.find_question_of_message(archive, BOT + 1, CHAT, 12) is None


async def test_the_last_answer_is_the_asker_s_own_in_this_chat(archive: Archive, answer: Answer) -> None:
    await answer("first", 1, [2])
    await answer("second", 3, [4])
    await answer("failed", 5, [])
    await answer("otto's", 7, [8], user=OTTO)
    await answer("elsewhere", 9, [10], chat=OTHER)
    found = [await last(archive), await last(archive, OTTO), await last(archive, chat=OTHER)]
    assert found == ["second", "otto's", "elsewhere"]
    assert await last(archive, 7) is None
    assert await behind(archive, 5) is None


async def test_in_a_forum_the_thread_s_own_answer_comes_first(archive: Archive, answer: Answer) -> None:
    await answer("in seven", 1, [2], thread=7)
    await answer("in nine", 3, [4], thread=9)
    found = [await last(archive, thread=thread) for thread in (7, 9, 8, None)]
    assert found == ["in seven", "in nine", "in nine", "in nine"]


async def test_it_knows_whose_it_was_and_what_was_kept(archive: Archive, answer: Answer) -> None:
    await answer("one", 1, [2])
    found = await questions.find_question_of_message(archive, BOT, CHAT, 2)
    assert found
    assert (found.user_id, found.lang, json.loads(found.answer)) == (RITA, "ru", {"messages": [2]})
    assert (datetime.now(UTC) - found.answered_at).total_seconds() < 60
