"""Control socket: other commands on this machine talk to the bot that owns the data folder (data/citegram.sock).

Here are the client, which holds the folder alone or asks the bot, and the schemas of answers as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypedDict, cast

from bot.data_folder import FolderLocked, lock_data_folder
from rag_core.errors import ArchiveUnavailable, RagError
from rag_core.models.active_models import ModelSwitch
from rag_core.types import AUTO_RECIPE


class AnswerJson(TypedDict):
    """An answer as sent over the socket. Dates are ISO texts in UTC."""

    answer: dict[str, Any]  # as printed by --json
    marks: list[list[int]]  # for each sentence the numbers of its sources
    # by number, from 1: link, title, date, the post's words where no sentence shows them, the addresses
    # that the question asks for, one a line; if known edited and origin
    sources: list[dict[str, str]]
    nearest: list[dict[str, str]]  # of a refusal, with the same fields
    understood: str  # the standalone question that a follow-up was rewritten to
    reply: str  # to small talk, which is not searched for
    trace: list[dict[str, Any]]
    results: list[tuple[str, list[str]]]  # of the stages, with texts: for the terminal that asked for the trace


class PlanJson(TypedDict):
    """The plan of a question and what it finds, as sent over the socket."""

    plan: dict[str, Any]  # in the form of the planner model
    legs: str
    reasons: list[str]
    fused: list[dict[str, Any]]  # best first: link, score, and the ranks in the lexical and the dense leg


class VerdictsJson(TypedDict):
    """Verdicts as sent over the socket and printed by `--json`. Dates are ISO texts in UTC."""

    same: dict[str, str] | None
    verdicts: list[dict[str, Any]]
    left: int
    without: list[str]
    trace_id: str
    trace: list[dict[str, Any]]


class DenseFacts(TypedDict):
    """Facts on the dense index; `seconds` estimates the time to embed the waiting posts on this machine."""

    model: str
    vectors: int
    waiting: int
    seconds: float


class IndexFacts(TypedDict):
    """Facts on both indexes: size, watermark, and the changes still to index (below 0: the index is ahead)."""

    passages: int
    watermark: int
    behind: int
    dense: DenseFacts | None
    compared: dict[str, int] | None  # as from `compare_indexes`; None: the indexes were not up to date
    without: list[str]  # why a part could not be opened
    language: list[tuple[bool | None, str]]  # of writer and planner: fine or not, and a sentence
    bar: str


# Incremented with every change that an older side would misunderstand.
PROTOCOL_VERSION = 1
HEARTBEAT_SECONDS = 5.0
MAX_REQUEST_BYTES = 1 << 16  # bytes: a question has 1000 characters at most
MAX_LINE_BYTES = 1 << 22  # bytes: the longest answer with its trace has some ten thousand
ROOT_USER_ID = 0

_SOCKET_FILE_NAME = "citegram.sock"
_MAX_PATH_BYTES = 100  # bytes; the kernel takes 107, macOS 103

_OTHER_VERSION_TEXT = (
    "The bot that runs here is Citegram {theirs}, this command is Citegram {ours}, and they do not understand each "
    "other: restart the bot."
)


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


def get_peer_user(connected: socket.socket) -> int | None:
    """Get the user id of the peer of a local socket; None if the system does not provide it."""
    if not hasattr(socket, "SO_PEERCRED"):  # not Linux
        return None
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", raw)
    return int(user)


def read_version() -> str:
    """Read the version of this program from the metadata of its package."""
    from importlib.metadata import version  # takes 0.03 s; where no bot runs, nobody is greeted

    return version("citegram")


def build_greeting(**more: object) -> dict[str, object]:
    """Build the greeting: protocol number, version of this program, and further fields."""
    return {"citegram": PROTOCOL_VERSION, "version": read_version(), **more}


def encode_message(message: Mapping[str, object]) -> bytes:
    """Encode a message as one line."""
    # ASCII keeps lone surrogates, which a terminal can type and UTF-8 cannot encode.
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def decode_message(raw: bytes) -> dict[str, Any] | None:
    """Decode the message on a line; None if it is malformed."""
    try:
        message = json.loads(raw) if raw.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def require_same_protocol(message: Mapping[str, Any], *, asked: bool) -> None:
    """Raise RagError if the other side speaks another protocol; `asked`: the other side is the command."""
    if message.get("citegram") == PROTOCOL_VERSION:
        return
    ours, theirs = read_version(), str(message.get("version", "unknown"))[:40]
    bot, command = (ours, theirs) if asked else (theirs, ours)
    raise RagError(_OTHER_VERSION_TEXT.format(theirs=bot, ours=command))


OnIndexProgress = Callable[[int, int], None]  # done, total

# A bot loads its models before it answers, and a short command ends soon: a holder may be silent for this long.
_CONNECT_TIMEOUT_SECONDS = 10.0
_CHECK_INTERVAL_SECONDS = 0.1
# Heartbeats arrive every few seconds.
_MAX_SILENCE_SECONDS = 6 * HEARTBEAT_SECONDS

_SILENT_TEXT = (
    "Another Citegram (process {process}) works in the folder {folder} and does not answer: wait until it is done, "
    "or stop it."
)
_GONE_TEXT = "The bot (process {process}) ended before it was done: try again when it runs, or without it."
_MISUNDERSTOOD_TEXT = "The bot (process {process}) is not understood by this command: restart the bot."
_IMPOSTOR_TEXT = "Another user (id {user}) answers in the folder {folder} in place of the bot: chmod 700 the folder."


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


class RunningBot:
    """Client of the bot that holds a data folder. Every request opens its own connection.

    All requests raise RagError with the bot's message, BotGone, BotSilent.
    """

    def __init__(self, folder: Path, process: str) -> None:
        self._folder = folder
        self.process = process
        self.version = ""

    async def greet(self) -> bool:
        """Whether the bot answers."""
        try:
            async with self._connect():
                return True
        except (OSError, BotGone):
            return False

    async def ask(
        self, question: str, *, trace: bool, recipe: str = AUTO_RECIPE, conversation: int = 0
    ) -> AnswerJson | None:
        """Answer a question, by itself or in a conversation; None if there are no channels."""
        end = await self._request("ask", question=question, trace=trace, recipe=recipe, conversation=conversation)
        return cast(AnswerJson | None, end["told"])

    async def plan(self, question: str) -> PlanJson | None:
        """Have a question planned and searched, without an answer; None if there are no channels."""
        return cast(PlanJson | None, (await self._request("plan", question=question))["plan"])

    async def verify(self, text: str, *, trace: bool) -> VerdictsJson | None:
        """Verify a text; None if there are no channels."""
        return cast(VerdictsJson | None, (await self._request("verify", text=text, trace=trace))["verified"])

    async def wake(self, moved: OnIndexProgress) -> None:
        """Have the bot index the archive's pending changes; returns when the lexical index has them."""
        await self._request("wake", moved)

    async def reindex(self, channel: int | None, moved: OnIndexProgress) -> None:
        """Have the bot rebuild its indexes, all or one channel's. The rebuild continues if this client leaves."""
        await self._request("reindex", moved, channel=channel)

    async def use(self, given: str, wanted: str) -> ModelSwitch:
        """Have the bot use a model (catalog name, path, auto, none, same); `wanted` may be empty."""
        return ModelSwitch(**await self._request("use", model=given, wanted=wanted))

    async def doctor(self) -> tuple[IndexFacts, int]:
        """Fetch the bot's index facts and its uptime in seconds."""
        end = await self._request("doctor")
        return cast(IndexFacts, end["facts"]), int(end["uptime_s"])

    async def _request(self, do: str, moved: OnIndexProgress | None = None, **fields: object) -> dict[str, Any]:
        try:
            async with self._connect() as (reader, writer):
                writer.write(encode_message(build_greeting(do=do, **fields)))
                while "end" not in (message := await self._read_message(reader, _MAX_SILENCE_SECONDS)):
                    _raise_error_message(message)
                    if moved and "at" in message:
                        done, total = message["at"]
                        moved(done, total)
                return cast(dict[str, Any], message["end"])
        except OSError as exc:
            raise BotGone(_GONE_TEXT.format(process=self.process)) from exc

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        with open_socket_path(self._folder) as path:
            reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES)
        try:
            # Raise RagError if another user answers: anyone who can write to the folder can replace the socket.
            user = get_peer_user(writer.get_extra_info("socket"))
            if user not in (None, os.geteuid(), ROOT_USER_ID, self._folder.stat().st_uid):
                raise RagError(_IMPOSTOR_TEXT.format(user=user, folder=self._folder))
            hello = await self._read_message(reader, _CONNECT_TIMEOUT_SECONDS)
            require_same_protocol(hello, asked=False)
            self.process, self.version = str(hello.get("process")), str(hello.get("version"))
            _raise_error_message(hello)
            yield reader, writer
        finally:
            writer.transport.abort()

    async def _read_message(self, reader: asyncio.StreamReader, patience: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(patience):
                raw = await reader.readline()
        except TimeoutError:
            raise BotSilent(_SILENT_TEXT.format(process=self.process, folder=self._folder)) from None
        except ValueError:
            raise RagError(_MISUNDERSTOOD_TEXT.format(process=self.process)) from None
        if not raw.endswith(b"\n"):
            raise BotGone(_GONE_TEXT.format(process=self.process))
        message = decode_message(raw)
        if message is None:
            raise RagError(_MISUNDERSTOOD_TEXT.format(process=self.process))
        return message


def _raise_error_message(message: dict[str, Any]) -> None:
    if "error" in message:
        raise RagError(str(message["error"]))
