from dataclasses import replace
from datetime import UTC, datetime

import pytest
from faulty_model import FaultyLlm
from scripted_model import FakeLlm

from rag_core.llm.local import open_local_model
from rag_core.run import Budgets, Run
from rag_core.settings import LlmSettings
from rag_core.types import Passage, PostKey, Viewer
from rag_core.verification import Claim, Label
from rag_core.verification.judge import judge_relevance
from rag_core.verification.verify import assess_passages, verify_text

EVERYBODY = Viewer(1, frozenset({-1001}))


def passage(text, number=1):
    return Passage(PostKey(-1001, number), 0, "Harbour News", text, 0, len(text), datetime(2025, 3, 4, tzinfo=UTC))


async def test_a_model_is_asked_where_words_decide_nothing(library):
    model = FakeLlm(odds_of=lambda prompt: 2.0)
    rag, claim = replace(library.rag, writer=model), Claim("The lighthouse keeper sells honey", "en")
    run = Run(rag.budgets, "verify")
    async with run.stage("verify"):
        (found,) = await assess_passages(
            claim, [passage("The keeper of the lighthouse has honey from his bees.")], EVERYBODY, rag, run
        )
        await assess_passages(
            claim, [passage("The lighthouse keeper sells honey.")], EVERYBODY, rag, run
        )  # words decide: nobody is asked
    assert (found.label, found.layer) == (Label.SUPPORTED, "judge")
    assert not run.shortfalls


@pytest.mark.parametrize("fault", ["hung", "dead", "too slow"])
async def test_a_model_that_fails_or_is_too_slow_leaves_the_verdict_of_without(library, make_post, fault):
    """With the weights of rarity: they decide how likely it is."""
    await library.keep(make_post(60, "The keeper of the lighthouse has honey from his bees.", chat=library.harbour))
    question, quick = library.question("The lighthouse keeper sells honey."), Budgets(judge=0.2)
    without = await verify_text(question, replace(library.rag, budgets=quick))
    found = await verify_text(question, replace(library.rag, budgets=quick, writer=FaultyLlm(fault)))
    assert found.verdicts == without.verdicts
    assert [one.stage for one in found.shortfalls] == ([] if fault == "too slow" else ["judge"])


async def passages(library):
    """What the library finds for a question about the ferry."""
    return [source.passage for source in (await library.ask("How much does a ferry ticket cost?")).found]


async def test_each_passage_gets_its_odds_in_order(library):
    found = await passages(library)
    seat = FakeLlm(odds_of=lambda prompt: 2.5 if "twelve euros" in prompt.ask else -1.5)
    odds = await judge_relevance(library.question("How much does a ferry ticket cost?"), found, seat)
    assert odds == [2.5 if "twelve euros" in passage.text else -1.5 for passage in found]
    assert 2.5 in odds
    assert -1.5 in odds


async def test_long_posts_and_questions_are_cut(library, make_post):
    await library.keep(make_post(71, "ferry ticket cost " * 500, chat=library.harbour))
    seat, question = FakeLlm(), library.question("How much does a ferry ticket cost? " * 200)
    found = [source.passage for source in (await library.ask("How much does a ferry ticket cost?")).found]
    await judge_relevance(question, found, seat)
    assert max(await seat.count([prompt.ask for prompt in seat.weighed])) < 500


@pytest.mark.slow
async def test_a_real_model_gives_the_same_odds_again_and_in_both_languages(library, tiny_gguf):
    found = await passages(library)
    model = await open_local_model(tiny_gguf, LlmSettings(threads=1))
    try:
        async with model.turn(1) as seat:
            for text in ("How much does a ferry ticket cost?", "Сколько стоит билет на паром?"):
                question = library.question(text)
                odds = await judge_relevance(question, found, seat)
                assert len(set(odds)) > 1
                again = await judge_relevance(question, found, seat)
                assert max(abs(a - b) for a, b in zip(odds, again, strict=True)) < 1e-3
    finally:
        await model.close()
