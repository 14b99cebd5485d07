"""A command's side of the socket: the folder is ours, or the bot that owns it is asked."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

from bot.beside.facts import Facts
from bot.beside.told import Told
from bot.beside.verified import Verified
from bot.beside.wire import LONGEST_LINE, STILL_EVERY_S, address, greeting, line, peer_user, read, same
from bot.owner import FolderHeld, owned
from rag_core.doors.archive.modes import AUTO
from rag_core.errors import ArchiveUnavailable, RagError
from rag_core.using import Used

__all__ = ["Moved", "Owner", "OwnerGone", "OwnerSilent", "alone", "alone_or_beside"]

Moved = Callable[[int, int], None]  # done, total

# A bot opens its models before it can be asked, and a short command is soon over: so long a holder may be silent.
_PATIENCE_S = 10.0
_LOOK_EVERY_S = 0.1
# Signs of life come every few seconds.
_SILENCE_S = 6 * STILL_EVERY_S

_SILENT = (
    "Another Citegram (process {process}) works in the folder {folder} and does not answer: wait until it is done, "
    "or stop it."
)
_GONE = "The bot (process {process}) ended before it was done: try again when it runs, or without it."
_STRANGE = "The bot (process {process}) is not understood by this command: restart the bot."
_IMPOSTOR = "Another user (id {user}) answers in the folder {folder} in place of the bot: chmod 700 the folder."
_ROOT = 0


class OwnerSilent(ArchiveUnavailable):
    """Somebody holds the folder and does not answer."""


class OwnerGone(RagError):
    """The owner ended in the middle of a request."""


@asynccontextmanager
async def alone_or_beside(folder: Path) -> AsyncIterator[Owner | None]:
    """None: nobody holds the folder, and inside it is held by us. Else the bot that holds it.

    A holder that does not answer is waited for a while: it may be a bot that starts, or a command that ends.
    Raises OwnerSilent, ArchiveUnavailable.
    """
    with ExitStack() as stack:
        yield await _turn(folder, stack)


@asynccontextmanager
async def alone(folder: Path) -> AsyncIterator[None]:
    """Hold the folder, for work that cannot be done beside a bot. A command that is soon over is waited for.

    Raises FolderHeld where a bot runs, OwnerSilent, ArchiveUnavailable.
    """
    async with alone_or_beside(folder) as owner:
        if owner is not None:
            raise FolderHeld(folder, owner.process)
        yield


async def _turn(folder: Path, stack: ExitStack) -> Owner | None:
    last, since = "", time.monotonic()
    while True:
        try:
            stack.enter_context(owned(folder))
            return None
        except FolderHeld as held:
            if held.process != last:
                last, since = held.process, time.monotonic()
        owner = Owner(folder, last)
        if await owner.greet():
            return owner
        if time.monotonic() - since > _PATIENCE_S:
            raise OwnerSilent(_SILENT.format(process=last, folder=folder))
        await asyncio.sleep(_LOOK_EVERY_S)


class Owner:
    """The bot that owns a folder. Every request is a connection of its own.

    All raise RagError with the bot's own sentence, OwnerGone, OwnerSilent.
    """

    def __init__(self, folder: Path, process: str) -> None:
        self._folder = folder
        self.process = process
        self.version = ""

    async def greet(self) -> bool:
        """Whether somebody answers."""
        try:
            async with self._connected():
                return True
        except (OSError, OwnerGone):
            return False

    async def ask(self, question: str, *, trace: bool, recipe: str = AUTO) -> Told | None:
        """The answer; None where there are no channels."""
        return cast(Told | None, (await self._asked("ask", question=question, trace=trace, recipe=recipe))["told"])

    async def verify(self, text: str, *, trace: bool) -> Verified | None:
        """The verdicts; None where there are no channels."""
        return cast(Verified | None, (await self._asked("verify", text=text, trace=trace))["verified"])

    async def wake(self, moved: Moved) -> None:
        """Have the bot index what the archive has now; returns when posts are found by their words."""
        await self._asked("wake", moved)

    async def reindex(self, channel: int | None, moved: Moved) -> None:
        """Have the bot rebuild its indexes, whole or for a channel. It goes on when we leave."""
        await self._asked("reindex", moved, channel=channel)

    async def use(self, given: str, wanted: str) -> Used:
        """Have the bot use a model (a row's name, a path, auto, none, same); `wanted` may be empty."""
        return Used(**await self._asked("use", model=given, wanted=wanted))

    async def doctor(self) -> tuple[Facts, int]:
        """What the bot says of its indexes, and for how many seconds it runs."""
        end = await self._asked("doctor")
        return cast(Facts, end["facts"]), int(end["uptime_s"])

    async def _asked(self, do: str, moved: Moved | None = None, **fields: object) -> dict[str, Any]:
        try:
            async with self._connected() as (reader, writer):
                writer.write(line(greeting(do=do, **fields)))
                while "end" not in (message := await self._next(reader, _SILENCE_S)):
                    _refused(message)
                    if moved and "at" in message:
                        done, total = message["at"]
                        moved(done, total)
                return cast(dict[str, Any], message["end"])
        except OSError as exc:
            raise OwnerGone(_GONE.format(process=self.process)) from exc

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        with address(self._folder) as path:
            reader, writer = await asyncio.open_unix_connection(path, limit=LONGEST_LINE)
        try:
            self._check_user(writer)
            hello = await self._next(reader, _PATIENCE_S)
            same(hello, asked=False)
            self.process, self.version = str(hello.get("process")), str(hello.get("version"))
            _refused(hello)
            yield reader, writer
        finally:
            writer.transport.abort()

    def _check_user(self, writer: asyncio.StreamWriter) -> None:
        """Raise RagError where another user answers: whoever may write to the folder can swap the socket."""
        user = peer_user(writer.get_extra_info("socket"))
        if user not in (None, os.geteuid(), _ROOT, self._folder.stat().st_uid):
            raise RagError(_IMPOSTOR.format(user=user, folder=self._folder))

    async def _next(self, reader: asyncio.StreamReader, patience: float) -> dict[str, Any]:
        """The next line of the bot."""
        try:
            async with asyncio.timeout(patience):
                raw = await reader.readline()
        except TimeoutError:
            raise OwnerSilent(_SILENT.format(process=self.process, folder=self._folder)) from None
        except ValueError:
            raise RagError(_STRANGE.format(process=self.process)) from None
        if not raw.endswith(b"\n"):
            raise OwnerGone(_GONE.format(process=self.process))
        message = read(raw)
        if message is None:
            raise RagError(_STRANGE.format(process=self.process))
        return message


def _refused(message: dict[str, Any]) -> None:
    if "error" in message:
        raise RagError(str(message["error"]))
