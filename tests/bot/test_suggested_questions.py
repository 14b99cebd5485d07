"""Suggested questions: made from posts, offered to those who may read them, and asked by a press."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bot.sandbox import Sandbox

RITA, OTTO, ADMIN = 500, 502, 501
HARBOUR, SAFE = -1001000001, -1001000004
PUBLIC, SECRET = (
    "The evening ferry leaves at 21:30 from pier two.",
    "The silver vault opens at 23:45 for the treasurer.",
)


@pytest.fixture(autouse=True)
def made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.worker.known_answers._FIRST_RUN_SECONDS", 0.1)
    monkeypatch.setattr("bot.worker.known_answers._INTERVAL_SECONDS", 0.1)


async def greet(sandbox: Sandbox, who: int, text: str = "hello") -> dict[str, Any]:
    await sandbox.say(who, text)
    (reply,) = await sandbox.replies(who)
    return reply


def get_buttons(reply: dict[str, Any]) -> dict[str, str]:
    rows = reply.get("reply_markup", {}).get("inline_keyboard", [])
    return {button["text"]: button["callback_data"] for row in rows for button in row}


async def wait_for_buttons(sandbox: Sandbox, who: int, count: int) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while len(get_buttons(reply := await greet(sandbox, who))) != count:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    return reply


async def test_a_suggestion_is_offered_where_its_post_may_be_read_and_a_press_asks_it(
    sandbox: Sandbox, live: Any
) -> None:
    asked = "What time is the evening ferry?"
    async with live():
        assert get_buttons(await greet(sandbox, OTTO)) == {}
        post = await sandbox.post(HARBOUR, PUBLIC)
        await sandbox.post(SAFE, SECRET)
        of_admin = await wait_for_buttons(sandbox, ADMIN, 2)
        reply = await wait_for_buttons(sandbox, OTTO, 1)
        secret = get_buttons(of_admin)["What time is the silver vault?"]
        assert list(get_buttons(reply)) == [asked]
        pressed = await sandbox.press(OTTO, OTTO, reply["message_id"], get_buttons(reply)[asked])
        assert not pressed["answer"].get("show_alert")
        shown, answer = await sandbox.replies(OTTO, 2)
        assert shown["text"] == asked
        assert "21:30" in answer["text"]
        # neither a forged button nor one whose post has changed asks anything
        forged = await sandbox.press(OTTO, OTTO, reply["message_id"], secret)
        await sandbox.edit(HARBOUR, post["message_id"], "The evening ferry does not run this week.")
        await wait_for_buttons(sandbox, OTTO, 0)
        old = await sandbox.press(OTTO, OTTO, reply["message_id"], get_buttons(reply)[asked])
        assert {one["answer"]["text"] for one in (forged, old)} == {
            "This question is out of date. Just write your own."
        }


async def test_an_answer_offers_what_its_channel_answers_next_in_private_and_to_whom_may_read_it(
    sandbox: Sandbox, live: Any
) -> None:
    async with live():
        await sandbox.post(HARBOUR, PUBLIC)
        await sandbox.post(SAFE, SECRET)
        await wait_for_buttons(sandbox, ADMIN, 2)
        answer = await greet(sandbox, ADMIN, "When is fresh mackerel sold on the quay?")
        rows = answer["reply_markup"]["inline_keyboard"]
        assert [one["text"] for one in rows[1]] == ["What time is the evening ferry?"], answer[
            "text"
        ]  # the safe was not cited
        assert len(rows) == 2
        pressed = await sandbox.press(ADMIN, ADMIN, answer["message_id"], rows[0][-1]["callback_data"])
        assert pressed["answer"] is not None
        more = sandbox.world.room(ADMIN).messages[answer["message_id"]]["reply_markup"]["inline_keyboard"]
        assert more[-1] == rows[1]
        await sandbox.press(ADMIN, ADMIN, answer["message_id"], rows[1][0]["callback_data"])
        _, next_answer = await sandbox.replies(ADMIN, 2)
    assert "21:30" in next_answer["text"]
    assert len(next_answer["reply_markup"]["inline_keyboard"]) == 1  # what was just answered is not offered again
