"""Semaphore: who may search at the same time. Few, so that each is quick.

Whoever waits for a model lets the next one search. Verifying a text is several searches and many comparisons: one text
at a time, so that a question never waits behind a row of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

__all__ = ["Lightly"]

# Searching is work for the processor, of which Python uses one.
_SEATS = 2


class Lightly:
    """A few seats. Questions that have found something wait for the model without one."""

    def __init__(self, seats: int = _SEATS) -> None:
        self._seats = asyncio.Semaphore(seats)
        self._verifying = asyncio.Semaphore(max(1, seats - 1))

    @asynccontextmanager
    async def seat(self) -> AsyncIterator[Callable[[], None]]:
        """A seat; what is yielded gives it back early, and may be called again."""
        await self._seats.acquire()
        taken = [True]

        def leave() -> None:
            if taken:
                taken.clear()
                self._seats.release()

        try:
            yield leave
        finally:
            leave()

    @asynccontextmanager
    async def seat_to_verify(self) -> AsyncIterator[None]:
        """A seat for verifying; one always stays free for questions."""
        async with self._verifying, self.seat():
            yield
