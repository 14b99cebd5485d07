"""The plan of the rules with what a model adds to it. What the question says outright is never given up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

from rag_core.analysis import terms
from rag_core.plan.around import Around, Spoken
from rag_core.plan.kinds import about_posts
from rag_core.plan.queries import MOST_PHRASES, MOST_QUERIES, parts_of
from rag_core.plan.rules import TELEGRAM
from rag_core.plan.wire import Proposal, alike
from rag_core.route import route
from rag_core.types import Plan, Question
from rag_core.when import period

__all__ = ["distinct", "merged"]

_OLDEST = TELEGRAM.date()
_DAY = timedelta(days=1)


def distinct(queries: Iterable[str], known: Sequence[str] = ()) -> tuple[str, ...]:
    """Those that look for something else than the known ones and those before them."""
    kept: list[str] = []
    for query in queries:
        if len(kept) == MOST_QUERIES:
            break
        if not any(alike(query, other) for other in (*known, *kept)):
            kept.append(query)
    return tuple(kept)


def merged(by_rules: Plan, said: Proposal, more: Sequence[str], question: Question, around: Around) -> Plan:
    """The question's own query, those of the model, then those of the rules as far as there is room.

    `more` are queries in the other language, or asked for afterwards: there is always room for the first. Filters
    that the rules found stay; one of the model counts where the question speaks of it.
    """
    own = by_rules.queries[:1]
    first = distinct(more[:1], own)
    room = MOST_QUERIES - len(own) - len(first)
    fresh = distinct(said.queries, (*own, *first))[:room]
    found = (*own, *fresh, *first)
    found = (*found, *distinct(more, found))
    marks = {frozenset(terms(query)) for query in found}
    # those of the rules differ by a word at times: they are there so that there are enough
    rest = (query for query in by_rules.queries[1:] if frozenset(terms(query)) not in marks)
    spoken = Spoken(question.text)
    phrases = [phrase for phrase in said.should if spoken.vouches_for(phrase)]
    # what a post must hold is what the question says, in its own words
    must = [phrase for phrase in said.must if spoken.says(phrase)]
    plan = replace(
        by_rules,
        queries=(*found, *rest)[:MOST_QUERIES],
        must=tuple(dict.fromkeys((*by_rules.must, *must)))[:MOST_PHRASES],
        should=tuple(dict.fromkeys((*by_rules.should, *phrases)))[:MOST_PHRASES],
        channels=by_rules.channels or around.channels_called(said.channel, spoken),
        authors=by_rules.authors or around.authors_called(said.author, spoken),
    )
    plan = _dated(plan, said, question)
    chosen = route(plan, parts_of(plan.asked))
    return replace(plan, legs=chosen.legs, reasons=(*chosen.reasons, f"{len(fresh)} queries by the model"))


def _dated(plan: Plan, said: Proposal, question: Question) -> Plan:
    """The model's days, where the question has a time of posts that the rules cannot read ("since the pandemic")."""
    if plan.since or plan.until or not (said.since or said.until) or period(question.text, question.asked_at):
        return plan
    if not about_posts(question.text.lower().replace("ё", "е")):
        return plan
    today = question.asked_at.date()
    since, until = said.since or _OLDEST, said.until or today
    if not _OLDEST <= since <= until or since > today:
        return plan
    zone = question.asked_at.tzinfo or UTC
    after = datetime.combine(until + _DAY, time(), zone) if said.until else None
    return replace(plan, since=datetime.combine(since, time(), zone) if said.since else None, until=after)
