"""Recipes: one async function for each way to make an answer, built from the same steps.

`direct` plans, searches, extracts, and writes where there is a model; every other recipe falls back to it. The others
have modules of their own. A recipe returns its best round, and raises RagError where it fails. A new one is a function
and a line in `RECIPES`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rag_core.engine import Engine
from rag_core.planning.plan import widen_plan
from rag_core.recipe_steps import (
    Round,
    add_hyde_query,
    complete_answer,
    plan_or_answer_exactly,
    search_and_extract,
    search_by_model_plan,
)
from rag_core.run import Run
from rag_core.types import Question

__all__ = ["RECIPES", "Recipe", "run_direct"]

Recipe = Callable[[Question, Engine, Run], Awaitable[Round]]


async def run_direct(question: Question, rag: Engine, run: Run) -> Round:
    """Run the recipe `direct`: one search, and a wider one where nothing in the first is read as an answer."""
    plan, exact = await plan_or_answer_exactly(question, rag, run)
    if exact is not None:
        return Round(plan, exact)
    best = await search_and_extract(question, plan, rag, run)
    best = await search_by_model_plan(question, best, rag, run)
    if not best.draft.sentences and best.plan.queries:
        wider = widen_plan(best.plan) if rag.rounds > 1 else best.plan
        wider = await add_hyde_query(question, wider, best.draft, rag, run)
        if wider is not best.plan:
            second = await search_and_extract(question, wider, rag, run)
            best = max(best, second, key=lambda one: one.draft.covered)
    return await complete_answer(question, best, rag, run)


# Imported with their first question: their tables and grammars take 0.1 s.


async def _run_agent(question: Question, rag: Engine, run: Run) -> Round:
    from rag_core.recipes.agent import run_agent

    return await run_agent(question, rag, run)


async def _run_mapreduce(question: Question, rag: Engine, run: Run) -> Round:
    from rag_core.recipes.mapreduce import run_mapreduce

    return await run_mapreduce(question, rag, run)


async def _run_council(question: Question, rag: Engine, run: Run) -> Round:
    from rag_core.recipes.council import run_council

    return await run_council(question, rag, run)


async def _run_react(question: Question, rag: Engine, run: Run) -> Round:
    from rag_core.recipes.react import run_react

    return await run_react(question, rag, run)


RECIPES: dict[str, Recipe] = {
    "direct": run_direct,
    "agent": _run_agent,
    "mapreduce": _run_mapreduce,
    "council": _run_council,
    "react": _run_react,
}
