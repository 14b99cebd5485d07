from __future__ import annotations

from dataclasses import replace
from typing import Any

from rag_core.calibration import Calibration
from rag_core.recipes.direct import direct
from rag_core.stage import Run
from rag_core.types import Evidence


async def run(library: Any, text: str, **changes: Any) -> Any:
    rag = replace(library.rag, **changes)
    notebook = Run(rag.settings.budgets, "direct")
    return *(await direct(library.question(text), rag, notebook)), notebook


async def test_the_bar_alone_decides_between_an_answer_and_a_refusal(library: Any) -> None:
    question = "Which ferry goes to Bear Mountain?"
    low, evidence, _ = await run(library, question, calibration=Calibration(bar=0.0))
    high, same, _ = await run(library, question, calibration=Calibration(bar=low.covered + 1e-9))
    assert low.sentences
    assert (high.sentences, high.covered, same) == ((), low.covered, evidence)


async def test_an_exact_answer_needs_no_search(library: Any) -> None:
    draft, evidence, notebook = await run(library, "How many posts mention the ferry?")
    assert (draft.covered, evidence) == (1.0, Evidence())
    assert [span.stage for span in notebook.spans] == ["chronicle"]


async def test_a_question_about_posts_that_no_post_answers_is_searched(library: Any) -> None:
    draft, _, notebook = await run(library, "When was the zeppelin first mentioned?")
    assert draft.sentences == ()
    assert [span.stage for span in notebook.spans if span.stage in {"chronicle", "lexical", "write"}] == [
        "chronicle", "lexical", "write",
    ]  # fmt: skip


async def test_the_trace_counts_sources_and_sentences(library: Any) -> None:
    draft, evidence, notebook = await run(library, "What does the lighthouse museum show?")
    counts = {"sources": len(evidence.sources), "covered": round(draft.covered, 3), "sentences": len(draft.sentences)}
    assert notebook.spans[-1].counts == counts
