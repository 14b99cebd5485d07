"""A second look at a draft: scored once, written again at most once, and never for the worse."""

import asyncio
import json
import random
from dataclasses import replace

import pytest
from gbnf_sampler import Grammar
from scripted_model import FakeLlm

from rag_core.errors import GenerationFailed
from rag_core.llm.local import open_local_model
from rag_core.run import Budgets, Run
from rag_core.settings import LlmSettings
from rag_core.types import Draft, Evidence, Sentence
from rag_core.writing import write
from rag_core.writing.write import parse_judgement, reflect_on_draft

ASKED = "How much does a ferry ticket cost, and for children?"
PRICE = "A ferry ticket costs twelve euros."
FREE = "Children under six sail for nothing."
GONE = GenerationFailed("It went away: ask again.")


def judged(score, missing="", *unsupported):
    return json.dumps({"score": score, "missing": missing, "unsupported": list(unsupported)})


async def draft_of(library, *texts):
    """A draft of a model with these sentences, and the evidence for it."""
    answer = await library.ask("How much does a ferry ticket cost?")
    evidence = Evidence(answer.found)
    cited = answer.sentences[0].citations
    return Draft(tuple(Sentence(text, cited, 0.9) for text in texts), 0.8, "scripted"), evidence


async def looked_over(library, model, *texts):
    draft, evidence = await draft_of(library, *texts)
    run = Run(library.rag.budgets, "direct")
    rag = replace(library.rag, writer=model)
    return draft, await reflect_on_draft(library.question(ASKED), draft, evidence, rag, run), run


async def test_a_good_draft_stays_and_its_score_feeds_the_confidence(library):
    model = FakeLlm(judged(10))
    before, after, run = await looked_over(library, model, PRICE)
    assert after == before
    assert run.spans[-1].counts["score"] == 10
    _, less_sure, _ = await looked_over(library, FakeLlm(judged(8)), PRICE)
    assert less_sure.sentences == before.sentences
    assert less_sure.likely < before.likely


async def test_what_is_missing_is_written_once_more(library):
    model = FakeLlm(judged(5, "the price for children"), f"{PRICE}[1]\n{FREE}[1]")
    _, after, _ = await looked_over(library, model, PRICE)
    assert [s.text for s in after.sentences] == [PRICE, FREE]
    assert "the price for children" in model.asked[1].ask
    assert len(model.asked) == 2


@pytest.mark.parametrize("again", ["Berlin has 99 bridges.[1]", "", GONE])
async def test_a_second_writing_that_fails_leaves_the_first(library, again):
    before, after, run = await looked_over(library, FakeLlm(judged(3, "all", 1), again), PRICE)
    assert after.sentences == before.sentences
    assert run.shortfalls == []


async def test_the_one_that_is_supported_better_is_kept(library, monkeypatch):
    draft, evidence = await draft_of(library, PRICE)
    run = Run(library.rag.budgets, "direct")

    def measure(one, _):
        return 1.0 if one is draft else 0.5

    monkeypatch.setattr(write, "measure_draft_support", measure)
    rag = replace(library.rag, writer=FakeLlm(judged(2), f"{FREE}[1]"))
    after = await reflect_on_draft(library.question(ASKED), draft, evidence, rag, run)
    assert [s.text for s in after.sentences] == [PRICE]


async def test_nothing_of_a_second_writing_is_shown_before_it_is_chosen(library):
    draft, evidence = await draft_of(library, PRICE)
    shown = []
    run = Run(library.rag.budgets, "direct", on_sentence=shown.append)
    rag = replace(library.rag, writer=FakeLlm(judged(2), f"{FREE}[1]"))
    await reflect_on_draft(library.question(ASKED), draft, evidence, rag, run)
    assert shown == []
    assert run.on_sentence is not None


@pytest.mark.parametrize("reply", ["", "nonsense", "{}", '{"score": 99}', '{"score": true}', "[1]", GONE])
async def test_a_judgement_that_is_none_leaves_the_draft_and_is_said(library, reply):
    before, after, run = await looked_over(library, FakeLlm(reply), PRICE)
    assert after == before
    assert [lack.stage for lack in run.shortfalls] == ["reflect"]


async def test_a_judgement_that_takes_too_long_leaves_the_draft(library):
    class Slow(FakeLlm):
        async def count(self, texts):
            await asyncio.sleep(60)
            return []

    library.rag = replace(library.rag, budgets=Budgets(judge=0.1))
    before, after, run = await looked_over(library, Slow(), PRICE)
    assert after == before
    assert "took longer" in run.shortfalls[0].reason


async def test_without_a_model_or_a_draft_of_one_nothing_is_asked(library):
    before, after, _ = await looked_over(library, None, PRICE)
    assert after == before
    model = FakeLlm()
    draft, evidence = await draft_of(library, PRICE)
    run = Run(library.rag.budgets, "direct")
    rag = replace(library.rag, writer=model)
    for plain in (Draft(), replace(draft, model=None)):
        assert await reflect_on_draft(library.question(ASKED), plain, evidence, rag, run) == plain
    assert model.asked == []


@pytest.mark.slow
async def test_a_random_model_never_makes_an_answer_worse(library, tiny_gguf):
    model = await open_local_model(tiny_gguf, LlmSettings(threads=1), name="tiny")
    try:
        before, after, _ = await looked_over(library, model, PRICE)
    finally:
        await model.close()
    assert after.sentences == before.sentences


def test_the_grammar_lets_only_judgements_through():
    grammar, chance = Grammar(write.JUDGEMENT_GRAMMAR), random.Random(7)
    for _ in range(100):
        assert parse_judgement(grammar.drawn(chance), 9) is not None
    assert parse_judgement(grammar.longest(), 9) is not None


def test_numbers_of_sentences_that_are_not_there_are_left_out():
    found = parse_judgement(judged(4, "a <b> {c}", 1, 7, 1), 2)
    assert found.unsupported == [1]
    assert found.missing == "a ‹b› (c)"
