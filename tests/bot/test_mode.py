"""/mode: a chat says how its questions are answered; who may say so; switches for everyone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from driver import ADMIN, GROUP, OTTO, RITA, buttons, current, say

from bot.handlers.mode import _ModeCallback
from bot.sandbox import Sandbox
from bot.sandbox.chats import Membership

FERRY = "When does the ferry to Owl Island leave?"


async def pressed(sandbox: Sandbox, who: int, message: dict[str, Any], label: str, then: str) -> None:
    """Press, and see a button with that label afterwards."""
    data = buttons(current(sandbox, message))[label]
    await sandbox.press(who, message["chat"]["id"], message["message_id"], data)
    assert await sandbox.until(lambda: then in buttons(current(sandbox, message))), buttons(current(sandbox, message))


def recipes_of(home: Path) -> list[str]:
    with closing(sqlite3.connect(home / "citegram.db")) as archive:
        rows = archive.execute("SELECT json_extract(answer, '$.recipe') FROM questions WHERE answer IS NOT NULL")
        return [row[0] for row in rows]


async def test_a_reader_chooses_and_the_next_question_is_answered_so(
    sandbox: Sandbox, live: Any, home: Path, ask: Any
) -> None:
    async with live():
        asked = await say(sandbox, OTTO, "/mode")
        assert asked["text"].startswith("Mode of this chat: auto.")
        assert list(buttons(asked))[:3] == ["✓ auto: chosen for each question", "direct: short and quick",
                                            "agent: looks twice"]  # fmt: skip
        assert not [label for label in buttons(asked) if label.startswith("Switch")]
        await pressed(sandbox, OTTO, asked, "agent: looks twice", "✓ agent: looks twice")
        assert "7:30" in (await ask(OTTO, FERRY))["text"]
        assert (await say(sandbox, OTTO, "/mode direct"))["text"].startswith("Mode of this chat: direct.")
        assert "7:30" in (await ask(OTTO, FERRY))["text"]
        assert recipes_of(home) == ["agent", "direct"]
        assert "There are: auto, direct, agent" in (await say(sandbox, OTTO, "/mode oracle"))["text"]


async def test_in_a_group_its_admins_choose(sandbox: Sandbox, live: Any) -> None:
    sandbox.world.room(GROUP).members |= {OTTO: Membership("member"), RITA: Membership("administrator")}
    async with live():
        said = await say(sandbox, OTTO, "/mode@citegram_bot agent", GROUP)
        assert said["text"] == "Only admins choose the mode here."
        asked = await say(sandbox, RITA, "/mode@citegram_bot agent", GROUP)
        assert asked["text"].startswith("Режим этого чата: agent.")
        await sandbox.press(OTTO, GROUP, asked["message_id"], buttons(asked)["direct: коротко и быстро"])
        await pressed(sandbox, RITA, asked, "council: проверяю каждую часть", "✓ council: проверяю каждую часть")


async def test_an_admin_switches_a_recipe_off_for_everyone(sandbox: Sandbox, live: Any, home: Path, ask: Any) -> None:
    async with live():
        await say(sandbox, OTTO, "/mode agent")
        asked = await say(sandbox, ADMIN, "/mode")
        await pressed(sandbox, ADMIN, asked, "Switch off for everyone: agent", "Switch on for everyone: agent")
        assert "7:30" in (await ask(OTTO, FERRY))["text"]
        assert recipes_of(home) == ["direct"]
        assert "It is switched off now" in (await say(sandbox, OTTO, "/mode"))["text"]
        await pressed(sandbox, ADMIN, asked, "Switch on for everyone: agent", "auto 10 %")
        await pressed(sandbox, ADMIN, asked, "auto 10 %", "✓ auto 10 %")


async def test_a_made_up_button_of_a_reader_switches_nothing(sandbox: Sandbox, live: Any, home: Path) -> None:
    async with live():
        asked = await say(sandbox, OTTO, "/mode")
        for data in (
            _ModeCallback(action="off", name="agent"),
            _ModeCallback(action="share", name="agent", number=100),
        ):
            await sandbox.press(OTTO, OTTO, asked["message_id"], data.pack())
        await say(sandbox, OTTO, "/mode")
    with closing(sqlite3.connect(home / "citegram.db")) as archive:
        assert archive.execute("SELECT count(*) FROM choices WHERE name LIKE '%agent'").fetchone() == (0,)


async def test_how_an_answer_was_made_is_kept_without_its_texts(
    sandbox: Sandbox, live: Any, home: Path, ask: Any
) -> None:
    async with live():
        assert "7:30" in (await ask(OTTO, FERRY))["text"]
    with closing(sqlite3.connect(home / "citegram.db")) as archive:
        ((recipe, spans, without),) = archive.execute("SELECT recipe, spans, without FROM traces").fetchall()
    assert (recipe, without) == ("direct", "[]")
    assert '"stage": "lexical"' in spans
    assert "erry" not in spans
