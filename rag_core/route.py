"""Which legs search for a question, and which recipe answers it: rules, with their reasons for the trace."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rag_core.analysis import terms
from rag_core.types import Kind, Plan

__all__ = ["HYBRID", "LEXICAL_ONLY", "MEANING_FIRST", "Route", "route"]

LEXICAL_ONLY, HYBRID, MEANING_FIRST = "lexical", "hybrid", "meaning first"
# Terms. So few say what they say, and a weak embedding model only adds what is near them. With three of them as few
# MuSiQue lost 1.7 points of recall@5, and XQuAD gained nothing.
_FEW, _SHORT = 2, 4
_LONG = 14
_MANY_PARTS = 3
_TELLING = re.compile(r"(?<![\w.])(?:\d{4,}|[A-ZА-ЯЁ]{2,}-?\d+)(?!\w|\.\d)|[«\"“„]")
_PARTED = frozenset({Kind.COMPARE, Kind.SUMMARY, Kind.CLAIM, Kind.LIST})


@dataclass(frozen=True, slots=True)
class Route:
    """`legs`: "lexical", "hybrid" or "meaning first"; `recipe`: "direct" or "agent".

    `reasons` go into the trace: which legs and which recipe, and why.
    """

    legs: str
    recipe: str
    reasons: tuple[str, ...]


def route(plan: Plan, parts: int = 1) -> Route:
    """By the words of the plan's own query; `parts` is how many things the question joins."""
    legs, why_legs = _legs(plan)
    recipe, why_recipe = _recipe(plan, parts)
    return Route(legs, recipe, (f"{legs}: {why_legs}", f"{recipe}: {why_recipe}"))


def _bounded(plan: Plan) -> bool:
    return bool(plan.since or plan.until or plan.channels or plan.narrowed)


def _legs(plan: Plan) -> tuple[str, str]:
    text = plan.queries[0] if plan.queries else ""
    found = len(set(terms(text)))
    if found <= _FEW:
        return LEXICAL_ONLY, "few terms"
    if _TELLING.search(text) and found <= _SHORT:
        return LEXICAL_ONLY, "numbers or quotes"
    if _bounded(plan) and found <= _SHORT:
        return LEXICAL_ONLY, "a filter and few terms"
    if found >= _LONG and not plan.should:
        return MEANING_FIRST, "long and without names"
    return HYBRID, "several terms"


def _recipe(plan: Plan, parts: int) -> tuple[str, str]:
    if plan.kind in _PARTED:
        return "agent", plan.kind.value
    if parts >= _MANY_PARTS:
        return "agent", "several parts"
    if _bounded(plan) and plan.kind is Kind.FACT:
        return "agent", "a filter"
    return "direct", "short and specific"
