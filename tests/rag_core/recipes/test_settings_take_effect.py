"""Settings and plan fields that were once read and thrown away: each of them changes what is done."""

import json
from dataclasses import replace

import pytest
from scripted_model import FakeLlm

from bot.i18n import get_translator
from bot.worker.streaming import ProgressView
from rag_core.llm import local
from rag_core.llm.local import open_local_model
from rag_core.llm.protocol import TokenRates
from rag_core.llm.rates import fits_budgets
from rag_core.planning.llm_planner import KnownEntities, plan_by_model
from rag_core.planning.plan import format_plan, plan_by_rules
from rag_core.retrieval import search
from rag_core.run import Budgets, Run
from rag_core.settings import LlmSettings

TICKET = "How much does a ferry ticket cost to the island?"


def reply(k, fusion):
    return json.dumps(
        {"normalized_queries": ["ferry fare", "price of the crossing", "boat ticket"], "must_phrases": [],
         "should_phrases": [], "metadata_filters": None, "k_per_query": k, "fusion": fusion}
    )  # fmt: skip


async def test_the_models_k_and_fusion_are_obeyed(library, make_post, monkeypatch):
    asked, diversified = [], []
    own, each, diverse = search.search_lexical, library.rag.lexical.search_each, search.diversify_hits

    async def counted_own(query, only, n, *rest):
        asked.append(n)
        return await own(query, only, n, *rest)

    def counted(queries, only, n, *rest):
        asked.append(n)
        return each(queries, only, n, *rest)

    async def measured(fused, *rest):
        diversified.append(len(fused))
        return await diverse(fused, *rest)

    monkeypatch.setattr(search, "search_lexical", counted_own)
    monkeypatch.setattr(library.rag.lexical, "search_each", counted)
    monkeypatch.setattr(search, "diversify_hits", measured)
    question = library.question(TICKET)
    rag = replace(library.rag, keep=5)
    await library.keep(
        *(make_post(20 + n, f"Ferry ticket number {n} costs money.", chat=library.harbour) for n in range(8))
    )
    for fusion in ("rrf", "mmr"):
        run = Run(rag.budgets, "test")
        plan = await plan_by_model(question, plan_by_rules(question), KnownEntities(), FakeLlm(reply(7, fusion)), run)
        assert format_plan(plan, {}) | {"k_per_query": 7, "fusion": fusion} == format_plan(plan, {})
        await search.search_passages(plan, question, rag, run)
    assert set(asked) == {7}  # of the question itself, of its further queries and with names from the first hits
    without, with_mmr = diversified
    assert without <= 5 < with_mmr  # rrf alone: the best by rank are kept, and none is dropped for being alike


async def test_mapreduce_plans_by_rules_and_makes_one_call_and_one_a_post(library):
    model = FakeLlm(
        *['{"relevant": true, "facts": ["A ferry ticket costs twelve euros."]}'] * 5,
        "A ferry ticket costs twelve euros.[1]",
    )
    library.rag = replace(library.rag, writer=model, planner=model, recipe="mapreduce")
    answer = await library.ask(TICKET)
    assert answer.recipe == "mapreduce"
    posts = sum("relevant" in (grammar or "") for grammar in model.grammars_asked)
    assert len(model.asked) <= 1 + posts and posts <= 5


@pytest.mark.parametrize("recipe", ["council", "react", "careful"])
def test_a_recipe_fits_where_each_call_ends_in_its_stage_and_all_in_the_question(recipe):
    slow, quick = TokenRates(prefill=29, decode=7.4), TokenRates(prefill=2000, decode=60)
    assert not fits_budgets(recipe, slow, Budgets())
    assert fits_budgets(recipe, quick, Budgets()) and fits_budgets(recipe, None, Budgets())
    long = Budgets(write=900, map=900, judge=900)
    assert not fits_budgets(recipe, slow, long)
    assert fits_budgets(recipe, slow, replace(long, question=900))


async def test_a_models_sentence_must_hold_to_the_threshold_that_is_set(library):
    """Half of the words are the post's: kept at 0.5, dropped at 0.9."""
    said = "A ferry ticket costs twelve euros, reportedly, sailors whisper.[1]"
    shown = {}
    for threshold in (0.5, 0.9):
        settings = library.rag.settings
        verify = settings.verify.model_copy(update={"threshold": threshold})
        library.rag = replace(
            library.rag, writer=FakeLlm(said), settings=settings.model_copy(update={"verify": verify})
        )
        answer = await library.ask("How much does a ferry ticket cost?")
        shown[threshold] = [s.text for s in answer.sentences if "whisper" in s.text]
    assert len(shown[0.5]) == 1 and not shown[0.9]


@pytest.mark.parametrize(
    ("warm", "free", "loaded"),
    [
        (None, 2_100_000_000, True),
        (None, 1_900_000_000, False),
        (None, None, True),
        (True, 1, True),
        (False, None, False),
    ],
)
async def test_a_model_is_loaded_at_the_start_where_memory_is_free_else_by_its_first_turn(
    tiny_gguf, monkeypatch, warm, free, loaded
):
    monkeypatch.setattr(local, "check_memory_fits", lambda *given: None)
    monkeypatch.setattr(local, "measure_free_memory", lambda: free)
    model = await open_local_model(tiny_gguf, LlmSettings(threads=1, warm=warm))
    try:
        assert (model.pid is not None) is loaded
        async with model.turn(0) as session:
            assert await session.count(["yes"])
            assert model.pid is not None
    finally:
        await model.close()


def test_a_reader_is_told_what_a_tool_does():
    view = ProgressView(get_translator("en"))
    told = []
    for stage in ("step", "tool.search", "tool.calculate", "parts", "tool.open", "verify"):
        view.show_stage(stage)
        told.append(view.stage)
    assert told == ["plan", "search", "calculate", "check", "read", "read"]
    assert "Reading the posts" in view.render().text.as_kwargs()["text"]
