"""Posts that disagree with the one quoted: another value for the same, and later posts that supersede it."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

from rag_core.engine import Engine
from rag_core.storage.posts import fetch_passages
from rag_core.text.answer_type import extract_values
from rag_core.text.post_text import find_poll
from rag_core.text.query_terms import QueryTerms, TermWeight
from rag_core.text.sentences import MAX_ANSWER_LENGTH, collect_terms, split_long_span
from rag_core.text.tokens import tokenize
from rag_core.types import Citation, Draft, Evidence, Kind, Passage, Plan, Question, SearchFilter, Sentence, Source
from rag_core.verification import Claim, Label
from rag_core.verification.stance import assess_by_words
from rag_core.verification.support import find_best_quote
from rag_core.verification.things import names_thing, speaks_of_other_thing
from rag_core.writing.extract import announces_change
from rag_core.writing.extract_candidates import ExtractCandidate, rank_candidates
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
            rest = [later for later in draft.sentences[place + 1 :] if not later.quotes([other])]
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
    span = next(iter(split_long_span(passage.text, span, MAX_FRAMED_QUOTE_LENGTH)), span)
    words = passage.text[slice(*span)]
    if asked.matched_share(frozenset(tokenize(f"{passage.header}\n{words}"))) < _MIN_QUESTION_COVERAGE:
        return None
    dated = (sentence.text, sentence.citations[0].date), (words, passage.date)
    # years in a text that are within one of its date
    here, there = ({year for year in map(int, _YEAR.findall(t)) if abs(year - date.year) <= 1} for t, date in dated)
    if here and there and not here & there:
        return None  # about different years: prices of 2026 do not contradict those of 2027
    (support,) = assess_by_words(Claim(sentence.text, lang), [replace(passage, text=words)], weight)
    if support.label is not Label.CONTRADICTED or _DIFFERS_MARK not in support.why:
        return None
    return passage.cite(span)


_VALUE_BONUS, _CHANGE_BONUS, _LENGTH_COST = 0.3, 0.3, 0.1  # of all weight, for MAX_ANSWER_LENGTH characters the last
_FOUND_POSTS = 6  # of the search for the words of the piece
_MAX_LENGTH = 800  # characters, from which on a post counts as long


class Successor(NamedTuple):
    """Piece of a later post that may supersede another piece, and the probability that it does, 0..1."""

    piece: ExtractCandidate
    likely: float


async def find_successor(
    piece: ExtractCandidate, asked: QueryTerms, evidence: Evidence, question: Question, rag: Engine
) -> Successor | None:
    """Find the likeliest successor of a piece of the evidence; None without a later post that shares a word with it.

    Raises IndexUnavailable, ArchiveUnavailable.
    """
    old = piece.source.passage
    if old.key.chat_id not in question.viewer.channels:
        return None
    terms = tuple(dict.fromkeys(tokenize(piece.text)))
    only = SearchFilter(frozenset({old.key.chat_id}), old.date + timedelta(seconds=1), question.asked_at)
    found = await asyncio.to_thread(rag.lexical.search, terms, only, _FOUND_POSTS)
    passages = await fetch_passages(rag.archive, [place for place, _ in found])
    later = list({one.key: one for place, _ in found if (one := passages.get(place)) and one.key != old.key}.values())
    if later and names_thing(asked.text, piece.text, question.lang):
        later = [one for one in later if not speaks_of_other_thing(asked.text, one.text, question.lang)]
    if not later:
        return None
    weight = rag.lexical.statistics(question.viewer.channels).weight
    own = {term: weight(term) for term in terms}
    return await asyncio.to_thread(_choose_successor, piece, own, later, asked, evidence, weight)


def _choose_successor(
    piece: ExtractCandidate,
    own: Mapping[str, float],
    later: Sequence[Passage],
    asked: QueryTerms,
    evidence: Evidence,
    weight: TermWeight,
) -> Successor | None:
    top = max((source.score for source in evidence.sources), default=0.0)
    known = {source.passage.key: source for source in evidence.sources}
    likely = {
        passage.key: estimate_succession(
            piece.text, passage.text, rank, own, known[passage.key].score / top if passage.key in known and top else 0.0
        )
        for rank, passage in enumerate(later)
    }
    best = max(later, key=lambda passage: likely[passage.key])
    number = len(evidence.sources) + 1
    source = known.get(best.key) or Source(number, best, 0.0)
    # the piece that says most of the older piece and of the question, with a value of its type
    weights = {**own, **{term: weight(term) for term in asked.share}}
    most = sum(weights.values())

    def score(one: ExtractCandidate) -> float:
        there = frozenset(tokenize(one.text))
        met = sum(weight for term, weight in weights.items() if term in there) / most
        long = len(one.text) / MAX_ANSWER_LENGTH
        return met + _VALUE_BONUS * one.holds + _CHANGE_BONUS * announces_change(one.text) - _LENGTH_COST * long

    chosen = max(rank_candidates(asked, replace(evidence, sources=(source,))), key=score, default=None)
    return Successor(chosen, likely[best.key]) if chosen else None


def estimate_succession(piece: str, post: str, rank: int, own: Mapping[str, float], score: float) -> float:
    """Estimate the probability that a later post supersedes a piece, 0..1, by logistic regression.

    `rank` of the post, from 0, in the search for the words of the piece; `own`: the weights of the piece's terms;
    `score` of the post in the search for the question, over the best, 0 where that did not find it.
    """
    there, before = collect_terms(post), extract_values(piece)
    shared = [weight for term, weight in own.items() if term in there]
    z = (
        -7.9
        + 1.0 * (rank == 0)
        + 1.0 / (1 + rank)
        + 1.4 * sum(shared) / max(sum(own.values()), 1e-9)
        + 1.8 * max(shared, default=0.0) / max(own.values(), default=1.0)
        + 1.2 * announces_change(post)
        + 1.2 * (bool(before) and not extract_values(post) <= before)  # another value
        - 1.6 * min(1.0, len(post) / _MAX_LENGTH)
        + 1.7 * score
    )
    return 1 / (1 + math.exp(-z))
