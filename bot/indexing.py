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

from bot.demo_observer import BotObserver, IndexProgressReporter
from ingest import inbox
from ingest.dedup import CopyIndexer
from ingest.indexer import DenseIndexer, LexicalIndexer
from ingest.scheduler import JobLog
from rag_core.errors import RagError
from rag_core.retrieval.search import DENSE, LEXICAL
from rag_core.storage import Archive, channels, index_state, posts

__all__ = ["IndexingWorker"]

# A post whose wake-up was lost (a crash, a quarantined neighbour) is found after this time at the latest.
_POLL_INTERVAL_SECONDS = 1.0
# A server that was down for hours is searched again half a minute after its return.
_MAX_PAUSE_SECONDS = 20.0
_COPIES_LEG = "copies"

log = logging.getLogger(__name__)


class IndexingWorker:
    """Indexing worker: takes stored posts out of the inbox and updates the indexes, each leg in its own loop."""

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
        self._interval = every
        self._copies = CopyIndexer(archive)
        self._lexical_wakeup = asyncio.Event()
        self._dense_wakeup = asyncio.Event()
        self._copies_wakeup = asyncio.Event()
        self._first_pass_done = asyncio.Event()
        self._ledger = ledger or JobLog(archive)
        legs = (LEXICAL, DENSE) if dense else (LEXICAL,)
        self._reporters = {leg: IndexProgressReporter(watch, archive, leg) for leg in legs} if watch else {}

    @property
    def indexer(self) -> LexicalIndexer:
        """Indexer of the lexical leg."""
        return self._indexer

    @property
    def ledger(self) -> JobLog:
        """Log of successes and failures, shared with the jobs."""
        return self._ledger

    def wake(self) -> None:
        """Wake the loops: a post or an edit has been stored."""
        self._lexical_wakeup.set()

    async def run(self) -> None:
        """Run until cancelled. Failures are retried with growing pauses and recorded in the ledger."""
        for followed in self._reporters.values():
            await followed.begin()
        loops = [self._repeat(LEXICAL, self._catch_up, self._lexical_wakeup)]
        loops.append(self._repeat(_COPIES_LEG, self._group_copies, self._copies_wakeup))
        if self._dense is not None:
            loops.append(self._repeat(DENSE, self._embed, self._dense_wakeup))
        await asyncio.gather(*loops)

    async def save(self) -> None:
        """Save the indexes to disk when the bot stops; otherwise the next start takes longer."""
        try:
            await self._indexer.save()
        except RagError as exc:
            log.error("the indexes were not saved: %s", exc.reason)

    async def _repeat(self, leg: str, work: Callable[[], Awaitable[None]], bell: asyncio.Event) -> None:
        pause = self._interval
        while True:
            bell.clear()
            if await self._run_once(leg, work):
                pause = self._interval
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await bell.wait()
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MAX_PAUSE_SECONDS)

    async def _run_once(self, leg: str, work: Callable[[], Awaitable[None]]) -> bool:
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
        if await self._run_reported(LEXICAL, self._indexer.catch_up):
            self._dense_wakeup.set()
            self._copies_wakeup.set()
        self._first_pass_done.set()
        await self._purge()

    async def _purge(self) -> None:
        """Delete removed channels' posts for good, once both legs have dropped them, on disk too."""
        if all(channel.state != "removed" for channel in (await channels.load_channels(self._archive)).values()):
            return
        if await index_state.find_running_rebuild(self._archive):  # it may have read these posts before their removal
            return
        taken = self._indexer.watermark
        if self._dense and await self._dense.waiting():
            return
        await self._indexer.save()
        await posts.purge_removed_posts(self._archive, taken)

    async def _embed(self) -> None:
        assert self._dense is not None
        # first what waits now, then the rest: the observer is told in between
        most = max(1, await self._dense.waiting())
        await self._run_reported(DENSE, partial(self._dense.catch_up, most=most))
        if await self._dense.waiting():
            self._dense_wakeup.set()

    async def _group_copies(self) -> None:
        await self._first_pass_done.wait()  # after a start, indexing posts comes first
        await self._copies.catch_up()

    async def _run_reported(self, leg: str, catch_up: Callable[..., Awaitable[int]]) -> int:
        followed = self._reporters.get(leg)
        return await (followed.during(catch_up) if followed else catch_up())
