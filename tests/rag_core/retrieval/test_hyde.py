from dataclasses import replace

import pytest
from scripted_model import FakeLlm

from ingest.indexer import DenseIndexer
from rag_core.calibration import Calibration
from rag_core.errors import GenerationFailed
from rag_core.llm.local import open_local_model
from rag_core.planning.plan import plan_by_rules, widen_plan
from rag_core.recipe_steps import write_hypothetical_post
from rag_core.retrieval.search import search_passages
from rag_core.run import Run
from rag_core.settings import LlmSettings

pytestmark = pytest.mark.slow

QUESTION = "Which zeppelin sails on Christmas Eve?"
MADE_UP = "The ferry to Owl Island leaves from pier four every morning, and dogs travel free."


async def imagined(library, model, text="When does the boat leave?"):
    notebook = Run(library.rag.budgets, "direct")
    return await notebook.require("hyde", write_hypothetical_post(library.question(text), model, notebook))


async def test_the_made_up_post_is_one_clean_line(library):
    said = f"<think>Hm</think> {MADE_UP}\n<|im_end|>"
    assert await imagined(library, FakeLlm(said)) == MADE_UP
    assert len(await imagined(library, FakeLlm("boat " * 500))) <= 280
    assert await imagined(library, FakeLlm("")) == ""


async def test_a_real_model_can_only_write_a_line(library, tiny_gguf):
    model = await open_local_model(tiny_gguf, LlmSettings(threads=1))
    try:
        for text in ("When does the boat leave?", "Когда отходит паром?", "🦉" * 300):
            made = await imagined(library, model, text)
            assert 0 < len(made) <= 280
            assert not set("<>[]{}\n") & set(made)
    finally:
        await model.close()


async def test_a_second_round_also_looks_for_what_a_made_up_post_is_like(
    tmp_path, open_library, offline_models, make_post
):
    async with open_library(tmp_path, models={"dir": offline_models.parent}) as library:
        library.rag.rounds = 2
        others = [make_post(n, f"The zeppelin of Mr {n} sails on a windy day.", chat=library.harbour) for n in range(9)]
        await library.keep(make_post(20, MADE_UP, chat=library.harbour), *others)
        dense = library.rag.dense
        await DenseIndexer(library.rag.archive, dense.vectors, dense.embedder).catch_up()
        plan = widen_plan(plan_by_rules(library.question(QUESTION)))
        assert await place_of(library, replace(plan, like=MADE_UP)) < await place_of(library, plan)
        model = FakeLlm(MADE_UP, GenerationFailed("The model went away."))
        library.rag = replace(library.rag, writer=model, calibration=Calibration(bar=1.0))
        await library.ask(QUESTION)
        spans = [span.stage for span in library.runs[-1].spans]
        assert (spans.count("hyde"), spans.count("extract"), len(model.asked)) == (1, 2, 1)
        failed = await library.ask(QUESTION)
        assert ("hyde", "The model went away.") in [(s.stage, s.reason) for s in failed.shortfalls]


async def place_of(library, plan):
    """At which place the post is found that is like the made-up one."""
    notebook = Run(library.rag.budgets, "direct")
    hits = await search_passages(plan, library.question(QUESTION), library.rag, notebook)
    return [hit.passage.key.message_id for hit in hits].index(20)


async def test_a_covered_question_needs_no_made_up_post(library):
    library.rag = replace(library.rag, writer=FakeLlm("The posts do not say."))
    await library.ask("How much does a ferry ticket cost?")
    assert "hyde" not in [span.stage for span in library.runs[-1].spans]
