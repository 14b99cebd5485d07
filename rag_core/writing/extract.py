"""Extractive answers: the one to three pieces of the evidence that answer best, word for word, and fixed phrases.

What supersedes the best piece (`extract_candidates.py`) is shown first, and that one as an earlier value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import accumulate, islice

import numpy as np
from babel import Locale

from rag_core.calibration import AnsweringFeatures, estimate_answering, estimate_answering_by_words
from rag_core.dates import Period, find_dates, format_day, parse_period
from rag_core.dates.calendar_arithmetic import YEARLESS_AHEAD
from rag_core.engine import Engine
from rag_core.text.post_text import POLL_LABELS, find_poll
from rag_core.text.query_terms import (
    VAGUE_TYPES,
    AnswerType,
    QueryTerms,
    asks_for_changes,
    detect_answer_type,
    extract_values,
)
from rag_core.text.sentences import MAX_ANSWER_LENGTH, MAX_SENTENCE_LENGTH, TextSpan, build_text_key
from rag_core.text.tokens import detect_language, fold_case, tokenize
from rag_core.types import Certainty, Citation, Draft, Evidence, Kind, Passage, Plan, Post, PostKey, Question, Sentence
from rag_core.writing.extract_candidates import ExtractCandidate, extend_forward, rank_candidates

MAX_FRAMED_QUOTE_LENGTH = 240  # characters: the quote and the phrase before it stay short enough together
_OPEN_ENDS = " ,;:—–-"
_POST_PLURALS = {
    "ru": {"one": "пост", "few": "поста", "many": "постов", "other": "поста"},
    "en": {"one": "post", "other": "posts"},
}
# Before the quote of: the first and the latest post with a word, a post whose date was asked for, a post whose value a
# newer one has replaced, the last post before a period that has none.
_FRAMES = {
    "first": {"ru": "Впервые в постах — {}:", "en": "First mentioned on {}:"},
    "last": {"ru": "В последний раз в постах — {}:", "en": "Last mentioned on {}:"},
    "posted": {"ru": "Пост от {}:", "en": "Posted on {}:"},
    "earlier": {"ru": "Раньше, {}:", "en": "Earlier, on {}:"},
    "before": {
        "ru": "За это время постов нет. Последний до того, {}:",
        "en": "There are no posts of that time. The last one before it, {}:",
    },
}


def frame_quote(quote: Sentence, frame: str, question: Question) -> Sentence:
    """Put a phrase with the day of its post before a quote; `frame`: a key of `_FRAMES`."""
    day = format_day(question.localize(quote.citations[0].date), question.lang)
    return replace(quote, text=f"{_FRAMES[frame][question.lang].format(day)} {quote.text}")


def format_dated_line(moment: date, quote: str, lang: str) -> str:
    """Line of a digest: the day of a post, and a quote in one line; one cut within a sentence ends with an ellipsis."""
    line = " ".join(quote.split())
    shown = f"{line.rstrip(_OPEN_ENDS)}…" if line.endswith(tuple(_OPEN_ENDS)) else line
    return f"{format_day(moment, lang)}: {shown}"


def fit_dated_lines(dated: Iterable[tuple[date, Sentence]], lang: str, room: int = MAX_ANSWER_LENGTH) -> list[Sentence]:
    """Put its day before each quote, in one line each, as long as they fit into `room` characters together."""
    lines: list[Sentence] = []
    for day, quote in dated:
        text = format_dated_line(day, quote.text, lang)
        room -= len(text)
        if room < 0:
            break
        lines.append(replace(quote, text=text))
    return lines


def format_conflict(above: datetime, moment: datetime, lang: str) -> str:
    """Phrase before the quote of a post that contradicts the quote above: whether it is newer, and its day."""
    first, other = format_day(above, lang), format_day(moment, lang)
    ru, en = ("более новый пост", "a newer post") if moment > above else ("более ранний пост", "an earlier post")
    if first == other:
        ru, en = "другой пост того же дня", "another post of that day"
    return f"Но {ru}, от {other}, говорит иначе:" if lang == "ru" else f"But {en}, of {other}, says otherwise:"


def format_post_count(number: int, ends: tuple[datetime, datetime], lang: str, words: Sequence[str] = ()) -> str:
    """Sentence with the number of posts, the words that all of them hold, if any, and the range of their dates."""
    counted = f"{number} {_POST_PLURALS[lang][Locale.parse(lang).plural_form(number)]}"
    first, last = (format_day(moment, lang) for moment in ends)
    if words:
        opened, closed, one, several = {
            "ru": ("«", "»", "со словом", "со словами"), "en": ("“", "”", "with the word", "with the words")
        }[lang]  # fmt: skip
        named = ", ".join(f"{opened}{word}{closed}" for word in words)
        counted += f" {one if len(words) == 1 else several} {named}"
    if first == last:
        return f"{counted}: {first}."
    return f"{counted}, {f'с {first} по {last}' if lang == 'ru' else f'from {first} to {last}'}."


_MAX_ADDRESSES = 3  # of a post: more are a list, which the reader opens
_ADDRESS_TYPES = frozenset({AnswerType.PLACE, AnswerType.STEPS})
# What is done by a link, and the link itself, in questions that do not begin with "where" or "how".
_LINK_ASKED = re.compile(
    r"(?<!\w)(?:ссылк\w*|сайт\w*|онлайн|форм[аеуы]|анкет\w*|запис(?:а|ы)\w+|(?:за)?регистр\w+|заказ\w*|брони?р\w+|"
    r"подпис\w+|скачать|links?|urls?|websites?|sites?|online|forms?|sign(?:ing)?[ -]?up|regist(?:er|ration)\w*|"
    r"enrol\w*|apply|book|order|subscribe|download|join|rsvp)(?!\w)"
)


def find_addresses(
    question: str, quoted: Iterable[tuple[PostKey, int, int]], shown: str, stored: Mapping[PostKey, Post],
    boilerplate: Mapping[int, frozenset[str]],
) -> dict[PostKey, tuple[str, ...]]:  # fmt: skip
    """Find the addresses that stand in quoted posts and not in `shown`, each once.

    None for a question that asks neither where nor how nor by which link. `quoted`: posts with the span of the quote,
    whose nearest addresses come first. Links of lines that most posts of a channel repeat are left out, as they answer
    nothing.
    """
    if detect_answer_type(question)[0] not in _ADDRESS_TYPES and not _LINK_ASKED.search(fold_case(question)):
        return {}
    spans = {key: (start, end) for key, start, end in quoted}
    found: dict[PostKey, tuple[str, ...]] = {}
    for key, span in spans.items():
        if post := stored.get(key):
            nearest = _list_addresses(post, span, boilerplate.get(key.chat_id, frozenset()))
            found[key] = tuple(one for one in nearest if one not in shown)
            shown = " ".join((shown, *found[key]))
    return found


def _list_addresses(post: Post, span: TextSpan, repeated: Collection[str]) -> list[str]:
    """List the addresses of a post, the nearest to a span first; those of buttons stand below its text."""
    points = {unit: n for n, unit in enumerate(accumulate((1 + (c > "\uffff") for c in post.text), initial=0))}
    places = dict.fromkeys(post.links, len(post.text))
    for entity in post.entities:
        start = points.get(entity.offset, 0)
        words = post.text[start : points.get(entity.offset + entity.length, start)]
        address = entity.url if entity.type == "text_link" else words if entity.type == "url" else None
        if address in places:
            begin, end = post.text.rfind("\n", 0, start) + 1, post.text.find("\n", start)
            if build_text_key(post.text[begin : end if end >= 0 else None]) in repeated:
                del places[address]
            else:
                places[address] = start
    return sorted(places, key=lambda one: max(span[0] - places[one], places[one] - span[1], 0))[:_MAX_ADDRESSES]


_LASTING_TYPES = frozenset({AnswerType.REASON, AnswerType.STEPS})  # of these the best post answers, not the newest
# Attributes that change, of which a series of values may be asked.
_CHANGING_TYPES = frozenset(
    {
        AnswerType.PRICE, AnswerType.HOURS, AnswerType.PHONE, AnswerType.PLACE, AnswerType.PERSON, AnswerType.NUMBER,
        AnswerType.STATE, AnswerType.YES_NO, AnswerType.DATE,
    }
)  # fmt: skip
_PERIOD_BONUS = 1.5
_FAR_BEHIND = 4.0  # of the first score: such a piece adds nothing
_CLEAR_MARGIN = 1.0  # of score, between posts
# Of score: sentences that add less to the first piece are left out of its quote. Of 264 right ones of sets 2 to 6 111
# hold more than the answer needs, from here on 85 of 261; of 490 of two further sets 272, 204 of 488.
_SPARE = 0.5
_LONELY_LEAD = 4.0  # of a piece without a piece of another post
# Of the terms of the best piece, what another value has; and how far its score may be behind.
_SERIES_TERMS, _SERIES_MARGIN = 0.85, 2.0
_FROM_DAY = re.compile(r"\b(?:с|со|from|since)\s\d{1,2}\s(?!\w{1,20}\s(?:по|до|to|until)\b)\w", re.IGNORECASE)
_NAMED_TIME = re.compile(
    r"\b(?:1\d{3}|20\d\d|\d{1,2}[./]\d{1,2}|(?:январ|феврал|март|апрел|июн|июл|август|сентябр|октябр|ноябр|"
    r"декабр)\w*|мая|"
    r"january|february|march|april|june|july|august|september|october|november|december|прошл\w+|раньше|тогда|вчера|"
    r"last|ago|yesterday|used to|впервые|first|перв\w+)\b",
    re.IGNORECASE,
)


_CALENDAR_TIME = re.compile(
    rf"{_NAMED_TIME.pattern}|\b(?:год\w*|недел\w+|месяц\w*|years?|weeks?|months?)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class RankedPieces:
    """Pieces of the evidence, best first.

    `likely`: probability that the best of them answers the question, 0..1; `earlier`: a piece that the first one
    supersedes, which is not among `pieces`; `series`: the values of a thing, oldest first, where the question asks how
    they changed; `timed`: the question names a time.
    """

    asked: QueryTerms
    pieces: tuple[ExtractCandidate, ...]
    likely: float = 0.0
    earlier: ExtractCandidate | None = None
    series: tuple[ExtractCandidate, ...] = ()
    timed: bool = False

    @property
    def may_be_superseded(self) -> bool:
        """Whether a later post may supersede the first piece: no time is named, nor asked why or how."""
        return bool(self.pieces) and not (self.series or self.timed) and self.asked.want not in _LASTING_TYPES

    @property
    def next_older(self) -> ExtractCandidate | None:
        """The best piece of an earlier post of the first one's channel that holds as much of the question, or None."""
        newest, least = self.pieces[0].source.passage, _SERIES_TERMS * self.pieces[0].features.terms
        there = (one for one in self.pieces if one.source.passage.key.chat_id == newest.key.chat_id)
        older = (one for one in there if one.source.passage.date < newest.date)
        return next((one for one in older if one.features.terms >= least), None)

    def put_first(self, piece: ExtractCandidate, superseded: Sequence[ExtractCandidate]) -> RankedPieces:
        """Put a piece first; those that it supersedes go from `pieces`, and the last of them is called earlier.

        Of its own post nothing is left but its parts.
        """
        gone, raised = {one.source.number for one in (piece, *superseded)}, self.pieces[0].score - piece.score
        others = (one for one in self.pieces if one.source.number not in gone)
        found = (piece, *(one for one in self._list_parts(piece) if len(one.text) < len(piece.text)))
        own = (replace(one, score=one.score + raised) for one in found)
        return replace(self, pieces=(*own, *others), earlier=superseded[-1])

    @property
    def is_contested(self) -> bool:
        """Whether the first piece supersedes another, or a piece of another post answers nearly as well."""
        others = (one.score for one in self.pieces if one.source.number != self.pieces[0].source.number)
        return self.earlier is not None or max(others, default=-math.inf) > self.pieces[0].score - _CLEAR_MARGIN

    @property
    def in_other_language(self) -> bool:
        """Whether the first piece is of another language than the question."""
        return bool(self.pieces) and detect_language(self.pieces[0].text) != detect_language(self.asked.text)

    def _list_parts(self, piece: ExtractCandidate) -> list[ExtractCandidate]:
        """List the pieces within a piece."""
        of_post = (one for one in self.pieces if one.source.number == piece.source.number)
        return [one for one in of_post if piece.start <= one.start and one.end <= piece.end]

    def _shorten(self, piece: ExtractCandidate) -> ExtractCandidate:
        """Find the shortest part of a piece that scores nearly as well; a why, a how and a list take all of it."""
        if not piece.features.is_compared or self.asked.want in (*_LASTING_TYPES, AnswerType.LIST):
            return piece
        near = (one for one in self._list_parts(piece) if one.score >= piece.score - _SPARE)
        telling = (one for one in near if not one.text.endswith(("?", ":")))
        return min((piece, *telling), key=lambda one: one.end - one.start)

    def select(self, most: int, *, whole: bool = False) -> list[ExtractCandidate]:
        """Select at most `most` pieces without overlaps, together at most MAX_ANSWER_LENGTH characters long.

        Of each post the best piece, where it is not far behind; of the first post others where no other post is near.
        The first is shortened unless it is wanted as a whole.
        """
        if not self.pieces:
            return []
        first, *others = self.pieces
        shown = first if whole else self._shorten(first)
        if most == 1:
            return [shown]
        best_of_post = {one.source.number: one for one in reversed(others) if one.source.number != first.source.number}
        last = first.score - _FAR_BEHIND
        near = sorted((one for one in best_of_post.values() if one.score >= last), key=lambda one: -one.score)
        if not self.in_other_language:  # a post of the other language shares a number or a name by chance
            lang = detect_language(first.text)
            near = [one for one in near if detect_language(one.text) == lang]
        if not near:
            own = [one for one in others if one.source.number == first.source.number and one.score >= last]
            near = [one for one in own if one.features.is_compared or one.features.terms][:most]
        chosen, characters_left = list[ExtractCandidate](), MAX_ANSWER_LENGTH
        for candidate in (first, *near):
            if len(chosen) == most:
                break
            if len(candidate.text) <= characters_left and not any(candidate.overlaps(other) for other in chosen):
                chosen.append(candidate)
                characters_left -= len(candidate.text)
        return [shown, *chosen[1:]]


def rank_pieces(
    asked: QueryTerms, evidence: Evidence, longest: int = MAX_SENTENCE_LENGTH, period: Period | None = None
) -> RankedPieces:
    """Rank the pieces of the evidence; `longest` is in characters.

    `period`: the time that the question names: posts of it are preferred, and the value of that time answers; of one
    day nothing else is left where a piece of that day comes first.
    """
    ranked = rank_candidates(asked, evidence, longest)
    if period and not _CALENDAR_TIME.search(period.words):
        period = None  # "on Sunday" is a part of the topic
    if period:
        ranked = sorted(ranked, key=lambda one: -one.score - _PERIOD_BONUS * _fit_period(one, period))
        one_day = period.since and period.until and period.until - period.since <= timedelta(days=1)
        if ranked and one_day and _fit_period(ranked[0], period) > 0:
            ranked = [one for one in ranked if _fit_period(one, period) > 0]
    if ranked and asked.want in VAGUE_TYPES:
        ranked[0] = extend_forward(ranked[0], evidence, longest)
    timed = period is not None or bool(_NAMED_TIME.search(asked.text))
    likely = _estimate_answering(asked, ranked, evidence) if ranked else 0.0
    found = RankedPieces(asked, tuple(ranked), likely, timed=timed)
    if not ranked or timed or asked.want not in _CHANGING_TYPES or not asks_for_changes(asked.text):
        return found
    # the series of the best piece: the best piece of each post of its channel with such a value, oldest first
    first = ranked[0]
    best, chat = {first.source.number: first}, first.source.passage.key.chat_id
    least, score = _SERIES_TERMS * first.features.terms, first.features.score - _SERIES_MARGIN
    for one in ranked:
        told = one.holds and one.source.passage.key.chat_id == chat and one.features.terms >= least
        if told and one.features.score >= score:
            best.setdefault(one.source.number, one)
    series = sorted(best.values(), key=lambda one: one.source.passage.date)
    return replace(found, series=tuple(series)) if len(series) > 1 else found


def _estimate_answering(asked: QueryTerms, ranked: Sequence[ExtractCandidate], evidence: Evidence) -> float:
    first = ranked[0]
    best_of_post = {one.source.number: one.score for one in reversed(ranked)}
    others = [score for number, score in best_of_post.items() if number != first.source.number]
    lead = first.score - sum(others) / len(others) if others else _LONELY_LEAD
    about, similarity = first.features, evidence.similarities.get(first.source.number)
    if similarity is None or not about.is_compared:  # without a term nothing but its type speaks for it
        return estimate_answering_by_words(first.score, lead, about.terms) if about.terms else 0.0
    nearest = similarity.compare_piece(first.start, first.end)
    posts = evidence.similarities.values()
    return estimate_answering(
        AnsweringFeatures(
            score=first.score,
            lead=lead,
            clear_lead=first.score - max(others) if others else _LONELY_LEAD,
            rank=about.rank,
            cosine=about.cosine,
            held=about.held,
            terms=about.terms,
            weakest=float(np.sort(nearest)[:2].mean()),
            advantage=about.maxsim - sum(one.post for one in posts) / len(posts),
            strongest=max(one.strongest for one in posts),
            tokens=len(nearest),
            foreign=float(detect_language(first.text) != detect_language(asked.text)),
        )
    )


def _fit_period(one: ExtractCandidate, period: Period) -> int:
    """1 for a piece of a post of the period, or that names it, 0 for an older one, -1 for one that came later."""
    posted, slack = one.source.passage.date, timedelta(days=period.slack)
    if period.words in one.text.lower().replace("ё", "е"):
        return 1
    if period.until is not None and posted >= period.until + slack:
        return -1
    return int(period.since is None or posted >= period.since - slack)


def is_outdated_plan(piece: ExtractCandidate, now: datetime) -> bool:
    """Whether a piece names a day that lay ahead when posted and has passed since; "from 1 May" holds after it."""
    if _FROM_DAY.search(piece.text):
        return False
    posted, days = piece.source.passage.date.date(), list[date]()  # of a span the last
    for one in find_dates(piece.text.lower()):
        full = one.pair or (one.fields and one.fields[1] and one.fields[2])
        if full and (period := one.read(posted + YEARLESS_AHEAD)):
            days.append(period.until - timedelta(days=1) if one.pair else period.since)
    return bool(days) and posted < max(days) < now.date()


def quote_piece(piece: ExtractCandidate) -> Sentence:
    """Convert a piece to a sentence of the answer."""
    return quote_span(piece.source.passage, (piece.start, piece.end))


def quote_span(of: Passage | Post, span: TextSpan) -> Sentence:
    """Quote a span word for word, cited at its place in the post; words of a poll are said to be one's."""
    quote, poll = of.text[slice(*span)], find_poll(of)
    of_poll = poll is not None and span[0] < poll[1] and poll[0] < span[1]
    text = f"{POLL_LABELS[detect_language(quote)]} {quote}" if of_poll else quote
    if isinstance(of, Passage):
        return Sentence(text, (of.cite(span),))
    return Sentence(text, (Citation(of.key, quote, *span, of.date, of.find_media_span(*span)),))


def quote_earlier_piece(ranked: RankedPieces, question: Question) -> Sentence | None:
    """Quote the piece that the first supersedes, as an earlier one; None without one, or where it says the same."""
    piece = ranked.earlier
    if piece is None or len(piece.text) > MAX_FRAMED_QUOTE_LENGTH:
        return None
    before = extract_values(piece.text)
    if before and before <= extract_values(ranked.pieces[0].text):
        return None
    return frame_quote(quote_piece(piece), "earlier", question)


_MAX_SERIES_LINES = 5  # values of a series that are shown
_MAX_CANDIDATES = 3  # a judgement takes seconds on a processor
# Posts that a refusal offers, how likely the best piece must answer, and by words alone what share of the question's
# it must hold. Of 130 refused questions with an answer the best two hold the right post for 65, for 62 from here;
# of 1,134 questions about other things half are below.
MAX_NEAR, _NEAR, _NEAR_TERMS = 2, 0.2, 0.1


def rank_evidence(question: Question, plan: Plan, evidence: Evidence, rag: Engine) -> RankedPieces:
    """Rank the pieces of the evidence for a question and its plan."""
    weight = rag.lexical.statistics(question.viewer.channels).weight
    text, aliases = plan.asked or question.text, plan.aliases
    # the name of who holds an office is the answer, no other word for it
    if detect_answer_type(text)[0] is AnswerType.PERSON:
        aliases = tuple((term, name) for term, name in aliases if term.isascii() != name.isascii())
    asked = QueryTerms.of(text, weight, aliases)
    if plan.kind is Kind.WHEN:
        return rank_pieces(asked, evidence, MAX_FRAMED_QUOTE_LENGTH)
    return rank_pieces(asked, evidence, MAX_SENTENCE_LENGTH, parse_period(question.text, question.asked_at))


def extract_draft(question: Question, plan: Plan, ranked: RankedPieces, rag: Engine) -> Draft:
    """Quote the best piece of the evidence where it surely answers, the best ones where it may; else an empty draft."""
    likely, dated = ranked.likely, plan.kind is Kind.WHEN
    certainty, best = rag.calibration.grade(likely), next(iter(ranked.pieces), None)
    compared = {one.source.passage: one.features.is_compared for one in ranked.pieces}  # in the order of the pieces

    def is_near(passage: Passage) -> bool:
        if compared[passage]:
            return likely >= _NEAR
        words = frozenset(tokenize(passage.text))  # without the title of the channel, which all its posts have
        return ranked.asked.matched_share(words) + ranked.asked.similar_share(words) >= _NEAR_TERMS

    near = tuple(islice(filter(is_near, compared), MAX_NEAR))  # about the question, read no further than needed
    if best is None or certainty is Certainty.NONE:
        return Draft((), likely, certainty=Certainty.NONE, near=near)
    # by words alone the kind of the value must be there as well
    if ranked.is_contested or ranked.in_other_language or not (best.features.is_compared or best.holds):
        certainty = Certainty.PROBABLE
    if ranked.series:
        newest = map(quote_piece, ranked.series[: -_MAX_SERIES_LINES - 1 : -1])
        lines = fit_dated_lines(((question.localize(one.citations[0].date), one) for one in newest), question.lang)
        return Draft(tuple(reversed(lines)), likely, certainty=certainty, near=near)
    sure = certainty is Certainty.SURE
    most = 1 if dated or sure else rag.settings.answer.sentences
    pieces = ranked.select(most, whole=plan.whole)
    listed = ranked.asked.want is AnswerType.LIST  # each post may name a part of what is asked for
    sentences = [replace(quote_piece(piece), further=n > 0 and not listed) for n, piece in enumerate(pieces)]
    if dated or (sure and is_outdated_plan(best, question.asked_at)):  # else the view adds the days of the posts
        sentences = [frame_quote(one, "posted", question) for one in sentences]
    if not dated and (earlier := quote_earlier_piece(ranked, question)):
        first, *rest = sentences
        sentences = [first, earlier]
        for one in rest:
            if len(sentences) < most and sum(len(s.text) for s in (*sentences, one)) <= MAX_ANSWER_LENGTH:
                sentences.append(one)
    judged = list[ExtractCandidate]()  # a model may judge the pieces that are shown, then the next best
    asked_of_model = () if dated or rag.writer is None else (*pieces, *ranked.pieces)
    for candidate in asked_of_model:
        if len(judged) < _MAX_CANDIDATES and not any(candidate.overlaps(other) for other in judged):
            judged.append(candidate)
    candidates = tuple(map(quote_piece, judged))
    return Draft(tuple(sentences), likely, certainty=certainty, candidates=candidates, near=near)
