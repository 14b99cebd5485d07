"""Updates and questions as rows: nothing lost, nothing twice, and answered questions found again by their messages."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from stored_updates import save_updates

from rag_core.storage import questions, raw_updates, readers, subscriptions
from rag_core.storage.questions import fetch_queue_stats
from rag_core.storage.raw_updates import RawUpdate, encode_update
from rag_core.storage.readers import forget_old_data
from rag_core.types import PostKey

BOT = 42


def update(update_id, kind="channel_post"):
    return {"update_id": update_id, kind: {"text": "Половина пары \ud83d и нуль \x00"}}


async def settle(archive, *update_ids):
    async with archive.writing() as connection:
        await raw_updates.mark_updates_done(connection, BOT, update_ids)


async def test_posts_wait_in_the_order_of_their_updates_until_they_are_settled(archive):
    await save_updates(archive, BOT, [update(3), update(2, "message"), update(1, "edited_channel_post")])

    pending = await raw_updates.list_pending_posts(archive)
    assert pending == [(BOT, encode_update(update(1, "edited_channel_post"))), (BOT, encode_update(update(3)))]
    assert await raw_updates.list_pending_posts(archive, limit=1) == pending[:1]

    await settle(archive, 1, 3)
    assert await raw_updates.list_pending_posts(archive) == []
    assert await raw_updates.count_updates_by_state(archive) == {"pending": 1, "poison": 0, "done": 2}


async def test_a_batch_is_kept_whole_or_not_at_all(archive):
    with pytest.raises(OverflowError):
        await raw_updates.save_updates(archive, BOT, [encode_update(update(1)), RawUpdate(2**70, "message", "{}")])
    assert await raw_updates.count_updates_by_state(archive) == {"pending": 0, "poison": 0, "done": 0}


async def test_an_update_is_claimed_exactly_once(archive):
    await save_updates(archive, BOT, [update(1, "message")])
    assert not await raw_updates.is_update_claimed(archive, BOT, 1)
    claims = await asyncio.gather(*(raw_updates.claim_update(archive, BOT, n) for n in (1, 1, 2, 2, 1)))
    assert sorted(claims) == [False, False, False, True, True]
    assert await raw_updates.is_update_claimed(archive, BOT, 1)
    assert not await raw_updates.is_update_claimed(archive, 43, 1)


async def test_a_claimed_question_is_done_but_a_claimed_post_still_waits(archive):
    await save_updates(archive, BOT, [update(1), update(2, "message"), update(3, "message")])
    await raw_updates.claim_update(archive, BOT, 1)
    await raw_updates.claim_update(archive, BOT, 2)
    assert [raw.update_id for _, raw in await raw_updates.list_pending_posts(archive)] == [1]
    assert await raw_updates.list_unclaimed_updates(archive, BOT) == [encode_update(update(3, "message"))]
    assert await raw_updates.list_unclaimed_updates(archive, BOT, after=3) == []


async def test_only_old_and_done_updates_are_forgotten(archive):
    await save_updates(archive, BOT, [update(n) for n in (1, 2, 3)])
    await settle(archive, 1, 2)
    async with archive.writing() as connection:
        await connection.execute("UPDATE updates SET received_at = received_at - 49 * 3600 WHERE update_id <> 2")
    forgotten = await forget_old_data(archive, datetime.now(UTC), timedelta(days=30), timedelta(days=30))
    assert forgotten["updates"] == 1
    assert await raw_updates.count_updates_by_state(archive) == {"pending": 1, "poison": 0, "done": 1}


ASKED = questions.QuestionRow(
    bot_id=BOT, update_id=1, chat_id=5, message_id=1, user_id=5, text="Почём хлеб?", lang="ru",
    asked_at=datetime(2024, 3, 12, 12, tzinfo=UTC), private=True,
)  # fmt: skip


async def ask(archive, update_id, user_id=5):
    row = replace(ASKED, update_id=update_id, message_id=update_id, user_id=user_id)
    return await questions.queue_question(archive, row)


async def test_a_question_is_queued_once_and_comes_back_as_asked(archive):
    first = await ask(archive, 1)
    assert first is not None
    assert await ask(archive, 1) is None
    assert (await fetch_queue_stats(archive)).waiting == 1

    taken = await questions.take_next_question(archive)
    assert len(taken.handle) == 20
    assert taken == replace(ASKED, id=first, attempts=1, handle=taken.handle)
    assert await questions.take_next_question(archive) is None


async def test_workers_never_take_the_same_question(archive):
    for n in range(10):
        await ask(archive, n, user_id=n)
    taken = await asyncio.gather(*(questions.take_next_question(archive) for _ in range(12)))
    ids = [asked.id for asked in taken if asked]
    assert len(ids) == len(set(ids)) == 10
    assert ids == sorted(ids)


async def test_a_reader_s_second_question_waits_for_the_first_but_holds_up_nobody(archive):
    for n, user_id in enumerate((5, 5, 6)):
        await ask(archive, n, user_id)
    first, other = await questions.take_next_question(archive), await questions.take_next_question(archive)
    assert first and other and (first.user_id, other.user_id) == (5, 6)
    assert await questions.take_next_question(archive) is None

    await questions.finish_question(archive, first.id, state="failed", answer=None)
    second = await questions.take_next_question(archive)
    assert second and second.message_id == 1


CHAT, OTHER, RITA, OTTO = -1009, -1010, 500, 502


@pytest.fixture
def answer(archive):
    """What asks and answers, such as "text" in message 3, answered in the messages 4 and 7."""
    updates = iter(range(1, 100))

    async def asked(text, message, sent, *, user=RITA, chat=CHAT, thread=None):
        row = replace(
            ASKED, update_id=next(updates), chat_id=chat, message_id=message, thread=thread, user_id=user, text=text
        )
        number = await questions.queue_question(archive, row)
        assert number
        await questions.take_next_question(archive)
        state, kept = ("answered", json.dumps({"messages": sent})) if sent else ("failed", None)
        await questions.finish_question(archive, number, state=state, answer=kept, message_id=sent[0] if sent else None)

    return asked


async def behind(archive, message, chat=CHAT):
    found = await questions.find_question_of_message(archive, BOT, chat, message)
    return found.text if found else None


async def last(archive, user=RITA, chat=CHAT, thread=None):
    found = await questions.fetch_last_answered(archive, BOT, chat, user, thread)
    return found.text if found else None


async def test_an_answer_is_found_by_each_of_its_messages_and_by_its_question(archive, answer):
    await answer("one", 10, [12, 14])
    await answer("two", 11, [13], user=OTTO)
    await answer("elsewhere", 10, [12], chat=OTHER)
    assert [await behind(archive, n) for n in (10, 11, 12, 13, 14, 15)] == ["one", "two", "one", "two", "one", None]
    assert await behind(archive, 12, OTHER) == "elsewhere"
    assert await questions.find_question_of_message(archive, BOT + 1, CHAT, 12) is None


async def test_the_last_answer_is_the_asker_s_own_in_this_chat(archive, answer):
    await answer("first", 1, [2])
    await answer("second", 3, [4])
    await answer("failed", 5, [])
    await answer("otto's", 7, [8], user=OTTO)
    await answer("elsewhere", 9, [10], chat=OTHER)
    found = [await last(archive), await last(archive, OTTO), await last(archive, chat=OTHER)]
    assert found == ["second", "otto's", "elsewhere"]
    assert await last(archive, 7) is None
    assert await behind(archive, 5) is None


async def test_in_a_forum_the_thread_s_own_answer_comes_first(archive, answer):
    await answer("in seven", 1, [2], thread=7)
    await answer("in nine", 3, [4], thread=9)
    found = [await last(archive, thread=thread) for thread in (7, 9, 8, None)]
    assert found == ["in seven", "in nine", "in nine", "in nine"]


async def test_it_knows_whose_it_was_and_what_was_kept(archive, answer):
    await answer("one", 1, [2])
    found = await questions.find_question_of_message(archive, BOT, CHAT, 2)
    assert (found.user_id, found.lang, json.loads(found.answer)) == (RITA, "ru", {"messages": [2]})
    assert (datetime.now(UTC) - found.answered_at).total_seconds() < 60


async def test_answers_that_cite_one_of_very_many_changed_posts_are_found_fast(archive):
    """A channel is removed, or named anew: all its posts change at once."""
    for n in range(30):
        number = await ask(archive, n)
        cited = json.dumps({"cited": [[CHAT, 100_000 + n, 0, ""], [OTHER, n, 0, ""]]})
        await questions.finish_question(archive, number, state="answered", answer=cited, message_id=n)
    changed = [PostKey(CHAT, n) for n in range(100_001)]
    async with asyncio.timeout(5):
        found = await questions.list_answers_citing(archive, changed, ASKED.asked_at)
    assert [asked.message_id for asked in found] == [0]


async def test_the_undelivered_answer_to_a_question_that_its_reader_stops_is_erased(archive):
    """As after a start: the question waits, with what the process before could not deliver."""
    number = await ask(archive, 1)
    await questions.take_next_question(archive)
    words = questions.DeliveryMessage(0, "The ferry leaves at 7:30.", "[]")
    await questions.save_delivery(archive, number, [words], json.dumps({"cited": [[CHAT, 1, 0, ""]]}))
    await questions.requeue_questions(archive)
    (stopped,) = await questions.cancel_waiting_questions(archive, 5, 5)
    assert stopped.id == number
    assert await archive.column("SELECT text FROM deliveries") == []
    assert await archive.column("SELECT answer FROM questions") == [None]


async def test_the_digest_that_a_group_chose_after_its_move_stays(archive):
    moment = datetime.fromtimestamp(0, UTC)
    for chat, hour in ((CHAT, 9), (OTHER, 18)):
        plan = subscriptions.DigestPlan(chat, OTTO, False, 1, hour, None, "en", moment, moment)
        await subscriptions.save_digest_plan(archive, plan)
    await readers.move_group(archive, CHAT, OTHER)
    assert await archive.column("SELECT hour FROM digests") == [18]


async def test_the_watches_of_a_group_go_on_after_its_move(archive):
    """The bot may hear that it is no member of the old group before it hears of the new one."""
    await subscriptions.add_watch(archive, subscriptions.NewWatch(OTTO, CHAT, False, "walrus", "walrus"))
    await subscriptions.mark_chat_blocked(archive, CHAT, blocked=True)
    await readers.move_group(archive, CHAT, OTHER)
    assert [row["chat_id"] for row in await subscriptions.list_watch_rows(archive)] == [OTHER]
