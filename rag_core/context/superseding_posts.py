"""Successors: later posts of the same channel that may supersede what a piece of an older one says.

A correction often names its thing by other words than the question: "the closure is put back a week" supersedes
"line shut for the viaduct", "nights are covered by security on ext. 4999" the porter's number. But it shares words
with the post that it supersedes. So the later posts of the channel are searched for the words of the piece: of 52
everyday questions whose best piece no longer held, the post that superseded it came first in 36 and among the first
six in 50. How likely a post of the result supersedes the piece is a logistic regression over a few features, fitted on
pairs of nine sets of everyday questions, each set left out in turn.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

from rag_core.engine import Engine
from rag_core.storage.post_lookup import fetch_passages
from rag_core.text.answer_type import extract_values
from rag_core.text.query_terms import QueryTerms, TermWeight
from rag_core.text.sentences import MAX_ANSWER_LENGTH, collect_terms
from rag_core.text.tokens import tokenize
from rag_core.types import Evidence, Passage, Question, SearchFilter, Source
from rag_core.verification.subject_comparison import names_thing, speaks_of_other_thing
from rag_core.writing.extract import announces_change
from rag_core.writing.extract_candidates import ExtractCandidate, rank_candidates

_FOUND_POSTS = 6  # of the search for the words of the piece
_MAX_LENGTH = 800  # characters, from which on a post counts as long


class SuccessionFeatures(NamedTuple):
    """Features of a piece and a later post.

    first, near: 1 where the post comes first in the search for the words of the piece; 1 over its rank
    shared: weight share of the terms of the piece that the post has; rarest: the greatest weight of these over the
        greatest of the piece
    change: 1 where the post says that something was changed, corrected, put off or cancelled
    values: 1 where both hold numbers and the post another one than the piece
    length: of the post over _MAX_LENGTH, at most 1
    score: of the post in the search for the question, over the best; 0 where that did not find it
    """

    first: float
    near: float
    shared: float
    rarest: float
    change: float
    values: float
    length: float
    score: float

    @property
    def likely(self) -> float:
        """Probability that the post supersedes the piece, 0..1."""
        z = _SHIFT + sum(weight * value for weight, value in zip(_WEIGHTS, self, strict=True))
        return 1 / (1 + math.exp(-z))


_SHIFT = -7.9
_WEIGHTS = SuccessionFeatures(
    first=1.0, near=1.0, shared=1.4, rarest=1.8, change=1.2, values=1.2, length=-1.6, score=1.7
)


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
    if names_thing(asked.text, piece.text, question.lang):
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
        passage.key: measure_succession(
            piece.text, passage.text, rank, own, known[passage.key].score / top if passage.key in known and top else 0.0
        ).likely
        for rank, passage in enumerate(later)
    }
    best = max(later, key=lambda passage: likely[passage.key])
    number = len(evidence.sources) + 1
    source = known.get(best.key) or Source(number, best, 0.0)
    chosen = _choose_piece(source, {**own, **{term: weight(term) for term in asked.share}}, asked, evidence)
    return Successor(chosen, likely[best.key]) if chosen else None


def measure_succession(piece: str, post: str, rank: int, own: Mapping[str, float], score: float) -> SuccessionFeatures:
    """Measure the features of a piece and a later post; `rank` is from 0, `own` the weights of the piece's terms."""
    there = collect_terms(post)
    shared = [weight for term, weight in own.items() if term in there]
    before = extract_values(piece)
    return SuccessionFeatures(
        first=float(rank == 0),
        near=1 / (1 + rank),
        shared=sum(shared) / max(sum(own.values()), 1e-9),
        rarest=max(shared, default=0.0) / max(own.values(), default=1.0),
        change=float(announces_change(post)),
        values=float(bool(before) and not extract_values(post) <= before),
        length=min(1.0, len(post) / _MAX_LENGTH),
        score=score,
    )


_VALUE_BONUS, _CHANGE_BONUS, _LENGTH_COST = 0.3, 0.3, 0.1  # of all weight, for MAX_ANSWER_LENGTH characters the last


def _choose_piece(
    source: Source, weights: Mapping[str, float], asked: QueryTerms, evidence: Evidence
) -> ExtractCandidate | None:
    """Choose the piece of a post that says most of an older piece and of the question, with a value of its type.

    `weights`: of the terms of both.
    """
    most = sum(weights.values())

    def score(one: ExtractCandidate) -> float:
        there = frozenset(tokenize(one.text))
        met = sum(weight for term, weight in weights.items() if term in there) / most
        long = len(one.text) / MAX_ANSWER_LENGTH
        return met + _VALUE_BONUS * one.holds + _CHANGE_BONUS * announces_change(one.text) - _LENGTH_COST * long

    pieces = rank_candidates(asked, replace(evidence, sources=(source,)))
    return max(pieces, key=score, default=None)
