"""A GGUF in a child process that is watched, unloaded and started again, while whoever waits goes on waiting."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from rag_core.doors.llm.contract import LanguageModel, OnPlace, Seat
from rag_core.doors.llm.gguf import check_file, check_memory, free_memory
from rag_core.doors.llm.process import Child, ChildGone, ChildRefused
from rag_core.doors.llm.seat import LocalSeat, Speed
from rag_core.doors.llm.turns import Turns
from rag_core.errors import GenerationFailed, ModelUnavailable
from rag_core.settings import LlmSettings

__all__ = ["PATIENCE_S", "LocalModel", "open_local"]

_log = logging.getLogger(__name__)

# A child that has said nothing for so long hangs; it says something after every batch of a prompt and every token.
PATIENCE_S = 300.0
# After the second end in a row the next start waits, each time twice as long; longer waits are not waited for.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _WORTH_WAITING_S = 0.25, 30.0, 2.0
_CLOSED = "The model is being closed: ask again after the start."


class LocalModel:
    """One GGUF. See LanguageModel; besides: `swap`, `speed`, `unload`."""

    grammars, bare_verdicts = True, False

    def __init__(self, path: Path, settings: LlmSettings, name: str, patience: float) -> None:
        self._path, self._settings, self._name, self._patience = path, settings, name, patience
        self._turns = Turns()
        self.machine = asyncio.Semaphore(1)  # one generation at a time
        self._child: Child | None = None
        self._loading: asyncio.Task[Child] | None = None
        self._ends, self._rest_until = 0, 0.0
        self._idle: asyncio.TimerHandle | None = None
        self._unloading: asyncio.Task[None] | None = None
        self._context, self._said_name = settings.context, ""

    @property
    def name(self) -> str:
        """The name it was opened with, else what the file says, else the file's."""
        return self._name or self._said_name or self._path.stem

    @property
    def path(self) -> Path:
        """The file in use."""
        return self._path

    @property
    def context(self) -> int:
        """Tokens that prompt and reply may have together."""
        return self._context

    @property
    def waiting(self) -> int:
        """How many have the seat or wait for it."""
        return self._turns.waiting

    @property
    def pid(self) -> int | None:
        """The child's process id, or None where the model is unloaded."""
        return None if self._child is None or self._child.gone else self._child.pid

    @asynccontextmanager
    async def turn(self, reader: int, on_place: OnPlace | None = None) -> AsyncIterator[Seat]:
        """Wait for one's turn, and for the model to be loaded. Raises GenerationFailed."""
        async with self._turns.seat(reader, on_place), self.machine, self._awake():
            try:
                await self._running()
            except ModelUnavailable as exc:
                raise GenerationFailed(exc.reason) from exc
            seat = LocalSeat(self._ask)
            try:
                yield seat
            finally:
                seat.leave()
                if self._child is not None:
                    self._child.halt()

    @asynccontextmanager
    async def _awake(self) -> AsyncIterator[None]:
        """Not unloaded in here; unloaded some time after."""
        if self._idle is not None:
            self._idle.cancel()
        try:
            yield
        finally:
            if self._settings.idle_minutes and not self._turns.closed:
                loop = asyncio.get_running_loop()
                self._idle = loop.call_later(60 * self._settings.idle_minutes, self._fall_asleep)

    def _fall_asleep(self) -> None:
        if not self._turns.waiting:
            self._unloading = asyncio.create_task(self.unload())

    async def load(self) -> None:
        """Load the model now. Raises ModelUnavailable."""
        async with self._turns.urgent(), self._awake():
            await self._running()

    async def unload(self) -> None:
        """End the child and give its memory back; the next turn starts it again."""
        async with self._turns.urgent():
            await self._end()

    async def _running(self) -> Child:
        """The child, started when it is not there. Raises ModelUnavailable and GenerationFailed."""
        if self._child is not None and not self._child.gone:
            return self._child
        if self._turns.closed:
            raise GenerationFailed(_CLOSED)
        if self._loading is None:
            await self._end()
            await self._rest()
            self._loading = asyncio.create_task(self._started(self._path))
            self._loading.add_done_callback(lambda task: task.cancelled() or task.exception())
        loading = self._loading
        try:  # who asked may go away meanwhile; the next one needs the model too
            self._child = await asyncio.shield(loading)
        except ModelUnavailable:
            self._ended()
            raise
        finally:
            if loading.done():
                self._loading = None
        self._context, self._said_name = self._child.context, self._child.name
        return self._child

    async def _started(self, path: Path) -> Child:
        check_file(path)
        if self._settings.gpu_layers == 0:
            check_memory(path, free_memory())
        options = {
            "gpu_layers": self._settings.gpu_layers,
            "threads": self._settings.threads or max(1, (os.cpu_count() or 2) - 1),
            "context": self._settings.context,
            "batch": self._settings.batch,
        }
        return await Child.start(path, options, self._patience)

    async def _rest(self) -> None:
        """Wait a little after a row of ends; not for long: a question has something better to do."""
        left = self._rest_until - asyncio.get_running_loop().time()
        if left > _WORTH_WAITING_S:
            raise GenerationFailed(f"The model ended {self._ends} times in a row: it is started again in {left:.0f} s.")
        await asyncio.sleep(max(0.0, left))

    def _ended(self) -> None:
        self._ends += 1
        pause = 0.0 if self._ends < 2 else min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (self._ends - 2))
        self._rest_until = asyncio.get_running_loop().time() + pause

    async def _end(self) -> None:
        """End the child, also one that is only loading."""
        if self._loading is not None:
            loading, self._loading = self._loading, None
            loading.cancel()
            await asyncio.wait([loading])
            if not loading.cancelled() and loading.exception() is None:
                self._child = loading.result()
        child, self._child = self._child, None
        if child is not None:
            await child.stop()

    async def _ask(self, do: str, fields: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Replies of the child to one request. Raises GenerationFailed; for the one who has the seat."""
        for last in (False, True):
            try:
                child = await self._running()
                async with aclosing(child.ask(do, fields)) as replies:
                    async for reply in replies:
                        yield reply
            except ChildGone as gone:
                self._ended()
                _log.warning("the language model's process ended with %s", gone)
                if gone.began or last:
                    raise GenerationFailed(f"The model went away ({gone}): ask again, it is started anew.") from gone
            except ChildRefused as no:
                raise GenerationFailed(_refusal(no, self._context)) from no
            except ModelUnavailable as exc:
                raise GenerationFailed(exc.reason) from exc
            else:
                self._ends = 0
                return

    async def speed(self) -> Speed:
        """Measure it; takes a turn of its own. Raises GenerationFailed."""
        async with self.turn(0):
            *_, last = [message async for message in self._ask("speed", {})]
            return Speed(**{field: last[field] for field in Speed.__slots__})

    async def swap(self, path: Path, name: str = "") -> None:
        """Use another file as soon as the running request is done; who waits is served by it.

        Raises ModelUnavailable when it cannot be loaded; the old one is in use then.
        """
        check_file(path)
        async with self._turns.urgent(), self._awake():
            await self._end()
            old = self._path, self._name
            self._path, self._name, self._ends, self._rest_until = path, name, 0, 0.0
            try:
                await self._running()
            except BaseException as exc:
                (self._path, self._name), self._ends, self._rest_until = old, 0, 0.0
                await self._end()
                if isinstance(exc, ModelUnavailable):
                    with suppress(ModelUnavailable):  # if even that fails, the next turn tries again and says so
                        await self._running()
                raise

    async def close(self) -> None:
        """End the child; whoever waits is told so."""
        self._turns.close(_CLOSED)
        if self._idle is not None:
            self._idle.cancel()
        if self._unloading is not None:
            self._unloading.cancel()
            await asyncio.wait([self._unloading])
        await self._end()


def _refusal(no: ChildRefused, context: int) -> str:
    if no.kind == "long":
        return f"The prompt has {no} tokens and the model takes {context}: shorten it, or raise LLM__CONTEXT."
    return f"The model could not do it: {no}."


async def open_local(
    path: Path,
    settings: LlmSettings,
    *,
    name: str = "",
    patience: float = PATIENCE_S,
    beside: LanguageModel | None = None,
) -> LocalModel:
    """Load a GGUF. `patience` is how long the child may say nothing, in seconds. Raises ModelUnavailable.

    `beside`: a model on this machine with which it takes turns: two that generate at once are both slow.
    """
    model = LocalModel(path, settings, name, patience)
    if isinstance(beside, LocalModel):
        model.machine = beside.machine
    try:
        await model.load()
    except BaseException:
        await model.close()
        raise
    return model
