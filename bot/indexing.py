"""Keeps posts and indexes up to what Telegram delivered: woken by posts, and every few seconds anyway."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

from bot.watch import Following, Watch
from ingest import inbox
from ingest.dense import DenseIndexer
from ingest.index import Indexer
from rag_core.doors.archive import Archive, channels, posts, updates
from rag_core.errors import RagError
from rag_core.search import DENSE, LEXICAL

__all__ = ["Indexing"]

# A post whose wake-up was lost (a crash, a quarantined neighbour) is found at the latest after this.
_EVERY_S = 1.0
_LONGEST_PAUSE_S = 60.0
_TIDY_EVERY_S = 3600.0

log = logging.getLogger(__name__)


class Indexing:
    """Takes kept posts out of the inbox and brings the indexes up to the archive, each leg in a loop of its own."""

    def __init__(
        self,
        archive: Archive,
        indexer: Indexer,
        dense: DenseIndexer | None = None,
        every: float = _EVERY_S,
        watch: Watch | None = None,
    ) -> None:
        self._archive = archive
        self._indexer = indexer
        self._dense = dense
        self._every = every
        self._bell, self._dense_bell = asyncio.Event(), asyncio.Event()
        self._tidied = -_TIDY_EVERY_S
        legs = (LEXICAL, DENSE) if dense else (LEXICAL,)
        self._followed = {leg: Following(watch, archive, leg) for leg in legs} if watch else {}

    def wake(self) -> None:
        """A post or an edit has been kept."""
        self._bell.set()

    async def run(self) -> None:
        """Work until cancelled. A failure is logged and tried again, less and less often."""
        for followed in self._followed.values():
            await followed.begin()
        loops = [self._repeated(self._catch_up, self._bell)]
        if self._dense is not None:
            loops.append(self._repeated(self._embed, self._dense_bell))
        await asyncio.gather(*loops)

    async def save(self) -> None:
        """Write the indexes to disk, when the bot stops; without it the next start works longer."""
        try:
            await self._indexer.save()
        except RagError as exc:
            log.error("the indexes were not saved: %s", exc.reason)

    async def _repeated(self, work: Callable[[], Awaitable[None]], bell: asyncio.Event) -> None:
        pause = self._every
        while True:
            bell.clear()
            if await _passed(work):
                pause = self._every
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await bell.wait()
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _catch_up(self) -> None:
        await inbox.drain(self._archive)
        if await self._watched(LEXICAL, self._indexer.catch_up):
            self._dense_bell.set()
        await self._purge()
        if time.monotonic() - self._tidied > _TIDY_EVERY_S:
            await updates.forget_old(self._archive)
            self._tidied = time.monotonic()

    async def _purge(self) -> None:
        """Delete for good what was removed with its channel, once both legs have dropped it, on disk too."""
        if all(channel.state != "removed" for channel in (await channels.known(self._archive)).values()):
            return
        taken = self._indexer.watermark
        if self._dense and await self._dense.waiting():
            return
        await self._indexer.save()
        await posts.purge(self._archive, taken)

    async def _embed(self) -> None:
        assert self._dense is not None
        await self._watched(DENSE, self._dense.catch_up)

    async def _watched(self, leg: str, catch_up: Callable[..., Awaitable[int]]) -> int:
        followed = self._followed.get(leg)
        return await (followed.during(catch_up) if followed else catch_up())


async def _passed(work: Callable[[], Awaitable[None]]) -> bool:
    try:
        await work()
    except RagError as exc:
        log.error("the indexes cannot be brought up to date: %s", exc.reason)
        return False
    except Exception:
        log.exception("the indexes cannot be brought up to date")
        return False
    return True
