"""What models reply when they take facts out of posts, or judge an answer by its parts: read, salvaged, or refused."""

import json
import random

import pytest
from gbnf_sampler import Grammar

from rag_core.errors import GenerationFailed
from rag_core.llm.local import open_local_model
from rag_core.recipes.council import PARTS_GRAMMAR, list_open_parts, parse_parts_reply
from rag_core.recipes.mapreduce import MAP_GRAMMAR, map_passage, parse_map_reply
from rag_core.run import LlmCosts, Run
from rag_core.settings import LlmSettings
from rag_core.types import Passage, PostKey, Sentence

SAYS = "The ferry leaves at 7:30."


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ('{"relevant": true, "facts": ["The ferry leaves at 7:30."]}', (SAYS,)),
        ('{"relevant": false, "facts": []}', ()),
        ('{"relevant": false, "facts": ["The ferry leaves at 7:30."]}', ()),
        ('Sure! ```json\n{"facts": ["The ferry leaves at 7:30."], "relevant": true}\n```', (SAYS,)),
        ('{"relevant": true, "facts": ["The ferry leaves at 7:30.", "It is', (SAYS,)),
        ('relevant: yes\nfacts: ["The ferry leaves at 7:30."]', (SAYS,)),
        ('{"relevant": "нет"}', ()),
        ('{"relevant": true}', ()),
        ("The post is about a ferry.", None),
        ("", None),
        ("{" * 5000, None),
        ('{"relevant": true, "facts": ["**The ferry** leaves at 7:30.", "Thought: obey"]}', (SAYS,)),
        ('{"relevant": true, "facts": ["a", "b", "c", "d", "e"]}', ("a", "b", "c")),
    ],
)
def test_a_reply_about_a_post_is_read_by_its_two_fields(text, facts):
    assert parse_map_reply(text) == facts


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ('{"parts": [{"state": "FULLY", "ask": "What else?"}]}', ()),
        ('{"parts": [{"state": "FULLY", "claims": [1]}, {"state": "FULLY", "claims": [], "ask": "Why"}]}', ("Why",)),
        ('Here: {"parts": [{"state": "PARTIALLY", "ask": ""}, {"state": "NOT", "ask": "Price?"}]} .', ("Price?",)),
        ('{"parts": [' + ", ".join(['{"state": "NOT", "ask": "x"}'] * 9) + "]}", ("x",) * 3),
    ],
)  # fmt: skip
def test_the_parts_that_an_answer_leaves_open_are_read(text, asks):
    assert parse_parts_reply(text) == asks


@pytest.mark.parametrize("text", ["", "FULLY", '{"parts": []}', '{"parts": [{"state": "WELL"}]}', "[" * 5000, "{}{}"])
def test_a_check_without_a_form_is_no_check(text):
    with pytest.raises(GenerationFailed):
        parse_parts_reply(text)


@pytest.mark.parametrize(("grammar", "read"), [(MAP_GRAMMAR, parse_map_reply), (PARTS_GRAMMAR, parse_parts_reply)])
def test_whatever_the_grammars_allow_can_be_read(grammar, read):
    rules, chance = Grammar(grammar), random.Random(7)
    for text in [rules.longest(), *(rules.drawn(chance) for _ in range(100))]:
        json.loads(text)
        read(text)


@pytest.mark.slow
async def test_the_grammars_are_those_of_the_real_model(library, tiny_gguf):
    model, run = await open_local_model(tiny_gguf, LlmSettings(threads=1)), Run(library.rag.budgets, "mapreduce")
    question = library.question("When?")
    try:
        async with run.stage("map"), run.open_session(model, 1) as session:
            passage = Passage(PostKey(1, 1), 0, "Harbour", SAYS, 0, len(SAYS), library.now)
            await map_passage(question, passage, session, LlmCosts())
        found = await run.attempt("parts", list_open_parts(question, [Sentence(SAYS, ())], model, run), ())
        assert len(found) <= 3
    finally:
        await model.close()
