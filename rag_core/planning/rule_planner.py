"""Rule-based planner: question to a valid plan without a model; and the wider plan of a second round."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from rag_core.dates.parse import Period, parse_period
from rag_core.planning.filter_parsing import QueryFilters, parse_filters
from rag_core.planning.intents import (
    asks_about_posts,
    asks_about_recent_events,
    detect_intent,
    extract_topic,
    is_empty_topic,
    strip_asking_phrase,
)
from rag_core.planning.queries import (
    MAX_QUERIES,
    extract_phrases,
    generate_query_variants,
    rewrite_as_statement,
    sanitize_query,
)
from rag_core.planning.router import HYBRID, route_plan
from rag_core.text.tokens import tokenize
from rag_core.types import Channel, Kind, Plan, Question

MAX_HITS = 100  # hits of each retriever in the second round
EXACT_INTENTS = frozenset({Kind.HOW_MANY, Kind.FIRST, Kind.LAST, Kind.TIMELINE, Kind.WHEN})
# Intents that make sense without a topic, over all posts.
_TOPICLESS_INTENTS = frozenset({Kind.FACT, Kind.HOW_MANY, Kind.SUMMARY, Kind.LIST, Kind.NEWS, Kind.LAST})
_QUOTED = re.compile(r"[«\"“„][^»\"”“]{1,80}[»\"”]")
_RECENT_LIMIT = timedelta(days=70)
TELEGRAM_START = datetime(2013, 8, 14, tzinfo=UTC)  # no post is older than Telegram
_NO_CHANNELS: Mapping[int, Channel] = {}


def plan_by_rules(question: Question, known: Mapping[int, Channel] = _NO_CHANNELS) -> Plan:
    """Plan a question by rules; the plan is always valid, and an empty question gives no queries.

    `known`: channels by id; only those that the asker may read can be named in the question.
    """
    text = sanitize_query(question.text)
    if not tokenize(text):
        return Plan(())
    plain = text.replace("ё", "е").replace("Ё", "Е")
    asked = plain.lower()
    filters = parse_filters(plain, {key: c for key, c in known.items() if key in question.viewer.channels})
    period = parse_period(_QUOTED.sub(" ", text), question.asked_at)  # a quoted title is no period
    kind, topic = (
        detect_intent(asked),
        extract_topic(_remove_pieces(asked, (period.words if period else "", *filters.words))),
    )
    posting_period = period if period and _is_posting_period(period, question, asked, kind, filters, topic) else None
    kind = _adjust_intent(kind, topic, asked, bounded=bool(posting_period or filters.words))
    query = _remove_filter_words(text, (*filters.words, posting_period.words if posting_period else ""))
    plan = Plan((query, *generate_query_variants(query)), kind, topic if tokenize(topic) else asked, *extract_phrases(query), asked=strip_asking_phrase(query),
                channels=filters.channels, authors=filters.authors, origins=filters.origins, media=filters.media,
                files=filters.files)  # fmt: skip
    if posting_period:
        plan = replace(plan, since=posting_period.since, until=posting_period.until, slack=posting_period.slack,
                       yearless=posting_period.yearless)  # fmt: skip
    route = route_plan(plan, text, question.asked_at)
    return replace(plan, legs=route.legs, reasons=route.reasons)


def build_bare_plan(question: Question) -> Plan:
    """Build a plan of the question alone: the fallback of failed planning, and a baseline."""
    text = sanitize_query(question.text)
    return Plan((text,), asked=text) if tokenize(text) else Plan(())


def widen_plan(plan: Plan) -> Plan:
    """Widen a plan for a second round: twice as many hits, both retrievers, and the question as a statement.

    The filters stay: an answer from another period or channel is no answer.
    """
    distinct: dict[frozenset[str], str] = {}
    for query in (rewrite_as_statement(plan.queries[0]), *plan.queries):
        distinct.setdefault(frozenset(tokenize(query)), query)
    queries = tuple(distinct.values())[:MAX_QUERIES]
    return replace(plan, queries=queries, k=min(2 * plan.k, MAX_HITS), legs=HYBRID)


def lift_filters(plan: Plan) -> Plan:
    """Lift all filters of the question; those of the viewer are no part of a plan."""
    return replace(plan, since=None, until=None, channels=None, authors=(), origins=(), media=(), files=())


def _is_posting_period(
    period: Period, question: Question, asked: str, kind: Kind, filters: QueryFilters, topic: str
) -> bool:
    """Whether a period filters posts by their dates, or only belongs to the topic.

    Longer relative periods often belong to the topic: "the last years of his life".
    """
    if period.until is not None and period.until <= TELEGRAM_START:
        return False
    lately = period.since is not None and question.asked_at - period.since <= _RECENT_LIMIT
    return (
        bool(filters.beside)
        or kind in EXACT_INTENTS | {Kind.NEWS}
        or asks_about_posts(asked)
        or (asks_about_recent_events(asked) and lately)
        or (is_empty_topic(topic) and (asks_about_recent_events(asked) or kind in {Kind.SUMMARY, Kind.LIST}))
    )


def _adjust_intent(kind: Kind, topic: str, asked: str, *, bounded: bool) -> Kind:
    """Correct the intent of a question without a topic: "what is new" asks for the newest posts, in any period."""
    news = kind in {Kind.SUMMARY, Kind.LAST} or (kind is not Kind.HOW_MANY and asks_about_recent_events(asked))
    if kind in _TOPICLESS_INTENTS and (bounded or news) and is_empty_topic(topic):
        return Kind.POSTED
    return Kind.FACT if kind in EXACT_INTENTS - {Kind.WHEN} and not tokenize(topic) else kind


def _remove_pieces(asked: str, pieces: Iterable[str]) -> str:
    for words in dict.fromkeys(filter(None, pieces)):
        asked = asked.replace(words, " ")
    return asked


def _remove_filter_words(text: str, pieces: Iterable[str]) -> str:
    """Remove the words that became filters: the posts themselves do not contain them."""
    rest = text
    for words in dict.fromkeys(filter(None, pieces)):
        rest = re.sub(rf"(?<!\w){re.escape(words)}(?!\w)".replace("е", "[её]"), " ", rest, flags=re.I)
    return " ".join(rest.split()).strip(" ,;:") if tokenize(rest) else text
