"""Plan to hits: the legs, filtered by what the asker may read, and the texts of what they found."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rag_core.analysis import terms
from rag_core.doors.archive import channels, posts
from rag_core.doors.lexical import Filter, Place
from rag_core.header import header
from rag_core.rag import Rag
from rag_core.types import Hit, Passage, Plan, Post, PostKey, Viewer

__all__ = ["allowed", "fetch", "matching", "search"]

LEXICAL = "lexical"
_READ = 1000  # posts at a time, so that others get at the archive in between


def allowed(plan: Plan, viewer: Viewer) -> Filter:
    """What this asker may find with this plan. The viewer's channels always bound the plan's."""
    within = viewer.channels if plan.channels is None else viewer.channels & plan.channels
    return Filter(within, plan.since, plan.until)


async def search(plan: Plan, viewer: Viewer, rag: Rag) -> tuple[Hit, ...]:
    """The best passages for the plan's own query, best first. Raises IndexUnavailable, ArchiveUnavailable."""
    if not plan.queries or not viewer.channels:
        return ()
    only = allowed(plan, viewer)
    # numpy lets go of the interpreter while it scores, so that a large index does not stop the bot
    found = await asyncio.to_thread(rag.lexical.search, terms(plan.queries[0]), only, plan.k)
    passages = await fetch([place for place, _ in found], rag)
    return tuple(Hit(passages[place], score, LEXICAL) for place, score in found if place in passages)


async def matching(words: Sequence[str], plan: Plan, viewer: Viewer, rag: Rag) -> list[Place]:
    """Every post that holds all the terms itself, oldest first, by a place in it.

    The index finds them in headers too: a channel's title would make every post of it a match. So each is
    read: about 50 µs a post.
    """
    if not words or not viewer.channels:
        return []
    found = await asyncio.to_thread(rag.lexical.matching, words, allowed(plan, viewer))
    places = list({place.key: place for place in reversed(found)}.values())[::-1]
    kept: list[Place] = []
    for first in range(0, len(places), _READ):
        some = places[first : first + _READ]
        stored = await posts.get(rag.archive, [place.key for place in some])
        kept += await asyncio.to_thread(_holding, some, stored, frozenset(words))
    return kept


def _holding(places: Sequence[Place], stored: dict[PostKey, Post], words: frozenset[str]) -> list[Place]:
    return [place for place in places if (post := stored.get(place.key)) and words <= frozenset(terms(_own(post)))]


def _own(post: Post) -> str:
    return f"{post.text}\n{post.media.file_name}" if post.media and post.media.file_name else post.text


async def fetch(places: Sequence[Place], rag: Rag) -> dict[Place, Passage]:
    """The passages as they stand in the archive now; what was deleted or shortened since is left out."""
    keys = {place.key for place in places}
    stored = await posts.get(rag.archive, keys)
    parents = await posts.parents(rag.archive, [key for key, post in stored.items() if post.reply_to])
    known = await channels.known(rag.archive)
    return {
        place: _passage(place, post, header(post, known.get(post.key.chat_id), parents.get(post.key)))
        for place in places
        if (post := stored.get(place.key)) and place.end <= len(post.text)
    }


def _passage(place: Place, post: Post, line: str) -> Passage:
    text = post.text[place.start : place.end]
    return Passage(post.key, place.part, line, text, place.start, place.end, post.date, post.edited, post.origin)
