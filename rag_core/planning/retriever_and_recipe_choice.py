"""Router: rules that choose the retrievers (words, vectors or both) and the recipe of a question, by its plan."""

from __future__ import annotations

import re
from dataclasses import replace

from rag_core.planning.question_parts import MAX_QUESTION_LENGTH, split_question
from rag_core.text.tokens import tokenize
from rag_core.types import DENSE_FIRST, HYBRID, LEXICAL_ONLY, Kind, Plan

# Terms. A query of so few with a number, a quote or a filter is an exact search. Short everyday questions without these
# gain 1.5 points of recall@20 by the dense index.
_SHORT_QUERY_TERMS = 4
_LONG_QUERY_TERMS = 14
_IDENTIFIER_OR_QUOTE = re.compile(r"(?<![\w.])(?:\d{4,}|[A-ZА-ЯЁ]{2,}-?\d+)(?!\w|\.\d)|[«\"“„]")
_AGENT_INTENTS = frozenset(
    {Kind.COMPARE, Kind.SUMMARY, Kind.CLAIM, Kind.LIST, Kind.TIMELINE, Kind.HOW_MANY, Kind.POSTED}
)


def route_plan(plan: Plan, text: str) -> Plan:
    """Choose the retrievers of a plan and, as the last of its reasons, the recipe: "direct" or "agent".

    `text` is the question as it was asked.
    """
    legs, why_legs = choose_retrievers(plan)
    recipe, why_recipe = _choose_recipe(text, plan)
    return replace(plan, legs=legs, reasons=(f"{legs}: {why_legs}", f"{recipe}: {why_recipe}"))


_COMPARISON = re.compile(
    r"\b(?:дороже|дешевле|больше|меньше|раньше|позже|старше|моложе|выше|ниже|длиннее|короче|быстрее|лучше|хуже|чаще|реже)\b[^?]*(?:,| )(?:или|чем)\b"
    r"|\b(?:which|who|what)\b[^?]*\b(?:came|was|is|were|are|born|opened|released|started|founded|formed|died|has|had|have|did|happened)\b[^?]*\b(?:first|earlier|later|older|younger|larger|bigger|smaller|longer|taller|higher|cheaper|\w+er|more [\w-]+)\b[^?]*\bor\b"
    r"|\b(?:more|fewer|less|larger|bigger|cheaper|earlier|later|older)\b[^?]*\b(?:or|than)\b(?! (?:so|more|less)\b)[^?]*\?"
    r"|^(?:are|were|is|was|do|did|does|have|has)\b[^?]*\band\b[^?]*\b(?:both|same|each)\b|\bbetween\b[^?]*\band\b[^?]*\b(?:which|who|what)\b"
    r"|\b(?:any|anything) different from\b|\bсравни\w*\b|\bотлича\w+\b|\bразниц\w+\b|\bcompar\w+\b|\bdifference between\b|\bdiffer\b",
    re.IGNORECASE,
)
_SPAN = re.compile(
    r"\bкак (?:менял|изменял|изменил|развива|рос)\w*|\bhow (?:has|have|did)\b[^?]*\b(?:chang|develop|grow|evolv)\w*|\b(?:timeline|хронологи\w+|таймлайн)\b",
    re.IGNORECASE,
)
_CLAIM_ASKED = re.compile(
    r"^(?:а )?(?:правда ли|верно ли|действительно ли|так ли|is it true|is it (?:right|correct))\b", re.IGNORECASE
)
_COUNT_ASKED = re.compile(r"^(?:а )?(?:сколько раз|как часто|в скольких|how many times|how often)\b", re.IGNORECASE)


def choose_retrievers(plan: Plan) -> tuple[str, str]:
    """Choose the retrievers by the first query of the plan, with the reason."""
    text = plan.queries[0] if plan.queries else ""
    terms = len(set(tokenize(text)))
    if not terms:
        return LEXICAL_ONLY, "no terms"
    if _IDENTIFIER_OR_QUOTE.search(text) and terms <= _SHORT_QUERY_TERMS:
        return LEXICAL_ONLY, "numbers or quotes"
    if (plan.since or plan.until or plan.channels or plan.has_filters) and terms <= _SHORT_QUERY_TERMS:
        return LEXICAL_ONLY, "a filter and few terms"
    if terms >= _LONG_QUERY_TERMS and not plan.should:
        return DENSE_FIRST, "long and without names"
    return HYBRID, "several terms"


def _choose_recipe(text: str, plan: Plan) -> tuple[str, str]:
    if len(split_question(text)) > 1:
        return "agent", "several parts"
    if plan.kind in _AGENT_INTENTS:
        return "agent", plan.kind.value.replace("_", " ")
    text = text[:MAX_QUESTION_LENGTH]
    for why, pattern in (
        ("a claim", _CLAIM_ASKED),
        ("a comparison", _COMPARISON),
        ("a span of time", _SPAN),
        ("a count", _COUNT_ASKED),
    ):
        if pattern.search(text):
            return "agent", why
    return "direct", "short and specific"
