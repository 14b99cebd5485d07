"""Follow-ups in the real bot, and /new, which begins a talk afresh."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from driver import GROUP, OTTO, RITA, say_text

from bot.sandbox import Sandbox
from bot.sandbox.chats import Membership

FERRY, WHY = "When does the ferry to Owl Island leave?", "why so early?"


async def test_a_follow_up_is_answered_until_a_new_talk_begins(sandbox: Sandbox, live: Any, ask: Any) -> None:
    async with live():
        assert "7:30" in (await ask(OTTO, FERRY))["text"]
        follow_up = (await ask(OTTO, WHY))["text"]
        assert "7:30" in follow_up
        assert follow_up.startswith("Answering:")
        assert "ferry" in follow_up.split("”")[0]
        assert await say_text(sandbox, OTTO, "/new") == "New conversation. I have forgotten the earlier questions."
        assert "7:30" not in (await ask(OTTO, WHY))["text"]


async def test_a_talk_can_be_off_and_on(sandbox: Sandbox, live: Any, ask: Any) -> None:
    async with live():
        assert (await say_text(sandbox, OTTO, "/new off")).startswith("I do not remember earlier questions here.")
        await ask(OTTO, FERRY)
        assert "7:30" not in (await ask(OTTO, WHY))["text"]
        assert (await say_text(sandbox, OTTO, "/new on")).startswith("New conversation")
        assert "off and /new on" in await say_text(sandbox, OTTO, "/new perhaps")


async def test_a_follow_up_is_not_answered_with_what_another_talk_meant_by_it(
    sandbox: Sandbox, live: Any, ask: Any
) -> None:
    async with live():
        await ask(OTTO, FERRY)
        assert "7:30" in (await ask(OTTO, WHY))["text"]
        await ask(RITA, "When is fresh mackerel sold on the quay?")
        assert "7:30" not in (await ask(RITA, WHY))["text"]
        # and an answer out of memory is followed up as well
        assert "7:30" in (await ask(RITA, FERRY))["text"]
        assert "7:30" in (await ask(RITA, WHY))["text"]


async def test_in_a_group_its_admins_say_whether_talks_are_remembered(sandbox: Sandbox, live: Any) -> None:
    sandbox.world.room(GROUP).members |= {OTTO: Membership("member"), RITA: Membership("administrator")}
    async with live():
        assert await say_text(sandbox, OTTO, "/new@citegram_bot off", GROUP) == (
            "Only admins can change whether I remember earlier questions here."
        )
        assert "не помню" in await say_text(sandbox, RITA, "/new@citegram_bot off", GROUP)


async def test_what_talks_remember_is_sent_and_erased_with_the_rest(
    sandbox: Sandbox, live: Any, ask: Any, home: Path
) -> None:
    async with live():
        await ask(OTTO, FERRY)
        await ask(RITA, FERRY)
        sent = await ask(OTTO, "/mydata")
        document = json.loads(sandbox.world.files[sent["document"]["file_id"]].data)
        assert [one["question"] for one in document["remembered"]] == [FERRY]
        question = await ask(OTTO, "/forget")
        assert "1 question remembered for follow-ups" in question["text"]
        (row,) = question["reply_markup"]["inline_keyboard"]
        await sandbox.press(OTTO, OTTO, question["message_id"], row[0]["callback_data"])
        with closing(sqlite3.connect(home / "citegram.db")) as archive:
            assert archive.execute("SELECT user_id FROM talks").fetchall() == [(RITA,)]
