"""Spelling correction and query expansion of a plan: its words as the posts write them, and other names of the same.

The rules see the question with its spelling corrected by the words of the posts, and the plan gets the synonyms of the
channels and the names in the other script.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from rag_core.engine import Engine
from rag_core.errors import IndexUnavailable
from rag_core.planning.request_words import is_asking_word
from rag_core.storage.synonyms_and_pinned_answers import list_synonyms
from rag_core.text.answer_type import extract_asking_stems
from rag_core.text.names import list_names_in_other_script
from rag_core.text.spelling_correction import correct_spelling
from rag_core.text.tokens import stem, tokenize
from rag_core.types import Channel, Plan, Question

_MAX_ALIASES = 12


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
    asking, vocabulary = extract_asking_stems(question.text), rag.lexical.list_vocabulary

    def asks(word: str) -> bool:
        return is_asking_word(word) or stem(word) in asking

    is_english_word = rag.dense.embedder.has_word if rag.dense else None
    text, read_as = correct_spelling(question.text, vocabulary, frequency, asks, is_english_word)
    return replace(rag.plan(replace(question, text=text), known), read_as=read_as)


async def _add_aliases(plan: Plan, question: Question, rag: Engine) -> Plan:
    """Add own synonyms of the channels, and names in the other script that posts have."""
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
    frequency = rag.lexical.statistics(question.viewer.channels).frequency
    spelt = list_names_in_other_script(plan.queries[0], frequency)
    return replace(plan, aliases=tuple(dict.fromkeys((*own, *spelt)))[:_MAX_ALIASES])
