"""Control socket: other commands on this machine ask the bot that owns the data folder (data/citegram.sock), by HTTP.

Here are the client, which holds the folder alone or asks the bot, and the schemas of answers as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from bot.data_folder import FolderLocked, lock_data_folder
from rag_core.errors import ArchiveUnavailable, RagError
from rag_core.models.active_models import ModelSwitch
from rag_core.types import AUTO_RECIPE

if TYPE_CHECKING:  # imported where a bot is asked: it takes a tenth of a second
    import aiohttp

MAX_REQUEST_BYTES = 1 << 18  # a text of 20,000 characters at most, in JSON up to twelve bytes each
ROOT_USER_ID = 0

ReportProgress = Callable[[int, int], None]  # done, total; returns at once

_MAX_LINE_BYTES = 1 << 22  # the longest answer with its trace has some ten thousand
_SOCKET_FILE_NAME = "citegram.sock"
_MAX_PATH_BYTES = 100  # the kernel takes 107, macOS 103
# A bot loads its models before it answers, and a short command ends soon: a holder may be silent for this long.
_CONNECT_TIMEOUT_SECONDS = 10.0
_CHECK_INTERVAL_SECONDS = 0.1

_OTHER_VERSION_TEXT = (
    "The bot that runs here is Citegram {theirs}, this command is Citegram {ours}, and they may not understand each "
    "other: restart the bot."
)
_SILENT_TEXT = (
    "Another Citegram (process {process}) works in the folder {folder} and does not answer: wait until it is done, "
    "or stop it."
)
_GONE_TEXT = "The bot (process {process}) ended before it was done: try again when it runs, or without it."
_IMPOSTOR_TEXT = "Another user (id {user}) answers in the folder {folder} in place of the bot: chmod 700 the folder."


class AnswerJson(TypedDict):
    """An answer as sent over the socket. Dates are ISO texts in UTC."""

    answer: dict[str, Any]  # as printed by --json
    marks: list[list[int]]  # for each sentence the numbers of its sources
    # by number, from 1: link, title, date, the post's words where no sentence shows them, the addresses
    # that the question asks for, one a line; if known edited and origin
    sources: list[dict[str, str]]
    nearest: list[dict[str, str]]  # of a refusal, with the same fields
    understood: str  # the standalone question that a follow-up was rewritten to
    shortfalls: list[str]  # what the answer had to do without, in sentences
    reply: str  # to small talk, which is not searched for
    trace: list[dict[str, Any]]
    results: list[tuple[str, list[str]]]  # of the stages, with texts: for the terminal that asked for the trace


class VerdictsJson(TypedDict):
    """Verdicts as sent over the socket and printed by `--json`. Dates are ISO texts in UTC."""

    same: dict[str, str] | None
    verdicts: list[dict[str, Any]]
    left: int
    without: list[str]
    shortfalls: list[str]  # the same in sentences
    trace_id: str
    trace: list[dict[str, Any]]


class SearchJson(TypedDict):
    """A page of found posts; `understood` is false where the text has neither words nor filters to search by."""

    understood: bool
    matching: int  # posts with all the words
    more: bool  # there are more of them
    posts: list[dict[str, Any]]
    pages: int
    shortfalls: list[str]


class ChannelJson(TypedDict):
    """A channel, with the dates of its first and last post."""

    title: str
    username: str
    posts: int
    first: str
    last: str


class DenseFacts(TypedDict):
    """Facts on the dense index; `seconds` estimates the time to embed the waiting posts on this machine."""

    model: str
    vectors: int
    waiting: int
    seconds: float


class IndexFacts(TypedDict):
    """Facts on both indexes: size, and the changes still to index (below 0: the index is ahead)."""

    passages: int
    behind: int
    dense: DenseFacts | None
    compared: dict[str, int] | None  # as from `compare_indexes`; None: the indexes were not up to date
    without: list[str]  # why a part could not be opened
    language: list[tuple[bool | None, str]]  # of the writer: fine or not, and a sentence
    bar: str


class BotSilent(ArchiveUnavailable):
    """The process that holds the folder does not answer."""


class BotGone(RagError):
    """The bot that holds the folder ended in the middle of a request."""


@asynccontextmanager
async def hold_folder_or_connect(folder: Path) -> AsyncIterator[RunningBot | None]:
    """Lock the data folder and yield None, or yield the bot that holds it.

    A holder that does not answer is waited for, up to 10 s: it may be a bot that starts or a command that ends. Raises
    BotSilent, ArchiveUnavailable.
    """
    last, since = "", time.monotonic()
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(lock_data_folder(folder))
                owner = None
                break
            except FolderLocked as held:
                if held.process != last:
                    last, since = held.process, time.monotonic()
            owner = RunningBot(folder, last)
            if await owner.greet():
                break
            if time.monotonic() - since > _CONNECT_TIMEOUT_SECONDS:
                raise BotSilent(_SILENT_TEXT.format(process=last, folder=folder))
            await asyncio.sleep(_CHECK_INTERVAL_SECONDS)
        yield owner


@asynccontextmanager
async def hold_folder(folder: Path) -> AsyncIterator[None]:
    """Lock the data folder for work that cannot be done while a bot runs; a short command is waited for.

    Raises FolderLocked where a bot runs, BotSilent, ArchiveUnavailable.
    """
    async with hold_folder_or_connect(folder) as owner:
        if owner is not None:
            raise FolderLocked(folder, owner.process)
        yield


@contextmanager
def open_socket_path(folder: Path) -> Iterator[str]:
    """Yield a path to the folder's socket that fits the kernel's length limit. Raises OSError."""
    path = folder / _SOCKET_FILE_NAME
    if len(os.fsencode(path)) <= _MAX_PATH_BYTES:
        yield str(path)
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}/{_SOCKET_FILE_NAME}"
    finally:
        os.close(opened)


def get_peer_user(transport: asyncio.BaseTransport | None) -> int | None:
    """Get the user id of the peer of a local socket; None if the system does not provide it."""
    connected = transport.get_extra_info("socket") if transport else None
    if connected is None or not hasattr(socket, "SO_PEERCRED"):  # not Linux
        return None
    _, user, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(user)


@cache
def build_greeting() -> dict[str, str]:
    """Build the headers of every response: version of this program, process."""
    from importlib.metadata import version  # takes 0.03 s; where no bot runs, nobody is greeted

    return {"Citegram-Version": version("citegram"), "Citegram-Process": str(os.getpid())}


class RunningBot:
    """Client of the bot that holds a data folder. Every request opens its own connection.

    `as_reader`: answers come from what everybody may read. All requests raise RagError with the bot's message,
    BotGone, BotSilent.
    """

    def __init__(self, folder: Path, process: str) -> None:
        self._folder, self.process, self.as_reader = folder, process, False

    async def greet(self) -> bool:
        """Whether the bot answers."""
        with suppress(BotGone):
            await self._request("greet", patience=_CONNECT_TIMEOUT_SECONDS)
            return True
        return False

    async def ask(
        self, question: str, *, trace: bool, recipe: str = AUTO_RECIPE, conversation: int = 0
    ) -> AnswerJson | None:
        """Answer a question, by itself or in a conversation; None if there are no channels."""
        found = await self._request(
            "ask", question=question, trace=trace, recipe=recipe, conversation=conversation, as_reader=self.as_reader
        )
        return cast(AnswerJson | None, found)

    async def verify(self, text: str, *, trace: bool) -> VerdictsJson | None:
        """Verify a text; None if there are no channels."""
        found = await self._request("verify", text=text, trace=trace, as_reader=self.as_reader)
        return cast(VerdictsJson | None, found)

    async def search(self, text: str, page: int) -> SearchJson | None:
        """Find posts; None if there are no channels."""
        return cast(SearchJson | None, await self._request("search", text=text, page=page, as_reader=self.as_reader))

    async def list_channels(self) -> list[ChannelJson]:
        """List the channels."""
        return cast(list[ChannelJson], await self._request("list_channels", as_reader=self.as_reader))

    async def wake(self, moved: ReportProgress) -> None:
        """Have the bot index the archive's pending changes; returns when the lexical index has them."""
        await self._request("wake", moved)

    async def reindex(self, channel: int | None, moved: ReportProgress) -> None:
        """Have the bot rebuild its indexes, all or one channel's. The rebuild continues if this client leaves."""
        await self._request("reindex", moved, channel=channel)

    async def use(self, given: str, wanted: str) -> ModelSwitch:
        """Have the bot use a model (catalog name, path, auto, none, same); `wanted` may be empty."""
        return ModelSwitch(**await self._request("use", model=given, wanted=wanted))

    async def doctor(self) -> tuple[IndexFacts, int]:
        """Fetch the bot's index facts and its uptime in seconds."""
        facts, uptime_s = await self._request("doctor")
        return cast(IndexFacts, facts), int(uptime_s)

    async def _request(
        self, do: str, moved: ReportProgress = lambda *_: None, *, patience: float | None = None, **fields: object
    ) -> Any:
        """Post a request, and read the lines of the response until its end. A bot of another version is refused."""
        import aiohttp
        from aiohttp.http_exceptions import HttpProcessingError

        # a terminal can type lone surrogates, which UTF-8 cannot encode
        asked = {name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
                 for name, value in fields.items()}  # fmt: skip
        try:
            with open_socket_path(self._folder) as path:
                async with (
                    aiohttp.ClientSession(
                        "http://citegram", connector=_open_connector(path, self._folder),
                        timeout=aiohttp.ClientTimeout(sock_read=patience), read_bufsize=_MAX_LINE_BYTES,
                    ) as session,
                    session.post(f"/{do}", json=asked) as response,
                ):  # fmt: skip
                    theirs, ours = response.headers.get("Citegram-Version", ""), build_greeting()["Citegram-Version"]
                    if theirs != ours:
                        raise RagError(_OTHER_VERSION_TEXT.format(theirs=theirs[:40], ours=ours))
                    self.process = response.headers["Citegram-Process"]
                    async for line in response.content:
                        match json.loads(line):
                            case {"error": str(reason)}:
                                raise RagError(reason)
                            case {"end": end}:
                                return end
                            case {"at": [done, total]}:
                                moved(done, total)
                            case _:
                                raise ValueError("no line of the bot")
        except TimeoutError as exc:
            raise BotSilent(_SILENT_TEXT.format(process=self.process, folder=self._folder)) from exc
        except (aiohttp.ClientResponseError, HttpProcessingError, ValueError) as exc:
            reason = f"The bot (process {self.process}) is not understood by this command: restart the bot."
            raise RagError(reason) from exc
        except (OSError, aiohttp.ClientError) as exc:
            raise BotGone(_GONE_TEXT.format(process=self.process)) from exc
        raise BotGone(_GONE_TEXT.format(process=self.process))


def _open_connector(path: str, folder: Path) -> aiohttp.UnixConnector:
    """Open a connector that sends nothing to another user: who can write to the folder can replace the socket."""
    from aiohttp import UnixConnector

    class OwnerConnector(UnixConnector):
        async def _create_connection(self, *given: Any) -> Any:
            protocol = await super()._create_connection(*given)
            user = get_peer_user(protocol.transport)
            if user not in (None, os.geteuid(), ROOT_USER_ID, folder.stat().st_uid):
                protocol.close()
                raise RagError(_IMPOSTOR_TEXT.format(user=user, folder=folder))
            return protocol

    return OwnerConnector(path)
