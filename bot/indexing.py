"""Indexing: brings the indexes up to date with the archive, and rebuilds them.

The worker is woken by new posts, and looks every second anyway, so that a post whose wake-up was lost in a crash is
found. Each leg (lexical, dense, copies) has a loop of its own; after a failure its pause doubles, up to 20 s.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from bot.jobs import JobLog, repeat_job
from ingest import inbox
from ingest.copies import CopyIndexer
from ingest.indexer import DenseIndexer, LexicalIndexer
from ingest.rebuild import EmbedderChange, build_next_index, load_next_index, remove_next_index
from rag_core.errors import RagError, RebuildRefused
from rag_core.retrieval.fusion import DENSE, LEXICAL
from rag_core.storage import Archive, channels, index_state, posts
from rag_core.storage.index_state import ProgressMessage, Rebuild
from rag_core.types import Answer, Post


class BotObserver(Protocol):
    """Observer of the bot. Both methods return at once and raise nothing."""

    def show_answer(self, chat_id: int, message_id: int, answer: Answer) -> None:
        """The question in this message has been answered; `answer.found` holds only posts that its asker may read."""

    def show_progress(self, leg: str, waiting: int, taken: Sequence[Post]) -> None:
        """A leg ("lexical", "dense") has this many changes waiting, and has indexed these posts."""


class IndexProgressReporter:
    """Reports the indexing progress of one leg to an observer; posts that are in the archive at its begin are not."""

    def __init__(self, watch: BotObserver, archive: Archive, leg: str) -> None:
        self._archive, self._reported = archive, 0
        self._show = partial(watch.show_progress, leg)

    async def begin(self) -> None:
        """Skip the posts that are in the archive now."""
        self._reported = await posts.get_last_seq(self._archive)
        self._show(0, ())

    async def during(self, catch_up: Callable[[Callable[[int], None]], Awaitable[int]]) -> int:
        """Run `catch_up`, report its progress and return its result."""
        # Changes made while the leg works are reported next time: it may or may not have indexed them.
        until = await posts.get_last_seq(self._archive)
        if waiting := until - self._reported:
            self._show(waiting, ())
        done = await catch_up(lambda n: self._show(max(0, waiting - n), ()))
        while batch := [c for c in await posts.list_post_changes(self._archive, self._reported) if c.seq <= until]:
            self._reported = batch[-1].seq
            self._show(until - self._reported, [c.post for c in batch if c.post])
        self._reported = until
        self._show(0, ())
        return done


# A post whose wake-up was lost (a crash, a quarantined neighbour) is found after this time at the latest.
_POLL_INTERVAL_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 20.0  # a server that was down for hours is searched again half a minute after its return

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
        change: EmbedderChange | None = None,
    ) -> None:
        self._archive, self.indexer, self._dense, self.change, self._interval = archive, indexer, dense, change, every
        self._copies = CopyIndexer(archive)
        self._lexical_wakeup, self._dense_wakeup, self._copies_wakeup = (asyncio.Event() for _ in range(3))
        self.files_wakeup = asyncio.Event()  # set with new posts, for the reader of their files
        self._first_pass_done = asyncio.Event()
        self.job_log = JobLog(archive)
        legs = (LEXICAL, DENSE) if dense else (LEXICAL,)
        self._reporters = {leg: IndexProgressReporter(watch, archive, leg) for leg in legs} if watch else {}

    def wake(self) -> None:
        """Wake the loops: a post or an edit has been stored."""
        self._lexical_wakeup.set()

    async def run(self) -> None:
        """Run until cancelled. Failures are retried with growing pauses and recorded in the job log."""
        for followed in self._reporters.values():
            await followed.begin()

        async def group_copies() -> None:
            await self._first_pass_done.wait()  # after a start, indexing posts comes first
            await self._copies.catch_up()

        repeat = partial(repeat_job, self.job_log, seconds=self._interval, longest=_MAX_PAUSE_SECONDS)
        loops = [
            repeat(LEXICAL, self._catch_up, wakeup=self._lexical_wakeup),
            repeat("copies", group_copies, wakeup=self._copies_wakeup),
        ]
        if self._dense is not None:
            loops.append(repeat(DENSE, self._embed_posts, wakeup=self._dense_wakeup))
        if self.change is not None:
            loops.append(repeat("embedder", self.change.run))
        await asyncio.gather(*loops)

    async def save(self) -> None:
        """Save the indexes to disk when the bot stops; otherwise the next start takes longer."""
        try:
            await self.indexer.save()
        except RagError as exc:
            log.error("the indexes were not saved: %s", exc.reason)

    async def _catch_up(self) -> None:
        if not self._first_pass_done.is_set():
            await channels.finish_removals(self._archive)
        await inbox.process_pending_posts(self._archive)
        if await self._run_reported(LEXICAL, self.indexer.catch_up):
            for wakeup in (self._dense_wakeup, self._copies_wakeup, self.files_wakeup):
                wakeup.set()
        self._first_pass_done.set()
        if all(channel.state != "removed" for channel in (await channels.load_channels(self._archive)).values()):
            return
        # either may have read these posts before their removal
        if await index_state.find_running_rebuild(self._archive) or await index_state.load_next_vectors(self._archive):
            return
        taken = self.indexer.lexical.watermark
        if self._dense and await self._dense.waiting():
            return
        await self.indexer.save()
        await channels.purge_removed_posts(self._archive, taken)

    async def _embed_posts(self) -> None:
        assert self._dense is not None
        # first what waits now, then the rest: the observer is told in between
        most = max(1, await self._dense.waiting())
        await self._run_reported(DENSE, partial(self._dense.catch_up, most=most))
        if await self._dense.waiting():
            self._dense_wakeup.set()

    def _run_reported(self, leg: str, catch_up: Callable[..., Awaitable[int]]) -> Awaitable[int]:
        return self._reporters[leg].during(catch_up) if leg in self._reporters else catch_up()


_SAVE_PROGRESS_SECONDS = 3.0  # after a restart the progress shown first is the last one saved
_MIN_SPEED_SAMPLE_SECONDS = 5.0  # before that the speed is not yet meaningful

_UNEXPECTED_REASON = "The rebuild failed for a reason nobody planned for: the log says more, the old index is in use."


class RebuildRunner:
    """Rebuild runner, one rebuild at a time. Call `resume` at the start and `stop` at the end of the process."""

    def __init__(self, archive: Archive, indexer: LexicalIndexer, dense: DenseIndexer | None = None) -> None:
        self._archive, self._indexer, self._dense = archive, indexer, dense
        self.current: Rebuild | None = None  # or the last one of this process
        self.failure: RagError | None = None  # of the last rebuild, where it failed in this process
        self._unsaved_end: Rebuild | None = None  # a final state that could not be saved
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._cancelled = self._installing = False
        self._saved_at = self._since = 0.0

    async def start(self, chat_id: int | None = None, tell: ProgressMessage | None = None) -> Rebuild:
        """Start a rebuild of all channels or of one; progress is shown in the message `tell`. Raises RebuildRefused."""
        # shielded: the caller may leave, but a rebuild saved as running must run
        return await asyncio.shield(self._start(chat_id, tell))

    async def _start(self, chat_id: int | None, tell: ProgressMessage | None) -> Rebuild:
        if chat_id is not None and chat_id not in await channels.load_channels(self._archive):
            raise RebuildRefused(f"There is no channel with the id {chat_id} here: check the id.")
        if self._unsaved_end is not None:  # otherwise it would count as "running" until the process ends
            await index_state.save_rebuild(self._archive, self._unsaved_end)
            self._unsaved_end = None
        rebuild = await index_state.begin_rebuild(self._archive, chat_id, tell)
        if rebuild is None:
            raise RebuildRefused("An index is being rebuilt already: wait until it is done, or cancel it.")
        return self._launch(rebuild)

    async def resume(self) -> Rebuild | None:
        """Begin a rebuild anew that was running when the process ended."""
        rebuild = await index_state.find_running_rebuild(self._archive)
        return self._launch(rebuild) if rebuild else None

    def _launch(self, rebuild: Rebuild) -> Rebuild:
        self._cancelled, self._installing, self.failure = False, False, None
        self._saved_at, self._since = 0.0, time.monotonic()
        self._task = asyncio.create_task(self._run(rebuild))
        self._task.add_done_callback(lambda _: self._publish(self.current or rebuild))
        self._publish(rebuild)
        return rebuild

    async def states(self) -> AsyncIterator[Rebuild]:
        """Yield the rebuild now and after each progress, until it or the process ends."""
        while self.current is not None:
            changed, over = self._changed, self._is_over()
            yield self.current
            if over:  # not asked after the yield: what ended meanwhile is yielded, too
                return
            await changed.wait()

    async def progress(self) -> AsyncIterator[tuple[int, int]]:
        """Yield posts done and their total until the end. Raises RebuildRefused where the rebuild did not complete."""
        async for rebuild in self.states():
            yield rebuild.done, rebuild.total
        if self.current is not None and self.current.state != "done":
            stopped = "The bot was stopped: the rebuild goes on when it starts again."
            raise RebuildRefused(self.current.reason or stopped)

    async def wait_until_begun(self, after: int = 0) -> Rebuild:
        """Wait for a rebuild with a greater number than `after`."""
        while self.current is None or self.current.id <= after:
            await self._changed.wait()
        return self.current

    async def cancel(self, rebuild: int | None = None) -> bool:
        """Cancel the running rebuild, or only this one, unless it is installed; True where the old index stays."""
        task, now = self._task, self.current
        if task is None or now is None or self._is_over() or rebuild not in (None, now.id):
            return False
        if not self._installing:
            self._cancelled = True
            task.cancel()
        await asyncio.wait({task})
        return self.current is not None and self.current.state == "cancelled"

    async def stop(self) -> None:
        """Stop with the process: a running rebuild goes on with `resume`."""
        if self._task is not None:
            if not self._installing:
                self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self, rebuild: Rebuild) -> None:
        try:
            await remove_next_index(self._archive)  # what another process left
            if rebuild.chat_id is not None:
                await self._indexer.save()  # the channel is replaced in the index on disk
            await build_next_index(self._archive, self._dense, rebuild, self._report_progress)
            self._installing = True  # the rest takes seconds and must not be interrupted
            await self._indexer.put_in_place(await load_next_index(self._archive, rebuild))
        except asyncio.CancelledError:
            if self._cancelled:
                await self._finish("cancelled", "The rebuild was cancelled: the old index is in use.")
            raise
        except RagError as exc:
            log.error("the index was not rebuilt: %s", exc.reason)
            self.failure = exc
            await self._finish("failed", exc.reason)
        except Exception:
            log.exception("the index was not rebuilt")
            await self._finish("failed", _UNEXPECTED_REASON)
        else:
            await self._finish("done")

    async def _report_progress(self, done: int, total: int, renewed: int) -> None:
        assert self.current is not None
        took = time.monotonic() - self._since
        left = (total - done) * took / done if done and took > _MIN_SPEED_SAMPLE_SECONDS else None
        self._publish(replace(self.current, done=done, total=total, left_s=left, renewed=renewed))
        if time.monotonic() - self._saved_at > _SAVE_PROGRESS_SECONDS:
            await index_state.save_rebuild(self._archive, self.current)
            self._saved_at = time.monotonic()

    async def _finish(self, state: str, reason: str = "") -> None:
        assert self.current is not None
        ended = replace(self.current, state=state, reason=reason, left_s=None)
        try:
            await remove_next_index(self._archive)
            await index_state.save_rebuild(self._archive, ended)
        except RagError as exc:  # reported all the same; the next rebuild saves it
            self._unsaved_end = ended
            log.error("the end of the rebuild was not kept: %s", exc.reason)
        self._publish(ended)

    def _publish(self, rebuild: Rebuild) -> None:
        self.current = rebuild
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _is_over(self) -> bool:
        return self.current is None or self.current.state != "running" or self._task is None or self._task.done()
