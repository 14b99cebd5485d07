"""Digests: dated lines of posts, newest first: what is new, what was posted in a period, news about a topic.

A line is the opening of a post: its first sentences that say something and stand in no other post of the digest. Copies
of a post give one line. A month without a year is the latest that has posts.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import zip_longest

from rag_core.context.copies import gather_evidence
from rag_core.context.evidence import build_text_key
from rag_core.dates.ranges import shift_months
from rag_core.engine import Engine
from rag_core.index.bm25 import PassageRef
from rag_core.retrieval.filters import resolve_filter
from rag_core.retrieval.search import fetch_passages
from rag_core.text.sentences import MAX_ANSWER_LENGTH, TextSpan, split_long_span, split_sentences
from rag_core.types import Citation, Draft, Hit, Passage, Plan, Question, Sentence
from rag_core.writing.phrases import format_dated_line, format_post_count

__all__ = ["fit_dated_lines", "summarize_period"]

MAX_LINES = 7
_MAX_COUNT_LENGTH = 65  # characters of the sentence that counts the posts
_MAX_OPENING_LENGTH = 110  # characters of a post in a line
_MAX_READ_POSTS = 3 * MAX_LINES  # some have no text, or are copies
_RECENT_DAYS = (7, 31, 366)  # "what is new" without a period: the shortest of these that has enough posts, else all
_ENOUGH_POSTS = 5
_MAX_YEARS_BACK = 20  # "in October": the latest October with posts
_MAX_GAP = 3  # characters between two sentences that adjoin
_LINKS_AND_TAGS = re.compile(r"https?://\S+|[#@]\w+")
_LONG_WORD = re.compile(r"[^\W\d_]{3,}")
_MIN_WORDS = 2  # of a sentence that says something


async def summarize_period(question: Question, plan: Plan, rag: Engine, *, counted: bool) -> Draft:
    """Summarize the posts of a period: dated lines and their number; with `counted` the number comes first.

    A draft without sentences: there are no posts.
    """
    places = await _find_posts(question, plan, rag)
    passages = list((await fetch_passages(_spread_over_channels(places, plan), rag)).values())
    ends = [passage.date for passage in (await fetch_passages([places[0], places[-1]], rag)).values()] if places else []
    lines = fit_dated_lines(await _quote_openings(passages, question, rag), question)
    if not lines or not ends:
        return Draft()
    count = format_post_count(len(places), (min(ends), max(ends)), question.lang)
    total = Sentence(count, tuple(line.citations[0] for line in lines))
    return Draft((total, *lines) if counted else (*lines, total) if len(places) > len(lines) else lines, 1.0)


async def _find_posts(question: Question, plan: Plan, rag: Engine) -> list[PassageRef]:
    """Find the posts of the period, oldest first; without a period the recent ones."""
    plans = [plan]
    if plan.yearless:
        plans = [_shift_years(plan, -back) for back in range(_MAX_YEARS_BACK)]
    elif plan.since is None and plan.until is None and not plan.narrowed:
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


def _spread_over_channels(places: Sequence[PassageRef], plan: Plan) -> list[PassageRef]:
    """Choose the posts to read: of each channel in turn, of a period spread evenly over it, else the newest."""
    by_channel: dict[int, list[PassageRef]] = {}
    for place in reversed(places):
        by_channel.setdefault(place.key.chat_id, []).append(place)
    bounded = plan.since is not None and plan.until is not None
    most = -(-MAX_LINES // max(1, len(by_channel)))
    ordered = []
    for listed in by_channel.values():
        even = [listed[n * len(listed) // most] for n in range(most)] if bounded and len(listed) > most else []
        ordered.append([*even, *(place for place in listed[:_MAX_READ_POSTS] if place not in even)])
    turns = (place for turn in zip_longest(*ordered) for place in turn if place)
    return list(dict.fromkeys(turns))[:_MAX_READ_POSTS]


async def _quote_openings(passages: Sequence[Passage], question: Question, rag: Engine) -> list[Sentence]:
    """Quote the opening of each post, in the order given; of copies only the original."""
    hits = [Hit(passage, -float(n), "") for n, passage in enumerate(passages)]
    originals = [source.passage for source in (await gather_evidence(hits, question.viewer, rag)).sources]
    spoken = Counter(
        key for one in originals for key in {build_text_key(one.text[a:b]) for a, b in split_sentences(one.text)}
    )
    quotes = []
    for one in originals:
        if span := _find_opening(one.text, spoken):
            quote, at = one.text[slice(*span)], one.start + span[0]
            quotes.append(Sentence(quote, (Citation(one.key, quote, at, at + len(quote), one.date),)))
    return quotes


def _find_opening(text: str, spoken: Mapping[str, int]) -> TextSpan | None:
    """Find the first sentences that say something, short enough for a line; `spoken` counts the posts of a sentence."""
    spans = split_sentences(text)
    for n, (start, end) in enumerate(spans):
        if not _says_something(text[start:end]) or spoken.get(build_text_key(text[start:end]), 0) > 1:
            continue
        if end - start > _MAX_OPENING_LENGTH:
            return split_long_span(text, (start, end), _MAX_OPENING_LENGTH)[0]
        for next_start, next_end in spans[n + 1 :]:
            if next_end - start > _MAX_OPENING_LENGTH or next_start - end > _MAX_GAP or text[next_start] in "#@":
                break
            end = next_end
        return start, end
    return None


def _says_something(text: str) -> bool:
    return len(_LONG_WORD.findall(_LINKS_AND_TAGS.sub(" ", text))) >= _MIN_WORDS


def fit_dated_lines(quotes: Sequence[Sentence], question: Question) -> tuple[Sentence, ...]:
    """Fit quotes, best first, into one answer: dated, and newest first."""
    lines: list[Sentence] = []
    room = MAX_ANSWER_LENGTH - _MAX_COUNT_LENGTH
    for quote in [one for one in quotes if _says_something(one.text)][:MAX_LINES]:
        cut = "" if quote.text[-1] in ".!?…)»\"'" or quote.text[-1] not in ",;:—–-" else "…"
        shown = f"{quote.text.rstrip(' ,;:—–-')}{cut}" if cut else quote.text
        text = format_dated_line(quote.citations[0].date, shown, question.asked_at, question.lang)
        if len(text) > room:
            break
        room -= len(text)
        lines.append(replace(quote, text=text))
    return tuple(sorted(lines, key=lambda line: line.citations[0].date, reverse=True))
