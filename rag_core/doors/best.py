"""The best of what a query found: one score per document in this thread's memory, the n highest out of it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rag_core.doors.segments import Docs

__all__ = ["Floats", "best_in_order", "cleared", "strongest"]

Floats = NDArray[np.float64]

_DIGITS = 6  # of a score: single precision has seven
_MOST_TIED = 20_000  # hits that are read at most to put equal ones in order

T = TypeVar("T")

_FIRST, _MORE = 1024, 8  # rows looked at first, and how many times more at each further look

_desk = threading.local()


def cleared(size: int) -> Floats:
    """This thread's scores, all zero, to be left all zero: fresh memory would cost more than the query."""
    scores: Floats | None = getattr(_desk, "scores", None)
    if scores is None or len(scores) < size:
        scores = _desk.scores = np.zeros(size * 5 // 4 + 1024)
    return scores


def strongest(rows: Docs, scores: Floats, n: int, shown: Callable[[Docs], Docs]) -> Docs:
    """The n best of the documents that may be shown, best first; of equal ones those with the least numbers.

    A document may stand in `rows` several times. Likely ones should come first: they set the bar, and of the
    rest little is looked at twice.
    """
    pool, bar, at, step = rows[:0], -math.inf, 0, _FIRST
    while at < len(rows):
        some = rows[at : at + step]
        pool = _distinct(np.concatenate([pool, shown(some[scores.take(some) >= bar])]))
        if len(pool) > n:
            reached = scores.take(pool)
            bar = float(np.partition(reached, len(pool) - n)[len(pool) - n])
            pool = pool[reached >= bar]
        at, step = at + step, step * _MORE
    return pool[np.argsort(-scores.take(pool), kind="stable")[:n]]


def best_in_order(nearest: Callable[[int], list[tuple[T, float]]], n: int) -> list[tuple[T, float]]:
    """The n best of a search engine, best first, equal scores in the order of the items themselves.

    An engine may return hits of one score in any order, and cut through them: that order can depend on points
    that its filter hides. So where the cut falls among equals, more is asked for (`nearest` takes how many). Scores
    are rounded: the last bits of a sum of floats depend on where a point is stored.
    """
    most = n + 1
    while True:
        found = [(item, round(score, _DIGITS)) for item, score in nearest(most)]
        found.sort(key=lambda hit: (-hit[1], hit[0]))
        if len(found) < most or most >= _MOST_TIED or found[-1][1] < found[n - 1][1]:
            return found[:n]
        most = min(_MOST_TIED, most * 4)


def _distinct(docs: Docs) -> Docs:
    """As numpy.unique, which takes three times as long for a few."""
    docs.sort()
    first = np.ones(len(docs), np.bool_)
    np.not_equal(docs[1:], docs[:-1], out=first[1:])
    return docs[first]
