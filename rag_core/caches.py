"""What was worked out a moment ago, so that what is asked again costs little: plans, what a search found, verdicts.

Who may read what is part of every key, and all of it goes when an index has changed. What was found is kept as
places and scores, never as texts: texts are read from the archive each time, so that an edit or a deletion shows
at once. Verdicts hold quotes: the last change of the archive is part of their key. Posts themselves are not kept:
SQLite reads the 40 of a question in 0.7 ms, among 100,000, of the 30 that an answer takes; what is kept here spares 14.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cachetools import TTLCache

from rag_core.doors.lexical import Place
from rag_core.types import Channel, Plan, Question

if TYPE_CHECKING:
    from rag_core.verify.verdict import Verdict

__all__ = ["Caches", "Found", "Memory", "Version", "hits_key", "plan_key"]

V = TypeVar("V")
Version = tuple[Hashable, ...]
Clock = Callable[[], float]  # seconds, from any beginning

_PLANS, _PLANS_S = 1000, 600.0  # 1 kB each
_HITS, _HITS_S = 500, 300.0  # 11 kB each: 41 places on average
_VERDICTS, _VERDICTS_S = 500, 300.0  # 3 kB each


@dataclass(frozen=True, slots=True)
class Found:
    """A hit without its text; `score`, `leg` and `likeness` as in `Hit`."""

    place: Place
    score: float
    leg: str
    likeness: float


class Memory(Generic[V]):
    """Values by key, at most so many and for so many seconds, all of one version of the indexes. For any thread.

    An index may change while a value is worked out: so a value comes with the version it was begun with.
    """

    def __init__(self, most: int, seconds: float, clock: Clock) -> None:
        self._kept: TTLCache[Hashable, V] = TTLCache(most, seconds, timer=clock)
        self._version: Version | None = None
        self._turn = threading.Lock()  # cachetools leaves it to its users
        self.looks = self.hits = 0

    def __len__(self) -> int:
        with self._turn:
            self._kept.expire()
            return len(self._kept)

    def get(self, key: Hashable, version: Version) -> V | None:
        """What is known; None where nothing is. With a version other than before everything is forgotten."""
        with self._turn:
            if version != self._version:
                self._kept.clear()
                self._version = version
            found = self._kept.get(key)
            self.looks += 1
            self.hits += found is not None
            return found

    def put(self, key: Hashable, version: Version, value: V) -> None:
        """Keep a value, unless somebody has asked with another version meanwhile."""
        with self._turn:
            if version == self._version:
                self._kept[key] = value

    def forget(self) -> None:
        """Drop everything."""
        with self._turn:
            self._kept.clear()


class Caches:
    """The memories of one opened installation: they end with it."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.plans: Memory[Plan] = Memory(_PLANS, _PLANS_S, clock)
        self.hits: Memory[tuple[Found, ...]] = Memory(_HITS, _HITS_S, clock)
        self.verdicts: Memory[Verdict] = Memory(_VERDICTS, _VERDICTS_S, clock)
        self._all: tuple[Memory[Any], ...] = (self.plans, self.hits, self.verdicts)

    def forget(self) -> None:
        """Drop everything, as a question is part of what it was found by."""
        for memory in self._all:
            memory.forget()

    @property
    def counts(self) -> tuple[int, int]:
        """How often something was known, and how often it was looked for."""
        return sum(memory.hits for memory in self._all), sum(memory.looks for memory in self._all)


def plan_key(question: Question, known: Mapping[int, Channel]) -> Hashable:
    """All that a plan is made of: the words, the day they were asked ("yesterday") and where, what may be named."""
    asked, readable = question.asked_at, question.viewer.channels
    named = frozenset(known[chat] for chat in readable if chat in known)
    return question.text, question.lang, asked.date(), asked.tzinfo, readable, named


def hits_key(plan: Plan, question: Question, change: int) -> Hashable:
    """All that the hits depend on: route, queries and filters are the plan's; the channels are the viewer's.

    `change`: of the archive, where the plan looks for what only the archive knows (author, kind ...), else 0.
    """
    return plan, question.lang, question.viewer.channels, change
