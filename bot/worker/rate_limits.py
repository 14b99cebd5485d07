"""Rate limits: questions of one reader and of one chat within an hour; commands and button presses as well.

Questions are counted in the archive's own rows: a restart forgets nothing, and only questions that were queued
count. A limiter from a library would count in memory, or need a server. Commands and presses leave no rows and are
counted by token buckets in memory. Admins have no limits, but programs that ask in their name do: one may run wild.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from bot.access import AdminRegistry, Refusal
from bot.i18n import Translator
from bot.settings import BotSettings
from rag_core.storage import Archive, questions

_LIMIT_PERIOD = timedelta(hours=1)
# A reader who goes on writing is told again after this time, and gets no reply in between.
_REMINDER_INTERVAL = timedelta(minutes=1)
_ROUNDING_ERROR = 1e-9  # of bucket shares
_PRESSES_PER_COMMAND = 4  # a press turns a page or opens a post: readers press more often than they ask
_MAX_BUCKETS = 10_000  # full buckets carry no information; they are removed when there are this many buckets


class TokenBuckets:
    """Token buckets, one per key: `capacity` tokens, refilled within `span` seconds. Kept in memory, bounded."""

    def __init__(
        self, span: float = _LIMIT_PERIOD.total_seconds(), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._span, self._clock = span, clock
        self._spent: dict[Hashable, tuple[float, float]] = {}  # key -> missing share of the bucket, and when

    def take(self, *limits: tuple[Hashable, int]) -> float:
        """Take a token of each bucket (key, capacity). If one is empty, take none and return the seconds to wait."""
        over = max(self._missing_share(key) - 1 + 1 / capacity for key, capacity in limits)
        if over > _ROUNDING_ERROR:
            return over * self._span
        for key, capacity in limits:
            if len(self._spent) >= _MAX_BUCKETS:
                self._spent = {one: spent for one, spent in self._spent.items() if self._missing_share(one)}
            self._spent[key] = (self._missing_share(key) + 1 / capacity, self._clock())
        return 0.0

    def _missing_share(self, key: Hashable) -> float:
        share, then = self._spent.get(key, (0.0, 0.0))
        left = share - (self._clock() - then) / self._span
        return left if left > _ROUNDING_ERROR else 0.0


class RateLimiter:
    """Rate limits of readers and chats over the last hour. Admins have none."""

    def __init__(self, archive: Archive, settings: BotSettings, rights: AdminRegistry) -> None:
        self._archive, self._settings, self._rights = archive, settings, rights
        self._reminded: dict[int, datetime] = {}
        self._buckets = TokenBuckets()
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def hold_count(
        self, reader: int, chat_id: int, words: Translator, *, pressed: bool = False, program: bool = False
    ) -> AsyncIterator[None]:
        """Hold the count: a question queued inside the block counts for a simultaneous one.

        `pressed`, `program`: who is over the limit is told each time. Raises Refusal where this reader may not ask now
        in this chat, ArchiveUnavailable.
        """
        limits = [("user_id", reader, self._settings.reader_limit)]
        if chat_id != reader:
            limits.append(("chat_id", chat_id, self._settings.chat_limit))
        if reader in self._rights and not program:
            limits.clear()
        async with self._lock:
            now = datetime.now(UTC)
            moments = [
                await questions.find_nth_question_time(self._archive, *limit, now - _LIMIT_PERIOD) for limit in limits
            ]
            wait = max((moment + _LIMIT_PERIOD - now for moment in moments if moment), default=None)
            if wait is not None:
                always = pressed or program
                raise Refusal(format_rate_limit(wait, words) if always else self.build_notice(wait, reader, words))
            yield

    def count_command(
        self, reader: int, chat_id: int, *, press: bool = False, program: bool = False
    ) -> timedelta | None:
        """Count a command, of which as many as questions are allowed, or a button press, of which more are.

        Returns the time until the next one is allowed, None: counted.
        """
        if reader in self._rights and not program:
            return None
        times = _PRESSES_PER_COMMAND if press else 1
        limits: list[tuple[Hashable, int]] = [((reader, press), self._settings.reader_limit * times)]
        if chat_id != reader:
            limits.append(((chat_id, press), self._settings.chat_limit * times))
        wait = self._buckets.take(*limits)
        return timedelta(seconds=wait) if wait else None

    def build_notice(self, wait: timedelta, reader: int, words: Translator) -> str:
        """Rate limit notice for a reader; "" where they have just been told."""
        now = datetime.now(UTC)
        self._reminded = {one: then for one, then in self._reminded.items() if now - then < _REMINDER_INTERVAL}
        if reader in self._reminded:
            return ""
        self._reminded[reader] = now
        return format_rate_limit(wait, words)


def format_rate_limit(wait: timedelta, words: Translator) -> str:
    """Sentence on how long to wait."""
    return words("ask-limit", minutes=max(1, -(-int(wait.total_seconds()) // 60)))
