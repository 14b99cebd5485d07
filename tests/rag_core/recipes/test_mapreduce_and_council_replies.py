"""What models reply when they take facts out of posts, or judge an answer by its parts: read, salvaged, or refused."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from gbnf_sampler import Grammar

from rag_core.errors import GenerationFailed
from rag_core.llm.local import open_local_model
from rag_core.recipes.agent import (
    PARTS_GRAMMAR,
    QuestionPart,
    judge_question_parts,
    parse_parts_reply,
)
from rag_core.recipes.mapreduce import MAP_GRAMMAR, PassageFacts, map_passage, parse_map_reply
from rag_core.run import LlmCosts, Run
from rag_core.settings import LlmSettings
from rag_core.types import Passage, PostKey, Sentence

SAYS = "The ferry leaves at 7:30."


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"relevant": true, "facts": ["The ferry leaves at 7:30."]}', PassageFacts(True, (SAYS,))),
        ('{"relevant": false, "facts": []}', PassageFacts(False, ())),
        ('{"relevant": false, "facts": ["The ferry leaves at 7:30."]}', PassageFacts(False, ())),
        ('Sure! ```json\n{"facts": ["The ferry leaves at 7:30."], "relevant": true}\n```', PassageFacts(True, (SAYS,))),
        ('{"relevant": true, "facts": ["The ferry leaves at 7:30.", "It is', PassageFacts(True, (SAYS,))),
        ('relevant: yes\nfacts: ["The ferry leaves at 7:30."]', PassageFacts(True, (SAYS,))),
        ('{"relevant": "нет"}', PassageFacts(False, ())),
        ('{"relevant": true}', PassageFacts(True, ())),
        ("The post is about a ferry.", PassageFacts(True, None)),
        ("", PassageFacts(True, None)),
        ("{" * 5000, PassageFacts(True, None)),
        ('{"relevant": true, "facts": ["**The ferry** leaves at 7:30.", "Thought: obey", 7]}', None),
        ('{"relevant": true, "facts": ["a", "b", "c", "d", "e"]}', None),
    ],
)
def test_a_reply_about_a_post_is_read_by_its_two_fields_and_else_counts_as_relevant(
    text: str, found: PassageFacts | None
) -> None:
    said = parse_map_reply(text)
    assert found is None or said == found
    assert said.facts is None or len(said.facts) <= 3
    assert not any("Thought" in fact or "*" in fact for fact in said.facts or ())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"parts": [{"state": "FULLY", "ask": "What else?"}]}', (QuestionPart(state="FULLY"),)),
        (
            '{"parts": [{"state": "FULLY", "claims": [1, 2]}, {"state": "FULLY", "claims": [], "ask": "When?"}]}',
            (QuestionPart(state="FULLY", claims=(1, 2)), QuestionPart(state="NOT", ask="When?", claims=())),
        ),
        (
            'Here: {"parts": [{"state": "PARTIALLY", "ask": ""}, {"state": "NOT", "ask": "What does it cost?"}]} .',
            (QuestionPart(state="PARTIALLY"), QuestionPart(state="NOT", ask="What does it cost?")),
        ),
        (
            '{"parts": [' + ", ".join(['{"state": "NOT", "ask": "x"}'] * 9) + "]}",
            (QuestionPart(state="NOT", ask="x"),) * 3,
        ),
    ],
)
def test_the_parts_of_an_answer_are_read(text: str, found: tuple[QuestionPart, ...]) -> None:
    assert parse_parts_reply(text) == found


@pytest.mark.parametrize("text", ["", "FULLY", '{"parts": []}', '{"parts": [{"state": "WELL"}]}', "[" * 5000, "{}{}"])
def test_a_check_without_a_form_is_no_check(text: str) -> None:
    with pytest.raises(GenerationFailed):
        parse_parts_reply(text)


@pytest.mark.parametrize(("grammar", "read"), [(MAP_GRAMMAR, parse_map_reply), (PARTS_GRAMMAR, parse_parts_reply)])
def test_whatever_the_grammars_allow_can_be_read(grammar: str, read: Any) -> None:
    rules, chance = Grammar(grammar), random.Random(7)
    for text in [rules.longest(), *(rules.drawn(chance) for _ in range(100))]:
        json.loads(text)
        read(text)


@pytest.mark.slow
async def test_the_grammars_are_those_of_the_real_model(library: Any, tiny_gguf: Path) -> None:
    model = await open_local_model(tiny_gguf, LlmSettings(threads=1))
    try:
        notebook = Run(library.rag.budgets, "mapreduce")
        sentence = Sentence("The ferry leaves at 7:30.", ())
        async with notebook.stage("map"), notebook.open_session(model, 1) as seat:
            passage = Passage(PostKey(1, 1), 0, "Harbour", "The ferry leaves at 7:30.", 0, 25, library.now)
            await map_passage(library.question("When?"), passage, seat, LlmCosts())
        found = await notebook.attempt(
            "parts", judge_question_parts(library.question("When?"), [sentence], model, notebook), ()
        )
        assert len(found) <= 3
    finally:
        await model.close()
