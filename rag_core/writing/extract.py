"""Extractive answers: the one to three pieces of the evidence that answer best, word for word.

Posts of one channel that give the same attribute of the same thing (a price, hours, a place, a person) are a series:
of these the newest holds, and the one before it is shown as an earlier value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import takewhile

from rag_core.dates.parse import Period, find_dates
from rag_core.text.answer_type import (
    AnswerType,
    asks_for_changes,
    asks_for_count,
    asks_for_measure,
    asks_of_topic,
    contains_answer_type,
    counts_what_is_asked,
    extract_asking_stems,
    extract_values,
    leaves_reason_open,
    names_a_role,
)
from rag_core.text.language_detection import detect_language
from rag_core.text.morphology import read_word
from rag_core.text.passage_header import extract_title_and_topic
from rag_core.text.polls import POLL_LABELS, find_poll
from rag_core.text.query_terms import QueryTerms, is_asking_stem
from rag_core.text.sentences import MAX_ANSWER_LENGTH, MAX_SENTENCE_LENGTH, TextSpan, split_sentences
from rag_core.text.stem_similarity import measure_stem_similarity
from rag_core.text.tokens import tokenize
from rag_core.types import Citation, Evidence, Passage, Post, PostKey, Sentence
from rag_core.verification.subject_comparison import names_thing, speaks_of_other_thing
from rag_core.writing.extract_candidates import (
    MAX_SENTENCE_GAP,
    VAGUE_TYPES,
    ExtractCandidate,
    extend_forward,
    rank_candidates,
)
from rag_core.writing.phrases import MAX_FRAMED_QUOTE_LENGTH, format_earlier

_SAME_POST_BONUS, _ADJOINING_BONUS = 2.0, 1.0

# Attributes that change; of an event the best post answers, not the newest.
_CHANGING_TYPES = frozenset(
    {
        AnswerType.PRICE, AnswerType.HOURS, AnswerType.PHONE, AnswerType.PLACE, AnswerType.PERSON, AnswerType.NUMBER,
        AnswerType.STATE, AnswerType.YES_NO, AnswerType.DATE,
    }
)  # fmt: skip
# Of these a newer value of perhaps the same thing makes the older one doubtful.
_VALUE_TYPES = frozenset({AnswerType.PRICE, AnswerType.HOURS, AnswerType.PHONE})
_MEASURED_TYPES = frozenset({AnswerType.PRICE, AnswerType.HOURS})
# Without a value of these types in the piece nothing is sure.
_CERTAIN_TYPES = _VALUE_TYPES | {
    AnswerType.EMAIL, AnswerType.NUMBER, AnswerType.LIST, AnswerType.NAME, AnswerType.PERSON, AnswerType.PLACE,
    AnswerType.DATE,
}  # fmt: skip
_SERIES_TOPIC = 0.85  # share of the best post's topic that a post of the series has, and its piece of that of the best
_CONTESTED_TOPIC = 0.4  # as _SERIES_TOPIC, of a later value that makes the best doubtful unless that has every term
_COMPLETE = 0.99
_FEW_SOURCES = 3  # of ten: a term of more of them tells nothing
_CHANGE_TOPIC, _CHANGE_OWN = 0.6, 0.5  # as _SERIES_TOPIC, for a later piece that says that something has changed
# Of the question's weight: what a later post may say less than the best piece, and what a sure piece says itself.
_RIVAL_SLACK, _SURE_TERMS, _REPLACED_TERMS = 0.1, 0.55, 0.75
# Of the most that a piece has of the topic: what one about its status has, and a later one; the bonus of the newest.
_STATUS_OWN, _FOLLOWING_OWN, _NEWEST_BONUS = 0.9, 0.35, 3.5
_SEVERAL = 2
_MANY_ITEMS = 4  # of a sentence that counts things
_BOUND_SHARE = 0.3  # of the terms of a piece, in the sentence with the value
_FEW_TERMS = 2
_PERIOD_BONUS = 1.5
_FAR_BEHIND = 4.0  # of the first score: then more of the first post says more than the next post
# Of the first piece: what a closest piece of another post has of its topic, and how far its score may be behind. Of 383
# probable answers two of 240 lost what was right by this, and a quarter of the wrong further lines went.
_LEAST_TOPIC, _TOO_FAR_BEHIND = 0.4, 5.0
_NEXT = re.compile(r"\b(?:следующ\w+|ближайш\w+|next|upcoming|coming)\b", re.IGNORECASE)
_COMING = re.compile(rf"{_NEXT.pattern}|\bwhen(?:['’]?s| is| are| will)\b", re.IGNORECASE)
_RUSSIAN_WORD = re.compile(r"[а-яё]+")
_FROM_DAY = re.compile(r"\b(?:с|со|from|since)\s\d{1,2}\s(?!\w{1,20}\s(?:по|до|to|until)\b)\w", re.IGNORECASE)
_MAX_COMPARED = 10  # best pieces whose thing is compared with the one asked about
_MAX_DATED = 20  # best pieces that are read for days
_REGULAR = re.compile(
    r"\b(?:every|each|weekly|monthly|daily|(?:mon|tues|wednes|thurs|fri|satur|sun)days|кажд\w+|ежедневно|еженедельно|"
    r"ежемесячно|по (?:понедельник|вторник|сред|четверг|пятниц|суббот|воскресень|будн|выходн)\w+)\b",
    re.IGNORECASE,
)
_RECENT = timedelta(days=60)  # a post may tell the next of what is held every month or two
_AHEAD = timedelta(days=300)  # a day without a year is the one before this long after the post
_CHANGE = re.compile(
    r"\b(?:теперь|отныне|исправлени\w+|поправк\w+|уточнени\w+|апдейт|upd|пере(?:ех|езж|нес|нос)\w+|отмен\w+|"
    r"больше не|вместо|(?:по|у)?дорожа\w+|(?:по)?дешев(?:л|е)\w+|поднима\w+|подня(?:л|т)\w*|повы(?:си|ша|ше)\w+|"
    r"сни(?:зи|жа|же)\w+|вырос\w*|вернул\w+|(?:из|с)мен(?:ил|ен|я)\w+|продл(?:и|е)\w+|сдвин\w+|обновл(?:ё|е)н\w+|"
    r"с \d{1,2} (?:янв|фев|мар|апр|ма[йя]|июн|июл|авг|сен|окт|ноя|дек)\w*|со? (?:понедельник|вторник|сред[ыу]|"
    r"четверг|пятниц|суббот|воскресень|завтра|сегодня|следующ|нового)\w*|нов(?:ая|ый|ое|ые|ому) (?:дат|срок|цен|"
    r"адрес|врем|мест|график|режим|расписани|тариф|прайс|номер|телефон|час)\w*|отлож\w+|не состоится|now|"
    r"двига\w+|передума\w+|вс[её]-таки|corrections?|updated?|delayed|(?:pushed|put) back|after all|u-turn|"
    r"postponed|put off|rescheduled|brought forward|re-?open\w*|moved?|"
    r"no longer|instead|extended|goes (?:up|down|from)|"
    r"(?:goes|went|gone) (?:up|down)|rises?|raised?|increas\w+|chang(?:e|es|ed)|"
    r"is back|are back|cancel\w+|as of|effective|(?:from|starting) (?:\d{1,2} [A-Z][a-z]+|next|tomorrow|today|"
    r"[A-Z][a-z]+day)|new (?:price|rate|fee|time|date|place|hours|schedule|number|address|venue)s?)\b",
    re.IGNORECASE,
)
# Whether something works, is open or is there: the newest post that says one or the other of it holds.
_STATE = re.compile(
    r"\b(?:(?:не)?работа(?:ет|ют|л[аио]?)|заработал\w*|(?:за|от|при)кры(?:т\w*|л\w*|ва\w+)|сломан\w*|сломал\w*|"
    r"почин\w+|отремонтир\w+|ремонт\w*|верну\w+|возобнов\w+|восстанов\w+|запусти\w+|приостанов\w+|отмен\w+|"
    r"готов[аыо]?|заверш\w+|законч\w+|снова|опять|ещё|еще|уже|open(?:s|ed|ing)?|re-?open\w*|clos(?:e|es|ed|ing)|"
    r"shut|works?|working|worked|broken|out of order|fixed|repair\w*|back|resum\w+|restor\w+|suspend\w*|cancel\w*|"
    r"ready|finished|again|still|yet|наш(?:[её]л|л)\w*|потеря\w+|объяви\w+ся|продан\w*|продал\w*|found|lost|missing|sold)\b",
    re.IGNORECASE,
)
_SUBJECT = 0.75  # of the weight of the terms that are no words of a state
_HEARSAY = re.compile(
    r"\b(?:говорят|поговаривают|слух(?:и|ам|ов)|якобы|вроде бы|reportedly|allegedly|supposedly|rumou?r\w*|they say|"
    r"word is|unconfirmed|неподтвержд\w+)\b",
    re.IGNORECASE,
)
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


_DEFINITION_ASKED = re.compile(
    r"\W*(?:who|what|кто|что)(?:['’]?s| is| are| was| were| так\w+) (?:(?:an?|the|это) )?([\w'’-]{2,40})\W*",
    re.IGNORECASE,
)
_DEFINITION_BONUS, _MAX_DEFINITION_LENGTH = 3.0, 100


def _compile_definition(question: str) -> re.Pattern[str] | None:
    """Compile a pattern of what a post says of a thing, for "who is X" and "what is X": "X is", "X — это", "X, our"."""
    asked = _DEFINITION_ASKED.fullmatch(question[:_MAX_DEFINITION_LENGTH])
    name = re.escape(asked[1]) if asked else ""
    return (
        re.compile(rf"(?<!\w){name}[»”\"]?\s?(?:[,(—–]|- |(?:is|was|are|were|это)\b)", re.IGNORECASE) if name else None
    )


def announces_change(text: str) -> bool:
    """Whether a text says that something was changed, corrected, put off or cancelled."""
    return bool(_CHANGE.search(text))


@dataclass(frozen=True, slots=True)
class RankedPieces:
    """Pieces of the evidence, best first.

    `earlier`: pieces that the first of `pieces` supersedes, newest first, which are not among `pieces`; `contested`:
    the first of `pieces` is newer than the best one, the second, and gives a value of perhaps the same thing;
    `series`: all pieces of the series, oldest first, where the question asks how a value changed; `dated_otherwise`:
    the first of `pieces` is not of the time that the question names; `closest`: the best piece, if it is superseded;
    `passed`: a coming day is asked for, and the first of `pieces` names only days before the question, or none and is
    old; `rival`: a
    piece of a later post that perhaps supersedes the first; `succeeded`: the first of `pieces` was found by the words
    of the second, and not by those of the question (`rag_core/context/superseding_posts.py`).
    """

    asked: QueryTerms
    pieces: tuple[ExtractCandidate, ...]
    earlier: tuple[ExtractCandidate, ...] = ()
    contested: bool = False
    series: tuple[ExtractCandidate, ...] = ()
    dated_otherwise: bool = False
    closest: ExtractCandidate | None = None
    passed: bool = False
    rival: ExtractCandidate | None = None
    succeeded: bool = False

    @property
    def may_be_superseded(self) -> bool:
        """Whether a later post may supersede the first piece: it gives what changes, and no time is named."""
        timed = self.dated_otherwise or _NAMED_TIME.search(self.asked.text)
        return bool(self.pieces) and not (self.contested or self.series or timed) and self.asked.want in _CHANGING_TYPES

    def put_successor_first(self, piece: ExtractCandidate) -> RankedPieces:
        """Put a piece of a later post first that probably supersedes the first one."""
        first, others = self.pieces[0], (one for one in self.pieces if one.source.number != piece.source.number)
        return replace(self, pieces=(replace(piece, score=first.score), *others), contested=True, succeeded=True)

    @property
    def best(self) -> ExtractCandidate | None:
        """Piece that answers best, whatever is newer."""
        return self.closest or (self.pieces[self.contested] if self.pieces else None)

    @property
    def margin(self) -> float:
        """Score of the best piece less that of the best piece of another post; 5 without one."""
        best = self.best
        others = [one.score for one in self.pieces if best and one.source.number != best.source.number]
        return best.score - max(others) if best and others else 5.0

    @property
    def may_not_answer(self) -> bool:
        """Whether the best piece may not answer, or no longer.

        A newer value may hold, or the day that it names has passed; the value is not of the type or the thing that is
        asked for; it is hearsay or a question itself; or it is of another language.
        """
        best, want = self.best, self.asked.want
        if best is None:
            return False
        unsaid = bool(best.features.question) or self._asked_itself or self._split
        unsaid = unsaid or leaves_reason_open(best.text) or bool(_HEARSAY.search(best.text))
        uncounted = (
            want is AnswerType.NUMBER
            and asks_for_count(self.asked.text)
            and not asks_for_measure(self.asked.text)
            and not counts_what_is_asked(best.text, self.asked.text)
        )
        timed = want is AnswerType.DATE and contains_answer_type(AnswerType.HOURS, best.text, self.asked.text)
        done_by_role = want is AnswerType.PERSON and names_a_role(best.text, self.asked.text)
        valueless = want in _CERTAIN_TYPES and not (best.holds or timed or done_by_role)
        contested = self.contested and (self.succeeded or not self._changed)
        untimely = contested or self.dated_otherwise or self.passed or bool(self.rival)
        return untimely or self.in_other_language or unsaid or uncounted or valueless

    @property
    def _split(self) -> bool:
        """Whether the piece says what a yes-or-no question asks of its subject before it names the subject.

        "Free, as ever. Bus 27 runs late": that is free which the post named before.
        """
        text, (*subject, predicate) = self.best.text if self.best else "", self.asked.order or ("",)
        if self.asked.want is not AnswerType.YES_NO or not subject:
            return False
        stems = [frozenset(tokenize(text[a:b])) for a, b in split_sentences(text)]
        said = [n for n, found in enumerate(stems) if self.asked.match(predicate, found)]
        named = [n for n, found in enumerate(stems) if any(self.asked.match(term, found) for term in subject)]
        return bool(said and named) and said[-1] < named[0]

    @property
    def _asked_itself(self) -> bool:
        """Whether all terms of the question that the best piece has stand in questions that it asks itself."""
        text, terms = self.best.text if self.best else "", self.asked.share.keys()
        sentences = [text[a:b] for a, b in split_sentences(text)]
        met = [one for one in sentences if not terms.isdisjoint(tokenize(one))]
        return bool(met) and all(one.rstrip().endswith("?") for one in met)

    @property
    def _changed(self) -> bool:
        """Whether the newer value says that it changed, and the older one is surely of the thing that is asked for."""
        newer, older = self.pieces[:2]
        return older.own >= _REPLACED_TERMS and newer.useful and announces_change(newer.text)

    @property
    def disputable(self) -> bool:
        """Whether the best piece says too little of a brief question to be sure, or may say it of something else.

        Its value stands in a sentence of its own, or a later post of its channel says as much. One or two terms beside
        "what" tell too little of what is asked for.
        """
        best, asked = self.best, self.asked
        if best is None:
            return False
        own = best.own
        if self._said < _SURE_TERMS or (asked.want in _MEASURED_TYPES and self._bound < _BOUND_SHARE * own):
            return True
        definition = _compile_definition(asked.text)
        vague = asked.want is AnswerType.ANYTHING and len(asked.share) <= _FEW_TERMS and asks_of_topic(asked.text)
        undefined = definition is not None and not definition.search(best.text)
        return undefined or vague or any(one.own >= own - _RIVAL_SLACK and _is_later(one, best) for one in self.pieces)

    @property
    def _said(self) -> float:
        """Weight share of the terms, but those of the channel's title, that one sentence of the best piece has."""
        text, header = (self.best.text, self.best.source.passage.header) if self.best else ("", "")
        title, topic = map(tokenize, extract_title_and_topic(header))
        own = self.asked.share.keys() - frozenset(title)
        asking = extract_asking_stems(self.asked.text)
        if own and all(term in asking or is_asking_stem(term) for term in own):
            return 0.0  # the title of a channel and a word of asking tell nothing
        asked = replace(self.asked, share={term: self.asked.share[term] for term in self.asked.order if term in own})
        said = [frozenset([*topic, *tokenize(text[a:b])]) for a, b in split_sentences(text)]
        most = max((asked.matched_share(found) + asked.similar_share(found) for found in said), default=0.0)
        return most / sum(asked.share.values()) if asked.share else 1.0

    @property
    def _bound(self) -> float:
        """Weight share of the question's terms in a sentence of the best piece that itself holds the answer type.

        A heading that ends with a colon belongs to what follows.
        """
        text, asked = self.best.text if self.best else "", self.asked
        heading, bound = frozenset[str](), 0.0
        for start, end in split_sentences(text):
            found = frozenset(tokenize(text[start:end]))
            if contains_answer_type(asked.want, text[start:end], asked.text):
                found |= heading
                bound = max(bound, asked.matched_share(found) + asked.similar_share(found))
            heading = found if text[end - 1] == ":" else heading
        return bound

    @property
    def in_other_language(self) -> bool:
        """Whether the best piece is of another language than the question."""
        return self.best is not None and detect_language(self.best.text) != detect_language(self.asked.text)

    def select(self, most: int, margin: float) -> list[ExtractCandidate]:
        """Select at most `most` pieces without overlaps, together at most MAX_ANSWER_LENGTH characters long.

        A further piece is added only if its score is within `margin` of the first.
        """
        if not self.pieces:
            return []
        first, *others = self.pieces
        ranked = sorted(others, key=lambda one: -_score_beside_first(one, first))
        near = takewhile(lambda one: _score_beside_first(one, first) >= first.score - margin, ranked)
        open_end = self.asked.want is AnswerType.ANYTHING
        return _fit_pieces(first, (p for p in near if p.useful or (open_end and _adjoins(p, first))), most)

    def select_closest(self, most: int, evidence: Evidence, *, chained: bool = False) -> list[ExtractCandidate]:
        """Select the best piece of each of at most `most` posts, within the same limit of length.

        A post that says much less of what was asked than the first, or is too far behind it, is left out, unless the
        posts are `chained`, so that each says a part; the one that the search ranks first is else among them. Short
        pieces are extended by what follows in the post. Where the next post is far behind, a second piece of the first
        comes before it.
        """
        if not self.pieces:
            return []
        best_of_post = {one.source.passage.key: one for one in reversed(self.pieces)}
        first = self.pieces[0]
        others = sorted((one for one in best_of_post.values() if one is not first), key=lambda one: -one.score)
        others = [one for one in others if one.source.passage.key != first.source.passage.key]
        if not chained:
            least, last = _LEAST_TOPIC * first.topic, first.score - _TOO_FAR_BEHIND
            others = [one for one in others if one.topic >= least and one.score >= last]
        lang = detect_language(self.asked.text)
        if detect_language(first.text) == lang:  # a post of the other language shares a number or a name by chance
            others = [one for one in others if one.features.best or detect_language(one.text) == lang]
        if not any(one.features.best for one in (first, *others[: most - 1])):
            others[most - 2 : most - 2] = [one for one in others if one.features.best][:1]
        if self.rival:
            others = [self.rival, *(one for one in others if one.source.number != self.rival.source.number)]
        first, *others = (extend_forward(one, evidence, MAX_ANSWER_LENGTH // most) for one in (first, *others))
        if not others or others[0].score < first.score - _FAR_BEHIND:
            more = (one for one in self.pieces if one.source.number == first.source.number and not one.overlaps(first))
            others[:0] = sorted(more, key=lambda one: -one.score)[:1]
        return _fit_pieces(first, others, most)

    def select_latest(self, most: int, evidence: Evidence) -> tuple[list[ExtractCandidate], bool]:
        """Select the best piece of each of at most `most` posts, within the same limit of length; newer rank higher.

        Of the posts about the topic each ranks higher by its place in their order: those that say nearly as much of it
        as any, and later ones of the best one's channel that name its most telling word. Where these are several, only
        they are selected, else the others as well. Also returned: whether all are about it, and the newest comes first.
        """
        best: dict[PostKey, ExtractCandidate] = {}
        for one in sorted((*self.pieces, *self.earlier), key=lambda one: -one.score):
            best.setdefault(one.source.passage.key, one)
        closest = next(iter(best.values()), None)
        if closest is None:
            return [], False
        named = [term for term in self.asked.share if _names(closest.text, term, self.asked)]
        rarest = max(named, key=self.asked.share.__getitem__, default="")
        own = max(one.own for one in best.values())
        about = [
            one
            for one in best.values()
            if one.own >= _STATUS_OWN * own
            or (one.own >= _FOLLOWING_OWN * own and _is_later(one, closest) and _names(one.text, rarest, self.asked))
        ]
        order = [one for one in about if not _only_counts(one.text, rarest, self.asked)]
        order.sort(key=lambda one: one.source.passage.date)
        newness = {one.source.number: n / max(1, len(order) - 1) for n, one in enumerate(order)}
        ranked = sorted(best.values(), key=lambda one: -one.score - _NEWEST_BONUS * newness.get(one.source.number, 0.0))
        first, *others = (extend_forward(one, evidence, MAX_ANSWER_LENGTH // most) for one in ranked[: 2 * most])
        chosen = _fit_pieces(first, others, most)
        numbers = {one.source.number for one in about}
        told = [one for one in chosen if one.source.number in numbers]
        shown = {one.source.number for one in told}
        newest_first = all(
            one.source.passage.date <= first.source.passage.date for one in order if one.source.number in shown
        )
        if len(told) >= _SEVERAL:
            return told, newest_first
        return chosen, newest_first and len(told) == len(chosen)


def _fit_pieces(first: ExtractCandidate, others: Iterable[ExtractCandidate], most: int) -> list[ExtractCandidate]:
    chosen, characters_left = [first], MAX_ANSWER_LENGTH - len(first.text)
    for candidate in others:
        if len(chosen) == most:
            break
        if len(candidate.text) <= characters_left and not any(candidate.overlaps(other) for other in chosen):
            chosen.append(candidate)
            characters_left -= len(candidate.text)
    return chosen


def rank_pieces(
    asked: QueryTerms,
    evidence: Evidence,
    longest: int = MAX_SENTENCE_LENGTH,
    period: Period | None = None,
    now: datetime | None = None,
) -> RankedPieces:
    """Rank the pieces of the evidence; the newest of a series comes first. `longest` is in characters.

    `period`: the time that the question names: posts of it are preferred, and the value of that time answers. `now`:
    the time of the question; where a coming day is asked for, pieces that name only earlier ones come later.
    """
    ranked = _drop_other_things(asked, rank_candidates(asked, evidence, longest))
    if definition := _compile_definition(asked.text):
        ranked = sorted(ranked, key=lambda one: -one.score - _DEFINITION_BONUS * bool(definition.search(one.text)))
    if period is not None and not _CALENDAR_TIME.search(period.words):
        period = None  # "on Sunday" is a part of the topic
    if period is not None:
        ranked = _prefer_period(ranked, period)
    coming = now if now and asked.want in (AnswerType.DATE, AnswerType.HOURS) and _asks_for_coming(asked.text) else None
    next_one = bool(_NEXT.search(asked.text))
    if coming:
        dated = [(one.score + _PERIOD_BONUS * _fit_coming(one, coming, next_one), one) for one in ranked[:_MAX_DATED]]
        ranked[:_MAX_DATED] = [one for _, one in sorted(dated, key=lambda pair: -pair[0])]
    if ranked and asked.want in VAGUE_TYPES:
        ranked[0] = extend_forward(ranked[0], evidence, longest)
    timeless = period is None and bool(_NAMED_TIME.search(asked.text))
    if not ranked or asked.want not in _CHANGING_TYPES or timeless:
        return RankedPieces(asked, tuple(ranked))
    newest, *earlier = _find_series(asked, ranked, period)
    if asks_for_changes(asked.text) and earlier:
        return RankedPieces(asked, tuple(ranked), series=(*reversed(earlier), newest))
    superseded = {one.source.number for one in earlier}
    first = replace(newest, score=ranked[0].score)
    rest = (one for one in ranked if one is not newest and one.source.number not in superseded)
    pieces = (first, *rest)
    later = None
    if asked.want in _VALUE_TYPES and period is None:
        told = _list_telling_terms(asked, first, evidence)
        later = next((one for one in pieces if _may_supersede(one, first, told)), None)
    if later is None:
        otherwise = period is not None and _fit_period(first, period) < 1
        passed = bool(coming and _fit_coming(first, coming, next_one) < 0)
        return RankedPieces(asked, pieces, tuple(earlier), dated_otherwise=otherwise, closest=ranked[0], passed=passed)
    pieces = (replace(later, score=first.score), *(one for one in pieces if one is not later))
    return RankedPieces(asked, pieces, tuple(earlier), contested=True)


def _drop_other_things(asked: QueryTerms, ranked: list[ExtractCandidate]) -> list[ExtractCandidate]:
    """Drop what speaks of another thing than the one asked about, where the best piece speaks of that itself."""
    lang = detect_language(asked.text)
    if not ranked or not ranked[0].holds or not names_thing(asked.text, ranked[0].text, lang):
        return ranked
    own, rest = ranked[0].source.number, ranked[1:_MAX_COMPARED]
    others = {one.source.number for one in rest if speaks_of_other_thing(asked.text, one.text, lang)} - {own}
    return [one for one in ranked if one.source.number not in others]


def _prefer_period(ranked: Sequence[ExtractCandidate], period: Period) -> list[ExtractCandidate]:
    """Put pieces of the period first; of one day nothing else is left where a piece of that day comes first."""
    ranked = sorted(ranked, key=lambda one: -one.score - _PERIOD_BONUS * _fit_period(one, period))
    one_day = period.since and period.until and period.until - period.since <= timedelta(days=1)
    if ranked and one_day and _fit_period(ranked[0], period) > 0:
        return [one for one in ranked if _fit_period(one, period) > 0]
    return ranked


def _fit_period(one: ExtractCandidate, period: Period) -> int:
    """1 for a piece of a post of the period, or that names it, 0 for an older one, -1 for one that came later."""
    posted, slack = one.source.passage.date, timedelta(days=period.slack)
    if period.words in one.text.lower().replace("ё", "е"):
        return 1
    if period.until is not None and posted >= period.until + slack:
        return -1
    return int(period.since is None or posted >= period.since - slack)


def _asks_for_coming(question: str) -> bool:
    """Whether a question about a day asks for a coming one: by "next", or by its verb."""
    words = _RUSSIAN_WORD.findall(question.lower())
    return bool(_COMING.search(question)) or any(read_word(word)[0].tense == "futr" for word in words)


def _list_days(piece: ExtractCandidate) -> list[date]:
    """List the days of a month that a piece names, as they were meant when it was posted; of a span its last."""
    named = [
        (one, one.read((piece.source.passage.date + _AHEAD).date()))
        for one in find_dates(piece.text.lower())
        if one.pair or (one.fields and one.fields[1] and one.fields[2])
    ]
    lasting = [days.until - timedelta(days=1) for one, days in named if one.pair and days and days.until]
    return [*lasting, *(days.since for one, days in named if not one.pair and days and days.since)]


def _fit_coming(piece: ExtractCandidate, now: datetime, next_one: bool) -> int:
    """-1 for a piece that names only days before now; where the next of something is asked for, 1 for a coming day.

    An old post that names no day does not know the next one, unless that is held every week or month: -1 as well.
    """
    if days := _list_days(piece):
        return -1 if max(days) < now.date() else int(next_one)
    old = piece.source.passage.date < now - _RECENT
    return -int(next_one and old and not _REGULAR.search(piece.text))


def is_outdated_plan(piece: ExtractCandidate, now: datetime) -> bool:
    """Whether a piece names a day that lay ahead when it was posted and has passed since.

    What holds from a day on ("from 1 May") holds after it.
    """
    days = _list_days(piece) if not _FROM_DAY.search(piece.text) else []
    return bool(days) and piece.source.passage.date.date() < max(days) < now.date()


def _find_series(
    asked: QueryTerms, ranked: Sequence[ExtractCandidate], period: Period | None
) -> list[ExtractCandidate]:
    """Find the series of the best piece: the best piece of each post that gives the same attribute, newest first.

    A later post that says that something has changed, or counts what is asked for, may name less of the topic.
    """
    first = ranked[0]
    own = first.own
    met = [term for term in asked.share if term in frozenset(tokenize(first.text))]
    rarest = max(met, key=lambda term: asked.share[term], default="")
    coming = asked.want is not AnswerType.DATE or bool(_NEXT.search(asked.text))
    subject = _list_subject(asked)
    best: dict[int, ExtractCandidate] = {first.source.number: first}
    for one in ranked:
        posted = one.source.passage.date
        if not _is_same_channel(one, first) or not (one.holds or asked.want is AnswerType.YES_NO):
            continue
        if period is not None and period.until is not None and posted >= period.until:
            continue
        later = posted > first.source.passage.date
        changed = (
            later
            and (not rarest or _names(one.text, rarest, asked))
            and (
                announces_change(_read_around(one) if asked.want in _VALUE_TYPES else one.text)
                or (asked.want is AnswerType.NUMBER and counts_what_is_asked(one.text, asked.text))
            )
        )
        if later and subject and _tells_state(one, asked, subject):
            best.setdefault(one.source.number, one)
        if not changed and (not one.holds or not first.holds or not coming):
            continue
        loosely = changed or asks_for_changes(asked.text)
        shares = (_CHANGE_TOPIC, _CHANGE_OWN) if loosely else (_SERIES_TOPIC, _SERIES_TOPIC)
        if one.topic >= shares[0] * first.topic and one.own >= shares[1] * own:
            best.setdefault(one.source.number, one)
    return sorted(best.values(), key=lambda one: one.source.passage.date, reverse=True)


def _names(text: str, term: str, asked: QueryTerms) -> bool:
    """Whether a text names a term of the question, in any form: "dredger" for "dredge"."""
    found = frozenset(tokenize(text))
    return asked.match(term, found) > 0 or measure_stem_similarity(term, found) > 0


def _only_counts(text: str, term: str, asked: QueryTerms) -> bool:
    """Whether a text names a term only among things that it counts: "in numbers: one bridge, two lifts, one cat"."""
    naming = [text[a:b] for a, b in split_sentences(text) if _names(text[a:b], term, asked)]
    items = [re.split(r"[,;:]", sentence) for sentence in naming]
    return bool(items) and all(
        len(some) >= _MANY_ITEMS and 2 * sum(bool(extract_values(item)) for item in some) > len(some) for some in items
    )


def _read_around(one: ExtractCandidate) -> str:
    """Read a piece, with all of its post where that is short: "Prices go up", and then the list."""
    text = one.source.passage.text
    return text if len(text) <= MAX_ANSWER_LENGTH else one.text


def _list_subject(asked: QueryTerms) -> frozenset[str]:
    """List the terms of the thing whose state a yes-or-no question asks for; none for another question."""
    words = _STATE.findall(asked.text) if asked.want in (AnswerType.YES_NO, AnswerType.STATE) else []
    states = frozenset(term for word in words for term in tokenize(word))
    return frozenset(asked.share.keys() - states) if words else frozenset()


def _tells_state(one: ExtractCandidate, asked: QueryTerms, subject: frozenset[str]) -> bool:
    """Whether a sentence of the piece says of the subject that it works, is open or is back, or is not."""
    least = _SUBJECT * sum(asked.share[term] for term in subject)
    for start, end in split_sentences(one.text):
        found = frozenset(tokenize(one.text[start:end]))
        met = sum(asked.share[term] * asked.match(term, found) for term in subject)
        if met >= least and _STATE.search(one.text, start, end):
            return True
    return False


def _list_telling_terms(asked: QueryTerms, first: ExtractCandidate, evidence: Evidence) -> frozenset[str]:
    """List the terms of the best piece that few sources have and the question does not: they tell its thing."""
    counts = Counter(term for source in evidence.sources for term in frozenset(tokenize(source.passage.text)))
    return frozenset(
        term
        for term in tokenize(first.text)
        if counts[term] <= _FEW_SOURCES and term not in asked.share and not any(c.isdigit() for c in term)
    )


def _may_supersede(one: ExtractCandidate, first: ExtractCandidate, told: frozenset[str]) -> bool:
    """Whether a later piece of the channel holds the answer type and says something of the topic.

    One that says that the value changed may name the thing by other words of the best piece.
    """
    if not _is_later(one, first) or not one.holds:
        return False
    if told.intersection(tokenize(one.text)) and announces_change(one.text):
        return True
    if first.own > _COMPLETE:
        return False
    return one.own >= _CONTESTED_TOPIC * first.own and one.topic >= _CONTESTED_TOPIC * first.topic


def _is_same_channel(one: ExtractCandidate, other: ExtractCandidate) -> bool:
    return one.source.passage.key.chat_id == other.source.passage.key.chat_id


def _is_later(one: ExtractCandidate, other: ExtractCandidate) -> bool:
    """Whether a piece is of a later post of the same channel."""
    return _is_same_channel(one, other) and one.source.passage.date > other.source.passage.date


def select_best_pieces(
    asked: QueryTerms, evidence: Evidence, most: int, margin: float, longest: int = MAX_SENTENCE_LENGTH
) -> list[ExtractCandidate]:
    """Select the best pieces of the evidence, best first (see `RankedPieces.select`)."""
    return rank_pieces(asked, evidence, longest).select(most, margin)


def _adjoins(candidate: ExtractCandidate, first: ExtractCandidate) -> bool:
    gap = max(candidate.start - first.end, first.start - candidate.end)
    return candidate.source.number == first.source.number and gap <= MAX_SENTENCE_GAP


def _score_beside_first(candidate: ExtractCandidate, first: ExtractCandidate) -> float:
    """Score of a further piece: text of the same post gets a bonus, text adjoining the first piece a larger one."""
    same = candidate.source.number == first.source.number
    return candidate.score + _SAME_POST_BONUS * same + _ADJOINING_BONUS * _adjoins(candidate, first)


def quote_piece(piece: ExtractCandidate) -> Sentence:
    """Convert a piece to a sentence of the answer."""
    return quote_span(piece.source.passage, (piece.start, piece.end))


def quote_span(passage: Passage, span: TextSpan) -> Sentence:
    """Quote a span of a passage word for word, cited at its place in the post; words of a poll are said to be one's."""
    quote, at = passage.text[slice(*span)], passage.start + span[0]
    return Sentence(_label_quote(passage, span), (Citation(passage.key, quote, at, at + len(quote), passage.date),))


def quote_post_span(post: Post, span: TextSpan) -> Sentence:
    """Quote a span of a whole post word for word, as `quote_span`."""
    return Sentence(_label_quote(post, span), (Citation(post.key, post.text[slice(*span)], *span, post.date),))


def _label_quote(post: Post | Passage, span: TextSpan) -> str:
    quote, poll = post.text[slice(*span)], find_poll(post)
    of_poll = poll is not None and span[0] < poll[1] and poll[0] < span[1]
    return f"{POLL_LABELS[detect_language(quote)]} {quote}" if of_poll else quote


def quote_earlier_piece(ranked: RankedPieces, lang: str) -> Sentence | None:
    """Quote the value before the newest of a series, in one line that says that it is earlier.

    None where there is none, or where it says the same.
    """
    now = extract_values(ranked.pieces[0].text) if ranked.pieces else frozenset[str]()
    for piece in ranked.earlier:
        before = extract_values(piece.text)
        if not before <= now and len(piece.text) <= MAX_FRAMED_QUOTE_LENGTH:
            sentence = quote_piece(piece)
            return replace(sentence, text=f"{format_earlier(piece.source.passage.date, lang)} {sentence.text}")
    return None
