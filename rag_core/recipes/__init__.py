"""Recipes: one async function for each way to make an answer, built from the same steps.

`direct` plans, searches, extracts, and writes where there is a model; every other recipe falls back to it. The others
have modules of their own. A recipe returns a draft and its evidence; a draft without sentences is a refusal. It raises
RagError where it fails. A new recipe is a function and a line in `RECIPES`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rag_core.engine import Engine
from rag_core.planning.plan import widen_plan
from rag_core.recipe_steps import (
    add_hyde_query,
    complete_answer,
    plan_or_answer_exactly,
    search_and_extract,
    search_by_model_plan,
)
from rag_core.run import Run
from rag_core.types import Draft, Evidence, Question

__all__ = ["RECIPES", "Recipe", "run_direct"]

Recipe = Callable[[Question, Engine, Run], Awaitable[tuple[Draft, Evidence]]]


async def run_direct(question: Question, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    """Run the recipe `direct`: a draft and its evidence; a draft without sentences is a refusal."""
    plan, exact = await plan_or_answer_exactly(question, rag, run)
    if exact is not None:
        return exact, Evidence()
    draft, evidence = await search_and_extract(question, plan, rag, run)
    plan, draft, evidence = await search_by_model_plan(question, plan, draft, evidence, rag, run)
    if not draft.sentences and plan.queries:
        wider = widen_plan(plan) if rag.rounds > 1 else plan
        wider = await add_hyde_query(question, wider, draft, rag, run)
        if wider is not plan:
            second_draft, second_evidence = await search_and_extract(question, wider, rag, run)
            if second_draft.covered > draft.covered:
                draft, evidence = second_draft, second_evidence
    return await complete_answer(question, plan, draft, evidence, rag, run)


# Imported with their first question: their tables and grammars take 0.1 s.


async def _run_agent(question: Question, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    from rag_core.recipes.agent import run_agent

    return await run_agent(question, rag, run)


async def _run_mapreduce(question: Question, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    from rag_core.recipes.mapreduce import run_mapreduce

    return await run_mapreduce(question, rag, run)


async def _run_council(question: Question, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    from rag_core.recipes.council import run_council

    return await run_council(question, rag, run)


async def _run_react(question: Question, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    from rag_core.recipes.react import run_react

    return await run_react(question, rag, run)


RECIPES: dict[str, Recipe] = {
    "direct": run_direct,
    "agent": _run_agent,
    "mapreduce": _run_mapreduce,
    "council": _run_council,
    "react": _run_react,
}
