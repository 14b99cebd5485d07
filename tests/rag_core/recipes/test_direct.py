from dataclasses import replace

from rag_core.calibration import Calibration
from rag_core.planning.plan import plan_question
from rag_core.recipe_steps import run_direct
from rag_core.run import Run
from rag_core.types import Certainty, Evidence


async def run(library, text, **changes):
    rag = replace(library.rag, **changes)
    notebook = Run(rag.budgets, "direct")
    question = library.question(text)
    found = await run_direct(question, await plan_question(question, rag, notebook), rag, notebook)
    return found.draft, found.evidence, notebook


async def test_the_bar_alone_decides_between_an_answer_and_a_refusal(library):
    question = "Which ferry goes to Bear Mountain?"
    low, evidence, _ = await run(library, question, calibration=Calibration(bar=0.0))
    high, same, _ = await run(library, question, calibration=Calibration(bar=low.likely + 1e-9))
    assert low.sentences
    assert (high.sentences, high.likely, same) == ((), low.likely, evidence)


async def test_an_exact_answer_needs_no_search(library):
    draft, evidence, notebook = await run(library, "How many posts mention the ferry?")
    assert (draft.likely, evidence) == (1.0, Evidence())
    assert [span.stage for span in notebook.spans] == ["plan", "chronicle"]


async def test_what_became_a_filter_need_not_stand_in_the_post(library):
    """Otherwise the words of the filter would speak against every post."""
    draft, _, _ = await run(library, "What does the museum show, as posted in @harbour_news in March 2025?")
    assert "old brass lamps" in draft.sentences[0].text
    elsewhere, _, _ = await run(library, "What does the museum show, as posted in @pech_i_glina in March 2025?")
    assert elsewhere.certainty is not Certainty.SURE
    assert not any("lamps" in sentence.text for sentence in elsewhere.sentences)


async def test_a_second_round_is_for_what_the_first_refused(tmp_path, open_library, make_post):
    for rounds in (1, 2):
        async with open_library(tmp_path / str(rounds)) as library:
            library.rag.rounds = rounds
            await library.keep(make_post(1, "The ferry to Owl Island leaves at 7:30.", chat=library.harbour))
            _, _, refused = await run(library, "Which zeppelin flies from Bear Mountain on Christmas Eve?")
            _, _, answered = await run(library, "When does the ferry to Owl Island leave?")
        assert [span.stage for span in refused.spans].count("extract") == rounds
        assert [span.stage for span in answered.spans].count("extract") == 1
