"""Answers to "what is new", what was posted in a period, news about a topic: dated lines of posts, newest first.

A line is the opening of a post: its first sentences that say something and stand in no other post of the digest. Copies
of a post give one line. A month without a year is the latest that has posts.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Protocol, TypeVar

from rag_core.context.evidence import gather_evidence
from rag_core.dates.calendar_arithmetic import shift_months
from rag_core.engine import Engine
from rag_core.retrieval.search_filters import resolve_filter
from rag_core.storage.post_lookup import fetch_passages
from rag_core.text.post_openings import build_text_key, find_opening, says_something
from rag_core.text.sentences import MAX_ANSWER_LENGTH, split_sentences
from rag_core.types import Draft, Hit, Passage, PassageRef, Plan, PostKey, Question, Sentence
from rag_core.writing.extract import quote_span
from rag_core.writing.phrases import format_dated_line, format_last_post_before, format_post_count

MAX_LINES = 7
_MAX_COUNT_LENGTH = 65  # characters of the sentence that counts the posts
_MAX_READ_POSTS = 3 * MAX_LINES  # some have no text, or are copies
_RECENT_DAYS = (7, 31, 366)  # "what is new" without a period: the shortest of these that has enough posts, else all
_ENOUGH_POSTS = 5
_RECENTLY = timedelta(days=31)
_MAX_YEARS_BACK = 20  # "in October": the latest October with posts
_MAX_NEWEST_POSTS = 200  # without a bounded period: the newest that take turns by channel
_MAX_COMPARED_POSTS = 50  # posts of one part of the period from which the channel least shown is taken


async def summarize_period(question: Question, plan: Plan, rag: Engine, *, counted: bool) -> Draft:
    """Summarize the posts of a period: dated lines, newest first, and their number.

    With `counted` the number comes first, then the lines, oldest first. Where a recent period has no posts, the last
    before it; a draft without sentences: there is nothing to quote.
    """
    places = await _find_posts(question, plan, rag, counted=counted)
    bounded = plan.since is not None and plan.until is not None
    passages = list((await fetch_passages(rag.archive, choose_posts(places, bounded=bounded))).values())
    outermost = await fetch_passages(rag.archive, [places[0], places[-1]] if places else [])
    ends = [passage.date for passage in outermost.values()]
    lines = fit_dated_lines(await _quote_openings(passages, question, rag), question)
    if not places and not counted:
        return await _quote_last_post(question, plan, rag)
    if not lines or not ends:
        return Draft()
    count = format_post_count(len(places), (min(ends), max(ends)), question.lang)
    total = Sentence(count, tuple(line.citations[0] for line in lines))
    if counted:
        return Draft((total, *reversed(lines)), 1.0)
    return Draft((*lines, total) if len(places) > len(lines) else lines, 1.0)


async def _quote_last_post(question: Question, plan: Plan, rag: Engine) -> Draft:
    """Quote the last post before a recent period that has no posts: "what is new today" on a quiet day."""
    if plan.since is None or (plan.until and plan.until <= question.asked_at - _RECENTLY):
        return Draft()
    before = replace(plan, since=None, until=plan.since)
    places = await asyncio.to_thread(rag.lexical.all_of, await resolve_filter(before, question.viewer, rag))
    passages = list((await fetch_passages(rag.archive, places[: -_MAX_READ_POSTS - 1 : -1])).values())
    for quote in await _quote_openings(passages, question, rag):
        text = f"{format_last_post_before(quote.citations[0].date, question.lang)} {quote.text}"
        return Draft((replace(quote, text=text),), 1.0)
    return Draft()


async def _find_posts(question: Question, plan: Plan, rag: Engine, *, counted: bool) -> list[PassageRef]:
    """Find the posts of the period, oldest first; without a period the recent ones, or all that are to be counted."""
    plans = [plan]
    if plan.yearless:
        plans = [_shift_years(plan, -back) for back in range(_MAX_YEARS_BACK)]
    elif plan.since is None and plan.until is None and not (plan.has_filters or counted):
        tomorrow = question.asked_at.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        plans = [replace(plan, since=tomorrow - timedelta(days=days), until=tomorrow) for days in _RECENT_DAYS]
        plans.append(replace(plan, until=tomorrow))
    places: list[PassageRef] = []
    for one in plans:
        only = await resolve_filter(one, question.viewer, rag)
        places = await asyncio.to_thread(rag.lexical.all_of, only)
        if len(places) >= (1 if plan.yearless else _ENOUGH_POSTS):
            break
    return places


def _shift_years(plan: Plan, years: int) -> Plan:
    def shift(moment: datetime | None) -> datetime | None:
        return moment and datetime.combine(shift_months(moment.date(), 12 * years), moment.timetz())

    return replace(plan, since=shift(plan.since), until=shift(plan.until))


class _Keyed(Protocol):
    @property
    def key(self) -> PostKey: ...


T = TypeVar("T", bound=_Keyed)


def choose_posts(places: Sequence[T], *, bounded: bool) -> list[T]:
    """Choose the posts to read, best first: spread over a bounded period, else the newest; of all channels alike."""
    newest = list(reversed(places))
    length = -(-len(newest) // MAX_LINES) if bounded else _MAX_NEWEST_POSTS
    slices = [deque(newest[start : start + length]) for start in range(0, len(newest), length)] if newest else []
    used: Counter[int] = Counter()
    chosen: list[T] = []
    while len(chosen) < _MAX_READ_POSTS and (full := [one for one in slices if one]):
        for one in full if bounded else full[:1]:
            place = min(islice(one, _MAX_COMPARED_POSTS), key=lambda place: used[place.key.chat_id])
            one.remove(place)
            used[place.key.chat_id] += 1
            chosen.append(place)
    return chosen[:_MAX_READ_POSTS]


async def _quote_openings(passages: Sequence[Passage], question: Question, rag: Engine) -> list[Sentence]:
    """Quote the opening of each post, in the order given; of copies only the original."""
    hits = [Hit(passage, -float(n), "") for n, passage in enumerate(passages)]
    originals = [source.passage for source in (await gather_evidence(hits, question.viewer, rag)).sources]
    spoken = Counter(
        key for one in originals for key in {build_text_key(one.text[a:b]) for a, b in split_sentences(one.text)}
    )
    quotes = []
    for one in originals:
        if span := find_opening(one.text, spoken):
            quotes.append(quote_span(one, span))
    return quotes


def fit_dated_lines(quotes: Sequence[Sentence], question: Question) -> tuple[Sentence, ...]:
    """Fit quotes, best first, into one answer: dated, and newest first."""
    lines: list[Sentence] = []
    room = MAX_ANSWER_LENGTH - _MAX_COUNT_LENGTH
    for quote in [one for one in quotes if says_something(one.text)][:MAX_LINES]:
        cut = "" if quote.text[-1] in ".!?…)»\"'" or quote.text[-1] not in ",;:—–-" else "…"
        shown = f"{quote.text.rstrip(' ,;:—–-')}{cut}" if cut else quote.text
        text = format_dated_line(quote.citations[0].date, shown, question.asked_at, question.lang)
        if len(text) > room:
            break
        room -= len(text)
        lines.append(replace(quote, text=text))
    return tuple(sorted(lines, key=lambda line: line.citations[0].date, reverse=True))
