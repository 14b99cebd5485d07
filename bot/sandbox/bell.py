"""Waking whoever waits for a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Bell"]


class Bell:
    """Any number of tasks wait, one ring wakes them all. Belongs to one event loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake everybody who waits now."""
        self._event.set()
        self._event = asyncio.Event()

    async def until(self, true: Callable[[], bool], seconds: float) -> bool:
        """Wait at most so many seconds for `true()`, asked again after each ring; the last answer."""
        try:
            async with asyncio.timeout(seconds):
                while not true():
                    await self._event.wait()
        except TimeoutError:
            return true()
        return True
