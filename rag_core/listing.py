"""What /search shows: every post that holds all the words, best first, then what is near; or all posts of a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rag_core.analysis import terms
from rag_core.compose import compose
from rag_core.doors.archive import channels, copies, posts
from rag_core.doors.archive.copies import Copies
from rag_core.doors.lexical import Filter
from rag_core.rag import Rag
from rag_core.search import search
from rag_core.sought import Sought, sought
from rag_core.spots import Spots
from rag_core.stage import Run
from rag_core.types import Channel, Hit, Passage, Post, PostKey, Question, Shortfall, Viewer
from rag_core.within import within

__all__ = ["MOST", "Found", "Listing", "listing"]

MOST = 500  # posts listed that hold the words: a hundred pages, and to look at each costs a third of a millisecond
_READ = 500  # posts at a time, so that others get at the archive in between
_SCORED = 4 * MOST  # passages put in order by their scores; what comes behind them is newest first

_Posts = dict[PostKey, Post]


@dataclass(frozen=True, slots=True)
class Found:
    """A post, and the posts that say the same; `whole` where it is not merely near what was looked for."""

    post: Post
    copies: tuple[PostKey, ...] = ()
    whole: bool = True

    @property
    def text(self) -> str:
        """What the post itself says."""
        return _own(self.post)


@dataclass(frozen=True, slots=True)
class Listing:
    """What was found, those that hold all the words first; of posts that say the same only one.

    `only` is what the filters let through. `matching` is how many posts hold the words, each copy counted:
    exact, but for `more`, where there are further ones that are not listed.
    """

    sought: Sought
    only: Filter
    spots: Spots
    found: tuple[Found, ...]
    matching: int
    more: bool
    channels: Mapping[int, Channel]
    shortfalls: tuple[Shortfall, ...]

    @property
    def whole(self) -> int:
        """How many of those listed hold all the words."""
        return sum(one.whole for one in self.found)


@dataclass(frozen=True, slots=True)
class _Search:
    """A search on its way."""

    question: Question
    sought: Sought
    only: Filter
    spots: Spots
    rag: Rag
    run: Run

    def whole(self, post: Post) -> bool:
        """Whether a post holds all the words."""
        return self.spots.all_in(_own(post))

    def near(self, post: Post) -> bool:
        """Whether a post holds at least the phrases."""
        return self.spots.phrases_in(_own(post))


async def listing(question: Question, rag: Rag) -> Listing:
    """List what this asker may read. Nothing where neither words nor filters were understood.

    An index that is down is not "nothing found": raises IndexUnavailable, ArchiveUnavailable, StageTimeout.
    """
    run = Run(rag.settings.budgets, "search", shortfalls=list(rag.without))
    try:
        known = await channels.known(rag.archive)
        wanted = sought(question, known)
        only = await run.require("filter", within(wanted.plan, question.viewer, rag))
        spots = Spots.of(wanted.words, wanted.plan.must)
        one = _Search(question, wanted, only, spots, rag, run)
        whole, near, more = await _found(one) if wanted.words or wanted.filters else ({}, {}, False)
        entries = await _folded(whole, near, question.viewer, rag, run)
        if await posts.count_unindexed(rag.archive, rag.lexical.watermark, question.viewer.channels):
            run.shortfalls.append(Shortfall("search", "Some posts are not in the index yet."))
        seen = {chat: channel for chat, channel in known.items() if chat in question.viewer.channels}
        return Listing(wanted, only, spots, entries, len(whole), more, seen, tuple(run.shortfalls))
    finally:
        rag.traced(run)


async def _found(one: _Search) -> tuple[_Posts, _Posts, bool]:
    """The posts that hold the words, those that are near, both best first; and whether there are more of the first."""
    if not one.sought.words:
        whole, more = await one.run.require("lexical", _posted(one))
        return whole, {}, more
    nothing: tuple[_Posts, bool] = ({}, False)
    whole, more = await one.run.attempt("chronicle", _holding(one), nothing)
    hits = await search(one.sought.plan, one.question, one.rag, one.run)
    best = dict.fromkeys(hit.passage.key for hit in hits)
    ordered = {key: whole[key] for key in (*(key for key in best if key in whole), *whole)}
    near, _ = await one.run.require("fetch", _read([key for key in best if key not in whole], one.near, one.rag))
    return ordered, near, more


async def _posted(one: _Search) -> tuple[_Posts, bool]:
    """All posts that the filters let through, newest first."""
    places = await asyncio.to_thread(one.rag.lexical.all_of, one.only)
    return await _read([place.key for place in reversed(places)], one.whole, one.rag)


async def _holding(one: _Search) -> tuple[_Posts, bool]:
    """The posts that hold all the words: what the index finds by their stems is read and looked at."""
    return await _read(await asyncio.to_thread(_by_stems, one), one.whole, one.rag)


def _by_stems(one: _Search) -> list[PostKey]:
    """The posts that hold a stem of each word, also in different passages; best first."""
    lexical, only = one.rag.lexical, one.only
    each = [
        dict.fromkeys(place.key for place in reversed(lexical.matching(stems[:1], only, *((s,) for s in stems[1:]))))
        for stems in (word.terms for word in one.spots.words)
    ]
    fewest = min(each, key=len, default={})
    held = {key: None for key in fewest if all(key in keys for keys in each)}
    scored = lexical.search(terms(one.sought.words), only, _SCORED) if len(held) > 1 else []
    return list(dict.fromkeys((*(place.key for place, _ in scored if place.key in held), *held)))


async def _read(keys: Sequence[PostKey], fits: Callable[[Post], bool], rag: Rag) -> tuple[_Posts, bool]:
    """The first posts that fit, and whether there are more of them."""
    kept: _Posts = {}
    for first in range(0, len(keys), _READ):
        some = keys[first : first + _READ]
        stored = await posts.get(rag.archive, some)
        fitting = await asyncio.to_thread(_fitting, (stored[key] for key in some if key in stored), fits)
        room = MOST - len(kept)
        kept |= {post.key: post for post in fitting[:room]}
        if len(fitting) > room:
            return kept, True
    return kept, False


def _fitting(stored: Iterable[Post], fits: Callable[[Post], bool]) -> list[Post]:
    return [post for post in stored if fits(post)]


def _own(post: Post) -> str:
    """What a post itself says: its text and the name of its file."""
    name = post.media.file_name if post.media else None
    return "\n".join(filter(None, (post.text, name)))


async def _folded(whole: _Posts, near: _Posts, viewer: Viewer, rag: Rag, run: Run) -> tuple[Found, ...]:
    """Of posts that say the same the original, with the others as its copies; where the best of them stood."""
    if not whole and not near:
        return ()
    everything = {**whole, **near}
    known = await run.attempt("copies", copies.known(rag.archive, everything, viewer.channels), dict)
    return await asyncio.to_thread(_entries, everything, whole, known)


def _entries(everything: _Posts, whole: _Posts, known: Mapping[PostKey, Copies]) -> tuple[Found, ...]:
    hits = [Hit(_passage(post), 0.0, "") for post in everything.values()]
    cited = [source.passage for source in compose(hits, known, len(hits)).sources]
    return tuple(Found(everything[p.key], p.copies, any(key in whole for key in (p.key, *p.copies))) for p in cited)


def _passage(post: Post) -> Passage:
    """All of a post, so that its parts are one."""
    return Passage(post.key, 0, "", post.text, 0, len(post.text), post.date, post.edited, post.origin)
