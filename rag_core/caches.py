"""Caches of one engine: recent plans, search hits and judgements, limited in number and age.

The channels a viewer may read are part of every key, and a change of an index empties the caches of what it may
change. Hits are kept as passage references and scores, never as texts: texts are read from the archive each time, so
that an edit or a deletion shows at once.
Posts are not cached: SQLite reads the 40 posts of a question in 0.7 ms among 100,000, while an answer takes 30 ms and
these caches save 14.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from cachetools import TTLCache

from rag_core.types import Channel, DroppedSentence, PassageRef, Plan, Question

V = TypeVar("V")
IndexVersion = tuple[Hashable, ...]
Clock = Callable[[], float]  # seconds, from any starting point

_MAX_PLANS, _PLANS_TTL_S = 1000, 600.0  # 1 kB each
_MAX_HITS, _HITS_TTL_S = 500, 300.0  # 11 kB each: 41 passage references on average
_MAX_DROPPED, _DROPPED_TTL_S = 200, 86_400.0  # answers, 1 kB each
_MAX_JUDGEMENTS, _JUDGEMENTS_TTL_S = 10_000, 86_400.0  # 300 bytes each, and seconds of a model


@dataclass(frozen=True, slots=True)
class CachedHit:
    """Hit without its text; `score`, `leg` and `likeness` as in `Hit`."""

    place: PassageRef
    score: float
    leg: str
    likeness: float


class VersionedCache(Generic[V]):
    """TTL cache limited to `most` values, all of one version of the indexes. Thread-safe.

    An index may change while a value is computed: a value is stored with the version at which its work began.
    """

    def __init__(self, most: int, seconds: float, clock: Clock) -> None:
        self._kept: TTLCache[Hashable, V] = TTLCache(most, seconds, timer=clock)
        self._version: IndexVersion | None = None
        self._lock = threading.Lock()  # cachetools does not lock
        self.looks = self.hits = 0

    def __len__(self) -> int:
        with self._lock:
            self._kept.expire()
            return len(self._kept)

    def get(self, key: Hashable, version: IndexVersion) -> V | None:
        """Look a value up; None where there is none. A new version empties the cache."""
        with self._lock:
            if version != self._version:
                self._kept.clear()
                self._version = version
            found = self._kept.get(key)
            self.looks += 1
            self.hits += found is not None
            return found

    def store(self, key: Hashable, version: IndexVersion, value: V) -> None:
        """Store a value, unless a lookup with another version came meanwhile."""
        with self._lock:
            if version == self._version:
                self._kept[key] = value

    def forget(self) -> None:
        """Drop everything."""
        with self._lock:
            self._kept.clear()


class Caches:
    """Caches of one engine, in memory only."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.plans: VersionedCache[Plan] = VersionedCache(_MAX_PLANS, _PLANS_TTL_S, clock)
        self.hits: VersionedCache[tuple[CachedHit, ...]] = VersionedCache(_MAX_HITS, _HITS_TTL_S, clock)
        # log odds by model and prompt, which is made of the question and of a quote that its reader may see
        self.judgements: VersionedCache[float] = VersionedCache(_MAX_JUDGEMENTS, _JUDGEMENTS_TTL_S, clock)
        # what a model wrote and is not shown, by trace id, for /why: it is kept nowhere else
        self.dropped: TTLCache[str, tuple[DroppedSentence, ...]] = TTLCache(_MAX_DROPPED, _DROPPED_TTL_S, timer=clock)

    def forget(self) -> None:
        """Drop everything: keys contain the texts of questions."""
        for cache in (self.plans, self.hits, self.judgements):
            cache.forget()
        self.dropped.clear()

    @property
    def counts(self) -> tuple[int, int]:
        """Number of hits and of lookups, of the caches that hold results of questions."""
        return self.plans.hits + self.hits.hits, self.plans.looks + self.hits.looks


def make_plan_key(question: Question, known: Mapping[int, Channel]) -> Hashable:
    """Key of a plan: text, language, day and time zone ("yesterday"), and the readable channels with their names."""
    asked, readable = question.asked_at, question.viewer.channels
    named = frozenset(known[chat] for chat in readable if chat in known)
    return question.text, question.lang, asked.date(), asked.tzinfo, readable, named
