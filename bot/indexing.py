"""Indexing worker: takes posts out of the inbox and brings the indexes up to date with the archive.

It is woken by new posts, and looks every second anyway, so that a post whose wake-up was lost in a crash is found.
Each leg (lexical, dense, copies) has a loop of its own; after a failure its pause doubles, up to 20 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial

from bot.worker.observer import BotObserver, IndexProgressReporter
from ingest import inbox
from ingest.dedup import CopyIndexer
from ingest.indexer import DenseIndexer, LexicalIndexer
from ingest.jobs import JobLog
from rag_core.errors import RagError
from rag_core.retrieval.search import DENSE, LEXICAL
from rag_core.storage import Archive, channels, index_state, posts

__all__ = ["IndexingWorker"]

# A post whose wake-up was lost (a crash, a quarantined neighbour) is found at the latest after this.
_POLL_INTERVAL_SECONDS = 1.0
# A server that was gone for hours is back in the search half a minute after it has come back.
_MAX_PAUSE_SECONDS = 20.0
_COPIES_LEG = "copies"

log = logging.getLogger(__name__)


class IndexingWorker:
    """Takes kept posts out of the inbox and brings the indexes up to the archive, each leg in a loop of its own."""

    def __init__(
        self,
        archive: Archive,
        indexer: LexicalIndexer,
        dense: DenseIndexer | None = None,
        every: float = _POLL_INTERVAL_SECONDS,
        watch: BotObserver | None = None,
        ledger: JobLog | None = None,
    ) -> None:
        self._archive = archive
        self._indexer = indexer
        self._dense = dense
        self._every = every
        self._copies = CopyIndexer(archive)
        self._bell, self._dense_bell, self._copies_bell = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._begun = asyncio.Event()
        self._ledger = ledger or JobLog(archive)
        legs = (LEXICAL, DENSE) if dense else (LEXICAL,)
        self._followed = {leg: IndexProgressReporter(watch, archive, leg) for leg in legs} if watch else {}

    @property
    def indexer(self) -> LexicalIndexer:
        """Who writes the lexical leg."""
        return self._indexer

    @property
    def ledger(self) -> JobLog:
        """What became of the work, here and elsewhere."""
        return self._ledger

    def wake(self) -> None:
        """A post or an edit has been kept."""
        self._bell.set()

    async def run(self) -> None:
        """Work until cancelled. What fails is tried again, less and less often, and is in the ledger."""
        for followed in self._followed.values():
            await followed.begin()
        loops = [self._repeated(LEXICAL, self._catch_up, self._bell)]
        loops.append(self._repeated(_COPIES_LEG, self._group, self._copies_bell))
        if self._dense is not None:
            loops.append(self._repeated(DENSE, self._embed, self._dense_bell))
        await asyncio.gather(*loops)

    async def save(self) -> None:
        """Write the indexes to disk, when the bot stops; without it the next start works longer."""
        try:
            await self._indexer.save()
        except RagError as exc:
            log.error("the indexes were not saved: %s", exc.reason)

    async def _repeated(self, leg: str, work: Callable[[], Awaitable[None]], bell: asyncio.Event) -> None:
        pause = self._every
        while True:
            bell.clear()
            if await self._passed(leg, work):
                pause = self._every
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await bell.wait()
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MAX_PAUSE_SECONDS)

    async def _passed(self, leg: str, work: Callable[[], Awaitable[None]]) -> bool:
        started = time.monotonic()
        try:
            await work()
        except Exception as exc:
            self._ledger.failed(leg, exc)
            return False
        self._ledger.passed(leg, time.monotonic() - started)
        return True

    async def _catch_up(self) -> None:
        await inbox.process_pending_posts(self._archive)
        if await self._watched(LEXICAL, self._indexer.catch_up):
            self._dense_bell.set()
            self._copies_bell.set()
        self._begun.set()
        await self._purge()

    async def _purge(self) -> None:
        """Delete for good what was removed with its channel, once both legs have dropped it, on disk too."""
        if all(channel.state != "removed" for channel in (await channels.load_channels(self._archive)).values()):
            return
        if await index_state.find_running_rebuild(
            self._archive
        ):  # it may have read these posts, and not yet that they are gone
            return
        taken = self._indexer.watermark
        if self._dense and await self._dense.waiting():
            return
        await self._indexer.save()
        await posts.purge_removed_posts(self._archive, taken)

    async def _embed(self) -> None:
        assert self._dense is not None
        # what waits now, and then again: whoever looks on is told in between
        most = max(1, await self._dense.waiting())
        await self._watched(DENSE, partial(self._dense.catch_up, most=most))
        if await self._dense.waiting():
            self._dense_bell.set()

    async def _group(self) -> None:
        await self._begun.wait()  # at the start posts are to be found first
        await self._copies.catch_up()

    async def _watched(self, leg: str, catch_up: Callable[..., Awaitable[int]]) -> int:
        followed = self._followed.get(leg)
        return await (followed.during(catch_up) if followed else catch_up())
