"""Query planning: the plan of a question, by rules and by a model as well where that is idle; cached by question."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from rag_core.dates import Period, parse_coming_period, parse_period
from rag_core.engine import Engine, make_plan_key
from rag_core.errors import IndexUnavailable
from rag_core.planning import intents, queries
from rag_core.planning.intents import Request, classify_request
from rag_core.planning.queries import MAX_QUERIES, QUOTED, QueryFilters, match_channel_name, rewrite_as_statement
from rag_core.run import Run, Stage
from rag_core.storage.channels import Synonym, load_channels_and_synonyms
from rag_core.text.names import list_names_in_other_script
from rag_core.text.numbers import compile_pattern
from rag_core.text.query_terms import detect_answer_type
from rag_core.text.tokens import detect_language, stem, tokenize
from rag_core.types import HYBRID, TELEGRAM_START, Channel, Kind, Plan, Question

MAX_HITS = 100  # hits of each retriever in the second round
# Intents that make sense without a topic, over all posts.
_TOPICLESS_INTENTS = frozenset({Kind.FACT, Kind.HOW_MANY, Kind.SUMMARY, Kind.LIST, Kind.NEWS, Kind.LAST})
_RECENT_LIMIT, _YEAR, _BRIEF_PERIOD = timedelta(days=70), timedelta(days=366), timedelta(days=31)
_NO_CHANNELS: Mapping[int, Channel] = {}


def plan_by_rules(question: Question, known: Mapping[int, Channel] = _NO_CHANNELS) -> Plan:
    """Plan a question by rules; the plan is always valid, and an empty question gives no queries.

    `known`: channels by id; only those that the asker may read can be named in the question.
    """
    text = queries.sanitize_query(question.text)
    if not tokenize(text):
        return Plan(())
    plain = text.replace("ё", "е").replace("Ё", "Е")
    asked = plain.lower()
    readable = question.viewer.select_readable(known)
    filters = queries.parse_filters(plain, readable)
    period = parse_period(QUOTED.sub(" ", text), question.asked_at)  # a quoted title is no period
    rest = asked
    for words in filter(None, (period.words if period else "", *filters.words)):
        rest = rest.replace(words, " ")
    kind, topic, filters, period = _read_intent(question, text, rest, filters, period, readable)
    rest = text
    for words in dict.fromkeys(filter(None, (*filters.words, period.words if period else ""))):
        rest = re.sub(rf"(?<!\w){re.escape(words)}(?!\w)".replace("е", "[её]"), " ", rest, flags=re.I)
    query = " ".join(rest.split()).strip(" ,;:") if tokenize(rest) else text
    asked_for = (query, *queries.generate_query_variants(query))[:MAX_QUERIES]
    about_all = kind in _NAMELESS_INTENTS  # of all channels
    own_words = intents.strip_asking_phrase(query)
    whole = own_words != query  # all that there is to tell
    if kind is Kind.NEWS:  # the words of the topic, which are in lower case, as the question has them
        written = {word.lower().replace("ё", "е"): word for word in re.findall(r"[^\s?!.,;:]+", text)}
        own_words = " ".join(written.get(word, word) for word in topic.split())
    plan = Plan(asked_for, kind, topic if tokenize(topic) or about_all else asked, *queries.extract_phrases(query),
                asked=own_words, whole=whole, channels=filters.channels, authors=filters.authors,
                origins=filters.origins, media=filters.media, files=filters.files)  # fmt: skip
    if period:
        plan = replace(plan, since=period.since, until=period.until, slack=period.slack, yearless=period.yearless)
    return queries.route_plan(plan, text)


def _read_intent(
    question: Question, text: str, rest: str, filters: QueryFilters, period: Period | None,
    readable: Mapping[int, Channel],
) -> tuple[Kind, str, QueryFilters, Period | None]:  # fmt: skip
    asked = text.lower().replace("ё", "е")
    kind, topic = intents.detect_intent(asked), intents.extract_topic(rest)
    request, made = Request.OTHER, None
    if kind in _OPEN_INTENTS:
        request = classify_request(queries.mask_channel_names(asked, readable, detect_language(asked)))
    if request is not Request.OTHER:
        made = _read_request(request, question, asked, rest, filters, period, readable)
    if made:
        return made
    if kind is Kind.NEWS or request in {Request.POSTS, Request.DIGEST}:
        about = intents.extract_posts_topic(rest)
        kind, topic = (Kind.NEWS, about) if about else (kind, topic)
    if period and not _is_posting_period(period, question, asked, kind, filters, topic):
        period = None
    every = kind in {Kind.SUMMARY, Kind.LAST} or intents.counts_all_posts(asked)
    bounded = bool(period or filters.words)
    if kind in _TOPICLESS_INTENTS and (bounded or every) and not intents.strip_catch_all_words(topic):
        kind = Kind.POSTED  # "what is new" asks for the newest posts, in any period
    elif kind in intents.EXACT_INTENTS - {Kind.WHEN} and not tokenize(topic):
        kind = Kind.FACT
    if kind is Kind.FACT and not filters.beside and intents.find_defined_name(text):
        return Kind.DEFINITION, topic, filters, period
    if kind is Kind.FACT and period and intents.RECENT_EVENTS.search(asked):
        # "what happened at the barn players in August": a digest of the channel of that title, else of those mentions
        topic = intents.strip_catch_all_words(topic)
        if own := match_channel_name(topic, readable):
            return Kind.POSTED, topic, replace(filters, channels=frozenset(own)), period
        kind = Kind.NEWS
    return kind, topic, filters, period


def _read_request(
    request: Request, question: Question, asked: str, rest: str, filters: QueryFilters, period: Period | None,
    readable: Mapping[int, Channel],
) -> tuple[Kind, str, QueryFilters, Period | None] | None:  # fmt: skip
    """Read what a message asks of channels as a whole; None for posts about a topic, and where it asks something else."""
    if request is Request.COMING:
        ahead = parse_coming_period(asked, question.asked_at)
        for words in filter(None, (ahead.words if ahead else "", *filters.words)):
            asked = asked.replace(words, " ")
        name = intents.extract_request_name(asked, request)
        return None if name is None else (Kind.COMING, name, filters, None)
    if request in intents.CHANNEL_REQUESTS and len(asked) <= intents.MAX_CHANNEL_QUESTION and not filters.beside:
        name = intents.extract_channel_name(asked)
        named = filters.channels or (frozenset(match_channel_name(name, readable)) if name else None) or None
        if named or intents.means_this_channel(asked):
            return Kind.INTRODUCTION, name, replace(filters, channels=named), None
    if request is Request.DIGEST and not intents.names_topic(rest):
        name = intents.extract_request_name(rest, request)
        if name and (own := match_channel_name(name, readable)):
            return Kind.POSTED, name, replace(filters, channels=frozenset(own)), period
        return None if name is None else (Kind.NEWS if name else Kind.POSTED, name, filters, period)
    return None


def build_bare_plan(question: Question) -> Plan:
    """Build a plan of the question alone: the fallback of failed planning, and a baseline."""
    text = queries.sanitize_query(question.text)
    return Plan((text,), asked=text) if tokenize(text) else Plan(())


def widen_plan(plan: Plan) -> Plan:
    """Widen a plan for a second round: twice as many hits, both retrievers, and the question as a statement.

    The filters stay: an answer from another period or channel is no answer.
    """
    distinct: dict[frozenset[str], str] = {}
    for query in (rewrite_as_statement(plan.queries[0]), *plan.queries):
        distinct.setdefault(frozenset(tokenize(query)), query)
    wider = tuple(distinct.values())[:MAX_QUERIES]
    return replace(plan, queries=wider, k_per_query=min(2 * plan.k_per_query, MAX_HITS), legs=HYBRID)


def format_plan(plan: Plan, known: Mapping[int, Channel]) -> dict[str, Any]:
    """Format a plan in the JSON form that the model writes (`llm_planner.py`); days are inclusive."""
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
        "fusion": "mmr" if plan.diverse else "rrf",
    }


def _is_posting_period(
    period: Period, question: Question, asked: str, kind: Kind, filters: QueryFilters, topic: str
) -> bool:
    """Whether a period filters posts by their dates, or only belongs to the topic."""
    if period.until is not None and period.until <= TELEGRAM_START:
        return False
    recent = bool(intents.RECENT_EVENTS.search(asked))
    brief = period.since and period.until and period.until - period.since <= _BRIEF_PERIOD
    brief = brief and bool(intents.EVENT_WORDS.search(asked))
    lately = period.since is not None and question.asked_at - period.since <= (_YEAR if brief else _RECENT_LIMIT)
    return (
        bool(filters.beside)
        or kind in intents.EXACT_INTENTS
        or intents.asks_about_posts(asked)
        or (recent and lately)
        or (not intents.strip_catch_all_words(topic) and (recent or kind in {Kind.SUMMARY, Kind.LIST}))
    )


# Intents of which a question may ask for what is to come, or about a channel itself.
_OPEN_INTENTS = frozenset({Kind.FACT, Kind.LIST, Kind.NEWS, Kind.SUMMARY})
# Intents whose topic may be empty: of all channels.
_NAMELESS_INTENTS = frozenset({Kind.COMING, Kind.INTRODUCTION})
_MAX_ALIASES = 12


async def plan_with_spelling_and_aliases(
    question: Question, known: Mapping[int, Channel], synonyms: Sequence[Synonym], rag: Engine
) -> Plan:
    """Plan by rules, with spelling corrected by the words of the posts, synonyms of the channels, names in both scripts.

    Without these where the lexical index is down: the search that follows reports it.
    """
    (_, asking), plan = detect_answer_type(question.text), rag.plan or plan_by_rules
    is_english_word = rag.dense.embedder.has_word if rag.dense else None

    def asks(word: str) -> bool:
        return bool(compile_pattern(intents.REQUEST_WORDS).fullmatch(word)) or stem(word) in asking

    def plan_corrected() -> Plan:
        frequency = rag.lexical.statistics(question.viewer.channels).frequency
        vocabulary = rag.lexical.list_vocabulary
        text, read_as = queries.correct_spelling(question.text, vocabulary, frequency, asks, is_english_word)
        made = replace(plan(replace(question, text=text), known), read_as=read_as)
        if not made.queries:
            return made
        asked = frozenset(tokenize(made.queries[0]))
        own = [
            (term, other)
            for chat, word, meaning in synonyms
            if chat in question.viewer.channels
            for one, another in ((word, meaning), (meaning, word))
            for term in tokenize(one)[:1]
            if asked.issuperset(tokenize(one))
            for other in tokenize(another)
        ]
        spelt = list_names_in_other_script(made.queries[0], frequency)
        return replace(made, aliases=tuple(dict.fromkeys((*own, *spelt)))[:_MAX_ALIASES])

    if rag.expands_plan:
        with suppress(IndexUnavailable):
            return await asyncio.to_thread(plan_corrected)  # in a thread: a long question takes the rules 20 ms
    return await asyncio.to_thread(plan, question, known)


async def make_plan(question: Question, rag: Engine, run: Run, *, by_model: bool = True) -> Plan:
    """Make the plan of a question, or take it from the cache. Call it in a stage. Raises ArchiveUnavailable.

    `by_model` False: the plan of the rules, which a model does not extend. The time of the model is not part of the
    stage's budget. A plan that the model should have extended but did not is not cached.
    """
    known, synonyms = await load_channels_and_synonyms(rag.archive)
    key, version, before = (by_model, make_plan_key(question, known)), rag.version_of_posts, len(run.shortfalls)
    plan = rag.caches.plans.get(key, version)
    run.note(cache_hit=float(plan is not None))
    if plan is None:
        plan = await plan_with_spelling_and_aliases(question, known, synonyms, rag)
        planner, busy = (rag.planner if by_model else None), False
        if planner:
            from rag_core.planning import llm_planner  # late: only models need it

            if llm_planner.is_worth_planning(plan) and not (busy := bool(planner.waiting)):
                entities = await llm_planner.load_known_entities(question, known, rag)
                async with run.use_separate_budgets():
                    plan = await llm_planner.plan_by_model(question, plan, entities, planner, run)
        if len(run.shortfalls) == before and not busy:
            rag.caches.plans.store(key, version, plan)
    if run.results is not None:
        run.show("plan", (f"{name}: {value}" for name, value in format_plan(plan, known).items() if value))
    return plan


async def plan_question(question: Question, rag: Engine, run: Run) -> Plan:
    """Make the plan by rules; a model extends it only where nothing sure was found (`recipe_steps.py`)."""
    planning = make_plan(question, rag, run, by_model=False)
    return await run.attempt(Stage.PLAN, planning, lambda: build_bare_plan(question))
