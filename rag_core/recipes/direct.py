"""Recipe `direct`: plan, search, extract, and write where there is a model.

Every other recipe falls back to it.
"""

from __future__ import annotations

from rag_core.engine import Engine
from rag_core.planning import widen_plan
from rag_core.steps import add_hyde_query, finish_draft, plan_or_answer_exactly, search_and_extract, write_or_extract
from rag_core.tracing import Run
from rag_core.types import Certainty, Draft, Evidence, Question

__all__ = ["run_direct"]


async def run_direct(question: Question, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    """Run the recipe `direct`: a draft and its evidence; a draft without sentences is a refusal."""
    plan, exact = await plan_or_answer_exactly(question, rag, run)
    if exact is not None:
        return exact, Evidence()
    draft, evidence = await search_and_extract(question, plan, rag, run)
    if draft.certainty is not Certainty.SURE and rag.settings.retrieval.rounds > 1 and plan.queries:
        second_draft, second_evidence = await search_and_extract(
            question, await add_hyde_query(question, widen_plan(plan), draft, rag, run), rag, run
        )
        if second_draft.covered > draft.covered:
            draft, evidence = second_draft, second_evidence
    draft = await write_or_extract(question, plan, draft, evidence, rag, run)
    return await finish_draft(question, plan, draft, evidence, rag, run)
