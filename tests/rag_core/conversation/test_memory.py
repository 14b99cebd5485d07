"""What is remembered of a talk: per chat, reader and topic, for a while, and never as a source."""

from dataclasses import replace
from datetime import timedelta

import pytest
from scripted_model import FakeLlm

from rag_core import Question, Viewer, answer_question
from rag_core.conversation import followups
from rag_core.conversation.followups import resolve_followup
from rag_core.errors import GenerationFailed
from rag_core.run import Run
from rag_core.settings import MemorySettings
from rag_core.storage.readers import erase_user_data

FERRY = "How much is a ferry ticket to Owl Island?"
CHILDREN, BY_RULES = "how much is it for children?", "how much is a ferry ticket to Owl Island for children?"


def asked(library, text, *, chat=5, user=1, thread=None, minutes=0):
    viewer = Viewer(user, frozenset({library.harbour, library.kiln}))
    lang = "ru" if any("а" <= c <= "я" for c in text) else "en"
    return Question(text, lang, library.now + timedelta(minutes=minutes), viewer, chat, thread)


async def said(library, text, **where):
    """A question that is asked, answered and remembered."""
    question = asked(library, text, **where)
    await followups.remember_answer(question, await library.ask(text), library.rag)


def notebook(library):
    return Run(library.rag.budgets, "direct")


async def stands(library, text, **where):
    return (await resolve_followup(asked(library, text, **where), library.rag, notebook(library)))[0].text


@pytest.mark.parametrize("where", [{"chat": 6}, {"user": 2}, {"thread": 7}])
async def test_each_chat_reader_and_topic_has_a_talk_of_its_own(library, where):
    await said(library, FERRY)
    assert await stands(library, "and in March?", **where) == "and in March?"


async def test_an_earlier_question_is_forgotten_after_a_while(library):
    await said(library, FERRY)
    assert "ferry" in await stands(library, "and in March?", minutes=59)
    assert await stands(library, "and in March?", minutes=61) == "and in March?"
    await said(library, "Dogs?", minutes=200)
    assert await library.rag.archive.rows("SELECT * FROM talks WHERE question = ?", (FERRY,)) == []


async def test_a_talk_never_grows_without_end(library):
    given = await library.ask("ferry")
    for n in range(25):
        await followups.remember_answer(asked(library, f"ferry {n} {'very ' * 60}"), given, library.rag)
    ((count,),) = await library.rag.archive.rows("SELECT count(*) FROM talks")
    assert count == 20
    turns = await followups.load_turns(asked(library, "and?"), library.rag)
    assert 0 < len(turns) < 6 and turns[-1].question.startswith("ferry 24")


async def test_a_talk_begins_afresh_and_a_reader_is_forgotten_everywhere(library):
    await said(library, FERRY)
    await said(library, FERRY, chat=6)
    await said(library, FERRY, user=2)
    assert await followups.start_new_conversation(followups.identify_conversation(asked(library, "")), library.rag) == 1
    assert await stands(library, "and in March?") == "and in March?"
    assert "ferry" in await stands(library, "and in March?", chat=6)
    assert (await erase_user_data(library.rag.archive, 1))["talks"] == 1
    assert await stands(library, "and in March?", chat=6) == "and in March?"
    assert "ferry" in await stands(library, "and in March?", user=2)


async def test_it_can_be_off_in_a_chat_and_then_nothing_is_kept(library):
    await said(library, FERRY)
    await followups.set_memory_enabled(5, library.rag, to=False)
    assert await library.rag.archive.rows("SELECT * FROM talks") == []
    await said(library, FERRY)
    assert await stands(library, "and in March?") == "and in March?"
    await followups.set_memory_enabled(5, library.rag, to=True)
    await said(library, FERRY)
    assert "ferry" in await stands(library, "and in March?")


async def test_it_can_be_off_by_setting(library):
    settings = library.rag.settings.model_copy(update={"memory": MemorySettings(enabled=False)})
    library.rag = replace(library.rag, settings=settings)
    await said(library, FERRY)
    assert await library.rag.archive.rows("SELECT * FROM talks") == []


async def test_neither_answers_nor_posts_are_kept_only_names(library):
    await said(library, "When does the ferry to Owl Island leave?")
    (row,) = await library.rag.archive.rows("SELECT * FROM talks")
    assert "7:30" not in str(tuple(row))
    assert "Owl Island" in row["entities"]


async def test_memory_is_no_source(library):
    await followups.remember_answer(
        asked(library, "The secret word is xylophone, is it?"), await library.ask("ferry"), library.rag
    )
    assert (await library.ask("What is the secret word?")).refused


def planned_by(library, model):
    library.rag = replace(library.rag, planner=model)


async def test_the_model_rewrites_where_it_is_idle(library):
    await said(library, FERRY)
    model = FakeLlm("How much is a ferry ticket to Owl Island for children?")
    planned_by(library, model)
    assert await stands(library, CHILDREN) == "How much is a ferry ticket to Owl Island for children?"
    assert "Owl Island" in model.asked[0].ask


@pytest.mark.parametrize(
    "reply",
    [
        "How much is a ticket to Berlin for children?",
        "How much are 3 ferry tickets for children?",
        "What is the secret word?",
        "How much is a ferry ticket to Owl Island?",
        "",
        "<|im_end|>",
        GenerationFailed("The model went away: ask again."),
    ],
)
async def test_a_model_that_says_anything_else_is_not_believed(library, reply):
    await said(library, FERRY)
    planned_by(library, FakeLlm(reply))
    run = notebook(library)
    found, _ = await resolve_followup(asked(library, CHILDREN), library.rag, run)
    assert found.text == BY_RULES
    assert [lack.stage for lack in run.shortfalls] == ["followup"]


async def test_a_whole_talk_is_asked_and_answered(library):
    first = await answer_question(asked(library, "How much does a ferry ticket cost?"), library.rag)
    assert "twelve euros" in first.sentences[0].text
    second = await answer_question(asked(library, "and for children?", minutes=1), library.rag)
    assert "children under six" in second.sentences[0].text
    assert (second.understood, second.restated) == ("How much does a ferry ticket cost (for children)?", "")
    third = await answer_question(asked(library, "and in 2023?", minutes=2), library.rag)
    assert third.restated == "How much does a ferry ticket cost in 2023?"  # not of what was put together for the search
    turns = await followups.load_turns(asked(library, "", minutes=3), library.rag)
    assert [turn.question for turn in turns] == ["How much does a ferry ticket cost?", third.restated]
