import pytest
from driver import ADMIN, GROUP, OTTO, RITA, say, wait_until_handled

from bot.sandbox.page_api import press_button
from bot.worker.rate_limits import TokenBuckets

FERRY = "When does the ferry to Owl Island leave?"
LIMITED = "That was a lot of questions! Please ask"


def texts(sandbox, chat):
    room = sandbox.world.room(chat)
    return [room.messages[number].get("text", "") for number in sandbox.world.sent.get(chat, ())]


async def test_commands_are_limited_and_it_is_said_once(sandbox, live):
    words = "why start help sources mydata search link privacy mode channels new stop verify ask nonsense".split()
    commands = [*(f"/{word}" for word in words), "/search ferry", "x" * 2000]
    readers = dict(enumerate(commands, 600))
    for reader in readers:
        sandbox.world.add_person(reader, "Reader", lang="en")
    async with live(reader_limit=5):
        for reader, command in readers.items():
            for _ in range(8):
                await sandbox.say(reader, command)
        await wait_until_handled(sandbox)
    for reader, command in readers.items():
        said = texts(sandbox, reader)
        assert len([text for text in said if text.startswith(LIMITED)]) == 1, command
        assert len(said) <= 6, command


async def test_presses_are_limited(sandbox, live):
    async with live(reader_limit=5):
        answer = await say(sandbox, OTTO, FERRY)
        first, *_ = [b["callback_data"] for row in answer["reply_markup"]["inline_keyboard"] for b in row]
        before = len(sandbox.transcript)
        for _ in range(40):
            press_button(sandbox.world, OTTO, OTTO, answer["message_id"], first)
        await wait_until_handled(sandbox)
    answered = [c for c in sandbox.transcript[before:] if c["method"].lower() == "answercallbackquery"]
    assert len(answered) == 21
    assert sum(str(call["params"].get("text")).startswith(LIMITED) for call in answered) == 1


async def test_a_limited_reader_stops_nobody_else_and_questions_have_a_limit_of_their_own(sandbox, live):
    async with live(reader_limit=5):
        for _ in range(30):
            await sandbox.say(OTTO, "/why")
        await sandbox.say(RITA, "/start")
        assert (await sandbox.replies(RITA))[0]["text"]
        await sandbox.say(OTTO, FERRY)
        await sandbox.until(lambda: any("7:30" in text for text in texts(sandbox, OTTO)))
        for _ in range(30):
            await sandbox.say(ADMIN, "/start")
        await sandbox.replies(ADMIN, 30)


async def test_a_group_has_a_limit_and_commands_of_other_bots_do_not_count(sandbox, live):
    async with live(reader_limit=100, chat_limit=4):
        for _ in range(20):
            await sandbox.say(OTTO, "/start@another_bot", chat_id=GROUP)
            await sandbox.say(OTTO, "/weather", chat_id=GROUP)
            await sandbox.say(OTTO, "just talking", chat_id=GROUP)
        await wait_until_handled(sandbox)
        assert texts(sandbox, GROUP) == []
        for _ in range(10):
            await sandbox.say(OTTO, "/help@citegram_bot", chat_id=GROUP)
        await wait_until_handled(sandbox)
    said = texts(sandbox, GROUP)
    assert len(said) == 5
    assert sum(text.startswith(LIMITED) for text in said) == 1


def test_a_bucket_refills_and_what_is_full_again_is_forgotten(monkeypatch):
    now = 0.0
    buckets = TokenBuckets(100.0, lambda: now)
    assert [buckets.take(("a", 5)) for _ in range(5)] == [0] * 5
    assert buckets.take(("a", 5)) == pytest.approx(20)
    assert buckets.take(("b", 5)) == 0
    now = 21.0
    assert buckets.take(("a", 5)) == 0
    assert buckets.take(("a", 5)) > 0
    monkeypatch.setattr("bot.worker.rate_limits._MAX_BUCKETS", 10)
    for number in range(1000):
        now += 200
        buckets.take((number, 5))
    assert len(buckets._spent) <= 10
