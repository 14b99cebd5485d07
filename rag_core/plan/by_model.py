"""Question to plan by a model that can only write a plan; the plan by rules wherever it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rag_core.analysis import language_of, terms
from rag_core.doors.llm import Decoding, Generated, LanguageModel, Prompt, Seat
from rag_core.errors import GenerationFailed
from rag_core.plan.around import Around
from rag_core.plan.merged import distinct, merged
from rag_core.plan.prompt import fitting, plan_prompt, rewrite_prompt
from rag_core.plan.queries import LEAST_QUERIES, LEAST_TERMS, names_otherwise, short
from rag_core.plan.rules import EXACT
from rag_core.plan.wire import (
    PLAN_GRAMMAR,
    PLAN_SCHEMA,
    REWRITE_GRAMMAR,
    REWRITE_SCHEMA,
    Proposal,
    proposed,
    rewritten,
)
from rag_core.stage import Run
from rag_core.types import Kind, Plan, Question

__all__ = ["PLANNING", "REWRITING", "plan_by_model", "worth_planning"]

PLANNING = Decoding(max_tokens=256, repeat_penalty=1.2)
REWRITING = Decoding(max_tokens=128, repeat_penalty=1.2)
_SETTLED = EXACT | {Kind.POSTED}
_UNREADABLE = "The model's {} could not be read: only the rules' queries are searched with."


@dataclass(frozen=True, slots=True)
class _Request:
    """What is asked of the model, and the form the reply must have."""

    decoding: Decoding
    grammar: str
    schema: Mapping[str, Any]


_PLAN = _Request(PLANNING, PLAN_GRAMMAR, PLAN_SCHEMA)
_REWRITE = _Request(REWRITING, REWRITE_GRAMMAR, REWRITE_SCHEMA)


def worth_planning(by_rules: Plan) -> bool:
    """Whether a model could add to it: not where posts are counted or listed, nor to a question of one or two words."""
    return by_rules.kind not in _SETTLED and len(set(terms(by_rules.asked))) >= LEAST_TERMS


async def plan_by_model(question: Question, by_rules: Plan, around: Around, planner: LanguageModel, run: Run) -> Plan:
    """The rules' plan with what the model adds. What the model does not do in time, or at all, is a shortfall.

    Its stages `plan` and `rewrite` have budgets of their own; waiting for the model is no part of them.
    """
    heard: list[str] = []
    before = len(run.shortfalls)
    # what was complete when it broke off still helps
    said = await run.attempt("plan", _plan(question, around, planner, run, heard), lambda: proposed("".join(heard)))
    if len(run.shortfalls) > before:
        return await asyncio.to_thread(merged, by_rules, said, (), question, around) if said.queries else by_rules
    own = by_rules.queries[0]
    fresh = distinct(said.queries, (own,))
    other = around.other_language(own)
    if any(language_of(query) == other for query in fresh):
        other = ""
    more: tuple[str, ...] = ()
    if (other or len(fresh) + 1 < LEAST_QUERIES) and not planner.waiting:
        asked = partial(rewrite_prompt, question, around, (short(own), *fresh), other)
        more = await run.attempt("rewrite", _rewrite(asked, question, planner, run), ())
    return await asyncio.to_thread(merged, by_rules, said, _told_apart(more, other, own), question, around)


def _told_apart(more: Sequence[str], other: str, own: str) -> tuple[str, ...]:
    """The query in the other language first; by the names spelt in the other script where the model wrote none."""
    if not other:
        return tuple(more)
    there = [query for query in more if language_of(query) == other]
    spelt = () if there else filter(None, (names_otherwise(own),))
    return (*there, *spelt, *(query for query in more if query not in there))


async def _plan(question: Question, around: Around, planner: LanguageModel, run: Run, heard: list[str]) -> Proposal:
    """What the model proposes. Raises GenerationFailed, StageTimeout."""
    asked = partial(plan_prompt, question, around)
    async with run.seated(planner, question.viewer.user_id) as seat:
        prompt = await fitting(asked, planner.context - PLANNING.max_tokens, seat)
        said = proposed((await _reply(seat, prompt, _PLAN, run, heard)).text)
    if not said.queries:
        raise GenerationFailed(_UNREADABLE.format("plan"))
    return said


async def _rewrite(
    asked: Callable[[int], Prompt], question: Question, planner: LanguageModel, run: Run
) -> tuple[str, ...]:
    """More queries. Raises GenerationFailed, StageTimeout."""
    async with run.seated(planner, question.viewer.user_id) as seat:
        prompt = await fitting(asked, planner.context - REWRITING.max_tokens, seat)
        found = rewritten((await _reply(seat, prompt, _REWRITE, run, [])).text)
    if not found:
        raise GenerationFailed(_UNREADABLE.format("rewrite"))
    return found


async def _reply(seat: Seat, prompt: Prompt, request: _Request, run: Run, heard: list[str]) -> Generated:
    """The whole reply; its pieces go into `heard` as they come. Raises GenerationFailed."""
    pieces = seat.stream(prompt, request.decoding, grammar=request.grammar, schema=request.schema)
    async for piece in pieces:
        if isinstance(piece, Generated):
            figures = piece.figures
            run.note(tokens=figures.tokens, read=figures.evaluated, first_ms=round(figures.first_ms, 1))
            return piece
        heard.append(piece)
    raise GenerationFailed("The model ended without a reply: only the rules' queries are searched with.")
