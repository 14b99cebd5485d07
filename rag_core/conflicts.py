"""Posts that disagree are both given, with their days, and which is the newer: never made into one number."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from rag_core.analysis import terms
from rag_core.asked import Asked, Weigh
from rag_core.phrases import FRAMED, says_otherwise
from rag_core.rag import Rag
from rag_core.sentences import pieces
from rag_core.support import best_quote
from rag_core.types import Citation, Draft, Evidence, Kind, Passage, Plan, Question, Sentence
from rag_core.verify.related import other_thing, related
from rag_core.verify.verdict import Label, Support
from rag_core.verify.weigh import decide

__all__ = ["with_conflicts"]

_LOOKED_AT = 8  # posts, beside the cited ones
_SURE = 0.15  # how likely a post may at most bear a sentence out that it is said to contradict
# Two posts may name different numbers of different things: so much of what the sentence is about, numbers aside,
# must stand in the other one, and so much of what was asked.
_ABOUT, _ASKED = 0.6, 0.75
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_FIGURES = "≠"  # in what a check says of numbers and days that differ


@dataclass(frozen=True, slots=True)
class _Other:
    """Words of another post that say otherwise; `start` and `end` count in the passage's text."""

    passage: Passage
    start: int
    end: int
    support: Support

    @property
    def citation(self) -> Citation:
        quote, at = self.passage.text[self.start : self.end], self.passage.start + self.start
        return Citation(self.passage.key, quote, at, at + len(quote), self.passage.date)


async def with_conflicts(question: Question, plan: Plan, draft: Draft, evidence: Evidence, rag: Rag) -> Draft:
    """The draft with at most one post more: one that says otherwise than what is shown first."""
    if plan.kind is Kind.WHEN:
        return draft
    return await asyncio.to_thread(_told, question, plan, draft, evidence, rag)


def _told(question: Question, plan: Plan, draft: Draft, evidence: Evidence, rag: Rag) -> Draft:
    weight = rag.lexical.statistics(question.viewer.channels).weight
    asked = Asked.of(plan.asked or question.text, weight)
    for place, sentence in enumerate(draft.sentences):
        if not sentence.citations:
            continue
        if other := _against(sentence, asked, evidence, weight, question.lang):
            first = max(citation.date for citation in sentence.citations)
            said = says_otherwise(first, other.passage.date, question.lang)
            framed = Sentence(f"{said} {other.citation.quote}", (other.citation,))
            rest = [s for s in draft.sentences[place + 1 :] if not _same(s, other.citation)]
            # it takes the place of the last: a reader is shown no more than the settings say, and never one side alone
            most = max(place + 2, len(draft.sentences))
            return replace(draft, sentences=(*draft.sentences[: place + 1], framed, *rest)[:most])
    return draft


def _against(sentence: Sentence, asked: Asked, evidence: Evidence, weight: Weigh, lang: str) -> _Other | None:
    """The newest of the posts that surely say otherwise; None where none does, or one says the same later."""
    cited = {citation.post for citation in sentence.citations}
    others = [source.passage for source in evidence.sources[:_LOOKED_AT] if source.passage.key not in cited]
    found = [other for passage in others for other in _words_against(sentence, asked, passage, weight, lang)]
    return max(found, key=lambda other: other.passage.date, default=None)


def _words_against(sentence: Sentence, asked: Asked, passage: Passage, weight: Weigh, lang: str) -> Iterator[_Other]:
    span = best_quote(sentence.text, passage)
    if span is None:
        return
    start, end = next(iter(pieces(passage.text, span, FRAMED)), span)
    words = passage.text[start:end]
    if asked.met(frozenset(terms(f"{passage.header}\n{words}"))) < _ASKED:
        return
    here, there = _years(sentence.text, sentence.citations[0].date), _years(words, passage.date)
    if here and there and not here & there:
        return  # each is of its time: prices of 2026 do not deny those of 2027
    support = decide(sentence.text, words, lang)
    otherwise = support.label is Label.CONTRADICTED and support.likely <= _SURE and _FIGURES in support.why
    if otherwise and _is_about(sentence.text, support, words, passage.header, weight):
        yield _Other(passage, start, end, support)


def _years(text: str, date: datetime) -> set[int]:
    """The years that a text of this day speaks of as its own: last year, this, the next."""
    return {year for year in map(int, _YEAR.findall(text)) if abs(year - date.year) <= 1}


def _is_about(sentence: str, support: Support, words: str, header: str, weight: Weigh) -> bool:
    met = related(sentence, support, words, header, weight)
    return met >= _ABOUT and not other_thing(sentence, support)


def _same(sentence: Sentence, citation: Citation) -> bool:
    """Whether a sentence already shows these words."""
    return any(
        c.post == citation.post and c.start < citation.end and citation.start < c.end for c in sentence.citations
    )
