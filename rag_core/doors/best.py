"""The best of what a query found: one score per document in this thread's memory, the n highest out of it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rag_core.doors.segments import Docs

__all__ = ["Floats", "cleared", "strongest"]

Floats = NDArray[np.float64]

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


def _distinct(docs: Docs) -> Docs:
    """As numpy.unique, which takes three times as long for a few."""
    docs.sort()
    first = np.ones(len(docs), np.bool_)
    np.not_equal(docs[1:], docs[:-1], out=first[1:])
    return docs[first]
