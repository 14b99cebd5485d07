"""Fair scheduler: a queue for turns with a language model, round-robin between readers.

It reports positions to those who wait; waiting is not part of any stage's budget (`Run.open_session`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from rag_core.errors import GenerationFailed
from rag_core.llm.protocol import QueuePositionCallback


class _WaitingRequest:
    __slots__ = ("on_place", "place", "turn")

    def __init__(self, on_place: QueuePositionCallback | None) -> None:
        self.on_place, self.place = on_place, -1
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def report(self, place: int) -> None:
        if self.on_place is not None and place != self.place:
            self.place = place
            self.on_place(place)


class FairScheduler:
    """Fair queue for the turns with a model: one at a time, or several (`seats`) where a server is parallel."""

    def __init__(self, seats: int = 1) -> None:
        self._seats, self._busy = seats, 0
        self._lines: dict[int, deque[_WaitingRequest]] = {}  # by reader; the first key has the next turn
        self._urgent: deque[_WaitingRequest] = deque()
        self.closed = ""  # why the queue is closed

    @property
    def waiting(self) -> int:
        """Number of requests that have a turn or wait for one."""
        return self._busy + sum(1 for _ in self._in_order())

    def _in_order(self) -> Iterator[_WaitingRequest]:
        yield from self._urgent
        longest = max(map(len, self._lines.values()), default=0)
        for n in range(longest):
            yield from (line[n] for line in self._lines.values() if n < len(line))

    @asynccontextmanager
    async def acquire(self, reader: int | None, on_place: QueuePositionCallback | None = None) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raises GenerationFailed when the queue is closed.

        Without a reader it comes ahead of all waiting requests: for work that all of them need.
        """
        await self._wait(reader, _WaitingRequest(on_place))
        try:
            yield
        finally:
            self._leave()

    async def _wait(self, reader: int | None, waiter: _WaitingRequest) -> None:
        if self.closed:
            raise GenerationFailed(self.closed)
        line = self._urgent if reader is None else self._lines.setdefault(reader, deque())
        line.append(waiter)
        self._next()
        self._report_places()
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if waiter in line:
                line.remove(waiter)
                self._drop_empty()
                self._report_places()
            elif waiter.turn.done() and not waiter.turn.cancelled() and waiter.turn.exception() is None:
                self._leave()  # the turn was granted, and is not used
            raise

    def _leave(self) -> None:
        self._busy -= 1
        self._next()

    def _next(self) -> None:
        """Grant the next turn; the reader's further requests come after the first of every other reader."""
        while self._busy < self._seats and (first := self._pop_first()) is not None:
            if not first.turn.done():  # else cancelled at this moment
                self._busy += 1
                first.turn.set_result(None)
                first.report(0)
        self._report_places()

    def _pop_first(self) -> _WaitingRequest | None:
        if self._urgent:
            return self._urgent.popleft()
        self._drop_empty()
        if not self._lines:
            return None
        reader, line = next(iter(self._lines.items()))
        first = line.popleft()
        del self._lines[reader]
        if line:
            self._lines[reader] = line
        return first

    def _report_places(self) -> None:
        for place, waiter in enumerate(self._in_order(), start=1):
            waiter.report(place)

    def _drop_empty(self) -> None:
        for reader in [reader for reader, line in self._lines.items() if not line]:
            del self._lines[reader]

    def close(self, why: str) -> None:
        """Close the queue: waiting requests raise GenerationFailed; a running turn continues."""
        self.closed = why
        for waiter in [*self._in_order()]:
            if not waiter.turn.done():
                waiter.turn.set_exception(GenerationFailed(why))
        self._urgent.clear()
        self._lines.clear()
