"""Plan to hits: the legs, filtered by what the asker may read, and the texts of what they found."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from rag_core.analysis import terms
from rag_core.caches import Found, hits_key
from rag_core.doors.archive import channels, posts
from rag_core.doors.lexical import Place
from rag_core.further import FOLLOWING, LIKE, OTHER, behind, by_each, further, names_around
from rag_core.header import header
from rag_core.legs import BOTH, DENSE, LEXICAL, Query, Ranked, Ranking, by_both, by_meaning, by_words
from rag_core.rag import Rag
from rag_core.stage import Run
from rag_core.types import Hit, Passage, Plan, Post, Question
from rag_core.varied import varied
from rag_core.within import allowed, within

__all__ = ["BOTH", "DENSE", "LEXICAL", "allowed", "by_meaning", "by_words", "fetch", "search"]

_OTHERS = 20  # hits of each further query
_JOINING = 5  # terms of a question that may join two things
_READ = 80  # passages that are read and compared with each other, at least: twice as many as are kept


async def search(plan: Plan, question: Question, rag: Rag, run: Run) -> tuple[Hit, ...]:
    """The best passages for the plan, best first; those of a moment ago where nothing has changed since.

    Raises IndexUnavailable, ArchiveUnavailable, StageTimeout.
    """
    if not plan.queries or not question.viewer.channels:
        return ()
    async with run.stage("recall"):
        key, version = await _key(plan, question, rag), rag.version
        found = rag.caches.hits.get(key, version)
        run.note(cache_hit=float(found is not None))
    if found is not None:
        passages = await run.require("fetch", fetch([hit.place for hit in found], rag))
    else:
        before = len(run.shortfalls)
        found, passages = await _searched(plan, question, rag, run)
        if len(run.shortfalls) == before:  # what was found with something missing is not all there is
            rag.caches.hits.put(key, version, found)
    known = [(hit, passages[hit.place]) for hit in found if hit.place in passages]
    return tuple(Hit(passage, hit.score, hit.leg, hit.likeness) for hit, passage in known)


async def _key(plan: Plan, question: Question, rag: Rag) -> Hashable:
    return hits_key(plan, question, await posts.last_seq(rag.archive) if plan.narrowed else 0)


async def _searched(
    plan: Plan, question: Question, rag: Rag, run: Run
) -> tuple[tuple[Found, ...], dict[Place, Passage]]:
    """What the plan's own query finds, then what the others add; and the passages that stand there.

    Each leg can stand in for the other; when both fail that is said, because an index that is down is not
    "nothing found".
    """
    keep = rag.settings.retrieval.keep
    only = await run.require("filter", within(plan, question.viewer, rag))
    query = Query(plan.queries[0], plan.legs, plan.k, only, question.lang, plan.should)
    own = await by_both(query, rag, run)
    fused = behind(own.ranked, await _further(plan, query, own, rag, run))[: max(_READ, 2 * keep)]
    passages = await run.require("fetch", fetch([place for place, _ in fused], rag))
    fused = [pair for pair in fused if pair[0] in passages]
    nothing: tuple[dict[Place, float], Ranked] = ({}, fused[:keep])
    likeness, fused = await run.attempt("diverse", varied(fused, own.vector, passages, rag), nothing)
    found = (Found(place, score, own.legs.get(place, LEXICAL), likeness.get(place, 0.0)) for place, score in fused)
    return tuple(found), passages


async def _further(plan: Plan, query: Query, own: Ranking, rag: Rag, run: Run) -> list[tuple[Ranked, float]]:
    """What the further queries find and what their votes weigh; nothing where the lexical leg does not answer."""
    if not own.by_words:
        return []
    others = await run.attempt("queries", by_each(further(plan), query.only, _OTHERS, rag), list[Ranked])
    rankings = [(ranking, OTHER) for ranking in others]
    if len(plan.queries) > 1 and len(terms(query.text)) >= _JOINING:
        following = await run.attempt("follow", _following(query, own, rag, run), list[Ranked])
        rankings += [(ranking, FOLLOWING) for ranking in following]
    if plan.like:
        similar, _ = await run.attempt("dense", by_meaning(plan.like, query.only, query.k, rag), ([], None))
        rankings.append((similar, LIKE))
    return rankings


async def _following(query: Query, own: Ranking, rag: Rag, run: Run) -> list[Ranked]:
    """The question once more with the names that its best hits bring: for what joins two things."""
    best = [place for place, _ in own.ranked[:2]]
    passages = await fetch(best, rag)
    names = names_around(query.text, [passages[place] for place in best if place in passages])
    if not names:
        return []
    again = replace(query, text=f"{query.text} {names}")
    # a dense leg that did not answer is not asked again
    return [(await by_both(again, rag, run, meaning=own.vector is not None)).ranked]


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
