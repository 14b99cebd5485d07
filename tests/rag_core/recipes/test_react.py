"""The recipe react: a model with tools, each way it can fail, and that it always ends in something to show."""

import asyncio
import json
import random
from dataclasses import replace

import pytest
from gbnf_sampler import Grammar
from scripted_model import FakeLlm

from rag_core.errors import GenerationFailed, IndexUnavailable
from rag_core.llm.local import open_local_model
from rag_core.recipes.react import TOOLS, build_step_grammar, build_step_schema, parse_step
from rag_core.run import Budgets
from rag_core.settings import LlmSettings

TICKET = "How much does a ferry ticket cost?"
PRICE = "A ferry ticket costs twelve euros."
DONE = {"Thought": "enough", "tool": "answer", "input": {}}


def step(tool, /, **given):
    return json.dumps({"Thought": "a secret thought", "tool": tool, "input": given}, ensure_ascii=False)


LOOK = step("search", queries=["ferry ticket cost"], since=None, until=None)
END = json.dumps(DONE)


def reacting(library, *replies):
    model = FakeLlm(*replies)
    library.rag = replace(library.rag, writer=model, recipe="react")
    return model


def tools_of(run):
    return [span.stage.removeprefix("tool.") for span in run.spans if span.stage.startswith("tool.")]


async def test_the_model_looks_and_writes_under_a_grammar_and_its_thoughts_are_dropped(library, caplog):
    model = reacting(library, LOOK, END, f"{PRICE}[1]")
    with caplog.at_level(0):
        answer = await library.ask(TICKET)
    assert (answer.recipe, answer.model) == ("react", "scripted")
    assert [s.text for s in answer.sentences] == [PRICE]
    assert answer.posts() == ((library.harbour, 5),)
    assert tools_of(library.runs[-1]) == ["search"]
    first, second, _ = model.asked
    assert "<now>2026-01-15 09:00 Thursday</now>" in first.ask
    assert "children under six" in second.ask
    assert all(grammar == build_step_grammar() for grammar in model.grammars_asked[:2])
    assert all(f"\n{tool.name}: " in first.system for tool in TOOLS)
    seen = [prompt.ask for prompt in model.asked]
    assert "secret thought" not in f"{seen} {answer} {library.runs[-1]} {caplog.text}"


@pytest.mark.parametrize("steps", [[LOOK, LOOK], [step("search", queries=[f"ferry {n}"]) for n in range(6)]])
async def test_a_model_that_repeats_itself_or_takes_four_steps_is_made_to_write(library, steps):
    taken = list(dict.fromkeys(steps))[:4]
    model = reacting(library, *steps[:4], f"{PRICE}[1]")
    assert (await library.ask(TICKET)).recipe == "react"
    assert tools_of(library.runs[-1]) == ["search"] * len(taken)
    assert len(model.asked) == min(len(steps), 4) + 1


async def test_a_count_says_what_the_index_has_not_got_yet(library, make_post):
    await library.keep(make_post(9, "The ferry is late.", chat=library.harbour), index=False)
    count = step("count", about="ferry", since=None, until=None)
    reacting(library, count, END)
    answer = await library.ask("Tell me something of the ferry")
    assert (answer.recipe, len(answer.posts())) == ("react", 3)
    assert "3" in answer.sentences[0].text
    assert "not in the index yet" in " ".join(shortfall.reason for shortfall in answer.shortfalls)


async def test_a_sum_over_posts_is_shown_with_the_posts_of_its_numbers(library):
    asked = "Сколько стоит абонемент в мастерскую на 12 месяцев?"
    look = step("search", queries=["абонемент в мастерскую стоит"], since=None, until=None)
    said = "Абонемент в мастерскую стоит 2 750 рублей в месяц.[1]"
    reacting(library, look, step("calculate", expression="2750*12"), END, said)
    answer = await library.ask(asked)
    assert answer.recipe == "react"
    assert answer.sentences[0].text == "2750*12 = 33000"
    assert answer.sentences[0].citations[0].post == (library.kiln, 3)


@pytest.mark.parametrize(
    ("called", "told"),
    [(step("web_search", query="ferry"), "no such tool"), (step("open", post=9), "There is no post 9")],
)
async def test_a_tool_that_fails_or_is_not_there_is_told_to_the_model(library, called, told):
    model = reacting(library, called, LOOK, END, f"{PRICE}[1]")
    assert (await library.ask(TICKET)).recipe == "react"
    assert told in model.asked[1].ask


async def test_an_index_that_is_down_on_the_way_is_said_to_the_reader(library, monkeypatch):
    async def down(*_):
        raise IndexUnavailable("The index is down.")

    reacting(library, step("list", about="ferry", limit=5), LOOK, END, "The posts do not say.")
    monkeypatch.setattr("rag_core.recipes.react.search_passages", down)
    answer = await library.ask(TICKET)
    assert "search" in {shortfall.stage for shortfall in answer.shortfalls}


async def fallen(library, reason):
    """`direct` answered, and it is said why."""
    answer = await library.ask(TICKET)
    assert answer.recipe == "direct"
    assert answer.posts() == ((library.harbour, 5),)
    assert any(lack.stage == "recipe" and reason in lack.reason for lack in answer.shortfalls), answer.shortfalls


async def test_without_a_model_direct_answers(library):
    library.rag = replace(library.rag, writer=None, planner=None, recipe="react")
    await fallen(library, "needs a language model")


@pytest.mark.parametrize(
    "reply", ["", "x" * 2000, "{", "[]", '{"tool": 7}', "null", END, GenerationFailed("It went away: ask again.")]
)
async def test_a_first_step_that_is_nothing_nonsense_or_an_answer_falls_to_direct(library, reply):
    reacting(library, reply, f"{PRICE}[1]")
    await fallen(library, "found no post")


async def test_a_step_that_takes_too_long_falls_to_direct(library):
    class Slow(FakeLlm):
        async def count(self, texts):
            if any("Thought" in text for text in texts):
                await asyncio.sleep(60)
            return await super().count(texts)

    budgets = Budgets(judge=0.2)
    library.rag = replace(library.rag, writer=Slow(f"{PRICE}[1]"), recipe="react", budgets=budgets)
    await fallen(library, "found no post")


@pytest.mark.parametrize("reply", ["nonsense", GenerationFailed("It went away: ask again.")])
async def test_a_later_step_that_fails_writes_from_what_was_found(library, reply):
    reacting(library, LOOK, reply, f"{PRICE}[1]")
    answer = await library.ask(TICKET)
    assert answer.recipe == "react"
    assert answer.posts() == ((library.harbour, 5),)
    assert "step" in [lack.stage for lack in answer.shortfalls]


@pytest.mark.parametrize("reply", ["Berlin is large.[1]", "", GenerationFailed("It went away: ask again.")])
async def test_writing_that_fails_shows_the_posts_own_words(library, reply):
    reacting(library, LOOK, END, reply)
    answer = await library.ask(TICKET)
    assert answer.recipe == "react"
    assert "twelve euros" in answer.sentences[0].text
    assert "write" in [lack.stage for lack in answer.shortfalls]


async def test_what_the_posts_do_not_say_is_refused(library):
    reacting(library, LOOK, END, "x")
    assert (await library.ask("Who won the chess tournament in Reykjavik?")).refused


async def test_in_a_small_context_old_steps_are_left_out(library):
    steps = [step("list", about=None, limit=n) for n in (9, 8, 7)]
    model = reacting(library, *steps, END, f"{PRICE}[1]")
    model.context = 800
    await library.ask(TICKET)
    for prompt in model.asked[:4]:
        texts = [prompt.system, prompt.ask, *(text for shot in prompt.shots for text in shot)]
        assert sum(await model.count(texts)) <= 800 - 200
    assert model.asked[3].ask.count("<step>") < 3


def test_whatever_the_grammar_lets_through_is_a_call_that_a_tool_takes():
    grammar, chance, seen = Grammar(build_step_grammar()), random.Random(7), set()
    wants = {tool.name: tool.wants for tool in TOOLS}
    for _ in range(400):
        text = grammar.drawn(chance)
        move = parse_step(text)
        assert move is not None, text
        seen.add(move["tool"])
        if move["tool"] != "answer" and not ({"since", "until"} & move["input"].keys()):
            wants[move["tool"]].model_validate_json(json.dumps(move["input"]))
    assert seen == {"answer", *wants}
    steps = build_step_schema()["anyOf"]  # for servers without GBNF
    assert {one["properties"]["tool"]["const"] for one in steps} == seen


def test_a_move_is_found_in_what_stands_around_it():
    assert parse_step(f"Sure! {END} Good luck.") == {"tool": "answer", "input": {}}
    assert parse_step('{"tool": "search", "input": 5}') == {"tool": "search", "input": {}}
    assert parse_step("{" * 50_000) is None


@pytest.mark.slow
async def test_a_random_model_under_the_grammar_ends_in_an_answer(library, tiny_gguf):
    model = await open_local_model(tiny_gguf, LlmSettings(threads=1), name="tiny")
    try:
        library.rag = replace(library.rag, writer=model, recipe="react")
        answer = await library.ask(TICKET)
    finally:
        await model.close()
    assert answer.posts() == ((library.harbour, 5),)
    stages = [span.stage for span in library.runs[-1].spans]
    assert "step" in stages
