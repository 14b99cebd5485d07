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
from rag_core.text.query_terms import QueryTerms, TermWeight, is_asking_word
from rag_core.text.sentences import MAX_ANSWER_LENGTH, split_long_span
from rag_core.text.stem_similarity import measure_stem_similarity
from rag_core.text.tokens import tokenize
from rag_core.types import Citation, Draft, Evidence, Kind, Passage, Plan, Question, Sentence
from rag_core.verification.support import find_best_quote
from rag_core.verification.verdict_types import Label, Support
from rag_core.writing.phrases import MAX_FRAMED_QUOTE_LENGTH, format_conflict

_MAX_COMPARED_POSTS = 8  # first sources that are compared
_MAX_LIKELIHOOD = 0.15  # highest probability of support that a contradicting post may have
# Different numbers may be about different things, so the other post must cover these shares of the sentence's
# subject, numbers aside, and of the question.
_MIN_RELEVANCE, _MIN_QUESTION_COVERAGE = 0.6, 0.75
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
    from rag_core.verification.facts import extract_facts
    from rag_core.verification.rules import assess_text
    from rag_core.verification.subject_comparison import find_other_thing

    support = assess_text(sentence.text, words, lang)
    sure = support.label is Label.CONTRADICTED and support.likely <= _MAX_LIKELIHOOD and _DIFFERS_MARK in support.why
    if not sure or find_other_thing(extract_facts(sentence.text, lang), extract_facts(words, lang)):
        return None
    if measure_relevance(sentence.text, support, words, passage.header, weight) < _MIN_RELEVANCE:
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


_ASKING_WORD_WEIGHT = 0.3  # weight of a word like "costs": price lists do without it
# Units are often written as a sign and do not say what is measured.
_MEASURE_WORDS = r"(?:₽|руб|р\.|\$|€|£|%|процент|percent|тыс|млн|thousand|million|euro|евро|доллар|dollar|minute|минут)"
_UNIT_PATTERN = re.compile(rf"\b{_MEASURE_WORDS}\w*", re.I)
_WORD = re.compile(r"[^\W_]+")


def measure_relevance(claim: str, support: Support, words: str, header: str, weight: TermWeight) -> float:
    """Relevance of a text to the claim: share of the claim's topic words it holds, 0..1; rare terms weigh more.

    The value that differs ("twelve ≠ fifteen"), other numbers and words of the channel's title are no topic words.
    The rest of the header, such as the excerpt of a replied-to post, counts as text.
    """
    title, _, more = header.partition(" · ")
    aside = frozenset(tokenize(f"{support.why.partition('≠')[0]} {title}"))
    weights: dict[str, float] = {}
    for word in _WORD.findall(_UNIT_PATTERN.sub(" ", claim)):
        for term in tokenize(word):
            if term not in aside and not any(map(str.isdigit, term)):
                weights[term] = weight(term) * (_ASKING_WORD_WEIGHT if is_asking_word(word) else 1.0)
    there = frozenset(tokenize(f"{more}\n{words}"))
    whole = sum(weights.values())
    if not whole:
        return 1.0
    return (
        sum(w * (1.0 if term in there else measure_stem_similarity(term, there)) for term, w in weights.items()) / whole
    )
