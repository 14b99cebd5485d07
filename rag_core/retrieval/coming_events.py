"""Coming events: what posts announce for the days that a question asks about ("what's on this weekend").

The days that a post names ("28 November", "on Saturday", "tomorrow") are read as they were meant when it was posted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from rag_core.context.copies import gather_evidence
from rag_core.dates.parse import DateMatch, find_dates, parse_coming_period, read_coming
from rag_core.dates.ranges import DateRange
from rag_core.engine import Engine
from rag_core.retrieval.channel_profile import find_described_channel
from rag_core.retrieval.extractive_summary import MAX_LINES, quote_span
from rag_core.retrieval.search_filters import resolve_filter
from rag_core.storage.post_lookup import fetch_passages
from rag_core.text.sentences import MAX_ANSWER_LENGTH, TextSpan, split_long_span, split_sentences
from rag_core.text.tokens import read_word
from rag_core.types import Draft, Hit, Passage, Plan, Question
from rag_core.writing.phrases import format_dated_line

_ANNOUNCED_AHEAD = timedelta(days=120)  # what was announced earlier is read no more
_WITHOUT_PERIOD = timedelta(days=28)  # "what's coming up?"
_MAX_READ_POSTS = 1000  # the newest
_MAX_LINE_LENGTH = 160  # characters of a quote
_MAX_GAP = 3  # characters between two sentences that adjoin
_AHEAD = timedelta(days=300)  # a day without a year is the one before this long after the post
_SHORT_SPAN, _LONG_PERIOD = timedelta(days=3), timedelta(days=20)
# Expressions that are dates of events only after other words, or are longer than a day: "by New Year", "2024".
_NO_EVENT_DAYS = frozenset({"bound", "year", "digest", "last"})


class _Event(NamedTuple):
    day: date
    passage: Passage
    span: TextSpan


async def list_coming_events(question: Question, plan: Plan, rag: Engine) -> Draft | None:
    """List what posts announce for the asked days, soonest first; a line begins with the day of the event.

    A draft without sentences: nothing is announced. None: the question names something that describes no channel.
    """
    channels = plan.channels
    if plan.topic:
        channel = await find_described_channel(plan.topic, question.viewer, rag)
        if channel is None:
            return None
        channels = frozenset({channel})
    today = datetime.combine(question.asked_at.date(), time(), question.asked_at.tzinfo)
    period = parse_coming_period(question.text, question.asked_at)
    since = max(today, period.since) if period and period.since else today
    until = period.until if period and period.until else today + _WITHOUT_PERIOD
    recent = replace(plan, channels=channels, since=today - _ANNOUNCED_AHEAD, until=question.asked_at, slack=0)
    only = await resolve_filter(recent, question.viewer, rag)
    places = (await asyncio.to_thread(rag.lexical.all_of, only))[: -_MAX_READ_POSTS - 1 : -1]
    passages = list((await fetch_passages(rag.archive, places)).values())
    asked = DateRange(since.date(), until.date())
    events = await asyncio.to_thread(_find_events, passages, asked, question.asked_at)
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
    return Draft(tuple(lines), 1.0) if lines else Draft()


def _find_events(passages: Sequence[Passage], asked: DateRange, now: datetime) -> list[_Event]:
    """Find the first event of each passage in the asked days."""
    events = []
    for passage in passages:
        posted = passage.date.astimezone(now.tzinfo).date()
        spans = split_sentences(passage.text)
        for n, span in enumerate(spans):
            days = [day for day in _list_event_days(passage.text[slice(*span)], posted, asked)]
            if days:
                events.append(_Event(min(days), passage, _widen(passage.text, spans, n)))
                break
    return events


def _list_event_days(sentence: str, posted: date, asked: DateRange) -> Iterator[date]:
    """List the days of a sentence in the asked ones; of a span its first day, or its last."""
    if asked.since is None or asked.until is None:
        return
    longest = _SHORT_SPAN if asked.until - asked.since < _LONG_PERIOD else asked.until - asked.since
    for point in find_dates(sentence.lower().replace("ё", "е")):
        days = _read_announced(point, posted, sentence)
        if days is None or days.since is None or days.until is None:
            continue
        last = days.until - timedelta(days=1)
        if point.pair or days.until - days.since <= longest:
            ends = (days.since, last) if point.pair else (days.since,)
            yield from (day for day in ends if asked.since <= day < asked.until and day >= posted)


def _read_announced(point: DateMatch, posted: date, sentence: str) -> DateRange | None:
    if point.needs in _NO_EVENT_DAYS:
        return None
    if point.pair or (point.fields and point.fields[1] and point.fields[2]):
        return point.read(posted + _AHEAD)
    if point.recurrence is not None and _is_told_as_past(sentence):
        return None  # "on Saturday nobody came"
    return read_coming(point, posted)


def _is_told_as_past(sentence: str) -> bool:
    words = sentence.lower().split()
    return any(word in {"was", "were", "did", "had", "came"} for word in words) or any(
        read_word(word.strip('.,!?:;()«»"')) and read_word(word.strip('.,!?:;()«»"'))[0].tense == "past"
        for word in words
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
