"""Fair scheduler: round-robin between readers, first-in-first-out for each reader's own requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from rag_core.errors import GenerationFailed
from rag_core.llm.protocol import QueuePositionCallback

__all__ = ["FairScheduler"]


class _WaitingRequest:
    __slots__ = ("place", "told", "turn")

    def __init__(self, told: QueuePositionCallback | None) -> None:
        self.told, self.place = told, -1
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(self, place: int) -> None:
        if self.told is not None and place != self.place:
            self.place = place
            self.told(place)


class FairScheduler:
    """One seat, or a few where a server serves several at once, and a fair queue for them."""

    def __init__(self, seats: int = 1) -> None:
        self._seats, self._busy = seats, 0
        self._lines: dict[int, deque[_WaitingRequest]] = {}  # by reader; who is first here is next
        self._urgent: deque[_WaitingRequest] = deque()
        self._closed = ""

    @property
    def closed(self) -> bool:
        """Whether there are no more turns."""
        return bool(self._closed)

    @property
    def waiting(self) -> int:
        """How many have the seat or wait for it."""
        return self._busy + sum(1 for _ in self._in_order())

    def _in_order(self) -> Iterator[_WaitingRequest]:
        yield from self._urgent
        longest = max(map(len, self._lines.values()), default=0)
        for n in range(longest):
            yield from (line[n] for line in self._lines.values() if n < len(line))

    @asynccontextmanager
    async def seat(self, reader: int, on_place: QueuePositionCallback | None = None) -> AsyncIterator[None]:
        """The seat, as soon as it is this request's turn. Raises GenerationFailed when there are no more turns."""
        waiter = _WaitingRequest(on_place)
        line = self._lines.setdefault(reader, deque())
        await self._wait(waiter, line)
        try:
            yield
        finally:
            self._leave()

    @asynccontextmanager
    async def urgent(self) -> AsyncIterator[None]:
        """The seat before everybody who waits: for what all of them need."""
        await self._wait(_WaitingRequest(None), self._urgent)
        try:
            yield
        finally:
            self._leave()

    async def _wait(self, waiter: _WaitingRequest, line: deque[_WaitingRequest]) -> None:
        if self._closed:
            self._drop_empty()
            raise GenerationFailed(self._closed)
        line.append(waiter)
        self._next()
        self._tell()
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if waiter in line:
                line.remove(waiter)
                self._drop_empty()
                self._tell()
            elif waiter.turn.done() and not waiter.turn.cancelled() and waiter.turn.exception() is None:
                self._leave()  # the turn had come, and nobody takes it
            raise

    def _leave(self) -> None:
        self._busy -= 1
        self._next()

    def _next(self) -> None:
        """Give the seat to whoever is first; that reader's next request is behind everybody else's first."""
        while self._busy < self._seats and (first := self._popped()) is not None:
            if not first.turn.done():  # else cancelled in this very moment
                self._busy += 1
                first.turn.set_result(None)
                first.tell(0)
        self._tell()

    def _popped(self) -> _WaitingRequest | None:
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

    def _tell(self) -> None:
        for place, waiter in enumerate(self._in_order(), start=1):
            waiter.tell(place)

    def _drop_empty(self) -> None:
        for reader in [reader for reader, line in self._lines.items() if not line]:
            del self._lines[reader]

    def close(self, why: str) -> None:
        """No more turns: who waits is told so; who has the seat keeps it."""
        self._closed = why
        for waiter in [*self._in_order()]:
            if not waiter.turn.done():
                waiter.turn.set_exception(GenerationFailed(why))
        self._urgent.clear()
        self._lines.clear()
