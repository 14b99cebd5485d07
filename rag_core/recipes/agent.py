"""`agent`: looks at its own evidence, and searches once more, wider, where that covers the question poorly.

Route, plan, search, rerank, compose, coverage, perhaps one more round, write, cite, verify, perhaps one more round.
At most two rounds, whichever asks for the second. Every stage has a stand-in where its model is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rag_core.plan import wider
from rag_core.rag import Rag
from rag_core.rounds import begun, concluded, imagined, looked, told
from rag_core.stage import Run
from rag_core.types import Draft, Evidence, Plan, Question

__all__ = ["agent"]

# Coverage from which the first round is enough. Below it a second look pays, also where the bar is passed.
_ENOUGH = 0.8
# A second round finds what is less like the question: to be shown it must cover it better than a first one would.
_SECOND = 0.8
_BETTER = 0.1  # coverage by which a second round must be better than a first one that has an answer


@dataclass(frozen=True, slots=True)
class _Round:
    """What was found by a plan: an extract that says how well it covers the question, and where it stands."""

    plan: Plan
    draft: Draft
    evidence: Evidence


async def agent(question: Question, rag: Rag, run: Run) -> tuple[Draft, Evidence]:
    """A draft and the evidence it stands on; a draft without sentences is a refusal."""
    plan, exact = await begun(question, rag, run)
    if exact is not None:
        return exact, Evidence()
    first = _Round(plan, *await looked(question, plan, rag, run))
    best, rounds = first, 1
    if first.draft.covered < _ENOUGH and plan.queries:
        best, rounds = _better(first, await _again(question, first, rag, run)), 2
    written = await told(question, best.plan, best.draft, best.evidence, rag, run)
    if not written.sentences and best.draft.sentences and rounds == 1:  # the model found no answer, or nothing stood
        second = await _again(question, first, rag, run)
        if _better(first, second) is second:
            best, written = second, await told(question, second.plan, second.draft, second.evidence, rag, run)
    return await concluded(question, best.plan, written, best.evidence, rag, run)


async def _again(question: Question, first: _Round, rag: Rag, run: Run) -> _Round | None:
    """The second round: twice as many hits, both legs, other words; None where there is nothing else to look for."""
    plan = await imagined(question, wider(first.plan), first.draft, rag, run)
    if replace(plan, reasons=first.plan.reasons) == first.plan:
        return None
    # what the first round found stands: the second may fail
    return await run.attempt("again", _looked(question, plan, rag, run), None)


async def _looked(question: Question, plan: Plan, rag: Rag, run: Run) -> _Round:
    async with run.apart():  # its stages have budgets of their own
        return _Round(plan, *await looked(question, plan, rag, run))


def _better(first: _Round, second: _Round | None) -> _Round:
    """The round to answer from."""
    if second is None or second.draft.covered < _SECOND:
        return first
    ahead = second.draft.covered - first.draft.covered
    return second if ahead > (_BETTER if first.draft.sentences else 0.0) else first
