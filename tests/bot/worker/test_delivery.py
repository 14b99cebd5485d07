"""Every answer reaches its reader, whatever happens on the way to Telegram, and is not sent twice if that can be."""

import asyncio
from collections import Counter

import pytest
from driver import GROUP, HARBOUR, OTTO, RITA, current, execute, press, query_archive, say, wait_until

from bot.telegram.session import RetryMiddleware
from bot.worker import question_worker
from rag_core.answer import answer_question
from rag_core.storage import posts, readers
from rag_core.types import PostKey

BUSY = -1009998
QUESTIONS = [
    "When does the ferry to Owl Island leave?",
    "Where is fresh mackerel sold?",
    "What does the lighthouse museum show until October?",
]


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Pauses of seconds last hundredths."""
    monkeypatch.setattr(RetryMiddleware.__init__, "__defaults__", (6, 0.01))
    monkeypatch.setattr("bot.worker.delivery._RETRY_SECONDS", 0.05)
    monkeypatch.setattr("bot.worker.delivery._LONGEST_SENDING_SECONDS", 0.5)
    monkeypatch.setattr("bot.telegram.session._CHAT_PAUSE", (0.05, 0.1))
    monkeypatch.setattr("bot.telegram.session._BOT_PAUSE", (0.05, 0.1))


async def asked_of_all(sandbox, home, live):
    """Ask everything, in private and in a group; how often each question's answer stands there in the end."""
    await query_archive(home, lambda archive: readers.bind_channel(archive, GROUP, HARBOUR))
    chats = []
    async with live():
        for question in QUESTIONS:
            for who in (OTTO, RITA):
                await sandbox.say(who, question)
            await sandbox.say(OTTO, f"/ask@citegram_bot {question}", chat_id=GROUP)
            chats += [OTTO, RITA, GROUP]
        await settled(home, len(chats))
    copies = answers(sandbox)
    assert Counter(chat for chat, _ in copies) == Counter(chats)
    return copies


async def settled(home, count):
    assert await wait_until(lambda: execute(home, "SELECT state FROM questions") == [("answered",)] * count)


async def on_its_way(home, which="1"):
    assert await wait_until(lambda: bool(execute(home, f"SELECT * FROM deliveries WHERE {which}")))


def answers(sandbox):
    """By chat and text of an answer: how many messages hold it."""
    found = Counter()
    for chat_id, sent in sandbox.world.sent.items():
        for message in (sandbox.world.rooms[chat_id].messages[number] for number in sent):
            if "https://t.me/harbour_news/" in str(message.get("entities", message.get("rich_message"))):
                found[chat_id, message.get("text", "")] += 1
    return found


@pytest.mark.parametrize("kind", ["429", "502html", "drop", "stall"])
async def test_in_a_storm_that_comes_before_telegram_every_answer_comes_exactly_once(sandbox, live, home, kind):
    sandbox.faults.storm(kind, 0.3, retry_after=0, seconds=0.3)
    copies = await asked_of_all(sandbox, home, live)
    assert set(copies.values()) == {1}


async def test_where_replies_are_lost_an_answer_comes_twice_at_most(sandbox, live, home):
    sandbox.faults.storm("lost", 0.3, seed=3)
    sandbox.faults.fail_next("sendMessage", "lost")  # the storm may spare all of them
    copies = await asked_of_all(sandbox, home, live)
    assert max(copies.values()) == 2
    assert execute(home, "SELECT * FROM deliveries") == []


@pytest.mark.parametrize("method", ["sendMessage", "sendRichMessage"])
@pytest.mark.parametrize("kind", ["drop", "lost"])
async def test_an_answer_that_did_not_arrive_is_sent_by_the_next_life_of_the_bot(
    sandbox, live, home, monkeypatch, kind, method
):
    async def never(*_, **__):
        raise ZeroDivisionError

    rich = method == "sendRichMessage"
    await query_archive(home, lambda archive: readers.save_rich_chat(archive, OTTO, rich=rich))
    sandbox.faults.fail_next(method, kind)
    for name in {method, "sendMessage"}:
        sandbox.faults.fail_next(name, "500", times=1000)
    async with live():
        await sandbox.say(OTTO, QUESTIONS[0])
        await on_its_way(home, "tried")
    assert sum(answers(sandbox).values()) == (kind == "lost")
    sandbox.faults.clear()
    monkeypatch.setattr(question_worker, "answer_question", never)
    async with live():
        await settled(home, 1)
    assert list(answers(sandbox).values()) == [1 if kind == "drop" else 2]
    told = [one for one in sandbox.world.room(OTTO).messages.values() if "7:30" in str(one)]
    assert all(("rich_message" in one) is rich for one in told)
    assert "ferry" not in str(execute(home, "SELECT answer FROM questions"))  # words are not kept


async def test_an_answer_that_did_not_arrive_is_made_anew_where_its_post_has_gone(sandbox, live, home):
    sandbox.faults.fail_next("sendMessage", "500", times=1000)
    async with live():
        await sandbox.say(OTTO, QUESTIONS[0])
        await on_its_way(home)
    await query_archive(home, lambda archive: posts.mark_posts_deleted(archive, [PostKey(HARBOUR, 10)], how="admin"))
    sandbox.faults.clear()
    async with live():
        (reply,) = await sandbox.replies(OTTO)
    assert "7:30" not in reply["text"]


async def test_telegram_that_is_away_for_long_gets_the_answer_when_it_is_back(sandbox, live, home):
    sandbox.faults.fail_next("sendMessage", "502html", times=20)
    async with live():
        await sandbox.say(OTTO, QUESTIONS[0])
        await sandbox.say(RITA, QUESTIONS[1])
        await settled(home, 2)
    assert set(answers(sandbox).values()) == {1}


@pytest.mark.parametrize("kind", ["500", "429"])
async def test_an_answer_that_waits_to_be_sent_again_is_not_sent_once_it_is_erased(
    sandbox, live, home, monkeypatch, kind
):
    monkeypatch.setattr("bot.handlers.privacy._STOP_TIMEOUT_SECONDS", 0.1)
    async with live():
        await say(sandbox, OTTO, QUESTIONS[0])
        await settled(home, 1)
        erasing = await say(sandbox, OTTO, "/forget")
        sandbox.faults.fail_next("sendMessage", kind, times=1000 if kind == "500" else 1)
        await sandbox.say(OTTO, QUESTIONS[1])
        await on_its_way(home)
        await press(sandbox, erasing, "Erase", OTTO)
        assert current(sandbox, erasing)["text"].startswith("Erased:")
        sandbox.faults.clear()
        await asyncio.sleep(1.2)  # longer than the wait that Telegram asked for
        await say(sandbox, OTTO, QUESTIONS[2])
        await settled(home, 1)
    assert [text for _, text in answers(sandbox) if "mackerel" in text] == []


async def test_an_answer_that_a_bug_keeps_from_being_sent_blocks_nobody(sandbox, live, home, monkeypatch):
    async def broken(*_):
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr("bot.worker.delivery.AnswerDelivery.send", broken)
        async with live():
            await sandbox.say(OTTO, QUESTIONS[0])
            await wait_until(lambda: execute(home, "SELECT state FROM questions") == [("failed",)])
            patched.undo()
            await say(sandbox, OTTO, QUESTIONS[1])


async def test_an_old_question_that_is_asked_again_is_tried_for_a_day_as_well(sandbox, live, home):
    async with live():
        await say(sandbox, OTTO, QUESTIONS[0])
        await settled(home, 1)
        await asyncio.to_thread(execute, home, "UPDATE questions SET asked_at = asked_at - 3 * 86400")
        sandbox.faults.fail_next("sendMessage", "502html", times=20)
        await sandbox.say(OTTO, "more")
        await settled(home, 2)
    assert len(answers(sandbox)) == 2


async def test_a_group_that_must_wait_keeps_no_other_reader_from_an_answer(sandbox, live, home):
    """As many members ask there as there are workers."""
    members = range(600, 600 + question_worker._WORKER_COUNT)
    for member in members:
        sandbox.world.add_person(member, f"Member {member}", lang="en")
    sandbox.world.add_group(BUSY, "Busy", members=[*members])
    await query_archive(home, lambda archive: readers.bind_channel(archive, BUSY, HARBOUR))
    async with live():
        # every message, since a slow machine sends the state of an answer first
        sandbox.faults.fail_next("sendMessage", "429", times=100, retry_after=30)
        for member in members:
            await sandbox.say(member, f"/ask@citegram_bot {QUESTIONS[0]}", chat_id=BUSY)
        await wait_until(lambda: len(execute(home, "SELECT * FROM deliveries")) == len(members))
        sandbox.faults.clear()
        await sandbox.say(RITA, QUESTIONS[1])
        (reply,) = await sandbox.replies(RITA, timeout=15)
    assert "mackerel" in reply["text"]


async def test_who_waits_for_an_answer_in_a_group_that_must_wait_is_answered_in_private(sandbox, live, home):
    await query_archive(home, lambda archive: readers.bind_channel(archive, GROUP, HARBOUR))
    async with live():
        sandbox.faults.fail_next("sendMessage", "429", retry_after=600)
        await sandbox.say(OTTO, f"/ask@citegram_bot {QUESTIONS[0]}", chat_id=GROUP)
        await on_its_way(home)
        await sandbox.say(OTTO, QUESTIONS[1])
        (reply,) = await sandbox.replies(OTTO, timeout=15)
    assert "mackerel" in reply["text"]


async def test_the_message_that_was_to_become_an_erased_answer_goes(sandbox, live, home, monkeypatch):
    monkeypatch.setattr("bot.handlers.privacy._STOP_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr("bot.worker.streaming._FIRST_UPDATE_SECONDS", 0.0)
    begun = asyncio.Event()

    async def wait_and_answer(*args, **more):
        await begun.wait()
        return await answer_question(*args, **more)

    monkeypatch.setattr(question_worker, "answer_question", wait_and_answer)
    await query_archive(home, lambda archive: readers.bind_channel(archive, GROUP, HARBOUR))
    async with live():
        await sandbox.say(OTTO, f"/ask@citegram_bot {QUESTIONS[0]}", chat_id=GROUP)
        (progress,) = await sandbox.replies(GROUP)
        erasing = await say(sandbox, OTTO, "/forget")
        sandbox.faults.fail_next("editMessageText", "429", retry_after=1)
        begun.set()
        await on_its_way(home)
        await press(sandbox, erasing, "Erase", OTTO)
        messages = sandbox.world.room(GROUP).messages
        assert await sandbox.until(lambda: progress["message_id"] not in messages, 10)
