"""Query planning: the plan of a question, by rules and by a model as well where that is idle; cached by question.

The rules see the question with its spelling corrected by the words of the posts, and the plan gets the aliases that
posts and synonyms of the channels give.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from rag_core.caches import make_plan_key
from rag_core.engine import Engine
from rag_core.errors import IndexUnavailable
from rag_core.planning.intents import is_asking_word
from rag_core.planning.rule_planner import format_plan
from rag_core.retrieval.hybrid import search_lexical
from rag_core.stage_runner import Run
from rag_core.stages import Stage
from rag_core.storage import channels
from rag_core.storage.post_lookup import PostFacet, detect_channel_languages, fetch_passages, list_facet_values
from rag_core.storage.synonyms_and_pinned_answers import list_synonyms
from rag_core.text.names import list_names_in_other_script
from rag_core.text.names_given_in_posts import find_aliases
from rag_core.text.query_expansion import TRANSLATION_WEIGHT, expand_words
from rag_core.text.spelling_correction import correct_spelling
from rag_core.text.tokens import tokenize
from rag_core.types import Channel, Plan, Question, SearchFilter

if TYPE_CHECKING:
    from rag_core.planning.llm_planner import KnownEntities

_NAMING_POSTS, _MAX_ALIASES = 15, 12  # posts in which names are looked for, and names that are used


async def make_plan(question: Question, rag: Engine, run: Run) -> Plan:
    """Make the plan of a question, or take it from the cache. Call it in a stage. Raises ArchiveUnavailable.

    The time of the model is not part of the stage's budget. A plan that the model should have extended but did not
    is not cached.
    """
    known = await channels.load_channels(rag.archive)
    key, version, before = make_plan_key(question, known), rag.version, len(run.shortfalls)
    plan = rag.caches.plans.get(key, version)
    run.note(cache_hit=float(plan is not None))
    if plan is None:
        plan = await plan_with_spelling_and_aliases(question, known, rag)
        # small models plan in keywords, and a call that understood a follow-up was their first: at most 2 + N calls
        short = run.recipe == "mapreduce"
        spent = short and any(span.stage == Stage.FOLLOWUP and "calls" in span.counts for span in run.spans)
        planner = None if spent else rag.planner
        if planner:
            from rag_core.planning.llm_planner import is_worth_planning, plan_by_model  # late: only models need it

            planner = planner if is_worth_planning(plan) else None
        busy = planner is not None and planner.waiting
        if planner and not busy:
            entities = await load_known_entities(question, known, rag)
            async with run.use_separate_budgets():
                plan = await plan_by_model(question, plan, entities, planner, run, short=short)
        if len(run.shortfalls) == before and not busy:
            rag.caches.plans.store(key, version, plan)
    run.plan = plan
    run.show("plan", (f"{name}: {value}" for name, value in format_plan(plan, known).items() if value))
    return plan


async def plan_with_spelling_and_aliases(question: Question, known: Mapping[int, Channel], rag: Engine) -> Plan:
    """Plan by rules, with corrected spelling and aliases; without them where the lexical index is down.

    The search that follows reports an index that is down.
    """
    if not rag.expands_plan:
        return await asyncio.to_thread(rag.plan, question, known)
    try:
        # in a thread: a long question takes the rules 20 ms
        plan = await asyncio.to_thread(_plan_with_corrected_spelling, question, known, rag)
        return await _add_aliases(plan, question, rag)
    except IndexUnavailable:
        return await asyncio.to_thread(rag.plan, question, known)


def _plan_with_corrected_spelling(question: Question, known: Mapping[int, Channel], rag: Engine) -> Plan:
    """Plan a question after its spelling was corrected by the words of the posts that the asker may read."""
    frequency = rag.lexical.statistics(question.viewer.channels).frequency
    text, read_as = correct_spelling(question.text, rag.lexical.list_vocabulary, frequency, is_asking_word)
    return replace(rag.plan(replace(question, text=text), known), read_as=read_as)


async def _add_aliases(plan: Plan, question: Question, rag: Engine) -> Plan:
    """Add own synonyms of the channels, and names that the best posts give to words of the question."""
    if not plan.queries:
        return plan
    asked = frozenset(tokenize(plan.queries[0]))
    own = [
        (term, other)
        for _, word, meaning in await list_synonyms(rag.archive, question.viewer.channels)
        for one, another in ((word, meaning), (meaning, word))
        for term in tokenize(one)[:1]
        if asked.issuperset(tokenize(one))
        for other in tokenize(another)
    ]
    only = SearchFilter(question.viewer.channels)
    places = await search_lexical(plan.queries[0], only, _NAMING_POSTS, rag)
    passages = await fetch_passages(rag.archive, [place for place, _ in places])
    frequency = rag.lexical.statistics(question.viewer.channels).frequency
    # also names that posts give to a translation: "pool" to «бассейн „Щука“»
    meant = {other: term for term, variants in expand_words(plan.queries[0]).items() if term in asked
             for other, weight in variants.items() if weight >= TRANSLATION_WEIGHT and not frequency(term)}  # fmt: skip
    named = await asyncio.to_thread(find_aliases, asked | meant.keys(), [one.text for one in passages.values()])
    found = [(meant.get(term, term), other) for term, other in named]
    spelt = list_names_in_other_script(plan.queries[0], frequency)
    return replace(plan, aliases=tuple(dict.fromkeys((*own, *found, *spelt)))[:_MAX_ALIASES])


async def load_known_entities(question: Question, known: Mapping[int, Channel], rag: Engine) -> KnownEntities:
    """Load channels, authors and languages that the viewer may read, for the planner. Raises ArchiveUnavailable."""
    from rag_core.planning.llm_planner import KnownEntities

    readable = question.viewer.channels
    authors = await list_facet_values(rag.archive, PostFacet.AUTHOR, readable)
    return KnownEntities(
        {key: channel for key, channel in known.items() if key in readable},
        authors,
        await detect_channel_languages(rag.archive, readable),
    )
