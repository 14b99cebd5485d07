"""Recipe `agent`: looks at its own evidence and searches again, for questions that one search does not answer.

A question of several parts is answered part by part (answer_by_parts.py). Other questions get a second, wider round
where the first one covers them poorly.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from rag_core.engine import Engine
from rag_core.planning.plan import widen_plan
from rag_core.recipe_steps import (
    add_hyde_query,
    complete_answer,
    extract_from_hits,
    plan_or_answer_exactly,
    search_and_extract,
    search_by_model_plan,
)
from rag_core.recipes.answer_by_parts import answer_parts, complete_parts
from rag_core.retrieval.rerank import rerank_hits
from rag_core.retrieval.search import add_neighbours, search_passages
from rag_core.stage_runner import Run
from rag_core.stages import Stage
from rag_core.types import Draft, Evidence, Hit, Plan, Question

# A second round finds posts less similar to the question: it needs a greater probability than a first round.
_SECOND_ROUND_LIKELY = 0.5
_READ_AROUND = 3  # first hits of a second round whose neighbours are read


async def run_agent(question: Question, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    """Run the recipe `agent`: a draft and its evidence; a draft without sentences is a refusal."""
    parts = await asyncio.to_thread(complete_parts, question.text, question.asked_at)
    if len(parts) > 1:
        if answered := await answer_parts(question, parts, rag, run):
            return answered
        plan, _ = await plan_or_answer_exactly(question, rag, run)
        # the posts may say it in one sentence whose words no part has alone
        return await _answer_in_rounds(question, plan, rag, run)
    plan, exact = await plan_or_answer_exactly(question, rag, run)
    if exact is not None:
        return exact, Evidence()
    return await _answer_in_rounds(question, plan, rag, run)


async def search_in_rounds(question: Question, plan: Plan, rag: Engine, run: Run) -> tuple[Hit, ...]:
    """Search as the recipe does, without answering: the hits of all rounds and parts, best first."""
    parts = await asyncio.to_thread(complete_parts, question.text, question.asked_at)
    if len(parts) > 1:
        found = [await search_passages(plan, question, rag, run)]
        for part in parts:
            asked = replace(question, text=part.text)
            own, _ = await plan_or_answer_exactly(asked, rag, run)
            found.append(await search_passages(own, asked, rag, run))
        depth = max(map(len, found))
        mixed = [hits[n] for n in range(depth) for hits in found if n < len(hits)]
        return tuple({hit.passage.ref: hit for hit in reversed(mixed)}.values())[::-1]
    return await search_passages(plan, question, rag, run)


@dataclass(frozen=True, slots=True)
class _SearchRound:
    plan: Plan
    draft: Draft
    evidence: Evidence


async def _answer_in_rounds(question: Question, plan: Plan, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    """Answer by one search, and by a second, wider one where nothing in the first is read as an answer."""
    draft, evidence = await search_and_extract(question, plan, rag, run)
    first = best = _SearchRound(*await search_by_model_plan(question, plan, draft, evidence, rag, run))
    if plan.queries and not first.draft.sentences:
        best = await _search_again(question, first, rag, run)
    return await complete_answer(question, best.plan, best.draft, best.evidence, rag, run)


async def _search_again(question: Question, first: _SearchRound, rag: Engine, run: Run) -> _SearchRound:
    """Search again with twice as many hits, both retrievers and other words; the better of both rounds."""
    plan = await add_hyde_query(question, widen_plan(first.plan), first.draft, rag, run)
    # the second round may fail: the result of the first is kept
    second = await run.attempt(Stage.AGAIN, _run_second_round(question, plan, rag, run), first)
    return second if second.draft.covered >= _SECOND_ROUND_LIKELY else first


async def _run_second_round(question: Question, plan: Plan, rag: Engine, run: Run) -> _SearchRound:
    """Search, and read the posts around the first hits too."""
    async with run.use_separate_budgets():  # its stages have their own budgets
        hits = await search_passages(plan, question, rag, run)
        hits = await run.attempt(Stage.RERANK, rerank_hits(question, hits, rag, run), hits)
        hits = await run.attempt(Stage.FOLLOW, add_neighbours(hits, _READ_AROUND, plan, question.viewer, rag), hits)
        return _SearchRound(plan, *await extract_from_hits(question, plan, hits, rag, run))
