"""A claim is looked for as what it is, a statement: its numbers and days are those of what it tells, not of posts."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta

from rag_core.analysis import terms
from rag_core.asked import is_asking
from rag_core.plan.queries import MOST_QUERIES, must_and_should, parts_of, sanitised, variants
from rag_core.rag import Rag
from rag_core.rerank import rerank
from rag_core.route import HYBRID, LEXICAL_ONLY, route
from rag_core.search import search
from rag_core.stage import Run
from rag_core.types import Kind, Passage, Plan, PostKey, Question

__all__ = ["MOST_WEIGHED", "looked_for", "newer", "statement"]

# A false number is the claim's rarest word, so that the post which says otherwise is seldom the first; beyond the
# tenth nothing more was found.
MOST_WEIGHED = 10
_NEWER = 12  # later posts of one channel
_FIGURES = re.compile(r"\S*\d\S*")


def statement(question: Question) -> Plan:
    """A plan for a claim: no time, no kind, and one query without the numbers, which may be the ones that are wrong."""
    text = sanitised(question.text)
    if not terms(text):
        return Plan(())
    unnumbered = " ".join(_FIGURES.sub(" ", text).split())
    others = variants(text)
    if unnumbered != text and len(terms(unnumbered)) > 1:
        others = (unnumbered, *others)
    queries = tuple(dict.fromkeys((text, *others)))[:MOST_QUERIES]
    plan = Plan(queries, Kind.CLAIM, text, *must_and_should(text), asked=text)
    chosen = route(plan, parts_of(text))
    # without a number that is wrong so few words are left that they need both legs
    return replace(plan, legs=HYBRID if chosen.legs == LEXICAL_ONLY else chosen.legs, reasons=chosen.reasons)


async def looked_for(question: Question, plan: Plan, rag: Rag, run: Run) -> tuple[Passage, ...]:
    """The passages to be weighed, best first. Raises IndexUnavailable, ArchiveUnavailable, StageTimeout."""
    hits = await search(plan, question, rag, run)
    best = await run.attempt("rerank", rerank(question, hits, rag, run), hits)
    return tuple(hit.passage for hit in best[:MOST_WEIGHED])


async def newer(question: Question, plan: Plan, since: dict[int, datetime], rag: Rag, run: Run) -> tuple[Passage, ...]:
    """What channels have said of it since a moment of each. Raises as `looked_for`."""
    if not plan.queries:
        return ()
    words = " ".join(word for word in _FIGURES.sub(" ", question.text).split() if not is_asking(word))
    about = replace(plan, queries=(words if terms(words) else plan.queries[0],), legs=LEXICAL_ONLY)
    found: dict[tuple[PostKey, int], Passage] = {}
    for chat, moment in since.items():
        then = replace(about, channels=frozenset({chat}), since=moment + timedelta(seconds=1))
        hits = await search(then, question, rag, run)
        found |= {(hit.passage.key, hit.passage.part): hit.passage for hit in hits[:_NEWER]}
    return tuple(found.values())
