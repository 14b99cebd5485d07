"""Recipe `agent`: checks the coverage of its own evidence, and searches once more, wider, where that is poor.

Plan, search, rerank, extract, coverage, perhaps a second round, write; a second round may also follow where the model
finds no answer. At most two rounds. Every stage has a fallback where its model is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rag_core.engine import Engine
from rag_core.planning import widen_plan
from rag_core.steps import add_hyde_query, finish_draft, plan_or_answer_exactly, search_and_extract, write_or_extract
from rag_core.tracing import Run
from rag_core.types import Draft, Evidence, Plan, Question

__all__ = ["run_agent"]

# Coverage from which the first round is enough. Below it a second look pays, also where the bar is passed.
_SUFFICIENT_COVERAGE = 0.8
# A second round finds what is less like the question: to be shown it must cover it better than a first one would.
_SECOND_ROUND_COVERAGE = 0.8
_MIN_IMPROVEMENT = 0.1  # coverage by which a second round must be better than a first one that has an answer


@dataclass(frozen=True, slots=True)
class _SearchRound:
    """What was found by a plan: an extract that says how well it covers the question, and where it stands."""

    plan: Plan
    draft: Draft
    evidence: Evidence


async def run_agent(question: Question, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    """A draft and the evidence it stands on; a draft without sentences is a refusal."""
    plan, exact = await plan_or_answer_exactly(question, rag, run)
    if exact is not None:
        return exact, Evidence()
    first = _SearchRound(plan, *await search_and_extract(question, plan, rag, run))
    best, rounds = first, 1
    if first.draft.covered < _SUFFICIENT_COVERAGE and plan.queries:
        best, rounds = _choose_better_round(first, await _run_second_round(question, first, rag, run)), 2
    written = await write_or_extract(question, best.plan, best.draft, best.evidence, rag, run)
    if not written.sentences and best.draft.sentences and rounds == 1:  # the model found no answer, or nothing stood
        second = await _run_second_round(question, first, rag, run)
        if _choose_better_round(first, second) is second:
            best, written = (
                second,
                await write_or_extract(question, second.plan, second.draft, second.evidence, rag, run),
            )
    return await finish_draft(question, best.plan, written, best.evidence, rag, run)


async def _run_second_round(question: Question, first: _SearchRound, rag: Engine, run: Run) -> _SearchRound | None:
    """The second round: twice as many hits, both legs, other words; None where there is nothing else to look for."""
    plan = await add_hyde_query(question, widen_plan(first.plan), first.draft, rag, run)
    if replace(plan, reasons=first.plan.reasons) == first.plan:
        return None
    # what the first round found stands: the second may fail
    return await run.attempt("again", _run_round(question, plan, rag, run), None)


async def _run_round(question: Question, plan: Plan, rag: Engine, run: Run) -> _SearchRound:
    async with run.apart():  # its stages have budgets of their own
        return _SearchRound(plan, *await search_and_extract(question, plan, rag, run))


def _choose_better_round(first: _SearchRound, second: _SearchRound | None) -> _SearchRound:
    """The round to answer from."""
    if second is None or second.draft.covered < _SECOND_ROUND_COVERAGE:
        return first
    ahead = second.draft.covered - first.draft.covered
    return second if ahead > (_MIN_IMPROVEMENT if first.draft.sentences else 0.0) else first
