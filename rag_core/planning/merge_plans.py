"""Merging of query plans: what a model proposes is added to the plan of the rules.

Filters found by the rules are never dropped. A proposed channel counts only if it exists and the question says its whole
name, an author if the question names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

from rag_core.dates.parse import parse_period
from rag_core.planning.intents import asks_about_posts
from rag_core.planning.known_entities import KnownEntities, QuestionWords
from rag_core.planning.plan_schema_and_parsing import PlanProposal, are_similar_queries
from rag_core.planning.queries import MAX_PHRASES, MAX_QUERIES
from rag_core.planning.retriever_and_recipe_choice import route_plan
from rag_core.text.tokens import tokenize
from rag_core.types import TELEGRAM_START, Plan, Question

_OLDEST_DAY = TELEGRAM_START.date()
_ONE_DAY = timedelta(days=1)


def drop_similar_queries(queries: Iterable[str], known: Sequence[str] = ()) -> tuple[str, ...]:
    """Drop queries similar to a known one or to an earlier one; at most six stay."""
    kept: list[str] = []
    for query in queries:
        if len(kept) == MAX_QUERIES:
            break
        if not any(are_similar_queries(query, other) for other in (*known, *kept)):
            kept.append(query)
    return tuple(kept)


def merge_plans(
    by_rules: Plan, proposal: PlanProposal, more: Sequence[str], question: Question, around: KnownEntities
) -> Plan:
    """Merge queries: the question itself, those of the model, then those of the rules up to the limit.

    `more` are queries of the rewrite, or in the other language: the first of them always has a place. Filters
    of the rules stay; a filter of the model counts only if the question names it.
    """
    own = by_rules.queries[:1]
    first = drop_similar_queries(more[:1], own)
    room = MAX_QUERIES - len(own) - len(first)
    fresh = drop_similar_queries(proposal.queries, (*own, *first))[:room]
    queries = (*own, *fresh, *first)
    queries = (*queries, *drop_similar_queries(more, queries))
    marks = {frozenset(tokenize(query)) for query in queries}
    # queries of the rules may differ by one word only: they fill up the number, so only equal ones are dropped
    rest = (query for query in by_rules.queries[1:] if frozenset(tokenize(query)) not in marks)
    spoken = QuestionWords(question.text)
    phrases = [phrase for phrase in proposal.should if spoken.vouches_for(phrase)]
    # a required phrase must consist of words of the question
    must = [phrase for phrase in proposal.must if spoken.says(phrase)]
    plan = replace(
        by_rules,
        queries=(*queries, *rest)[:MAX_QUERIES],
        k_per_query=proposal.k_per_query or by_rules.k_per_query,
        fusion=proposal.fusion or by_rules.fusion,
        must=tuple(dict.fromkeys((*by_rules.must, *must)))[:MAX_PHRASES],
        should=tuple(dict.fromkeys((*by_rules.should, *phrases)))[:MAX_PHRASES],
        channels=by_rules.channels or around.channels_called(proposal.channel, spoken),
        authors=by_rules.authors or around.authors_called(proposal.author, spoken),
    )
    plan = route_plan(_apply_model_dates(plan, proposal, question), question.text)
    return replace(plan, reasons=(*plan.reasons, f"{len(fresh)} queries by the model"))


def _apply_model_dates(plan: Plan, proposal: PlanProposal, question: Question) -> Plan:
    """Use the dates of the model where the rules cannot parse the period of posts ("since the pandemic")."""
    known = plan.since or plan.until or parse_period(question.text, question.asked_at)
    proposed = proposal.since or proposal.until
    if known or not proposed or not asks_about_posts(question.text.lower().replace("ё", "е")):
        return plan
    today = question.asked_at.date()
    since, until = proposal.since or _OLDEST_DAY, proposal.until or today
    if not _OLDEST_DAY <= since <= until or since > today:
        return plan
    zone = question.asked_at.tzinfo or UTC
    after = datetime.combine(until + _ONE_DAY, time(), zone) if proposal.until else None
    return replace(plan, since=datetime.combine(since, time(), zone) if proposal.since else None, until=after)
