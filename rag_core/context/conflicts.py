"""Conflicts: posts that disagree with an answer.

Two posts that disagree are both shown, with their dates and which one is newer; their values are never merged into one
number.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import datetime

from rag_core.engine import Engine
from rag_core.text.polls import find_poll
from rag_core.text.query_terms import QueryTerms, TermWeight
from rag_core.text.sentences import MAX_ANSWER_LENGTH, split_long_span
from rag_core.text.tokens import tokenize
from rag_core.types import Citation, Draft, Evidence, Kind, Passage, Plan, Question, Sentence
from rag_core.verification.support import find_best_quote
from rag_core.verification.verdict_types import Claim, Label
from rag_core.writing.phrases import MAX_FRAMED_QUOTE_LENGTH, format_conflict

_MAX_COMPARED_POSTS = 8  # first sources that are compared
# Different numbers may be about different things, so the other post must cover this share of the question.
_MIN_QUESTION_COVERAGE = 0.75
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_DIFFERS_MARK = "≠"  # marks differing numbers and dates in the reason of a check


async def add_conflicting_post(question: Question, plan: Plan, draft: Draft, evidence: Evidence, rag: Engine) -> Draft:
    """Add at most one post that contradicts a sentence of the draft, right after that sentence."""
    if plan.kind is Kind.WHEN:
        return draft
    return await asyncio.to_thread(_add_conflict, question, plan, draft, evidence, rag)


def _add_conflict(question: Question, plan: Plan, draft: Draft, evidence: Evidence, rag: Engine) -> Draft:
    weight = rag.lexical.statistics(question.viewer.channels).weight
    asked = QueryTerms.of(plan.asked or question.text, weight)
    cited = {citation.post for sentence in draft.sentences for citation in sentence.citations}
    compared = [source.passage for source in evidence.sources[:_MAX_COMPARED_POSTS]]
    others = [passage for passage in compared if passage.key not in cited and not find_poll(passage)]
    for place, sentence in enumerate(draft.sentences):
        if not sentence.citations:
            continue
        found = (_find_conflicting_quote(sentence, asked, passage, weight, question.lang) for passage in others)
        if other := max(filter(None, found), key=lambda citation: citation.date, default=None):  # the newest
            first = max(citation.date for citation in sentence.citations)
            intro = format_conflict(first, other.date, question.lang)
            framed = Sentence(f"{intro} {other.quote}", (other,))
            rest = [s for s in draft.sentences[place + 1 :] if not _shows_citation(s, other)]
            # it replaces the last sentence: no more sentences than the settings allow, and always both sides
            most = max(place + 2, len(draft.sentences))
            shown = (*draft.sentences[: place + 1], framed, *rest)[:most]
            while len(shown) > place + 2 and sum(len(one.text) for one in shown) > MAX_ANSWER_LENGTH:
                shown = shown[:-1]
            return replace(draft, sentences=shown)
    return draft


def _find_conflicting_quote(
    sentence: Sentence, asked: QueryTerms, passage: Passage, weight: TermWeight, lang: str
) -> Citation | None:
    """Find the quote of another post that surely contradicts a sentence; None where none does."""
    span = find_best_quote(sentence.text, passage)
    if span is None:
        return None
    start, end = next(iter(split_long_span(passage.text, span, MAX_FRAMED_QUOTE_LENGTH)), span)
    words = passage.text[start:end]
    if asked.matched_share(frozenset(tokenize(f"{passage.header}\n{words}"))) < _MIN_QUESTION_COVERAGE:
        return None
    here, there = _extract_years(sentence.text, sentence.citations[0].date), _extract_years(words, passage.date)
    if here and there and not here & there:
        return None  # about different years: prices of 2026 do not contradict those of 2027
    # late, as in rag_core/verification/support.py
    from rag_core.verification.entailment import assess_by_words

    (support,) = assess_by_words(Claim(sentence.text, lang), [replace(passage, text=words)], weight)
    if support.label is not Label.CONTRADICTED or _DIFFERS_MARK not in support.why:
        return None
    return Citation(passage.key, words, passage.start + start, passage.start + end, passage.date)


def _extract_years(text: str, date: datetime) -> set[int]:
    """Years in a text that are within one year of its date."""
    return {year for year in map(int, _YEAR.findall(text)) if abs(year - date.year) <= 1}


def _shows_citation(sentence: Sentence, citation: Citation) -> bool:
    """Whether a sentence already cites an overlapping span."""
    return any(
        c.post == citation.post and c.start < citation.end and citation.start < c.end for c in sentence.citations
    )
