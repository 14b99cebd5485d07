"""Coming events: what posts announce for the days that a question asks about ("what's on this weekend").

The days that a post names ("28 November", "on Saturday", "tomorrow") are read as they were meant when it was posted.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from rag_core.context.copies import gather_evidence
from rag_core.dates.parse import DateMatch, find_dates, parse_coming_period, read_coming
from rag_core.dates.ranges import DateRange, resolve_date_parts
from rag_core.engine import Engine
from rag_core.retrieval.channel_profile import find_described_channel
from rag_core.retrieval.extractive_summary import MAX_LINES, quote_span
from rag_core.retrieval.search_filters import resolve_filter
from rag_core.storage.post_lookup import fetch_passages
from rag_core.text.sentences import MAX_ANSWER_LENGTH, TextSpan, split_long_span, split_sentences
from rag_core.text.tokens import read_word, tokenize
from rag_core.types import Draft, Hit, Passage, Plan, Question
from rag_core.writing.phrases import format_dated_line

_ANNOUNCED_AHEAD = timedelta(days=120)  # what was announced earlier is read no more
_WITHOUT_PERIOD = timedelta(days=28)  # "what's coming up?"
_MAX_READ_POSTS = 1000  # the newest
_MAX_LINE_LENGTH = 160  # characters of a quote
_MAX_GAP = 3  # characters between two sentences that adjoin
_AHEAD = timedelta(days=300)  # a day without a year is the one before this long after the post
_SHORT_SPAN, _LONG_PERIOD = timedelta(days=3), timedelta(days=20)
# Expressions that are dates only after certain words: "2024", "the last days of".
_NO_EVENT_DAYS = frozenset({"year", "digest", "last"})
_BEFORE_REGULAR = re.compile(r"\b(?:every|each|only|except|кажд\w+|только|по|кроме)\s+(?:the\s+)?$")
_BEFORE_DEADLINE = re.compile(r"\b(?:until|till|by|before|до|по|к)\s+(?:the\s+)?$")
_OUTINGS_ASKED = re.compile(
    r"\b(?:сходить|пойти|податься|заняться|мероприяти\w+|событи\w+|интересн\w+|events?|fun|where to go|things to do)\b",
    re.I,
)
_RESCHEDULED = re.compile(
    r"\b(?:пере(?:нос|нес)\w*|отмен\w+|отлож\w+|откладыва\w+|сдвин\w+|сдвига\w+|не состоится|нов(?:ая|ую) дат\w+|"
    r"moved|postponed|put off|put back|rescheduled|cancel\w*|shifted|brought forward|called off|new date)\b",
    re.I,
)
_PAST_WORDS = frozenset({"was", "were", "did", "had", "came", "went", "saw", "took", "got", "made"})
_WORD = re.compile(r"[^\W\d_]+")
_MIN_RARE_POSTS, _RARE_SHARE = 3, 50  # a term of at most so many posts, or one of so many, tells what a post is about


class _Event(NamedTuple):
    day: date
    passage: Passage
    span: TextSpan


async def list_coming_events(question: Question, plan: Plan, rag: Engine) -> Draft | None:
    """List what posts announce for the asked days, soonest first; a line begins with the day of the event.

    Where the topic of the plan describes a channel, its events; else those of posts that name the topic. A draft
    without sentences: nothing is announced. None: no post names the topic, it is searched for.
    """
    channel = await find_described_channel(plan.topic, question.viewer, rag) if plan.topic else None
    channels = plan.channels if channel is None else frozenset({channel})
    named = frozenset(tokenize(plan.topic)) if channel is None else frozenset[str]()
    today = datetime.combine(question.asked_at.date(), time(), question.asked_at.tzinfo)
    period = parse_coming_period(question.text, question.asked_at)
    since = max(today, period.since) if period and period.since else today
    until = period.until if period and period.until else today + _WITHOUT_PERIOD
    recent = replace(plan, channels=channels, since=today - _ANNOUNCED_AHEAD, until=question.asked_at, slack=0)
    only = await resolve_filter(recent, question.viewer, rag)
    places = (await asyncio.to_thread(rag.lexical.all_of, only))[: -_MAX_READ_POSTS - 1 : -1]
    read = (await fetch_passages(rag.archive, places)).values()
    passages = [one for one in read if not named or named <= frozenset(tokenize(one.text))]
    asked = DateRange(since.date(), until.date())
    events = await asyncio.to_thread(_find_events, passages, asked, question)
    originals = await _drop_copies(events, question, rag)
    lines, room = [], MAX_ANSWER_LENGTH
    for event in sorted(originals, key=lambda one: one.day)[:MAX_LINES]:
        quote = quote_span(event.passage, event.span)
        day = datetime.combine(event.day, time(), question.asked_at.tzinfo)
        text = format_dated_line(day, quote.text, question.asked_at, question.lang)
        room -= len(text)
        if room < 0:
            break
        lines.append(replace(quote, text=text))
    if not lines and named:
        return None
    return Draft(tuple(lines), 1.0) if lines else Draft()


def _find_events(passages: Sequence[Passage], asked: DateRange, question: Question) -> list[_Event]:
    """Find the first event of each passage in the asked days; `passages` newest first."""
    outings = bool(_OUTINGS_ASKED.search(question.text))
    common = Counter(term for passage in passages for term in set(tokenize(passage.text)))
    rare = max(_MIN_RARE_POSTS, len(passages) // _RARE_SHARE)
    changes: list[tuple[int, frozenset[str]]] = []  # of later posts: the channel, and rare terms
    events = []
    for passage in passages:
        posted, spans = passage.date.astimezone(question.asked_at.tzinfo).date(), split_sentences(passage.text)
        for n, span in enumerate(spans):
            sentence = passage.text[slice(*span)]
            if days := list(_list_event_days(sentence, posted, asked, outings=outings)):
                terms = frozenset(tokenize(sentence))
                if not any(chat == passage.key.chat_id and terms & changed for chat, changed in changes):
                    events.append(_Event(min(days), passage, _widen(passage.text, spans, n)))
                break
        if _RESCHEDULED.search(passage.text):
            telling = (term for term in tokenize(passage.text) if common[term] <= rare and not term.isdecimal())
            changes.append((passage.key.chat_id, frozenset(telling)))
    return events


def _list_event_days(sentence: str, posted: date, asked: DateRange, *, outings: bool) -> Iterator[date]:
    """List the days of a sentence in the asked ones; of a span its first day, or its last. `outings`: no deadlines."""
    if asked.since is None or asked.until is None:
        return
    low = sentence.lower().replace("ё", "е")
    longest = _SHORT_SPAN if asked.until - asked.since < _LONG_PERIOD else asked.until - asked.since
    for point in find_dates(low):
        if point.needs in _NO_EVENT_DAYS or (outings and _BEFORE_DEADLINE.search(low, 0, point.at)):
            continue
        days = _read_announced(point, posted, low)
        if days is None or days.since is None or days.until is None:
            continue
        last = days.until - timedelta(days=1)
        if point.pair or days.until - days.since <= longest:
            ends = (days.since, last) if point.pair else (days.since,)
            yield from (day for day in ends if asked.since <= day < asked.until and day >= posted)


def _read_announced(point: DateMatch, posted: date, low: str) -> DateRange | None:
    if point.fields and point.fields[1] and point.fields[2]:
        # "8 October 10-3" names hours, and no year
        year = point.fields[0] if point.fields[0] and point.fields[0] >= posted.year % 100 else None
        return resolve_date_parts(year, point.fields[1], point.fields[2], posted + _AHEAD)
    if point.pair:
        return point.read(posted + _AHEAD)
    if point.recurrence is not None:
        regular = _BEFORE_REGULAR.search(low, 0, point.at) or low[point.at : point.to].endswith(("days", "ам", "ям"))
        if regular or _is_told_as_past(low):
            return None
    return read_coming(point, posted)


def _is_told_as_past(low: str) -> bool:
    words = _WORD.findall(low)
    return not _PAST_WORDS.isdisjoint(words) or any(
        readings[0].tense == "past" for word in words if (readings := read_word(word))
    )


def _widen(text: str, spans: Sequence[TextSpan], n: int) -> TextSpan:
    """Widen a sentence by its neighbours while it stays short: what begins then, and what it is."""
    start, end = spans[n]
    if end - start > _MAX_LINE_LENGTH:
        return split_long_span(text, (start, end), _MAX_LINE_LENGTH)[0]
    if n and start - spans[n - 1][1] <= _MAX_GAP and end - spans[n - 1][0] <= _MAX_LINE_LENGTH:
        start = spans[n - 1][0]
    if n + 1 < len(spans) and spans[n + 1][0] - end <= _MAX_GAP and spans[n + 1][1] - start <= _MAX_LINE_LENGTH:
        end = spans[n + 1][1]
    return start, end


async def _drop_copies(events: Sequence[_Event], question: Question, rag: Engine) -> list[_Event]:
    by_key = {event.passage.key: event for event in events}
    hits = [Hit(event.passage, -float(n), "") for n, event in enumerate(by_key.values())]
    evidence = await gather_evidence(hits, question.viewer, rag)
    return [by_key[source.passage.key] for source in evidence.sources if source.passage.key in by_key]
