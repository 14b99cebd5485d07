"""Plan to hits: the legs, filtered by what the asker may read, and the texts of what they found."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rag_core.analysis import terms
from rag_core.compose import fingerprint
from rag_core.doors.archive import channels, posts
from rag_core.doors.lexical import Filter, Place
from rag_core.fuse import diverse
from rag_core.header import header
from rag_core.rag import Rag
from rag_core.settings import SearchSettings
from rag_core.stage import Run
from rag_core.types import Hit, Kind, Passage, Plan, Post, PostKey, Question, Viewer

__all__ = ["allowed", "by_meaning", "by_words", "fetch", "matching", "search"]

LEXICAL, DENSE, BOTH = "lexical", "dense", "both"

Ranked = list[tuple[Place, float]]
Vector = NDArray[np.float32]

_RIGHT_ANGLE = 1e-3  # 16-bit vectors of different languages are at right angles but for rounding
_READ = 1000  # posts at a time, so that others get at the archive in between


def allowed(plan: Plan, viewer: Viewer) -> Filter:
    """What this asker may find with this plan. The viewer's channels always bound the plan's."""
    within = viewer.channels if plan.channels is None else viewer.channels & plan.channels
    return Filter(within, plan.since, plan.until)


async def search(plan: Plan, question: Question, rag: Rag, run: Run) -> tuple[Hit, ...]:
    """The best passages for the plan's own query, best first.

    Without the dense leg the lexical one is enough; the lexical leg has no stand-in, because an index that is
    down is not "nothing found". Raises IndexUnavailable, ArchiveUnavailable, StageTimeout.
    """
    if not plan.queries or not question.viewer.channels:
        return ()
    only, query = allowed(plan, question.viewer), plan.queries[0]
    meaning = asyncio.ensure_future(run.attempt("dense", by_meaning(query, only, plan.k, rag), ([], None)))
    try:
        lexical = await run.require("lexical", by_words(query, only, plan.k, rag))
        near, vector = await meaning
    finally:
        meaning.cancel()  # nobody waits for it where the lexical leg failed
    fused = _fused(lexical, near, question.lang, rag)
    passages = await run.require("fetch", fetch([place for place, _ in fused], rag))
    fused = [pair for pair in fused if pair[0] in passages]
    nothing: tuple[dict[Place, float], Ranked] = ({}, fused[: rag.settings.retrieval.keep])
    likeness, fused = await run.attempt("diverse", _diverse(fused, vector, passages, rag), nothing)
    legs = {place: LEXICAL for place, _ in lexical}
    legs |= {place: BOTH if place in legs else DENSE for place, _ in near}
    return tuple(Hit(passages[place], score, legs[place], likeness.get(place, 0.0)) for place, score in fused)


async def by_words(query: str, only: Filter, n: int, rag: Rag) -> Ranked:
    """The lexical leg, best first."""
    # numpy lets go of the interpreter while it scores, so that a large index does not stop the bot
    return await asyncio.to_thread(rag.lexical.search, terms(query), only, n)


async def by_meaning(query: str, only: Filter, n: int, rag: Rag) -> tuple[Ranked, Vector | None]:
    """The dense leg, best first, and the vector of the query; nothing and None where there is no model.

    What is at right angles or worse has nothing in common with the question: it is no hit.
    """
    if rag.dense is None:
        return [], None
    vector = await rag.dense.embedder.query(query)
    if not vector.any():
        return [], None  # no word of it is known to the model
    found = await rag.dense.vectors.search(vector, only, n)
    return [(place, score) for place, score in found if score > _RIGHT_ANGLE], vector


def _fused(lexical: Ranked, near: Ranked, lang: str, rag: Rag) -> Ranked:
    if not near or rag.dense is None:
        return lexical
    return rag.calibration.fusion(rag.dense.model, lang, rag.settings.retrieval.dense)(lexical, near)


async def _diverse(
    fused: Ranked, vector: Vector | None, passages: dict[Place, Passage], rag: Rag
) -> tuple[dict[Place, float], Ranked]:
    """The cosines of the hits to the question, and the hits without what is too much like others."""
    stored: dict[Place, Vector] = {}
    if vector is not None and rag.dense is not None:
        stored = await rag.dense.vectors.vectors_of([place for place, _ in fused])
    likeness = {place: float(v @ vector) for place, v in stored.items()} if vector is not None else {}
    return likeness, await asyncio.to_thread(_unlike, fused, stored, passages, rag.settings.retrieval)


def _unlike(
    fused: Ranked, stored: dict[Place, Vector], passages: dict[Place, Passage], settings: SearchSettings
) -> Ranked:
    """What MMR keeps, by stored vectors, by shared terms where there are none. The same text counts once.

    Copies stay with the text they repeat: they say in how many channels it stands.
    """
    groups: dict[str, Ranked] = {}
    for place, score in fused:
        groups.setdefault(fingerprint(passages[place].text) or str(place), []).append((place, score))
    firsts = [group[0] for group in groups.values()]
    if len(firsts) <= settings.keep:
        return fused
    words = {place: frozenset(terms(passages[place].text)) for place, _ in firsts if place not in stored}

    def alike(one: Place, other: Place) -> float:
        a, b = words.get(one, frozenset()), words.get(other, frozenset())
        return len(a & b) / max(1, len(a | b))

    kept = {place for place, _ in diverse(firsts, stored, settings.keep, settings.diversity, alike)}
    found = {place for group in groups.values() if group[0][0] in kept for place, _ in group}
    return [pair for pair in fused if pair[0] in found]


async def matching(words: Sequence[str], plan: Plan, viewer: Viewer, rag: Rag) -> list[Place]:
    """Every post that holds all the terms itself, by a place in it, oldest first; for LAST newest first.

    The index finds them in headers too: a channel's title would make every post of it a match. So each is
    read: about 50 µs a post. For the first and the last mention reading ends with the posts that have it.
    """
    if not words or not viewer.channels:
        return []
    found = await asyncio.to_thread(rag.lexical.matching, words, allowed(plan, viewer))
    places = list({place.key: place for place in reversed(found)}.values())
    if plan.kind is not Kind.LAST:
        places.reverse()
    kept: list[Place] = []
    for first in range(0, len(places), _READ):
        some = places[first : first + _READ]
        stored = await posts.get(rag.archive, [place.key for place in some])
        kept += await asyncio.to_thread(_holding, some, stored, frozenset(words))
        if kept and plan.kind in {Kind.FIRST, Kind.LAST}:
            break
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
