"""Recipes: one async function for each way to make an answer, built from the same steps.

`direct` plans, searches, extracts, and writes where there is a model; every other recipe falls back to it. `agent`
checks the coverage of its own evidence, and searches once more, wider, where that is poor; a second round may also
follow where the model finds no answer. The others have modules of their own. A recipe returns a draft and its
evidence; a draft without sentences is a refusal. It raises RagError where it fails. A new recipe is a function and a
line in `RECIPES`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from importlib import import_module

from rag_core.engine import Engine
from rag_core.planning.rule_planner import widen_plan
from rag_core.steps import add_hyde_query, finish_draft, plan_or_answer_exactly, search_and_extract, write_or_extract
from rag_core.tracing import Run, Stage
from rag_core.types import Certainty, Draft, Evidence, Plan, Question

__all__ = ["RECIPES", "Recipe", "run_agent", "run_direct"]

Recipe = Callable[[Question, Engine, Run], Awaitable[tuple[Draft, Evidence]]]


async def run_direct(question: Question, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    """Run the recipe `direct`: a draft and its evidence; a draft without sentences is a refusal."""
    plan, exact = await plan_or_answer_exactly(question, rag, run)
    if exact is not None:
        return exact, Evidence()
    draft, evidence = await search_and_extract(question, plan, rag, run)
    if draft.certainty is not Certainty.SURE and plan.queries:
        wider = widen_plan(plan) if rag.settings.retrieval.rounds > 1 else plan
        wider = await add_hyde_query(question, wider, draft, rag, run)
        if wider is not plan:
            second_draft, second_evidence = await search_and_extract(question, wider, rag, run)
            if second_draft.covered > draft.covered:
                draft, evidence = second_draft, second_evidence
    draft = await write_or_extract(question, plan, draft, evidence, rag, run)
    return await finish_draft(question, plan, draft, evidence, rag, run)


# Coverage from which the first round is enough. Below it a second round helps, also where the bar is passed.
_SUFFICIENT_COVERAGE = 0.8
# A second round finds posts less similar to the question: it needs more coverage than a first round to be used.
_SECOND_ROUND_COVERAGE = 0.8
_MIN_IMPROVEMENT = 0.1  # by which the coverage of a second round must exceed that of a first one with an answer


@dataclass(frozen=True, slots=True)
class _SearchRound:
    """Result of one search round: plan, extract with its coverage, and evidence."""

    plan: Plan
    draft: Draft
    evidence: Evidence


async def run_agent(question: Question, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    """Run the recipe `agent`: a draft and its evidence; a draft without sentences is a refusal."""
    plan, exact = await plan_or_answer_exactly(question, rag, run)
    if exact is not None:
        return exact, Evidence()
    first = _SearchRound(plan, *await search_and_extract(question, plan, rag, run))
    best, rounds = first, 1
    if first.draft.covered < _SUFFICIENT_COVERAGE and plan.queries:
        best, rounds = _choose_better_round(first, await _run_second_round(question, first, rag, run)), 2
    written = await write_or_extract(question, best.plan, best.draft, best.evidence, rag, run)
    # the model found no answer, or none of its sentences was kept
    if not written.sentences and best.draft.sentences and rounds == 1:
        second = await _run_second_round(question, first, rag, run)
        if _choose_better_round(first, second) is second:
            best, written = (
                second,
                await write_or_extract(question, second.plan, second.draft, second.evidence, rag, run),
            )
    return await finish_draft(question, best.plan, written, best.evidence, rag, run)


async def _run_second_round(question: Question, first: _SearchRound, rag: Engine, run: Run) -> _SearchRound | None:
    """Search again with twice as many hits, both retrievers and other words; None where the plan would not change."""
    plan = await add_hyde_query(question, widen_plan(first.plan), first.draft, rag, run)
    if replace(plan, reasons=first.plan.reasons) == first.plan:
        return None
    # the second round may fail: the result of the first is kept
    return await run.attempt(Stage.AGAIN, _run_round(question, plan, rag, run), None)


async def _run_round(question: Question, plan: Plan, rag: Engine, run: Run) -> _SearchRound:
    async with run.use_separate_budgets():  # its stages have their own budgets
        return _SearchRound(plan, *await search_and_extract(question, plan, rag, run))


def _choose_better_round(first: _SearchRound, second: _SearchRound | None) -> _SearchRound:
    if second is None or second.draft.covered < _SECOND_ROUND_COVERAGE:
        return first
    improvement = second.draft.covered - first.draft.covered
    return second if improvement > (_MIN_IMPROVEMENT if first.draft.sentences else 0.0) else first


def _load_lazily(name: str) -> Recipe:
    """Recipe of a module of this package, which is imported with its first question."""

    async def run_recipe(question: Question, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
        recipe: Recipe = getattr(import_module(f"rag_core.recipes.{name}"), f"run_{name}")
        return await recipe(question, rag, run)

    return run_recipe


RECIPES: dict[str, Recipe] = {
    "direct": run_direct,
    "agent": run_agent,
    "mapreduce": _load_lazily("mapreduce"),
    "council": _load_lazily("council"),
    "react": _load_lazily("react"),
}
