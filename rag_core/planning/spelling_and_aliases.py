"""Spelling correction and query expansion of a plan: its words as the posts write them, and other names of the same.

The rules see the question with its spelling corrected by the words of the posts, and the plan gets the aliases that
posts and synonyms of the channels give.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from rag_core.engine import Engine
from rag_core.errors import IndexUnavailable
from rag_core.planning.request_words import is_asking_word
from rag_core.retrieval.hybrid import search_lexical
from rag_core.storage.post_lookup import fetch_passages
from rag_core.storage.synonyms_and_pinned_answers import list_synonyms
from rag_core.text.names import list_names_in_other_script
from rag_core.text.names_given_in_posts import find_aliases
from rag_core.text.query_expansion import TRANSLATION_WEIGHT, expand_words
from rag_core.text.spelling_correction import correct_spelling
from rag_core.text.tokens import tokenize
from rag_core.types import Channel, Plan, Question, SearchFilter

_NAMING_POSTS, _MAX_ALIASES = 15, 12  # posts in which names are looked for, and names that are used


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
