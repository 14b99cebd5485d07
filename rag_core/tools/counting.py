"""Tools that are exact, because they look at every post: first_mention, count_mentions, timeline."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from rag_core.chronicle import chronicle, subject
from rag_core.mentions import matching
from rag_core.search import LEXICAL, fetch
from rag_core.tools.desk import Desk
from rag_core.tools.finding import day_bounds
from rag_core.tools.wires import Aspect, Counted, Listed, Points
from rag_core.types import Hit, Kind, Passage, Plan

__all__ = ["count_mentions", "first_mention", "timeline"]

_FEW = 5  # posts of a timeline, the first and the last among them


async def first_mention(asked: Aspect, desk: Desk) -> Listed:
    """The first post that mentions something; none where no post does."""
    found, _ = await _mentions(asked, Kind.FIRST, desk)
    return Listed(posts=await desk.short(_laid(found[:1], desk)))


async def count_mentions(asked: Aspect, desk: Desk) -> Counted:
    """How many posts mention something."""
    ends, count = await _mentions(asked, Kind.HOW_MANY, desk)
    days = sorted(passage.date.date() for passage in ends)
    return Counted(count=count, first=days[0] if days else None, last=days[-1] if days else None)


async def timeline(asked: Aspect, desk: Desk) -> Points:
    """A few of the posts that mention something, in the order of their dates."""
    found, count = await _mentions(asked, Kind.TIMELINE, desk)
    return Points(count=count, posts=await desk.short(_laid(found, desk)))


async def _mentions(asked: Aspect, kind: Kind, desk: Desk) -> tuple[list[Passage], int]:
    """A few of the posts, oldest first, and how many there are; the answer that says so is left on the desk."""
    desk.exact = None  # of what was counted before
    since, until = day_bounds(asked.since, asked.until, desk)
    question = replace(desk.question, text=asked.topic)
    plan = Plan((asked.topic,), kind, asked.topic, asked=asked.topic, since=since, until=until)
    words = await asyncio.to_thread(subject, question, plan, desk.rag)  # an index on a server is waited for
    places = await matching(words, plan, question.viewer, desk.rag)
    some = places
    if len(places) > _FEW:
        some = [places[n * (len(places) - 1) // (_FEW - 1)] for n in range(_FEW)]
    passages = await fetch(some, desk.rag)
    if places:
        desk.exact = await chronicle(question, plan, desk.rag)
    return [passages[place] for place in some if place in passages], len(places)


def _laid(passages: list[Passage], desk: Desk) -> list[int]:
    return desk.lay(Hit(passage, 0.0, LEXICAL) for passage in passages)
