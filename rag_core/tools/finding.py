"""Tools that bring posts: search, fetch, neighbours, newest, rerank."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta

from rag_core.analysis import terms
from rag_core.doors.archive import channels
from rag_core.doors.lexical import Filter, Place
from rag_core.plan import bare
from rag_core.rerank import rerank as reranked
from rag_core.search import LEXICAL
from rag_core.search import fetch as read
from rag_core.search import search as look
from rag_core.tools.desk import Desk
from rag_core.tools.wires import Listed, Near, Newest, Numbers, Sought, Text, Texts, Wished
from rag_core.types import Hit, Passage, Plan

__all__ = ["day_bounds", "fetch", "neighbours", "newest", "rerank", "search"]

_MOST = 5  # posts that a search shows
_LONGEST = 1200  # characters of a fetched post
_AROUND = timedelta(days=60)  # in which neighbours of a post are looked for
_LATELY = (7, 90, 3660)  # days back, until enough posts are found


def day_bounds(since: date | None, until: date | None, desk: Desk) -> tuple[datetime | None, datetime | None]:
    """Days, both inclusive, as moments in the asker's time zone; the second exclusive."""
    zone = desk.question.asked_at.tzinfo
    after = until + timedelta(days=1) if until else None
    return (
        datetime.combine(since, time(), zone) if since else None,
        datetime.combine(after, time(), zone) if after else None,
    )


async def search(asked: Sought, desk: Desk) -> Listed:
    """Posts that answer a question, best first."""
    question = replace(desk.question, text=asked.query)
    known = await channels.known(desk.rag.archive)
    plan: Plan = await asyncio.to_thread(desk.rag.plan, question, known)
    if not plan.queries:
        plan = bare(question)
    since, until = day_bounds(asked.since, asked.until, desk)
    if since or until:
        plan = replace(plan, since=since, until=until, slack=0)
    hits = await look(plan, question, desk.rag, desk.run)
    return Listed(posts=await desk.short(desk.lay(hits[:_MOST])))


async def fetch(asked: Numbers, desk: Desk) -> Texts:
    """The texts of posts."""
    passages = [(number, desk.passage(number)) for number in dict.fromkeys(asked.posts)]
    return Texts(posts=[Text(post=n, date=p.date.date(), text=p.text[:_LONGEST]) for n, p in passages])


async def neighbours(asked: Near, desk: Desk) -> Listed:
    """The posts before and after one in its channel, oldest first."""
    passage = desk.passage(asked.post)
    only = Filter(frozenset({passage.key.chat_id}), passage.date - _AROUND, passage.date + _AROUND)
    places = await asyncio.to_thread(desk.rag.lexical.all_of, only)
    at = next((n for n, place in enumerate(places) if place.key == passage.key), None)
    near = [] if at is None else [*places[max(0, at - asked.before) : at], *places[at + 1 : at + 1 + asked.after]]
    return await _listed(near, desk)


async def newest(asked: Newest, desk: Desk) -> Listed:
    """The newest posts, newest first."""
    topic, lexical = terms(asked.about or ""), desk.rag.lexical

    def found() -> list[Place]:
        if asked.about:
            return lexical.matching(topic, Filter(desk.question.viewer.channels)) if topic else []
        places: list[Place] = []
        for days in _LATELY:
            since = desk.question.asked_at - timedelta(days=days)
            places = lexical.all_of(Filter(desk.question.viewer.channels, since))
            if len(places) >= asked.limit:
                break
        return places

    places = list({place.key: place for place in await asyncio.to_thread(found)}.values())
    return await _listed(places[: -asked.limit - 1 : -1], desk)


async def rerank(asked: Wished, desk: Desk) -> Listed:
    """Posts in the order in which they answer a question: by the reranker, by their words where there is none."""
    hits = tuple(Hit(desk.passage(n), 0.0, LEXICAL) for n in dict.fromkeys(asked.posts))
    query, statistics = terms(asked.query), desk.rag.lexical.statistics(desk.question.viewer.channels)
    scored = [replace(h, score=statistics.score(query, terms(_said(h.passage)))) for h in hits]
    best = tuple(sorted(scored, key=lambda hit: -hit.score))
    async with desk.run.stage("rerank"):
        best = await reranked(replace(desk.question, text=asked.query), best, desk.rag, desk.run)
    return Listed(posts=await desk.short(desk.lay(best)))


def _said(passage: Passage) -> str:
    return f"{passage.header}\n{passage.text}"


async def _listed(places: Sequence[Place], desk: Desk) -> Listed:
    passages = await read(places, desk.rag)
    hits = [Hit(passages[place], 0.0, LEXICAL) for place in places if place in passages]
    return Listed(posts=await desk.short(desk.lay(hits)))
