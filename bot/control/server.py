"""Control socket server: many callers at once, one request each; no caller can harm the bot or another caller.

Requests: `ask`, `plan`, `verify`, `wake`, `reindex`, `use`, `doctor`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any

from bot.control import (
    HEARTBEAT_SECONDS,
    MAX_REQUEST_BYTES,
    ROOT_USER_ID,
    build_greeting,
    decode_message,
    encode_message,
    get_peer_user,
    open_socket_path,
    require_same_protocol,
)
from bot.control.answers import TerminalAnswerer
from bot.doctor.archive_checks import collect_index_facts
from bot.indexing import IndexingWorker, RebuildRunner
from rag_core.engine import Engine, switch_model
from rag_core.errors import IndexUnavailable, RagError
from rag_core.recipes import RECIPES
from rag_core.storage import posts
from rag_core.types import AUTO_RECIPE

ControlRequest = dict[str, Any]
ReportProgress = Callable[[int, int], None]  # done, total; returns at once
RequestHandler = Callable[[ControlRequest, ReportProgress], Awaitable[Mapping[str, object]]]

_MAX_CALLERS = 64
# A caller writes its request at once after connecting, and reads the replies.
_CALLER_TIMEOUT_SECONDS = 10.0

_BUSY_TEXT = "The bot is asked by too many commands at once: try again in a moment."
_STRANGER_TEXT = "This bot answers commands of its own user only: run the command as the user that runs the bot."
_SLOW_TEXT = "No request came: ask with the citegram command."
_TOO_LONG_TEXT = f"A request may have {MAX_REQUEST_BYTES:,} bytes: write a shorter one."
_GARBAGE_TEXT = "The bot does not understand this: ask with the citegram command."
_UNKNOWN_REQUEST_TEXT = "This bot does not know the request {do!r}: restart the bot if Citegram was updated."
_INTERNAL_ERROR_TEXT = "The bot failed at this request: look at its log."

log = logging.getLogger(__name__)


@asynccontextmanager
async def serve_control_socket(folder: Path, handlers: Mapping[str, RequestHandler]) -> AsyncIterator[None]:
    """Serve requests at the folder's socket. To be called by the folder's owner: an old socket is replaced.

    If no socket can be made (some network disks), the bot works without it and logs a warning.
    """
    callers: set[asyncio.Task[None]] = set()

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        callers.add(task)
        try:
            if not server.is_serving():  # accepted at the moment the bot stopped
                return
            await _serve_caller(reader, writer, handlers, busy=len(callers) > _MAX_CALLERS)
        except asyncio.CancelledError:  # the bot stops; asyncio's streams would log the cancellation as an error
            pass
        except Exception:  # nothing awaits this task
            log.exception("a caller's request went wrong")
        finally:
            callers.discard(task)
            writer.transport.abort()

    try:
        listening = _open_socket(folder)
    except OSError as exc:
        log.warning("other commands cannot ask this bot, as there is no socket in %s: %s", folder, exc)
        yield
        return
    server = await asyncio.start_unix_server(
        handle_connection, sock=listening, limit=MAX_REQUEST_BYTES, backlog=2 * _MAX_CALLERS
    )
    try:
        yield
    finally:
        server.close()
        for task in callers:
            task.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        with suppress(OSError), open_socket_path(folder) as path:
            Path(path).unlink()


def _open_socket(folder: Path) -> socket.socket:
    with open_socket_path(folder) as path:
        Path(path).unlink(missing_ok=True)
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            opened.bind(path)
            Path(path).chmod(0o600)  # nothing can connect before it listens
        except BaseException:
            opened.close()
            raise
        return opened


async def _serve_caller(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handlers: Mapping[str, RequestHandler], *, busy: bool
) -> None:
    hello = build_greeting(process=os.getpid())
    # If the system does not provide the peer's user, the socket's permissions must do.
    if busy or get_peer_user(writer.get_extra_info("socket")) not in (None, os.geteuid(), ROOT_USER_ID):
        await _send_final_message(writer, hello | {"error": _BUSY_TEXT if busy else _STRANGER_TEXT})
        return
    writer.write(encode_message(hello))
    try:
        end = await _handle_request(reader, writer, handlers)
    except RagError as exc:
        await _send_final_message(writer, {"error": exc.reason})
    except Exception:
        log.exception("a command's request failed")
        await _send_final_message(writer, {"error": _INTERNAL_ERROR_TEXT})
    else:
        if end is not None:
            await _send_final_message(writer, {"end": end})


async def _send_final_message(writer: asyncio.StreamWriter, last: Mapping[str, object]) -> None:
    """Send the final message. A caller that does not read it in time misses it."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_CALLER_TIMEOUT_SECONDS):
            writer.write(encode_message(last))
            writer.close()
            await writer.wait_closed()


async def _handle_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handlers: Mapping[str, RequestHandler]
) -> Mapping[str, object] | None:
    """Read a request and handle it; None if the caller has disconnected."""
    try:
        async with asyncio.timeout(_CALLER_TIMEOUT_SECONDS):
            raw = await reader.readline()
    except TimeoutError:
        raise RagError(_SLOW_TEXT) from None
    except ValueError:  # asyncio's error for a line beyond the limit
        raise RagError(_TOO_LONG_TEXT) from None
    except OSError:
        raw = b""
    if not raw:
        return None
    request = decode_message(raw)
    if request is None:
        raise RagError(_GARBAGE_TEXT)
    require_same_protocol(request, asked=True)
    do = request.get("do")
    handler = handlers.get(do) if isinstance(do, str) else None
    if handler is None:
        raise RagError(_UNKNOWN_REQUEST_TEXT.format(do=str(do)[:40]))

    def say(done: int, total: int) -> None:
        _send_droppable_message(writer, {"at": [done, total]})

    task = asyncio.ensure_future(handler(request, say))
    watchers = [asyncio.create_task(_wait_for_disconnect(reader)), asyncio.create_task(_send_heartbeats(writer))]
    try:
        await asyncio.wait([task, *watchers], return_when=asyncio.FIRST_COMPLETED)
        return await task if task.done() else None
    finally:
        for other in (task, *watchers):
            other.cancel()
        await asyncio.gather(task, *watchers, return_exceptions=True)


async def _wait_for_disconnect(reader: asyncio.StreamReader) -> None:
    """Return when the caller closes its side; what it still writes is discarded."""
    with suppress(OSError):
        while await reader.read(MAX_REQUEST_BYTES):
            pass


async def _send_heartbeats(writer: asyncio.StreamWriter) -> None:
    while not writer.is_closing():
        await asyncio.sleep(HEARTBEAT_SECONDS)
        _send_droppable_message(writer, {"still": True})


def _send_droppable_message(writer: asyncio.StreamWriter, message: Mapping[str, object]) -> None:
    """Send a message unless earlier ones are unread: a caller that does not read must not fill the buffer."""
    if not writer.transport.get_write_buffer_size():
        writer.write(encode_message(message))


# Questions in chats have their own workers; a script that asks a hundred questions waits here.
_MAX_CONCURRENT_QUESTIONS = 2
_MAX_CONVERSATIONS = 2**53  # the numbers that JSON and SQLite both keep
_CHECK_INTERVAL_SECONDS = 0.1
# Indexing runs at two thousand posts a second, and writing a large one to disk takes some seconds.
_STUCK_AFTER_SECONDS = 60.0

_STUCK_TEXT = "The posts are kept, but the bot's index does not take them in: its log says why."
_MALFORMED_TEXT = "The request {do!r} needs {what}: ask with the citegram command."


def _read_text(request: ControlRequest, name: str, what: str) -> str:
    text = request.get(name)
    if not isinstance(text, str):
        raise RagError(_MALFORMED_TEXT.format(do=request.get("do"), what=what))
    return text


class RequestHandlers:
    """Request handlers, by name in `all()`; `zone` is the time zone of questions from the terminal."""

    def __init__(self, rag: Engine, waking: IndexingWorker, rebuilding: RebuildRunner, zone: tzinfo = UTC) -> None:
        self._rag = rag
        self._answerer = TerminalAnswerer(rag, zone)
        self._waking = waking
        self._rebuilding = rebuilding
        self._questions = asyncio.Semaphore(_MAX_CONCURRENT_QUESTIONS)
        self._since = time.monotonic()

    def all(self) -> Mapping[str, RequestHandler]:
        """Map each request name to its handler."""
        return {
            "ask": self._ask,
            "plan": self._plan,
            "verify": self._verify,
            "wake": self._wake,
            "reindex": self._reindex,
            "use": self._use,
            "doctor": self._doctor,
        }

    async def _ask(self, request: ControlRequest, say: ReportProgress) -> Mapping[str, object]:
        """{"question", "trace", "recipe", "conversation"} -> {"told"}; null if there are no channels."""
        question = _read_text(request, "question", "a question")
        recipe, conversation = request.get("recipe", AUTO_RECIPE), request.get("conversation", 0)
        if recipe != AUTO_RECIPE and recipe not in RECIPES:
            raise RagError(_MALFORMED_TEXT.format(do="ask", what="a recipe that is known"))
        if not isinstance(conversation, int) or not 0 <= conversation < _MAX_CONVERSATIONS:
            raise RagError(_MALFORMED_TEXT.format(do="ask", what="a conversation that is a number"))
        async with self._questions:
            chosen = {"trace": request.get("trace") is True, "recipe": recipe, "conversation": conversation}
            return {"told": await self._answerer.ask(question, **chosen)}

    async def _plan(self, request: ControlRequest, say: ReportProgress) -> Mapping[str, object]:
        """{"question"} -> {"plan"}; null if there are no channels."""
        text = _read_text(request, "question", "a question")
        async with self._questions:
            return {"plan": await self._answerer.plan(text)}

    async def _verify(self, request: ControlRequest, say: ReportProgress) -> Mapping[str, object]:
        """{"text", "trace"} -> {"verified"}; null if there are no channels."""
        text = _read_text(request, "text", "a text")
        async with self._questions:
            return {"verified": await self._answerer.verify(text, trace=request.get("trace") is True)}

    async def _wake(self, request: ControlRequest, say: ReportProgress) -> Mapping[str, object]:
        """{} -> {} when the lexical index has all changes that the archive has now."""
        lexical = self._rag.lexical
        start, until = lexical.watermark, await posts.get_last_seq(self._rag.archive)
        watermark, moved_at = start, time.monotonic()
        self._waking.wake()
        while await self._is_behind(until):
            if lexical.watermark != watermark:
                watermark, moved_at = lexical.watermark, time.monotonic()
                say(max(0, min(watermark, until) - start), until - start)
            elif time.monotonic() - moved_at > _STUCK_AFTER_SECONDS:
                raise IndexUnavailable(_STUCK_TEXT)
            await asyncio.sleep(_CHECK_INTERVAL_SECONDS)
        return {}

    async def _is_behind(self, until: int) -> bool:
        # Not by comparing numbers: the last of them may belong to a permanently deleted post.
        waiting = await posts.list_post_changes(self._rag.archive, self._rag.lexical.watermark, 1)
        return bool(waiting) and waiting[0].seq <= until

    async def _reindex(self, request: ControlRequest, say: ReportProgress) -> Mapping[str, object]:
        """{"channel": chat id or null} -> {} when done. The rebuild continues if the caller leaves."""
        channel = request.get("channel")
        if channel is not None and type(channel) is not int:
            raise RagError(_MALFORMED_TEXT.format(do="reindex", what="a channel's id, or null for all"))
        await self._rebuilding.start(channel)
        async for done, total in self._rebuilding.progress():
            say(done, total)
        return {}

    async def _use(self, request: ControlRequest, say: ReportProgress) -> Mapping[str, object]:
        """{"model", "wanted"} -> {"use", "name", "now"}. The switch completes even if the caller leaves."""
        model, wanted = (_read_text(request, name, "a model and what it is for") for name in ("model", "wanted"))
        return asdict(await asyncio.shield(switch_model(self._rag, model, wanted)))

    async def _doctor(self, request: ControlRequest, say: ReportProgress) -> Mapping[str, object]:
        """{} -> {"facts", "uptime_s"}."""
        return {"facts": await collect_index_facts(self._rag), "uptime_s": round(time.monotonic() - self._since)}
