"""Questions about the posts themselves, answered exactly from all that match, not from the best few.

"When was it first mentioned", "when did you last write about it", "how many posts about it", "what was
posted on Monday", "timeline of it".
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import datetime

from rag_core.analysis import terms
from rag_core.asked import Asked
from rag_core.doors.lexical import Filter, Place
from rag_core.extract import best_pieces, quoted
from rag_core.mentions import Word, matching, word_of
from rag_core.phrases import FRAMED, day, first_said, found_posts, last_said, posted_between
from rag_core.rag import Rag
from rag_core.search import fetch
from rag_core.sentences import LONGEST, pieces, sentences
from rag_core.types import Citation, Draft, Evidence, Kind, Passage, Plan, Question, Sentence, Source
from rag_core.wants import names_in
from rag_core.within import within

__all__ = ["chronicle"]

MOST_LINKED = 5  # posts linked under a count: more are noise, the count itself is exact
_OPENING = 90  # characters of each of several posts that are shown together

_QUOTED = re.compile(r"[«\"“„]([^»\"”“]+)[»\"”]")


def subject(question: Question, plan: Plan, rag: Rag) -> list[Word]:
    """What a post must hold to be about what was asked: what is quoted, else named, else all that is known."""
    asked = plan.asked or question.text
    in_quotes = [term for phrase in _QUOTED.findall(asked) for term in terms(phrase)]
    named = names_in(asked)
    topic = terms(plan.topic)
    chosen = in_quotes or [term for term in topic if term in named] or topic
    seen, written = Filter(question.viewer.channels), _written(question.text)
    words = [word_of(term, written.get(term, term)) for term in dict.fromkeys(chosen)]
    return [word for word in words if any(rag.lexical.known(term, seen) for term in word.terms)]


def _written(text: str) -> dict[str, str]:
    """The terms as the question writes them."""
    return {term: found for found in reversed(re.findall(r"[^\W_]+", text)) for term in terms(found)}


async def chronicle(question: Question, plan: Plan, rag: Rag) -> Draft | None:
    """A draft from dates and counts; without sentences where what was asked for is known and not there then.

    None where no post is about it at all, or the question is of another kind.
    """
    if plan.kind is Kind.POSTED:
        return await _posted(question, plan, rag)
    if plan.kind not in {Kind.FIRST, Kind.LAST, Kind.HOW_MANY, Kind.TIMELINE}:
        return None
    words = await asyncio.to_thread(subject, question, plan, rag)  # an index on a server is waited for
    places = await matching(words, plan, question.viewer, rag)
    if not places:
        return Draft() if words and (plan.since or plan.until) else None
    if plan.kind is Kind.HOW_MANY:
        return await _counted(question, places, words, rag)
    if plan.kind is Kind.TIMELINE:
        return await _in_order(question, places, words, rag)
    shown = await _quotes(question, places[:1], words, rag)
    said = first_said if plan.kind is Kind.FIRST else last_said
    told = tuple(Sentence(f"{said(s.citations[0].date, question.lang)} {s.text}", s.citations) for s in shown)
    return Draft(told, 1.0) if told else None


def _some(places: Sequence[Place]) -> list[Place]:
    """A few of them, evenly spread, the first and the last among them."""
    if len(places) <= MOST_LINKED:
        return list(places)
    return [places[n * (len(places) - 1) // (MOST_LINKED - 1)] for n in range(MOST_LINKED)]


async def _posted(question: Question, plan: Plan, rag: Rag) -> Draft:
    """What was posted in a period: how many posts, and how the first of them begin."""
    places = await asyncio.to_thread(rag.lexical.all_of, await within(plan, question.viewer, rag))
    if not places:
        return Draft()
    ends = await _ends(places, rag)
    shown = [_opening(passage) for passage in (await fetch(places[:MOST_LINKED], rag)).values() if passage.text.strip()]
    if ends is None or not shown:
        return Draft()
    count = posted_between(len(places), ends, question.lang)
    head = Sentence(count, tuple(s.citations[0] for s in shown))
    return Draft((head, *shown) if len(places) > 1 else (head, shown[0]), 1.0)


def _opening(passage: Passage) -> Sentence:
    """How a post begins: its first sentence, or as much of it as may be shown."""
    start, end = next(iter(sentences(passage.text)), (0, len(passage.text)))
    start, end = next(iter(pieces(passage.text, (start, end), _OPENING)), (start, min(end, start + _OPENING)))
    quote, at = passage.text[start:end], passage.start + start
    return Sentence(quote, (Citation(passage.key, quote, at, at + len(quote), passage.date),))


async def _in_order(question: Question, places: Sequence[Place], words: Sequence[Word], rag: Rag) -> Draft | None:
    """A count, then a few posts in the order of their dates, the first and the last among them."""
    counted = await _counted(question, places, words, rag)
    shown = await _quotes(question, _some(places), words, rag, longest=_OPENING)
    if counted is None or not shown:
        return None
    dated = (Sentence(f"{day(s.citations[0].date, question.lang)}: {s.text}", s.citations) for s in shown)
    return Draft((*counted.sentences, *dated), 1.0)


async def _ends(places: Sequence[Place], rag: Rag) -> tuple[datetime, datetime] | None:
    """The dates of the first and the last; None where one of them has gone meanwhile."""
    ends = await fetch([places[0], places[-1]], rag)
    if len({place.key for place in (places[0], places[-1])}) > len(ends):
        return None
    dates = [passage.date for passage in ends.values()]
    return min(dates), max(dates)


async def _counted(question: Question, places: Sequence[Place], words: Sequence[Word], rag: Rag) -> Draft | None:
    shown = await _quotes(question, _some(places), words, rag)
    ends = await _ends(places, rag)
    if not shown or ends is None:
        return None
    count = found_posts(len(places), _as_asked(question.text, words), ends, question.lang)
    return Draft((Sentence(count, tuple(s.citations[0] for s in shown)),), 1.0) if len(count) <= LONGEST else None


def _as_asked(text: str, words: Sequence[Word]) -> list[str]:
    written = _written(text)
    return [next((written[term] for term in word.terms if term in written), word.terms[0]) for word in words]


async def _quotes(
    question: Question, places: Sequence[Place], words: Sequence[Word], rag: Rag, *, longest: int = FRAMED
) -> list[Sentence]:
    passages = await fetch(places, rag)
    asked = Asked.of(
        " ".join(_as_asked(question.text, words)) or question.text,
        rag.lexical.statistics(question.viewer.channels).weight,
    )
    found = []
    for place in places:
        if passage := passages.get(place):
            evidence = Evidence((Source(1, passage, 1.0),))
            found += [quoted(piece) for piece in best_pieces(asked, evidence, most=1, margin=0.0, longest=longest)]
    return found
