import asyncio

import pytest
from driver import execute, wait_until

from rag_core.calibration import Calibration
from rag_core.types import Certainty

RITA, OTTO, ADMIN = 500, 502, 501
HARBOUR, SAFE = -1001000001, -1001000004
PUBLIC, SECRET = (
    "The Gull Rock ferry leaves at 21:30 from pier two.",
    "The Old Customs vault opens at 23:45 for the treasurer.",
)

FERRY, VAULT = "What time is the Gull Rock ferry?", "What time is the Old Customs vault?"


@pytest.fixture(autouse=True)
def made_at_once(monkeypatch):
    monkeypatch.setattr("bot.worker.known_answers._FIRST_RUN_SECONDS", 0.1)
    monkeypatch.setattr("bot.worker.known_answers._INTERVAL_SECONDS", 0.1)
    monkeypatch.setattr(Calibration, "grade", lambda *_: Certainty.SURE)


async def say(sandbox, who, text):
    await sandbox.say(who, text)
    (reply,) = await sandbox.replies(who)
    return reply


def get_buttons(reply):
    rows = reply.get("reply_markup", {}).get("inline_keyboard", [])
    return {button["text"]: button["callback_data"] for row in rows for button in row if "callback_data" in button}


async def wait_for_suggestion(sandbox, who):
    async with asyncio.timeout(20):
        while not get_buttons(reply := await say(sandbox, who, "what can you do?")):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    return reply


async def test_one_question_is_offered_once_in_a_talk_and_never_under_a_greeting(sandbox, live_bot):
    await sandbox.post(HARBOUR, PUBLIC)
    await sandbox.post(SAFE, SECRET)
    offered = [get_buttons(await wait_for_suggestion(sandbox, ADMIN)) for _ in range(2)]
    assert sorted(label for one in offered for label in one) == [FERRY, VAULT]
    for text in ("what can you do?", "hello", "thanks!", "/start"):
        assert get_buttons(await say(sandbox, ADMIN, text)) == {}, text
    # a newcomer is offered one by /start, who has asked before is not; none in another language
    assert list(get_buttons(await say(sandbox, OTTO, "/start"))) == [FERRY]
    assert get_buttons(await say(sandbox, OTTO, "what can you do?")) == {}
    await say(sandbox, OTTO, "/new")
    await say(sandbox, OTTO, "When is fresh mackerel sold on the quay?")
    await say(sandbox, OTTO, "/new")
    assert get_buttons(await say(sandbox, OTTO, "/start")) == {}
    assert list(get_buttons(await say(sandbox, OTTO, "what can you do?"))) == [FERRY]
    assert get_buttons(await say(sandbox, RITA, "/start")) == {}


async def test_a_suggestion_is_offered_where_its_post_may_be_read_and_a_press_asks_it(sandbox, home, live_bot):
    post = await sandbox.post(HARBOUR, PUBLIC)
    await sandbox.post(SAFE, SECRET)
    of_admin = [get_buttons(await wait_for_suggestion(sandbox, ADMIN)) for _ in range(2)]
    reply = await wait_for_suggestion(sandbox, OTTO)
    secret = next(one[VAULT] for one in of_admin if VAULT in one)
    assert list(get_buttons(reply)) == [FERRY]
    pressed = await sandbox.press(OTTO, OTTO, reply["message_id"], get_buttons(reply)[FERRY])
    assert not pressed["answer"].get("show_alert")
    shown, answer = await sandbox.replies(OTTO, 2)
    assert shown["text"] == FERRY
    assert "21:30" in answer["text"]
    # neither a forged button nor one whose post has changed asks anything
    forged = await sandbox.press(OTTO, OTTO, reply["message_id"], secret)
    await sandbox.edit(HARBOUR, post["message_id"], "The Gull Rock ferry does not run this week.")
    await wait_until(lambda: not execute(home, f"SELECT 1 FROM posts WHERE text = '{PUBLIC}'"))
    old = await sandbox.press(OTTO, OTTO, reply["message_id"], get_buttons(reply)[FERRY])
    assert {one["answer"]["text"] for one in (forged, old)} == {"This question is out of date. Just write your own."}


async def test_a_sure_answer_offers_in_private_what_its_channel_answers_next(sandbox, live):
    async with live():
        await sandbox.post(HARBOUR, PUBLIC)
        await sandbox.post(SAFE, SECRET)
        for _ in range(2):
            await wait_for_suggestion(sandbox, ADMIN)
        await say(sandbox, ADMIN, "/new")
        answer = await say(sandbox, ADMIN, "When is fresh mackerel sold on the quay?")
        rows = answer["reply_markup"]["inline_keyboard"]
        assert [one["text"] for one in rows[1]] == [FERRY], answer["text"]  # the safe was not cited
        assert len(rows) == 2
        pressed = await sandbox.press(ADMIN, ADMIN, answer["message_id"], rows[0][-1]["callback_data"])
        assert pressed["answer"] is not None
        more = sandbox.world.room(ADMIN).messages[answer["message_id"]]["reply_markup"]["inline_keyboard"]
        assert more[-1] == rows[1]
        await sandbox.press(ADMIN, ADMIN, answer["message_id"], rows[1][0]["callback_data"])
        _, next_answer = await sandbox.replies(ADMIN, 2)
    assert "21:30" in next_answer["text"]
    assert len(next_answer["reply_markup"]["inline_keyboard"]) == 1  # what was just answered is not offered again


async def test_a_press_that_telegram_makes_wait_keeps_no_other_reader_from_asking(sandbox, live, monkeypatch):
    monkeypatch.setattr("bot.app._SHUTDOWN_GRACE_SECONDS", 0.1)
    async with live():
        await sandbox.post(HARBOUR, PUBLIC)
        reply = await wait_for_suggestion(sandbox, OTTO)
        sandbox.faults.fail_next("sendMessage", "429", retry_after=20)
        pressing = asyncio.create_task(sandbox.press(OTTO, OTTO, reply["message_id"], get_buttons(reply)[FERRY]))
        assert await sandbox.until(lambda: not sandbox.faults.waiting)
        await sandbox.say(RITA, "When is fresh mackerel sold on the quay?")
        (answer,) = await sandbox.replies(RITA, timeout=10)
        assert "mackerel" in answer["text"]
        pressing.cancel()
