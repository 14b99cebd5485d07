"""/mode: a chat says how its questions are answered; who may say so; switches for everyone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driver import ADMIN, GROUP, OTTO, RITA, buttons, current, execute, say
from roles_server import serve_roles

from bot.handlers.groups import _ModeCallback
from bot.sandbox import Sandbox
from bot.sandbox.state import Membership
from rag_core.llm.protocol import TokenRates

FERRY = "When does the ferry to Owl Island leave?"


async def pressed(sandbox: Sandbox, who: int, message: dict[str, Any], label: str, then: str) -> None:
    """Press, and see a button with that label afterwards."""
    data = buttons(current(sandbox, message))[label]
    await sandbox.press(who, message["chat"]["id"], message["message_id"], data)
    assert await sandbox.until(lambda: then in buttons(current(sandbox, message))), buttons(current(sandbox, message))


def recipes_of(home: Path) -> list[str]:
    sql = "SELECT json_extract(answer, '$.recipe') FROM questions WHERE answer IS NOT NULL"
    return [recipe for (recipe,) in execute(home, sql)]


async def test_a_reader_chooses_and_the_next_question_is_answered_so(sandbox, live, home, ask):
    async with live():
        asked = await say(sandbox, OTTO, "/mode")
        assert asked["text"].startswith("How I answer here: I choose")
        assert list(buttons(asked)) == ["✓ I choose", "Quick", "Thorough"]
        await pressed(sandbox, OTTO, asked, "Thorough", "✓ Thorough")
        assert "7:30" in (await ask(OTTO, FERRY))["text"]
        assert (await say(sandbox, OTTO, "/mode quick"))["text"].startswith("How I answer here: Quick")
        assert "7:30" in (await ask(OTTO, FERRY))["text"]
        assert recipes_of(home) == ["agent", "direct"]
        assert (await say(sandbox, RITA, "/mode Тщательно"))["text"].startswith("Как я отвечаю здесь: Тщательно")
        for unknown in ("oracle", "council", "careful"):
            told = await say(sandbox, OTTO, f"/mode {unknown}")
            assert told["text"].endswith("one of these: auto, quick, thorough")
        told = await say(sandbox, RITA, "/mode оракул")
        assert told["text"].endswith("одно из слов: авто, быстро, тщательно")
        assert (await say(sandbox, RITA, "/mode быстро"))["text"].startswith("Как я отвечаю здесь: Быстро")


async def test_in_a_group_its_admins_choose(sandbox, live):
    sandbox.world.room(GROUP).members |= {OTTO: Membership("member"), RITA: Membership("administrator")}
    async with live():
        said = await say(sandbox, OTTO, "/mode@citegram_bot thorough", GROUP)
        assert said["text"] == "Only an admin can change this here."
        asked = await say(sandbox, RITA, "/mode@citegram_bot thorough", GROUP)
        assert asked["text"].startswith("Как я отвечаю здесь: Тщательно")
        await sandbox.press(OTTO, GROUP, asked["message_id"], buttons(asked)["Быстро"])
        assert "✓ Тщательно" in buttons(current(sandbox, asked))
        await pressed(sandbox, RITA, asked, "Быстро", "✓ Быстро")


async def test_recipes_that_the_model_is_too_slow_for_are_not_offered_and_that_is_said(sandbox, live, monkeypatch):
    monkeypatch.setattr("rag_core.llm.openai_client.RemoteModel.rates", TokenRates(prefill=29, decode=7.4))
    async with serve_roles({}) as model, live(sections={"llm": {"url": model.url}}):
        asked = await say(sandbox, ADMIN, "/mode")
        assert not {"Council", "Step by step", "Review every draft"} & set(buttons(asked))
        assert "too slow on this machine" in asked["text"] and "Council, Step by step" in asked["text"]
        told = await say(sandbox, OTTO, "/mode")
        assert "too slow" not in told["text"]
        assert (await say(sandbox, ADMIN, "/mode council"))["text"].startswith("I do not know this way")


async def test_recipes_by_name_are_for_admins_and_a_pinned_one_stays(sandbox, live):
    forged = _ModeCallback(action="use", name="council").pack()
    async with live():
        asked = await say(sandbox, ADMIN, "/mode")
        assert not {"Council", "Step by step", "Review every draft"} & set(buttons(asked))
        await sandbox.press(ADMIN, ADMIN, asked["message_id"], forged)  # no model is here
        assert "✓ I choose" in buttons(current(sandbox, asked))
    async with serve_roles({}) as model, live(sections={"llm": {"url": model.url}}):
        asked = await say(sandbox, ADMIN, "/mode")
        await pressed(sandbox, ADMIN, asked, "Council", "✓ Council")
        await pressed(sandbox, ADMIN, asked, "Review every draft", "✓ Review every draft")
        reader = await say(sandbox, OTTO, "/mode")
        await sandbox.press(OTTO, OTTO, reader["message_id"], forged)
        assert list(buttons(current(sandbox, reader))) == ["✓ I choose", "Quick", "Thorough"]
    async with live():
        kept = await say(sandbox, ADMIN, "/mode")
        assert {"✓ Council", "✓ Review every draft"} <= set(buttons(kept))
        await pressed(sandbox, ADMIN, kept, "Quick", "✓ Quick")
        assert "Council" not in buttons(current(sandbox, kept))


async def test_an_admin_switches_a_recipe_off_for_everyone(sandbox, live, home, ask):
    async with live():
        await say(sandbox, OTTO, "/mode thorough")
        asked = await say(sandbox, ADMIN, "/mode")
        await pressed(sandbox, ADMIN, asked, "Switch off for everyone: Thorough", "Switch on for everyone: Thorough")
        assert "7:30" in (await ask(OTTO, FERRY))["text"]
        assert recipes_of(home) == ["direct"]
        assert "This is switched off at the moment" in (await say(sandbox, OTTO, "/mode"))["text"]
        await pressed(sandbox, ADMIN, asked, "Switch on for everyone: Thorough", "10 % of chats")
        await pressed(sandbox, ADMIN, asked, "10 % of chats", "✓ 10 % of chats")


async def test_a_made_up_button_of_a_reader_switches_nothing(sandbox, live, home, ask):
    async with live():
        asked = await say(sandbox, OTTO, "/mode")
        for made_up in (
            _ModeCallback(action="off", name="agent"),
            _ModeCallback(action="share", name="agent", number=100),
        ):
            await sandbox.press(OTTO, OTTO, asked["message_id"], made_up.pack())
        assert "7:30" in (await ask(OTTO, FERRY))["text"]
    assert execute(home, "SELECT * FROM choices WHERE name LIKE '%agent'") == []
    ((recipe, spans, without),) = execute(home, "SELECT recipe, spans, without FROM traces")
    assert (recipe, without) == ("direct", "[]")
    assert '"stage": "lexical"' in spans
    assert "erry" not in spans
