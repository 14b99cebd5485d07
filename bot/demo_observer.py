"""Observer protocol: reports answers and indexing progress to the demo's page. It has no effect on the bot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from rag_core.storage import Archive, posts
from rag_core.types import Answer, Post

__all__ = ["BotObserver", "IndexProgressReporter"]


class BotObserver(Protocol):
    """Observer of the bot. Both methods return at once and raise nothing."""

    def answered(self, chat_id: int, message_id: int, answer: Answer) -> None:
        """The question in this message has been answered; `answer.found` holds only posts that its asker may read."""

    def indexed(self, leg: str, waiting: int, taken: Sequence[Post]) -> None:
        """A leg ("lexical", "dense") has this many changes waiting, and has indexed these posts."""


class IndexProgressReporter:
    """Reports the indexing progress of one leg to an observer."""

    def __init__(self, watch: BotObserver, archive: Archive, leg: str) -> None:
        self._observer = watch
        self._archive = archive
        self._leg = leg
        self._reported = 0

    async def begin(self) -> None:
        """Skip the posts that are in the archive now."""
        self._reported = await posts.get_last_seq(self._archive)
        self._observer.indexed(self._leg, 0, ())

    async def during(self, catch_up: Callable[[Callable[[int], None]], Awaitable[int]]) -> int:
        """Run `catch_up`, report its progress and return its result."""
        # Changes made while the leg works are reported next time: it may or may not have indexed them.
        until = await posts.get_last_seq(self._archive)
        if waiting := until - self._reported:
            self._observer.indexed(self._leg, waiting, ())
        done = await catch_up(lambda n: self._observer.indexed(self._leg, max(0, waiting - n), ()))
        while batch := [c for c in await posts.list_post_changes(self._archive, self._reported) if c.seq <= until]:
            self._reported = batch[-1].seq
            self._observer.indexed(self._leg, until - self._reported, [c.post for c in batch if c.post])
        self._reported = until
        self._observer.indexed(self._leg, 0, ())
        return done
