"""Further queries beside the question's own: they fill the places behind what the question itself finds first.

With votes for every rank, further queries pushed aside what the question had found: recall@1 fell from 0.38 to
0.22 on MuSiQue. So the first five stay, and behind them the rankings are fused by weighted RRF.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from rag_core.analysis import terms
from rag_core.doors.lexical import Filter, Place
from rag_core.fuse import RRF_K
from rag_core.names import names
from rag_core.rag import Rag
from rag_core.types import Passage, Plan

__all__ = ["FOLLOWING", "LIKE", "OTHER", "behind", "by_each", "further", "names_around"]

Ranked = list[tuple[Place, float]]

_STAY = 5  # posts of the question's own hits
OTHER, FOLLOWING = 0.15, 0.5  # what a vote of another query weighs, and of the one that follows the first hits
LIKE = 1.0  # what is near a post made up as an answer; not fitted, so it stays behind the first five as well
_SOURCES, _NAMES = 2, 6


def further(plan: Plan) -> tuple[str, ...]:
    """The queries after the first; what must stand in a post has one of its own."""
    return (*plan.queries[1:], " ".join(plan.must)) if plan.must else plan.queries[1:]


async def by_each(queries: Sequence[str], only: Filter, n: int, rag: Rag) -> list[Ranked]:
    """The lexical leg for each query, in one thread: they are short, and threads would wait for each other."""

    def search() -> list[Ranked]:
        return [rag.lexical.search(terms(query), only, n) for query in queries]

    return await asyncio.to_thread(search) if queries else []


def names_around(question: str, passages: Sequence[Passage]) -> str:
    """The names that the best passages bring and the question does not have: what it joins may stand with them."""
    asked = set(terms(question))
    found = Counter(
        name[0]
        for passage in passages[:_SOURCES]
        for name in names(passage.text)
        if len(name[0]) > 3 and not asked & set(terms(name[0]))
    )
    return " ".join(name for name, _ in found.most_common(_NAMES))


def behind(own: Ranked, others: Sequence[tuple[Ranked, float]]) -> Ranked:
    """The first hits of `own`, then all others by weighted reciprocal ranks; each keeps the score it has in `own`."""
    votes: dict[Place, float] = {}
    for ranking, weight in ((own, 1.0), *others):
        for rank, (place, _) in enumerate(ranking, 1):
            votes[place] = votes.get(place, 0.0) + weight / (RRF_K + rank)
    scores = dict(own)
    stay = set(list(dict.fromkeys(place.key for place, _ in own))[:_STAY])
    last = max((n for n, (place, _) in enumerate(own, 1) if place.key in stay), default=0)
    first = [place for place, _ in own[:last] if place.key in stay]
    rest = sorted(votes.keys() - set(first), key=lambda place: -votes[place])
    return [(place, scores.get(place, 0.0)) for place in (*first, *rest)]
