"""Extractive answer: the draft that quotes the ranked pieces of the evidence, and how certain it is.

Nothing here waits for an index or a model; recipes run it in a thread, because long posts have many pieces to score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_core.calibration import estimate_by_similarity
from rag_core.context.coverage import measure_coverage
from rag_core.dates.parse import parse_period
from rag_core.engine import Engine
from rag_core.text.answer_type import AnswerType, detect_answer_type, lacks_required_value
from rag_core.text.query_terms import QueryTerms
from rag_core.text.sentences import MAX_ANSWER_LENGTH, MAX_SENTENCE_LENGTH
from rag_core.types import Certainty, Draft, Evidence, Kind, Plan, Question, Sentence
from rag_core.writing.extract import RankedPieces, is_outdated_plan, quote_earlier_piece, quote_piece, rank_pieces
from rag_core.writing.extract_candidates import ExtractCandidate
from rag_core.writing.phrases import MAX_FRAMED_QUOTE_LENGTH, format_dated_line, format_post_date

# Further sentences must score nearly as well as the first: of the posts cited within this margin 9 in 10
# are right (XQuAD); without it 4 in 5.
_EXTRACT_MARGIN = 3.5
_ABOUT_TOPIC = 0.45  # weight share of the topic that a post about it has
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
        return rank_pieces(asked, evidence, MAX_FRAMED_QUOTE_LENGTH, None, question.asked_at)
    period = parse_period(question.text, question.asked_at)
    return rank_pieces(asked, evidence, MAX_SENTENCE_LENGTH, period, question.asked_at)


def extract_draft(question: Question, plan: Plan, ranked: RankedPieces, evidence: Evidence, rag: Engine) -> Draft:
    """Quote the best pieces of the evidence where it surely covers the question, the closest ones where it may.

    An empty draft where it does not.
    """
    statistics = rag.lexical.statistics(question.viewer.channels)
    asked, best, dated = ranked.asked, ranked.best, plan.kind is Kind.WHEN
    most = 1 if dated else rag.settings.answer.sentences
    cosine = best.source.likeness if best else 0.0
    # without a result of the dense retriever, words alone decide
    model = rag.dense.model if rag.dense and cosine else None
    likeness = rag.calibration.likeness(cosine, model, question.lang)
    contested = ranked.contested and not ranked.succeeded
    foreign = ranked.in_other_language
    coverage = measure_coverage(asked, best, statistics, contested=contested, likeness=likeness, foreign=foreign)
    covered = rag.calibration.likely(coverage, cosine, model, question.lang)
    certainty = rag.calibration.grade(covered, brief=coverage.brief, lenient=coverage.lenient, foreign=foreign)
    if best and best.features.post_cosine:
        covered = estimate_by_similarity(best.score, ranked.margin, best.features.cosine)
        certainty = rag.calibration.grade_by_similarity(covered)
    certainty = _limit_certainty(certainty, ranked, posts_asked=plan.kind is Kind.NEWS)
    if certainty is Certainty.NONE:
        return Draft((), covered, certainty=certainty)
    focused = certainty is Certainty.SURE and not coverage.brief
    if ranked.may_not_answer or (coverage.brief and ranked.disputable) or coverage.partial:
        certainty = Certainty.PROBABLE
    if ranked.series:
        newest = [_quote_dated_line(piece, question) for piece in ranked.series[: -_MAX_SERIES_LINES - 1 : -1]]
        return Draft(tuple(reversed(_drop_last_to_fit(newest))), covered, certainty=certainty)
    sure = certainty is Certainty.SURE
    pieces = ranked.select(most, _EXTRACT_MARGIN) if sure or focused else ranked.select_closest(most, evidence)
    sentences = [quote_piece(piece) for piece in pieces]
    if dated:
        sentences = [_prepend_post_date(sentence, question.lang) for sentence in sentences]
    elif sure:  # what is not sure is shown with the dates of the posts
        sentences = [
            _prepend_post_date(one, question.lang)
            if len(one.text) <= MAX_FRAMED_QUOTE_LENGTH and is_outdated_plan(piece, question.asked_at)
            else one
            for one, piece in zip(sentences, pieces, strict=True)
        ]
        sentences = _drop_last_to_fit(sentences)
    if not dated and not ranked.contested and (earlier := quote_earlier_piece(ranked, question.lang)):
        sentences = _insert_second(sentences, earlier, most)
    candidates = () if dated or rag.writer is None else _list_candidates(pieces, ranked)
    return Draft(tuple(sentences), covered, certainty=certainty, candidates=candidates)


_MAX_CANDIDATES = 3  # a judgement takes seconds on a processor


def _list_candidates(shown: Sequence[ExtractCandidate], ranked: RankedPieces) -> tuple[Sentence, ...]:
    """Quotes that a model may judge: the pieces that are shown, then the next best."""
    chosen = list[ExtractCandidate]()
    for one in (*shown, *ranked.pieces):
        if len(chosen) < _MAX_CANDIDATES and not any(one.overlaps(other) for other in chosen):
            chosen.append(one)
    return tuple(map(quote_piece, chosen))


def _limit_certainty(certainty: Certainty, ranked: RankedPieces, *, posts_asked: bool) -> Certainty:
    """Show nothing where no term of the question was met, or a price is asked for and none is there.

    Where posts about something are asked for, one that names half of it is one.
    """
    asked, best = ranked.asked, ranked.best
    if best is None or best.topic <= 0 or lacks_required_value(asked.want, best.text, asked.text):
        return Certainty.NONE
    if certainty is Certainty.NONE and posts_asked and best.topic >= _ABOUT_TOPIC and not ranked.in_other_language:
        return Certainty.PROBABLE
    return certainty


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
