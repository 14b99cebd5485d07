"""Questions about the posts themselves, answered exactly from all that match, not from the best few.

"When was it first mentioned", "when did you last write about it", "how many posts about it".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_core.analysis import terms
from rag_core.asked import Asked
from rag_core.doors.lexical import Filter, Place
from rag_core.extract import best_pieces, quoted
from rag_core.phrases import FRAMED, first_said, found_posts, last_said
from rag_core.rag import Rag
from rag_core.search import fetch, matching
from rag_core.sentences import LONGEST
from rag_core.types import Draft, Evidence, Kind, Plan, Question, Sentence, Source
from rag_core.wants import names_in

__all__ = ["chronicle"]

MOST_LINKED = 5  # posts linked under a count: more are noise, the count itself is exact

_QUOTED = re.compile(r"[«\"“„]([^»\"”“]+)[»\"”]")


def subject(question: Question, plan: Plan, rag: Rag) -> list[str]:
    """The terms that a post must hold to be about what was asked: what is quoted, else named, else all."""
    in_quotes = [term for phrase in _QUOTED.findall(question.text) for term in terms(phrase)]
    named = names_in(question.text)
    topic = terms(plan.topic)
    chosen = in_quotes or [term for term in topic if term in named] or topic
    seen = Filter(question.viewer.channels)
    return [term for term in dict.fromkeys(chosen) if rag.lexical.known(term, seen)]


async def chronicle(question: Question, plan: Plan, rag: Rag) -> Draft | None:
    """A draft from dates and counts; None where no post is about it, or the question is of another kind."""
    if plan.kind not in {Kind.FIRST, Kind.LAST, Kind.HOW_MANY}:
        return None
    words = subject(question, plan, rag)
    places = await matching(words, plan, question.viewer, rag)
    if not places:
        return None
    if plan.kind is Kind.HOW_MANY:
        return await _counted(question, places, words, rag)
    shown = await _quotes(question, places[:1], words, rag)
    said = first_said if plan.kind is Kind.FIRST else last_said
    told = tuple(Sentence(f"{said(s.citations[0].date, question.lang)} {s.text}", s.citations) for s in shown)
    return Draft(told, 1.0) if told else None


async def _counted(question: Question, places: Sequence[Place], words: list[str], rag: Rag) -> Draft | None:
    shown = await _quotes(question, places[:: max(1, len(places) // MOST_LINKED)][:MOST_LINKED], words, rag)
    ends = await fetch([places[0], places[-1]], rag)
    if not shown or len({place.key for place in (places[0], places[-1])}) > len(ends):
        return None
    dates = [passage.date for passage in ends.values()]
    count = found_posts(len(places), _as_asked(question.text, words), (min(dates), max(dates)), question.lang)
    return Draft((Sentence(count, tuple(s.citations[0] for s in shown)),), 1.0) if len(count) <= LONGEST else None


def _as_asked(text: str, words: list[str]) -> list[str]:
    """The terms as the question writes them."""
    written = {term: found for found in reversed(re.findall(r"[^\W_]+", text)) for term in terms(found)}
    return [written.get(term, term) for term in words]


async def _quotes(question: Question, places: Sequence[Place], words: list[str], rag: Rag) -> list[Sentence]:
    passages = await fetch(places, rag)
    asked = Asked.of(" ".join(words) or question.text, rag.lexical.weight)
    found = []
    for place in places:
        if passage := passages.get(place):
            evidence = Evidence((Source(1, passage, 1.0),))
            found += [quoted(piece) for piece in best_pieces(asked, evidence, most=1, margin=0.0, longest=FRAMED)]
    return found
