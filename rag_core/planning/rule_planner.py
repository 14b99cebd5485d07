"""Rule-based planner: question to a valid plan without a model; and the wider plan of a second round."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from rag_core.dates.parse import Period, parse_coming_period, parse_period
from rag_core.planning.filters_named_in_question import QueryFilters, match_channel_name, parse_filters
from rag_core.planning.intents import (
    EXACT_INTENTS,
    asks_about_posts,
    asks_about_recent_events,
    asks_for_coming_events,
    asks_for_digest,
    asks_for_posts,
    counts_all_posts,
    detect_intent,
    names_events,
)
from rag_core.planning.queries import (
    MAX_QUERIES,
    extract_phrases,
    generate_query_variants,
    rewrite_as_statement,
    sanitize_query,
)
from rag_core.planning.retriever_and_recipe_choice import route_plan
from rag_core.planning.topics import (
    extract_coming_topic,
    extract_posts_topic,
    extract_topic,
    is_empty_topic,
    strip_asking_phrase,
    strip_catch_all_words,
)
from rag_core.text.channel_questions import detect_channel_question
from rag_core.text.definition_questions import find_defined_name
from rag_core.text.tokens import tokenize
from rag_core.types import HYBRID, TELEGRAM_START, Channel, Kind, Plan, Question

MAX_HITS = 100  # hits of each retriever in the second round
# Intents that make sense without a topic, over all posts.
_TOPICLESS_INTENTS = frozenset({Kind.FACT, Kind.HOW_MANY, Kind.SUMMARY, Kind.LIST, Kind.NEWS, Kind.LAST})
_QUOTED = re.compile(r"[«\"“„][^»\"”“]{1,80}[»\"”]")
_RECENT_LIMIT, _YEAR, _BRIEF_PERIOD = timedelta(days=70), timedelta(days=366), timedelta(days=31)
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
    readable = {key: channel for key, channel in known.items() if key in question.viewer.channels}
    filters = parse_filters(plain, readable)
    period = parse_period(_QUOTED.sub(" ", text), question.asked_at)  # a quoted title is no period
    rest = asked
    for words in filter(None, (period.words if period else "", *filters.words)):
        rest = rest.replace(words, " ")
    kind, topic = _detect_intent_and_topic(asked, rest, timed=period is not None)
    posting_period = period if period and _is_posting_period(period, question, asked, kind, filters, topic) else None
    kind = _adjust_intent(kind, topic, asked, bounded=bool(posting_period or filters.words))
    coming = _find_coming_topic(asked, question.asked_at, filters) if kind in _OPEN_INTENTS else None
    if coming is not None:
        kind, topic, posting_period = Kind.COMING, coming, None
    if kind in _OPEN_INTENTS and (of_channel := _find_channel_intent(asked, filters, readable)):
        kind, topic, named = of_channel
        filters, posting_period = replace(filters, channels=named), None
    if kind is Kind.FACT and not filters.beside and find_defined_name(text):
        kind = Kind.DEFINITION
    if kind is Kind.FACT and posting_period and asks_about_recent_events(asked):
        # "what happened at the barn players in August": a digest of the channel of that title, else of those mentions
        topic = strip_catch_all_words(topic)
        own = match_channel_name(topic, readable)
        kind, filters = (Kind.POSTED, replace(filters, channels=frozenset(own))) if own else (Kind.NEWS, filters)
    rest = text
    for words in dict.fromkeys(filter(None, (*filters.words, posting_period.words if posting_period else ""))):
        rest = re.sub(rf"(?<!\w){re.escape(words)}(?!\w)".replace("е", "[её]"), " ", rest, flags=re.I)
    query = " ".join(rest.split()).strip(" ,;:") if tokenize(rest) else text
    queries = (query, *generate_query_variants(query))[:MAX_QUERIES]
    about_all = kind in _NAMELESS_INTENTS  # of all channels
    own_words = _write_as_asked(topic, text) if kind is Kind.NEWS else strip_asking_phrase(query)
    plan = Plan(queries, kind, topic if tokenize(topic) or about_all else asked, *extract_phrases(query), asked=own_words,
                channels=filters.channels, authors=filters.authors, origins=filters.origins, media=filters.media,
                files=filters.files)  # fmt: skip
    if posting_period:
        plan = replace(plan, since=posting_period.since, until=posting_period.until, slack=posting_period.slack,
                       yearless=posting_period.yearless)  # fmt: skip
    return route_plan(plan, text)


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


def format_plan(plan: Plan, known: Mapping[int, Channel]) -> dict[str, Any]:
    """Format a plan in the JSON form that the model writes (`plan_schema_and_parsing.py`); days are inclusive."""
    titles = [known[chat].title for chat in sorted(plan.channels or ()) if chat in known]
    filters = {
        "date_from": plan.since and f"{plan.since:%Y-%m-%d}",
        "date_to": plan.until and f"{plan.until - timedelta(days=1):%Y-%m-%d}",
        "channel": ", ".join(titles) or None,
        "author": ", ".join(plan.authors) or None,
    }
    return {
        "normalized_queries": list(plan.queries),
        "must_phrases": list(plan.must),
        "should_phrases": list(plan.should),
        "metadata_filters": filters if any(filters.values()) else None,
        "k_per_query": plan.k_per_query,
        "fusion": plan.fusion,
    }


def _detect_intent_and_topic(asked: str, rest: str, *, timed: bool) -> tuple[Kind, str]:
    """Detect the intent of a question and what it is about; `rest`: without its filters and its period, if `timed`."""
    kind, topic = detect_intent(asked), extract_topic(rest)
    if kind is Kind.NEWS or (kind is Kind.FACT and asks_for_posts(asked)):
        about = extract_posts_topic(rest)
        kind, topic = (Kind.NEWS, about) if about else (kind, topic)
    if kind in _DIGEST_INTENTS and asks_for_digest(rest, timed=timed):
        return Kind.SUMMARY, ""
    return kind, topic


def _is_posting_period(
    period: Period, question: Question, asked: str, kind: Kind, filters: QueryFilters, topic: str
) -> bool:
    """Whether a period filters posts by their dates, or only belongs to the topic.

    Longer relative periods often belong to the topic: "the last years of his life".
    """
    if period.until is not None and period.until <= TELEGRAM_START:
        return False
    brief = period.since and period.until and period.until - period.since <= _BRIEF_PERIOD and names_events(asked)
    lately = period.since is not None and question.asked_at - period.since <= (_YEAR if brief else _RECENT_LIMIT)
    return (
        bool(filters.beside)
        or kind in EXACT_INTENTS
        or asks_about_posts(asked)
        or (asks_about_recent_events(asked) and lately)
        or (is_empty_topic(topic) and (asks_about_recent_events(asked) or kind in {Kind.SUMMARY, Kind.LIST}))
    )


# Intents of which a question may ask for what is to come, or about a channel itself.
_OPEN_INTENTS = frozenset({Kind.FACT, Kind.LIST, Kind.POSTED, Kind.NEWS})
# Intents whose topic may be empty: of all channels.
_NAMELESS_INTENTS = frozenset({Kind.COMING, Kind.INTRODUCTION})
_DIGEST_INTENTS = frozenset({Kind.FACT, Kind.NEWS, Kind.LIST, Kind.SUMMARY})
_MAX_COMING_TERMS, _MAX_COMING_LENGTH = 3, 200  # terms, characters
_SOON, _ONE_DAY = timedelta(days=15), timedelta(days=1)


def _find_coming_topic(asked: str, now: datetime, filters: QueryFilters) -> str | None:
    """Whose events a question for what is to come asks for; empty for those of all channels, None for others."""
    if len(asked) > _MAX_COMING_LENGTH:
        return None
    period = parse_coming_period(asked, now)
    ahead = False
    if period and period.since and period.until:
        # most of it is still to come, as of the next two weeks, or of "this week" on a Monday
        ahead = now - period.since < period.until - now <= _SOON and period.until - now > _ONE_DAY
    if not asks_for_coming_events(asked, ahead=ahead):
        return None
    for words in (period.words if period else "", *filters.words):
        asked = asked.replace(words, " ") if words else asked
    topic = extract_coming_topic(asked)
    return topic if topic is not None and len(tokenize(topic)) <= _MAX_COMING_TERMS else None


def _find_channel_intent(
    asked: str, filters: QueryFilters, readable: Mapping[int, Channel]
) -> tuple[Kind, str, frozenset[int] | None] | None:
    """Intent of a question about a channel itself, the words that name it, and the channels that have this name.

    None: it asks for something else.
    """
    found = None if filters.beside else detect_channel_question(asked)
    if found is None:
        return None
    name = " ".join(word for word in found.name.split() if tokenize(word))
    named = filters.channels or (frozenset(match_channel_name(name, readable)) if name else None) or None
    return (Kind.INTRODUCTION, name, named) if named or not name else None


def _adjust_intent(kind: Kind, topic: str, asked: str, *, bounded: bool) -> Kind:
    """Correct the intent of a question without a topic: "what is new" asks for the newest posts, in any period."""
    every = kind in {Kind.SUMMARY, Kind.LAST} or counts_all_posts(asked)
    every = every or (kind is not Kind.HOW_MANY and asks_about_recent_events(asked))
    if kind in _TOPICLESS_INTENTS and (bounded or every) and is_empty_topic(topic):
        return Kind.POSTED
    return Kind.FACT if kind in EXACT_INTENTS - {Kind.WHEN} and not tokenize(topic) else kind


def _write_as_asked(topic: str, text: str) -> str:
    """Write the words of a topic, which are in lower case, as the question has them."""
    written = {word.lower().replace("ё", "е"): word for word in re.findall(r"[^\s?!.,;:]+", text)}
    return " ".join(written.get(word, word) for word in topic.split())
