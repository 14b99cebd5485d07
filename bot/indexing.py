"""Keeps posts and indexes up to what Telegram delivered: woken by posts, and every few seconds anyway."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from ingest import inbox
from ingest.index import Indexer
from rag_core.doors.archive import Archive, updates
from rag_core.errors import RagError

__all__ = ["Indexing"]

# A post whose wake-up was lost (a crash, a quarantined neighbour) is found at the latest after this.
_EVERY_S = 3.0
_LONGEST_PAUSE_S = 60.0
_TIDY_EVERY_S = 3600.0

log = logging.getLogger(__name__)


class Indexing:
    """One loop that takes kept posts out of the inbox and brings the indexes up to the archive."""

    def __init__(self, archive: Archive, indexer: Indexer, every: float = _EVERY_S) -> None:
        self._archive = archive
        self._indexer = indexer
        self._every = every
        self._bell = asyncio.Event()
        self._tidied = -_TIDY_EVERY_S

    def wake(self) -> None:
        """A post or an edit has been kept."""
        self._bell.set()

    async def run(self) -> None:
        """Work until cancelled. A failure is logged and tried again, less and less often."""
        pause = self._every
        while True:
            self._bell.clear()
            if await self._passed():
                pause = self._every
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._bell.wait()
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def save(self) -> None:
        """Write the indexes to disk, when the bot stops; without it the next start works longer."""
        try:
            await self._indexer.save()
        except RagError as exc:
            log.error("the indexes were not saved: %s", exc.reason)

    async def _passed(self) -> bool:
        try:
            await self._catch_up()
        except RagError as exc:
            log.error("the indexes cannot be brought up to date: %s", exc.reason)
            return False
        except Exception:
            log.exception("the indexes cannot be brought up to date")
            return False
        return True

    async def _catch_up(self) -> None:
        await inbox.drain(self._archive)
        await self._indexer.catch_up()
        if time.monotonic() - self._tidied > _TIDY_EVERY_S:
            await updates.forget_old(self._archive)
            self._tidied = time.monotonic()
