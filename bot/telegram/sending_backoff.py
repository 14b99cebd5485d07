"""Back-off of sending: Telegram's flood waits, which every call obeys, and pauses of chats after failed messages.

Kept in memory: after a restart a refused call or two teach it again. That a reader blocked the bot is in the archive.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from aiogram import Bot
from aiogram.client.session.base import BaseSession
from aiogram.exceptions import (
    TelegramBadRequest,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNotFound,
    TelegramRetryAfter,
)

# A later attempt would fail as well: the reader blocked the bot, the group is gone.
PERMANENT_ERRORS = (
    TelegramForbiddenError,
    TelegramBadRequest,
    TelegramNotFound,
    TelegramMigrateToChat,
    TelegramEntityTooLarge,
)

# First and longest pause in seconds, which doubles with each failure in a row: of a chat, of a chat that refuses
# (its admins may give the bot its rights back), of all chats where several fail one after the other.
_CHAT_PAUSE, _REFUSED_PAUSE, _BOT_PAUSE = (20.0, 600.0), (3600.0, 86_400.0), (60.0, 600.0)
_PROBE_SECONDS = 30.0  # that all chats are in a flood wait is inferred from two: one answer in this time tries it
_CONCURRENT_MESSAGES = 3  # in the background; at 0.1 s a message this is Telegram's limit of 30 a second
_MAX_CHATS = 20  # served side by side
_ROUND_SECONDS = 1.0  # until other chats are looked for
_MAX_KEPT = 10_000  # chats; pauses that have ended are dropped above this

Target = int | str  # a chat, or the name of a method that has no chat
_ALL: Target = ""


class SendingBackoff:
    """Back-off of chats and of the bot. One per session; times are those of `clock`, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.slots = asyncio.Semaphore(_CONCURRENT_MESSAGES)
        self._clock = clock
        self._floods: dict[Target, float] = {}  # when the wait that Telegram asked for ends
        self._pauses: dict[Target, tuple[float, float]] = {}  # when the pause ends, and how long it is
        self._last_flood: Target = _ALL  # last chat that had to wait, or failed, with no success since; "": none
        self._last_failure: Target = _ALL
        self._probed_at = float("-inf")

    def get_wait(self, chat: Target, *, background: bool = True) -> float:
        """Seconds until a message may be sent to a chat; 0: now. Answers to people wait for floods alone."""
        ends = [self._floods.get(chat, 0.0), self._floods.get(_ALL, 0.0)]
        if background:
            ends += [self._pauses.get(one, (0.0, 0.0))[0] for one in (chat, _ALL)]
        return max(0.0, max(ends) - self._clock())

    def try_answer(self, chat: Target) -> float:
        """Seconds until an answer may be sent, as `get_wait`; now and then one may try whether a flood has ended."""
        now = self._clock()
        wait = self.get_wait(chat, background=False)
        if wait and self._floods.get(chat, 0.0) <= now and now - self._probed_at >= _PROBE_SECONDS:
            self._probed_at = now
            return 0.0
        return wait

    def record_success(self, chat: Target) -> None:
        """Record that a message was accepted: nothing is wrong with this chat, nor with all of them."""
        if isinstance(chat, str):
            return
        self._pauses.pop(chat, None)
        self._pauses.pop(_ALL, None)
        self._floods.pop(_ALL, None)
        self._last_flood = self._last_failure = _ALL

    def record_failure(self, chat: Target, exc: Exception, *, background: bool) -> None:
        """Record what Telegram, or the way there, said to a message; who writes to the bot is not paused."""
        if isinstance(exc, TelegramRetryAfter):
            self._extend_flood(chat, exc.retry_after)
            if isinstance(chat, str):  # a method without a chat, such as setMyCommands, has a limit of its own
                return
            if self._last_flood not in (_ALL, chat):
                self._extend_flood(_ALL, exc.retry_after)
                self._pause(_ALL, *_BOT_PAUSE)
                self._probed_at = self._clock()
            self._last_flood = chat
        elif background and isinstance(exc, PERMANENT_ERRORS):
            self._pause(chat, *_REFUSED_PAUSE)
        elif background:
            self._pause(chat, *_CHAT_PAUSE)
            if self._last_failure not in (_ALL, chat):
                self._pause(_ALL, *_BOT_PAUSE)
            self._last_failure = chat

    def was_refused_before(self, chat: Target) -> bool:
        """Whether a chat refused its last message as well, an hour or more ago."""
        return self._pauses.get(chat, (0.0, 0.0))[1] > _REFUSED_PAUSE[0]

    def _extend_flood(self, target: Target, seconds: float) -> None:
        now = self._clock()
        if len(self._floods) >= _MAX_KEPT:
            self._floods = {one: end for one, end in self._floods.items() if end > now}
        self._floods[target] = max(self._floods.get(target, 0.0), now + seconds)

    def _pause(self, target: Target, first: float, longest: float) -> None:
        now = self._clock()
        if len(self._pauses) >= _MAX_KEPT:
            self._pauses = {one: kept for one, kept in self._pauses.items() if kept[0] > now}
        end, last = self._pauses.get(target, (0.0, 0.0))
        if end <= now:  # another message that was under way at the same time is no second failure
            last = min(max(first, 2 * last), longest)
        self._pauses[target] = max(end, now + last), last


_IN_BACKGROUND: ContextVar[bool] = ContextVar("send_in_background", default=False)


@contextmanager
def send_in_background() -> Iterator[None]:
    """Send what no reader waits for: each message is tried once, and only where its chat and the bot are not paused.

    Otherwise, and where it fails, the error of aiogram is raised: the sender comes back when `get_wait` says so.
    """
    token = _IN_BACKGROUND.set(True)
    try:
        yield
    finally:
        _IN_BACKGROUND.reset(token)


def is_in_background() -> bool:
    """Whether this is within `send_in_background`."""
    return _IN_BACKGROUND.get()


_BACKOFFS: WeakKeyDictionary[BaseSession, SendingBackoff] = WeakKeyDictionary()


def get_backoff(bot: Bot) -> SendingBackoff:
    """Back-off of the bot's session, which all its senders share."""
    return _BACKOFFS.setdefault(bot.session, SendingBackoff())


class ChatTasks:
    """Tasks that send to chats side by side, one for each chat: one that is slow delays no other."""

    def __init__(self) -> None:
        self._running: dict[int, asyncio.Task[None]] = {}

    async def run(self, work: Mapping[int, Callable[[], Coroutine[Any, Any, None]]]) -> None:
        """Start the work of each chat, unless its last one still runs, and wait a little. Raises the first error."""
        for chat_id in [*work.keys() - self._running.keys()][: _MAX_CHATS - len(self._running)]:
            self._running[chat_id] = asyncio.create_task(work[chat_id]())
        if self._running:
            await asyncio.wait(self._running.values(), timeout=_ROUND_SECONDS)
        ended = [self._running.pop(chat_id) for chat_id, task in [*self._running.items()] if task.done()]
        for exc in filter(None, (task.exception() for task in ended)):
            raise exc

    async def stop(self) -> None:
        """Cancel the tasks that run."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
