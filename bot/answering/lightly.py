"""Who may search at the same time: few, so that each is quick. Whoever waits for a model lets the next one search."""

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
