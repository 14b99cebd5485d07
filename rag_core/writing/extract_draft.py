"""Extractive answer: the draft that quotes the ranked pieces of the evidence, and how certain it is.

Nothing here waits for an index or a model; recipes run it in a thread, because long posts have many pieces to score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_core.dates import parse_period
from rag_core.engine import Engine
from rag_core.text.answer_type import AnswerType, detect_answer_type, lacks_required_value
from rag_core.text.query_terms import QueryTerms
from rag_core.text.sentences import MAX_ANSWER_LENGTH, MAX_SENTENCE_LENGTH
from rag_core.types import Certainty, Draft, Evidence, Kind, Plan, Question, Sentence
from rag_core.writing.extract import RankedPieces, is_outdated_plan, quote_earlier_piece, quote_piece, rank_pieces
from rag_core.writing.extract_candidates import ExtractCandidate
from rag_core.writing.phrases import MAX_FRAMED_QUOTE_LENGTH, format_dated_line, format_post_date

_MAX_SERIES_LINES = 5  # values of a series that are shown


def rank_evidence(question: Question, plan: Plan, evidence: Evidence, rag: Engine) -> RankedPieces:
    """Rank the pieces of the evidence for a question and its plan."""
    weight = rag.lexical.statistics(question.viewer.channels).weight
    text, aliases = plan.asked or question.text, plan.aliases
    # the name of who holds an office is the answer, no other word for it
    if detect_answer_type(text) is AnswerType.PERSON:
        aliases = tuple((term, name) for term, name in aliases if term.isascii() != name.isascii())
    asked = QueryTerms.of(text, weight, aliases)
    if plan.kind is Kind.WHEN:
        return rank_pieces(asked, evidence, MAX_FRAMED_QUOTE_LENGTH)
    return rank_pieces(asked, evidence, MAX_SENTENCE_LENGTH, parse_period(question.text, question.asked_at))


def extract_draft(question: Question, plan: Plan, ranked: RankedPieces, evidence: Evidence, rag: Engine) -> Draft:
    """Quote the best piece of the evidence where it surely answers the question, the best ones where it may.

    An empty draft where it does not.
    """
    likely, dated = ranked.likely, plan.kind is Kind.WHEN
    certainty, best = rag.calibration.grade(likely), next(iter(ranked.pieces), None)
    refused = best is None or lacks_required_value(ranked.asked.want, best.text, ranked.asked.text)
    if best is None or refused or certainty is Certainty.NONE:
        return Draft((), likely, certainty=Certainty.NONE)
    if ranked.is_contested or ranked.in_other_language or not best.holds:
        certainty = Certainty.PROBABLE
    if ranked.series:
        newest = [_quote_dated_line(piece, question) for piece in ranked.series[: -_MAX_SERIES_LINES - 1 : -1]]
        return Draft(tuple(reversed(_drop_last_to_fit(newest))), likely, certainty=certainty)
    sure = certainty is Certainty.SURE
    most = 1 if dated or sure else rag.settings.answer.sentences
    pieces = ranked.select(most, evidence)
    sentences = [quote_piece(piece) for piece in pieces]
    if dated or (sure and is_outdated_plan(best, question.asked_at)):  # else the view adds the days of the posts
        sentences = [_prepend_post_date(sentence, question.lang) for sentence in sentences]
    if not dated and (earlier := quote_earlier_piece(ranked, question.lang)):
        sentences = _insert_second(sentences, earlier, most)
    candidates = () if dated or rag.writer is None else _list_candidates(pieces, ranked)
    return Draft(tuple(sentences), likely, certainty=certainty, candidates=candidates)


_MAX_CANDIDATES = 3  # a judgement takes seconds on a processor


def _list_candidates(shown: Sequence[ExtractCandidate], ranked: RankedPieces) -> tuple[Sentence, ...]:
    """Quotes that a model may judge: the pieces that are shown, then the next best."""
    chosen = list[ExtractCandidate]()
    for one in (*shown, *ranked.pieces):
        if len(chosen) < _MAX_CANDIDATES and not any(one.overlaps(other) for other in chosen):
            chosen.append(one)
    return tuple(map(quote_piece, chosen))


def _drop_last_to_fit(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Drop the last sentences of an answer that is too long; the first stays."""
    kept = list(sentences)
    while len(kept) > 1 and sum(len(one.text) for one in kept) > MAX_ANSWER_LENGTH:
        del kept[-1]
    return kept


def _insert_second(sentences: Sequence[Sentence], second: Sentence, most: int) -> list[Sentence]:
    """Insert a sentence after the first, and drop the last ones that no longer fit."""
    first, *rest = sentences
    kept = [first, second]
    for sentence in rest:
        if len(kept) < most and sum(len(one.text) for one in kept) + len(sentence.text) <= MAX_ANSWER_LENGTH:
            kept.append(sentence)
    return kept


def _quote_dated_line(piece: ExtractCandidate, question: Question) -> Sentence:
    sentence = quote_piece(piece)
    date = sentence.citations[0].date
    return replace(sentence, text=format_dated_line(date, sentence.text, question.asked_at, question.lang))


def _prepend_post_date(sentence: Sentence, lang: str) -> Sentence:
    return replace(sentence, text=f"{format_post_date(sentence.citations[0].date, lang)} {sentence.text}")
