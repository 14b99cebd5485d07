"""Coming events: what posts announce for the days that a question asks about ("what's on this weekend").

The days that a post names ("28 November", "on Saturday", "tomorrow") are read as they were meant when it was posted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import NamedTuple

from rag_core.dates import find_dates, parse_coming_period, read_coming
from rag_core.dates.calendar_arithmetic import YEARLESS_AHEAD, DateRange, resolve_date_parts
from rag_core.dates.date_tokenizer import MONTH_SHORT, DateMatch
from rag_core.engine import Engine
from rag_core.planning.intents import names_place
from rag_core.retrieval.search import find_titled_channel, resolve_filter
from rag_core.storage import near_duplicates
from rag_core.storage.posts import fetch_passages
from rag_core.text.post_text import find_poll
from rag_core.text.sentences import TextSpan, split_long_span, split_sentences
from rag_core.text.tokens import LETTERS, fold_case, read_word, tokenize
from rag_core.types import Draft, Passage, Plan, PostKey, Question
from rag_core.writing.extract import fit_dated_lines, quote_span
from rag_core.writing.extract_candidates import MAX_SENTENCE_GAP

_ANNOUNCED_AHEAD = timedelta(days=120)  # what was announced earlier is read no more
_WITHOUT_PERIOD = timedelta(days=28)  # "what's coming up?"
_MAX_READ_POSTS, _MAX_COMPARED, _MAX_LINES = 1000, 28, 7  # the newest posts; the soonest events
_MAX_READ_SENTENCES = 400  # that have words of days, 0.5 ms each
_MAX_SENTENCE_LENGTH = 1000  # characters: a longer one is a list or a table
_CONTEXT_LENGTH = 30  # characters read before a date
_MAX_LINE_LENGTH = 160  # characters of a quote
_SHORT_SPAN, _LONG_PERIOD = timedelta(days=3), timedelta(days=20)
# Expressions that are dates only after certain words: "2024", "the last days of".
_NO_EVENT_DAYS = frozenset({"year", "digest", "last"})
_BEFORE_REGULAR = re.compile(r"\b(?:every|each|only|except|black|черн\w+|кажд\w+|только|по|кроме)\s+(?:the\s+)?$")
_BEFORE_BOUND = re.compile(r"\b(?:until|till|by|before|from|since|до|по|к|с|со)\s+(?:the\s+)?$")
_BEFORE_NUMERIC_DAY = re.compile(
    r"(?:^|\b(?:в|во|на|до|к|с|по|от|on|by|for|from|until|till)\s|day,?\s|[а-я]{3,11},\s)$"
)
_DASH = re.compile(r"\s?[-–—]")
_RESCHEDULED = re.compile(
    r"\b(?:пере(?:нос|нес)\w*|отмен\w+|отлож\w+|откладыва\w+|сдвин\w+|сдвига\w+|не состоится|нов(?:ая|ую) дат\w+|"
    r"moved|postponed|put off|put back|rescheduled|cancel\w*|shifted|brought forward|called off|new date)\b",
    re.I,
)
_TOLD_AS_PAST = re.compile(
    r"\b(?:[a-z]{3,}ed|was|were|did|had|came|went|saw|took|got|made|won|lost|held|met|sang|ran|beat|fell|sold|ate|"
    r"photos? from|thanks (?:to|for)|thank you|фото с|итоги|спасибо)\b"
)
_AHEAD_VERBS = re.compile(
    r"\b(?:is|are|be|been|get|gets|will be|need) [a-z]{3,}ed\b|\b(?:need|speed|feed|seed|indeed|shed|bed|red)\b"
)
_MAX_RARE_POSTS = 5  # a term of at most so many posts tells what a post is about
_TODAY = re.compile(r"сегодня|седня|today|tonight")
_NAMED_DAY = re.compile(
    rf"{_TODAY.pattern}|завтра|tomorrow|weekend|выходн|понедельник|вторник|сред|четверг|пятниц|суббот|воскресень|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
)
_DAY_WORDS = re.compile(
    rf"\b(?:{_NAMED_DAY.pattern}|{MONTH_SHORT})|"
    r"(?<![\d.,])\d{1,2}(?:st|nd|rd|th|-?(?:го|ое|е)|\sчисл\w+|[./]\d{1,2}(?![\d%]))\b"
)


class _AskedDays(NamedTuple):
    """Days that are asked for, `until` exclusive; `today`: today alone, so that its news count."""

    since: date
    until: date
    today: bool


class _Event(NamedTuple):
    """Day of an event; `sentence` names it, `span` is quoted; `bound`: it only bounds something, as a deadline does."""

    day: date
    passage: Passage
    span: TextSpan
    sentence: TextSpan
    bound: bool


async def list_coming_events(question: Question, plan: Plan, rag: Engine) -> Draft | None:
    """List what posts announce for the asked days, soonest first; a line begins with the day of the event.

    Where a channel has the topic of the plan in its title, its events; else those of posts that name the topic. A draft
    without sentences: nothing is announced. None: no post names the topic, it is searched for.
    """
    channel, everywhere = await find_titled_channel(plan.topic, question.viewer, rag), replace(plan, topic="")
    channels = plan.channels if channel is None else frozenset({channel})
    named = frozenset(tokenize(plan.topic)) if channel is None else frozenset[str]()
    today = datetime.combine(question.asked_at.date(), time(), question.asked_at.tzinfo)
    period = parse_coming_period(question.text, question.asked_at)
    since = max(today, period.since) if period and period.since else today
    until = period.until if period and period.until else today + _WITHOUT_PERIOD
    recent = replace(plan, channels=channels, since=today - _ANNOUNCED_AHEAD, until=question.asked_at, slack=0)
    only = await resolve_filter(recent, question.viewer, rag)
    places = (await asyncio.to_thread(rag.lexical.all_of, only))[: -_MAX_READ_POSTS - 1 : -1]
    passages = [one for one in (await fetch_passages(rag.archive, places)).values() if not find_poll(one)]
    today_asked = period is not None and since == today and until - since <= timedelta(days=1)
    asked = _AskedDays(since.date(), until.date(), today_asked)
    frequency = rag.lexical.statistics(question.viewer.channels).frequency
    events = await asyncio.to_thread(_find_current_events, passages, named, asked, question, frequency)
    soonest = sorted(events, key=lambda one: one.day)[:_MAX_COMPARED]
    keys = [event.passage.key for event in soonest]
    copies = await near_duplicates.fetch_copies(rag.archive, keys, question.viewer.channels)
    originals, told = list[_Event](), set[PostKey]()
    for event in soonest:
        if event.passage.key not in told:
            originals.append(event)
            if found := copies.get(event.passage.key):
                told.update(one.key for one in found.all)
    quotes = ((one.day, quote_span(one.passage, one.span)) for one in originals[:_MAX_LINES])
    lines = fit_dated_lines(quotes, question.lang)
    if not lines and named:  # what was taken for a name may be another word
        return None if names_place(question.text) else await list_coming_events(question, everywhere, rag)
    return Draft(tuple(lines), 1.0) if lines else Draft()


def _find_current_events(
    passages: Sequence[Passage],
    named: frozenset[str],
    asked: _AskedDays,
    question: Question,
    frequency: Callable[[str], int],
) -> list[_Event]:
    """Find the events of passages, newest first, but those that a later post of their channel moved or cancelled."""
    about = [one for one in passages if named <= frozenset(tokenize(one.text))] if named else passages
    found = list(_find_events(about, asked, question))
    events = [event for event in found if not event.bound] or found

    def list_rare_terms(text: str) -> frozenset[str]:
        terms = (term for term in tokenize(text) if not (term.isdecimal() or _DAY_WORDS.match(term)))
        return frozenset(term for term in terms if frequency(term) <= _MAX_RARE_POSTS)

    moved = []
    for one in passages:
        if _RESCHEDULED.search(one.text):
            said = (one.text[a:b] for a, b in split_sentences(one.text) if _RESCHEDULED.search(one.text, a, b))
            # "new" of "new date" is no common subject
            moved.append((one, list_rare_terms(" ".join(_RESCHEDULED.sub(" ", sentence) for sentence in said))))
    current = []
    for event in events:
        told, terms = event.passage, list_rare_terms(event.passage.text[slice(*event.sentence)])
        later = (rare for one, rare in moved if one.key.chat_id == told.key.chat_id and one.date > told.date)
        if all(terms.isdisjoint(rare) for rare in later):
            current.append(event)
    return current


def _find_events(passages: Sequence[Passage], asked: _AskedDays, question: Question) -> Iterator[_Event]:
    sentences = (
        (passage, spans, n, low[start:end])
        for passage in passages
        if _DAY_WORDS.search(low := fold_case(passage.text))
        for spans in [split_sentences(passage.text)]
        for n, (start, end) in enumerate(spans)
        if end - start <= _MAX_SENTENCE_LENGTH and _DAY_WORDS.search(low, start, end)
    )
    seen: set[tuple[PostKey, TextSpan, bool]] = set()
    for passage, spans, n, sentence in islice(sentences, _MAX_READ_SENTENCES):
        posted = passage.date.astimezone(question.asked_at.tzinfo).date()
        for day, bound, at in sorted(_list_event_days(sentence, posted, asked)):
            span = _widen(passage.text, spans, n, spans[n][0] + at)
            if (passage.key, span, bound) not in seen:
                seen.add((passage.key, span, bound))
                yield _Event(day, passage, span, spans[n], bound)


def _list_event_days(low: str, posted: date, asked: _AskedDays) -> Iterator[tuple[date, bool, int]]:
    """List the days of a lower-case sentence in the asked ones: whether it bounds something, and its offset."""
    longest = _SHORT_SPAN if asked.until - asked.since < _LONG_PERIOD else asked.until - asked.since
    past: bool | None = None
    for point in find_dates(low):
        told, before = low[point.at : point.to], low[max(0, point.at - _CONTEXT_LENGTH) : point.at]
        if point.needs in _NO_EVENT_DAYS or (not asked.today and _TODAY.search(told)):
            continue  # news of the day announce nothing
        calendar = bool(point.fields and point.fields[1] and point.fields[2])
        if calendar and point.needs == "on" and not _BEFORE_NUMERIC_DAY.search(before):
            continue  # "10/14" may be a score
        if not calendar and (point.recurrence or _TODAY.search(told)):
            if past is None:  # "is closed", "will be opened" may be to come
                verbs = (readings[0].tense for word in LETTERS.findall(low) if (readings := read_word(word)))
                past = bool(_TOLD_AS_PAST.search(_AHEAD_VERBS.sub(" ", low))) or "past" in verbs
            if past:
                continue  # "on Saturday nobody came"
        days = _read_announced(point, told, before, posted, low)
        if days and (point.pair or days.until - days.since <= longest):
            ends = [(days.since, bool(_BEFORE_BOUND.search(before)))]
            ends += [(days.until - timedelta(days=1), True)] if point.pair else []
            within = ((day, last) for day, last in ends if max(asked.since, posted) <= day < asked.until)
            yield from ((day, last, point.at) for day, last in within)


def _read_announced(point: DateMatch, told: str, before: str, posted: date, low: str) -> DateRange | None:
    """Read a date as it was meant in a post; None for what names no single event: "every Saturday", "in a few days"."""
    if point.fields and point.fields[1] and point.fields[2]:
        # "8 October 10-3" names hours, and no year
        year = point.fields[0] if point.fields[0] and point.fields[0] >= posted.year % 100 else None
        return resolve_date_parts(year, point.fields[1], point.fields[2], posted + YEARLESS_AHEAD)
    if point.pair:
        return point.read(posted + YEARLESS_AHEAD)
    if point.recurrence:
        among = _DASH.match(low, point.to) or before.rstrip().endswith(("-", "–", "—"))  # "Mon-Fri 8 to 18"
        if _BEFORE_REGULAR.search(before) or told.endswith(("days", "ам", "ям")) or (among and not point.fields):
            return None
    elif not _NAMED_DAY.search(told):
        return None
    return read_coming(point, low, posted)


def _widen(text: str, spans: Sequence[TextSpan], n: int, at: int) -> TextSpan:
    """Widen a sentence by its neighbours while it stays short; of a long one the part with the day at offset `at`."""
    start, end = spans[n]
    if end - start > _MAX_LINE_LENGTH:
        windows = split_long_span(text, (start, end), _MAX_LINE_LENGTH)
        return max(windows, key=lambda one: min(at - one[0], one[1] - at))
    if n and start - spans[n - 1][1] <= MAX_SENTENCE_GAP and end - spans[n - 1][0] <= _MAX_LINE_LENGTH:
        start = spans[n - 1][0]
    if n + 1 < len(spans) and spans[n + 1][0] - end <= MAX_SENTENCE_GAP and spans[n + 1][1] - start <= _MAX_LINE_LENGTH:
        end = spans[n + 1][1]
    return start, end
