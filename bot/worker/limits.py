"""Rate limits: questions of one reader and of one chat within an hour; commands and button presses as well.

Questions are counted in the archive's own rows: a restart forgets nothing, and only questions that were queued
count. A limiter from a library would count in memory, or need a server. Commands and presses leave no rows and are
counted by token buckets in memory. Admins have no limits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from bot.access import AdminRegistry
from bot.i18n import Translator
from bot.settings import BotSettings
from rag_core.storage import Archive, questions

__all__ = ["RateLimiter", "TokenBuckets", "format_rate_limit"]

_LIMIT_PERIOD = timedelta(hours=1)
# Whoever goes on writing is told again after so long, and hears nothing in between.
_REMINDER_INTERVAL = timedelta(minutes=1)
# Rounding of shares of a bucket.
_ROUNDING_ERROR = 1e-9
# A press turns a page or opens a post: whoever reads presses more often than they ask.
_PRESSES_PER_COMMAND = 4
# Buckets that are full again say nothing; they are looked for when there are so many.
_MAX_BUCKETS = 10_000


class TokenBuckets:
    """Token buckets, one for each key: so many at once, refilled within `span` seconds. Kept in memory, bounded."""

    def __init__(
        self, span: float = _LIMIT_PERIOD.total_seconds(), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._span = span
        self._clock = clock
        self._spent: dict[Hashable, tuple[float, float]] = {}  # key -> share of the bucket that is missing, and when

    def wait(self, key: Hashable, capacity: int) -> float:
        """Seconds until a token is there; 0: now."""
        over = self._missing(key) - 1 + 1 / capacity
        return over * self._span if over > _ROUNDING_ERROR else 0.0

    def take(self, key: Hashable, capacity: int) -> float:
        """Take a token, or the seconds until one is there."""
        wait = self.wait(key, capacity)
        if not wait:
            if len(self._spent) >= _MAX_BUCKETS:
                self._spent = {one: spent for one, spent in self._spent.items() if self._missing(one)}
            self._spent[key] = (self._missing(key) + 1 / capacity, self._clock())
        return wait

    def _missing(self, key: Hashable) -> float:
        share, then = self._spent.get(key, (0.0, 0.0))
        left = share - (self._clock() - then) / self._span
        return left if left > _ROUNDING_ERROR else 0.0


class RateLimiter:
    """The limits of readers and chats in the last hour. Admins have none."""

    def __init__(self, archive: Archive, settings: BotSettings, rights: AdminRegistry) -> None:
        self._archive = archive
        self._settings = settings
        self._rights = rights
        self._told: dict[int, datetime] = {}
        self._buckets = TokenBuckets()
        self._counting = asyncio.Lock()

    @asynccontextmanager
    async def counted(self, reader: int, chat_id: int) -> AsyncIterator[timedelta | None]:
        """How long until this reader may ask again in this chat; None: now. Raises ArchiveUnavailable.

        What is queued within counts for whoever asks at the same moment.
        """
        async with self._counting:
            yield await self._wait(reader, chat_id)

    async def _wait(self, reader: int, chat_id: int) -> timedelta | None:
        if reader in self._rights:
            return None
        now = datetime.now(UTC)
        limits = [("user_id", reader, self._settings.reader_limit)]
        if chat_id != reader:
            limits.append(("chat_id", chat_id, self._settings.chat_limit))
        moments = [
            await questions.find_nth_question_time(self._archive, *limit, now - _LIMIT_PERIOD) for limit in limits
        ]
        waits = [moment + _LIMIT_PERIOD - now for moment in moments if moment]
        return max(waits, default=None)

    def count_command(self, reader: int, chat_id: int, *, press: bool = False) -> timedelta | None:
        """Count a command or a press of a button: how long until this reader may send the next one; None: now.

        As many commands as questions are let through. They leave no rows, so they are counted in memory.
        """
        if reader in self._rights:
            return None
        times = _PRESSES_PER_COMMAND if press else 1
        limits = [((reader, press), self._settings.reader_limit * times)]
        if chat_id != reader:
            limits.append(((chat_id, press), self._settings.chat_limit * times))
        if wait := max(self._buckets.wait(*one) for one in limits):
            return timedelta(seconds=wait)
        for one in limits:
            self._buckets.take(*one)
        return None

    def said(self, wait: timedelta, reader: int, words: Translator) -> str | None:
        """What to tell a reader who has to wait; None where they have just been told."""
        now = datetime.now(UTC)
        self._told = {one: then for one, then in self._told.items() if now - then < _REMINDER_INTERVAL}
        if reader in self._told:
            return None
        self._told[reader] = now
        return format_rate_limit(wait, words)


def format_rate_limit(wait: timedelta, words: Translator) -> str:
    """The sentence for whoever has to wait so long."""
    return words("ask-limit", minutes=max(1, -(-int(wait.total_seconds()) // 60)))
