"""Control socket server: many callers at once, one request each; no caller can harm the bot or another caller.

A request is a POST of the arguments of a method of `RequestHandlers`; lines of JSON come back: progress, and the end or
an error.
"""

import asyncio
import json
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import ConfigDict, Field, PositiveInt, TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs

from bot.background import cancel_tasks
from bot.control import MAX_REQUEST_BYTES, ROOT_USER_ID, ReportProgress, build_greeting, get_peer_user, open_socket_path
from bot.control.answers import TerminalAnswerer
from bot.doctor.archive_checks import collect_index_facts
from bot.indexing import IndexingWorker, RebuildRunner
from rag_core.answer import RECIPES
from rag_core.engine import Engine, switch_model
from rag_core.errors import IndexUnavailable, RagError
from rag_core.storage import posts
from rag_core.types import AUTO_RECIPE

RequestHandler = Callable[..., Awaitable[object]]  # takes `ReportProgress`, and the fields of the request by name
Recipe = Literal[AUTO_RECIPE, *RECIPES]  # type: ignore[valid-type]
Conversation = Annotated[int, Field(ge=0, lt=2**53)]  # JSON and SQLite both keep such numbers

_MAX_CALLERS = 64
_CALLER_TIMEOUT_SECONDS = 10.0  # a caller writes its request at once after connecting, and reads the replies
_PROGRESS_SECONDS = 0.1

_STRANGER_TEXT = "This bot answers commands of its own user only: run the command as the user that runs the bot."
_GARBAGE_TEXT = "The bot does not understand this ({problem}): ask with the citegram command."
_UNKNOWN_REQUEST_TEXT = "This bot does not know the request {do!r}: restart the bot if Citegram was updated."

log = logging.getLogger(__name__)


@asynccontextmanager
async def serve_control_socket(folder: Path, handlers: Mapping[str, RequestHandler]) -> AsyncIterator[None]:
    """Serve requests at the folder's socket. To be called by the folder's owner: an old socket is replaced.

    If no socket can be made (some network disks), the bot works without it and logs a warning.
    """
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with open_socket_path(folder) as path:
            Path(path).unlink(missing_ok=True)
            listening.bind(path)
            Path(path).chmod(0o600)  # nothing can connect before it listens
    except OSError as exc:
        listening.close()
        log.warning("other commands cannot ask this bot, as there is no socket in %s: %s", folder, exc)
        yield
        return
    app, callers = web.Application(client_max_size=MAX_REQUEST_BYTES), asyncio.Semaphore(_MAX_CALLERS)
    app.router.add_post("/{do}", partial(_serve_caller, handlers, callers))
    # what is no HTTP is answered with 400 and is no error of the bot
    runner = web.AppRunner(
        app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1, logger=log.getChild("http"),
        lingering_time=1.0,  # for the rest of a request that was refused
    )  # fmt: skip
    log.getChild("http").setLevel(logging.CRITICAL)
    await runner.setup()
    try:
        await web.SockSite(runner, listening, backlog=2 * _MAX_CALLERS).start()
        yield
    finally:
        await runner.cleanup()
        with suppress(OSError), open_socket_path(folder) as path:
            Path(path).unlink()


async def _serve_caller(
    handlers: Mapping[str, RequestHandler], callers: asyncio.Semaphore, request: web.Request
) -> web.StreamResponse:
    """Check who asks and what, run the handler, and write its progress and end as lines."""
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", **build_greeting()})
    await response.prepare(request)
    do, last = request.match_info["do"], dict[str, object](end=None)
    try:
        # If the system does not provide the peer's user, the socket's permissions must do.
        if get_peer_user(request.transport) not in (None, os.geteuid(), ROOT_USER_ID):
            raise RagError(_STRANGER_TEXT)
        if callers.locked():
            raise RagError("The bot is asked by too many commands at once: try again in a moment.")
        async with callers:
            if do != "greet":
                if do not in handlers:
                    raise RagError(_UNKNOWN_REQUEST_TEXT.format(do=do[:40]))
                last = {"end": await _run_handler(handlers[do], request, response)}
    except RagError as exc:
        last = {"error": exc.reason}
    except ConnectionError:  # the caller has gone
        return response
    except Exception:
        log.exception("a command's request failed")
        last = {"error": "The bot failed at this request: look at its log."}
    with suppress(ConnectionError):
        await _write_line(request, response, last)
    return response


async def _run_handler(handler: RequestHandler, request: web.Request, response: web.StreamResponse) -> object:
    at: tuple[int, int] | None = None

    def report(done: int, total: int) -> None:
        nonlocal at
        at = done, total

    try:
        async with asyncio.timeout(_CALLER_TIMEOUT_SECONDS):
            work = handler(report, **json.loads(await request.read()))  # its arguments are validated by the call
    except TimeoutError:
        raise RagError("No request came: ask with the citegram command.") from None
    except web.HTTPRequestEntityTooLarge:
        raise RagError(f"A request may have {MAX_REQUEST_BYTES:,} bytes: write a shorter one.") from None
    except ValidationError as exc:
        problem = exc.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise RagError(_GARBAGE_TEXT.format(problem=f"{where}: {problem['msg'][:80]}")) from None
    except (ValueError, TypeError, RecursionError):
        raise RagError(_GARBAGE_TEXT.format(problem="it is no JSON object")) from None
    task, written = asyncio.ensure_future(work), at
    try:
        while True:
            finished, _ = await asyncio.wait([task], timeout=_PROGRESS_SECONDS)
            if at != written:
                await _write_line(request, response, {"at": at})
                written = at
            if finished:
                return task.result()
    finally:
        await cancel_tasks([task])


async def _write_line(request: web.Request, response: web.StreamResponse, message: Mapping[str, object]) -> None:
    """Write a line. Raises ConnectionError where the caller has gone; one that does not read in time is cut off."""
    try:
        async with asyncio.timeout(_CALLER_TIMEOUT_SECONDS):
            await response.write(json.dumps(message).encode() + b"\n")
    except TimeoutError:
        if request.transport:
            request.transport.abort()
        raise ConnectionError("the caller does not read") from None


# Questions in chats have their own workers; a script that asks a hundred questions waits here.
_MAX_CONCURRENT_QUESTIONS = 2
_CHECK_INTERVAL_SECONDS = 0.1
# Indexing runs at two thousand posts a second, and writing a large one to disk takes some seconds.
_STUCK_AFTER_SECONDS = 60.0

_STUCK_TEXT = "The posts are kept, but the bot's index does not take them in: its log says why."


def _call(handler: TypeAdapter[Any], say: ReportProgress, **fields: object) -> Any:
    return handler.validate_python(ArgsKwargs((say,), fields))


class RequestHandlers:
    """Request handlers, by name in `all()`; `zone` and `admins` as of `TerminalAnswerer`."""

    def __init__(
        self, rag: Engine, waking: IndexingWorker, rebuilding: RebuildRunner, zone: tzinfo = UTC,
        admins: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self._rag, self._waking, self._rebuilding = rag, waking, rebuilding
        self._answerers = [TerminalAnswerer(rag, zone, admins, as_reader=as_reader) for as_reader in (False, True)]
        self._questions = asyncio.Semaphore(_MAX_CONCURRENT_QUESTIONS)
        self._since = time.monotonic()

    def all(self) -> Mapping[str, RequestHandler]:
        """Map each request name to its handler, whose arguments are validated by their annotations."""
        handlers = (self.ask, self.verify, self.search, self.list_channels, self.wake, self.reindex,
                    self.use, self.doctor)  # fmt: skip
        once_asked = ConfigDict(strict=True, defer_build=True)  # a sixth of the bot's start; most are never asked
        return {one.__name__: partial(_call, TypeAdapter(one, config=once_asked)) for one in handlers}

    async def ask(
        self, say: ReportProgress, question: str, trace: bool = False, recipe: Recipe = AUTO_RECIPE,
        conversation: Conversation = 0, as_reader: bool = False,
    ) -> object:  # fmt: skip
        """Answer a question, by itself (conversation 0) or in a conversation; None if there are no channels."""
        async with self._questions:
            answerer = self._answerers[as_reader]
            return await answerer.ask(question, trace=trace, recipe=recipe, conversation=conversation)

    async def verify(self, say: ReportProgress, text: str, trace: bool = False, as_reader: bool = False) -> object:
        """Verify a text; None if there are no channels."""
        async with self._questions:
            return await self._answerers[as_reader].verify(text, trace=trace)

    async def search(self, say: ReportProgress, text: str, page: PositiveInt = 1, as_reader: bool = False) -> object:
        """Find posts; None if there are no channels."""
        async with self._questions:
            return await self._answerers[as_reader].search(text, page)

    async def list_channels(self, say: ReportProgress, as_reader: bool = False) -> object:
        """List the channels."""
        return await self._answerers[as_reader].list_channels()

    async def wake(self, say: ReportProgress) -> None:
        """Return when the lexical index has all changes that the archive has now."""
        archive, lexical = self._rag.archive, self._rag.lexical
        start, until = lexical.watermark, await posts.get_last_seq(archive)
        watermark, moved_at = start, time.monotonic()
        self._waking.wake()
        # Not by comparing numbers: the last of them may belong to a permanently deleted post.
        while (waiting := await posts.list_post_changes(archive, lexical.watermark, 1)) and waiting[0].seq <= until:
            if lexical.watermark != watermark:
                watermark, moved_at = lexical.watermark, time.monotonic()
                say(max(0, min(watermark, until) - start), until - start)
            elif time.monotonic() - moved_at > _STUCK_AFTER_SECONDS:
                raise IndexUnavailable(_STUCK_TEXT)
            await asyncio.sleep(_CHECK_INTERVAL_SECONDS)

    async def reindex(self, say: ReportProgress, channel: int | None = None) -> None:
        """Rebuild the indexes, all or one channel's. The rebuild continues if the caller leaves."""
        await self._rebuilding.start(channel)
        async for done, total in self._rebuilding.progress():
            say(done, total)

    async def use(self, say: ReportProgress, model: str, wanted: str) -> dict[str, Any]:
        """Switch a model, for what it is `wanted` ("": its name tells), even if the caller leaves."""
        return asdict(await asyncio.shield(switch_model(self._rag, model, wanted)))

    async def doctor(self, say: ReportProgress) -> tuple[object, int]:
        """Collect the facts on the indexes, and the uptime in seconds."""
        return await collect_index_facts(self._rag), round(time.monotonic() - self._since)
