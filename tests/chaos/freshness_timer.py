"""How long each leg took to find each version of a post."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from rag_core.retrieval.hybrid import DENSE, LEXICAL
from rag_core.types import Answer, Post, PostKey

Version = tuple[PostKey, str]  # a post by what it says

# What the dense leg has: queued, and out of the queue again.
_TAKEN = (
    "SELECT chat_id, message_id, text FROM posts WHERE message_id IN (SELECT value FROM json_each(?)) "
    "AND seq <= (SELECT watermark FROM dense) "
    "AND (chat_id, message_id) NOT IN (SELECT chat_id, message_id FROM to_embed)"
)


class Stopwatch:
    """A watch that stops a clock when a leg takes a version in, and keeps what a reader's question found.

    The lexical leg tells it; the dense leg tells only when it has no more to do, so its queue is looked at.
    """

    def __init__(self, legs: Sequence[str]) -> None:
        self.begun: dict[Version, tuple[str, float]] = {}  # -> what it is, when Telegram had it
        self.took: dict[str, dict[Version, float]] = {leg: {} for leg in legs}  # leg -> seconds
        self.found: dict[int, dict[PostKey, str]] = {}  # by the question's message: post -> leg

    def show_answer(self, chat_id: int, message_id: int, answer: Answer) -> None:
        """See `bot.indexing_worker.BotObserver`."""
        self.found[message_id] = {source.passage.key: source.leg for source in answer.found}

    def show_progress(self, leg: str, waiting: int, taken: Sequence[Post]) -> None:
        """See `bot.indexing_worker.BotObserver`."""
        if leg == LEXICAL:
            self._take(leg, [(post.key, post.text) for post in taken])

    async def look(self, file: Path) -> None:
        """Look at the dense leg's queue in the archive, ten times a second, until cancelled."""
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
            while True:
                left = {key.message_id for key, _ in self.begun.keys() - self.took[DENSE].keys()}
                rows = connection.execute(_TAKEN, (json.dumps(list(left)),)).fetchall()
                self._take(DENSE, [(PostKey(chat, message), text) for chat, message, text in rows])
                await asyncio.sleep(0.1)

    def _take(self, leg: str, versions: Iterable[Version]) -> None:
        now = time.monotonic()
        for version in versions:
            if version in self.begun:
                self.took[leg].setdefault(version, now - self.begun[version][1])

    def everywhere(self, version: Version) -> bool:
        """Whether every leg has taken it in."""
        return all(version in took for took in self.took.values())

    def missing(self) -> int:
        """How many versions some leg has not taken in."""
        return sum(not self.everywhere(version) for version in self.begun)

    def figures(self) -> dict[str, Any]:
        """Seconds by leg, and by what it was."""
        kinds = sorted({kind for kind, _ in self.begun.values()})
        return {
            leg: {kind: _spread([s for version, s in took.items() if self.begun[version][0] == kind]) for kind in kinds}
            for leg, took in self.took.items()
        }


def _spread(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {"number": 0}
    p50, p95 = np.percentile(seconds, [50, 95])
    rounded = {name: round(float(s), 2) for name, s in (("p50_s", p50), ("p95_s", p95), ("most_s", max(seconds)))}
    return {"number": len(seconds)} | rounded
