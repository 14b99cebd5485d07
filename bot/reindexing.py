"""Index rebuild: start, progress, cancellation, and resumption after a restart; one rebuild at a time.

Questions are answered from the old index until the new one is complete, and new posts are still taken in.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

from ingest import rebuild_parent
from ingest.indexer import DenseIndexer, LexicalIndexer
from rag_core.errors import RagError, RebuildRefused
from rag_core.storage import Archive, channels, index_state
from rag_core.storage.index_state import ProgressMessage, Rebuild
from rag_core.types import Channel

__all__ = ["ALREADY_RUNNING", "RebuildRunner", "find_channel_by_name"]

# After a restart the progress shown first is the last one saved.
_SAVE_PROGRESS_SECONDS = 3.0
# before that the speed is not yet meaningful
_MIN_SPEED_SAMPLE_SECONDS = 5.0

ALREADY_RUNNING = "An index is being rebuilt already: wait until it is done, or cancel it."
_UNKNOWN_CHANNEL = "There is no channel with the id {chat_id} here: check the id."
_CANCELLED_REASON = "The rebuild was cancelled: the old index is in use."
_STOPPED_REASON = "The bot was stopped: the rebuild goes on when it starts again."
_UNEXPECTED_REASON = "The rebuild failed for a reason nobody planned for: the log says more, the old index is in use."

log = logging.getLogger(__name__)


def find_channel_by_name(name: str, known: Mapping[int, Channel]) -> Channel | None:
    """Find a channel by @username or id."""
    wanted = name.strip().removeprefix("@").casefold()
    names = ((c, {str(c.chat_id), (c.username or "").casefold()} - {""}) for c in known.values())
    return next((channel for channel, its in names if wanted in its), None)


class RebuildRunner:
    """Rebuild runner, one rebuild at a time. Call `resume` at the start and `stop` at the end of the process."""

    def __init__(
        self,
        archive: Archive,
        indexer: LexicalIndexer,
        dense: DenseIndexer | None = None,
        save_every: float = rebuild_parent.SAVE_INTERVAL_SECONDS,
    ) -> None:
        self._archive, self._indexer, self._dense, self._save_every = archive, indexer, dense, save_every
        self._current: Rebuild | None = None
        self._unsaved_end: Rebuild | None = None  # a final state that could not be saved
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._working = self._cancelled = self._installing = False
        self._saved_at = self._since = 0.0
        self._first_done: int | None = None

    @property
    def current(self) -> Rebuild | None:
        """Current or last rebuild; None where none has run in this process."""
        return self._current

    async def start(self, chat_id: int | None = None, tell: ProgressMessage | None = None) -> Rebuild:
        """Start a rebuild of all channels or of one; progress is shown in the message `tell`. Raises RebuildRefused."""
        # shielded: the caller may leave, but a rebuild saved as running must run
        return await asyncio.shield(self._start(chat_id, tell))

    async def _start(self, chat_id: int | None, tell: ProgressMessage | None) -> Rebuild:
        if chat_id is not None and chat_id not in await channels.load_channels(self._archive):
            raise RebuildRefused(_UNKNOWN_CHANNEL.format(chat_id=chat_id))
        if self._unsaved_end is not None:  # otherwise it would count as "running" until the process ends
            await index_state.finish_rebuild(self._archive, self._unsaved_end)
            self._unsaved_end = None
        rebuild = await index_state.begin_rebuild(self._archive, chat_id, tell)
        if rebuild is None:
            raise RebuildRefused(ALREADY_RUNNING)
        return self._launch(rebuild, anew=True)

    async def resume(self) -> Rebuild | None:
        """Resume a rebuild that was running when the process ended, or start one of an index of an earlier version."""
        rebuild = await index_state.find_running_rebuild(self._archive)
        if rebuild:
            return self._launch(rebuild, anew=False)
        return await self.start() if self._indexer.lexical.outdated else None

    def _launch(self, rebuild: Rebuild, *, anew: bool) -> Rebuild:
        self._working, self._cancelled, self._installing = True, False, False
        self._saved_at, self._first_done = 0.0, None
        self._publish(rebuild)
        self._task = asyncio.create_task(self._run(rebuild, anew=anew))
        return rebuild

    async def states(self) -> AsyncIterator[Rebuild]:
        """Yield the rebuild now and after each progress, until it or the process ends."""
        while self._current is not None:
            changed = self._changed
            yield self._current
            if self._is_over():
                return
            await changed.wait()

    async def progress(self) -> AsyncIterator[tuple[int, int]]:
        """Yield posts done and their total until the end. Raises RebuildRefused where the rebuild did not complete."""
        async for rebuild in self.states():
            yield rebuild.done, rebuild.total
        if self._current is not None and self._current.state != "done":
            raise RebuildRefused(self._current.reason or _STOPPED_REASON)

    async def begun(self, after: int = 0) -> Rebuild:
        """Wait for a rebuild with a greater number than `after`."""
        while self._current is None or self._current.id <= after:
            await self._changed.wait()
        return self._current

    async def cancel(self, rebuild: int | None = None) -> bool:
        """Cancel the running rebuild, or only the one with this number; True where the old index stays.

        Where the new index is already being put in place, wait until it is.
        """
        task, now = self._task, self._current
        if task is None or now is None or self._is_over() or rebuild not in (None, now.id):
            return False
        if not self._installing:
            self._cancelled = True
            task.cancel()
        await asyncio.wait({task})
        return self._current is not None and self._current.state == "cancelled"

    async def stop(self) -> None:
        """Stop with the process: a running rebuild goes on with `resume`."""
        if self._task is not None:
            if not self._installing:
                self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self, rebuild: Rebuild, *, anew: bool) -> None:
        try:
            if anew:
                await rebuild_parent.remove_next_index(self._archive)  # a leftover of another rebuild
                if rebuild.chat_id is not None:
                    await self._indexer.save()  # the channel is replaced in the index on disk
            words = self._indexer.lexical
            await rebuild_parent.build_next_index(
                self._archive, self._dense, rebuild, self._moved, self._save_every, words
            )
            self._installing = True  # the rest takes seconds and must not be interrupted
            await self._indexer.put_in_place(await rebuild_parent.load_next_index(self._archive, rebuild, words))
        except asyncio.CancelledError:
            if self._cancelled:
                await self._finish("cancelled", _CANCELLED_REASON)
            raise
        except RagError as exc:
            log.error("the index was not rebuilt: %s", exc.reason)
            await self._finish("failed", exc.reason)
        except Exception:
            log.exception("the index was not rebuilt")
            await self._finish("failed", _UNEXPECTED_REASON)
        else:
            await self._finish("done")
        finally:
            self._working = False
            self._publish(self._current or rebuild)

    async def _moved(self, done: int, total: int, renewed: int) -> None:
        assert self._current is not None
        if self._first_done is None:
            self._first_done, self._since = done, time.monotonic()
        took = time.monotonic() - self._since
        speed = (done - self._first_done) / took if took > _MIN_SPEED_SAMPLE_SECONDS else 0.0
        left = (total - done) / speed if speed else None
        self._publish(replace(self._current, done=done, total=total, left_s=left, renewed=renewed))
        if time.monotonic() - self._saved_at > _SAVE_PROGRESS_SECONDS:
            await index_state.save_rebuild_progress(self._archive, self._current)
            self._saved_at = time.monotonic()

    async def _finish(self, state: str, reason: str = "") -> None:
        assert self._current is not None
        ended = replace(self._current, state=state, reason=reason, left_s=None)
        try:
            await rebuild_parent.remove_next_index(self._archive)
            await index_state.finish_rebuild(self._archive, ended)
        except RagError as exc:  # reported all the same; the next rebuild saves it
            self._unsaved_end = ended
            log.error("the end of the rebuild was not kept: %s", exc.reason)
        self._publish(ended)

    def _publish(self, rebuild: Rebuild) -> None:
        self._current = rebuild
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _is_over(self) -> bool:
        """Check that the rebuild makes no more progress in this process."""
        return self._current is None or self._current.state != "running" or not self._working
