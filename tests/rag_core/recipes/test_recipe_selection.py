from dataclasses import replace
from datetime import UTC, datetime

from rag_core.answer import choose_recipe, load_recipe_switches, set_recipe_enabled
from rag_core.planning.plan import plan_by_rules
from rag_core.run import Run
from rag_core.storage import questions
from rag_core.storage.readers import AnswerMode, load_answer_mode, save_answer_mode

SHORT = "How much does a ferry ticket cost?"
MANY_SIDED = "Compare the ferry to Owl Island and the lighthouse museum."
CHAT = 7


async def chosen(library, text=MANY_SIDED, chat=CHAT):
    run, question = Run(library.rag.budgets, "direct"), replace(library.question(text), chat=chat)
    found = await run.require("choose", choose_recipe(question, plan_by_rules(question), library.rag, run))
    assert run.spans[-1].counts["recipe"] == found.recipe
    return found.recipe, run.spans[-1].counts["why"]


def agent_on(library, **more):
    agent = library.rag.settings.agent.model_copy(update={"enabled": True, **more})
    library.rag = replace(library.rag, settings=library.rag.settings.model_copy(update={"agent": agent}))


async def test_auto_leaves_the_agent_alone_where_it_is_switched_off(library):
    assert (await chosen(library))[0] == "agent"
    agent_on(library, enabled=False)
    assert await chosen(library) == ("direct", "agent is off")
    await set_recipe_enabled(library.rag, "agent", on=True)
    assert (await chosen(library))[0] == "agent"
    await set_recipe_enabled(library.rag, "agent", on=False)
    assert (await chosen(library))[0] == "direct"
    assert [name for name, on in (await load_recipe_switches(library.rag)).items() if not on] == ["agent"]


async def test_a_chat_pins_its_recipe(library):
    await save_answer_mode(library.rag.archive, CHAT, AnswerMode("council", careful=True))
    run, question = Run(library.rag.budgets, "direct"), replace(library.question(SHORT), chat=CHAT)
    found = await run.require("choose", choose_recipe(question, plan_by_rules(question), library.rag, run))
    assert (found.recipe, found.careful) == ("council", True)
    assert (await chosen(library, SHORT, chat=8))[0] == "direct"
    assert await load_answer_mode(library.rag.archive, 8) == AnswerMode("auto", careful=False)


async def test_a_pinned_recipe_that_is_gone_or_switched_off_is_not_used(library):
    await set_recipe_enabled(library.rag, "council", on=False)
    for pinned in ("council", "oracle"):
        await save_answer_mode(library.rag.archive, CHAT, AnswerMode(pinned))
        assert await chosen(library, SHORT) == ("direct", f"{pinned} is off")


async def test_under_load_everything_falls_to_direct(library):
    await save_answer_mode(library.rag.archive, CHAT, AnswerMode("agent"))
    for n in range(5):
        ids = {"bot_id": 1, "update_id": n, "chat_id": n, "message_id": n, "thread": None, "user_id": n}
        asked_at = datetime(2025, 3, 1, tzinfo=UTC)
        row = questions.QuestionRow(**ids, text="?", lang="en", asked_at=asked_at, private=True)
        await questions.queue_question(library.rag.archive, row)
        assert (await chosen(library))[0] == ("agent" if n < 4 else "direct")


async def test_what_is_asked_for_on_the_terminal_is_used(library):
    await set_recipe_enabled(library.rag, "agent", on=False)
    library.rag = replace(library.rag, recipe="agent")
    assert await chosen(library, SHORT) == ("agent", "asked for")
