"""HTTP server for other programs: MCP at /mcp and POST /ask, in the name of the reader whose token a request has.

Nothing is asked, listed or read without a valid token, and no session outlives a request: a token that is revoked ends
at once. Pages in browsers are kept out by the Origin header, and on loopback by the Host header, too.
"""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any

import uvicorn
from mcp.server.transport_security import RequestBodyLimitMiddleware
from mcp.types import INVALID_REQUEST
from pydantic import BaseModel, Field, ValidationError
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.api import JsonObject, RequestRefused
from bot.api.mcp_server import build_mcp_server
from bot.api.reader import ReaderApplication
from bot.app_context import AppContext
from bot.handlers.search import SearchQueue
from bot.telegram.updates import LOOPBACK_PATTERN, is_loopback
from rag_core.errors import ArchiveUnavailable, SettingsWrong, translate_errors
from rag_core.storage.readers import find_token

_MAX_BODY_BYTES = 1 << 18  # a text of 20,000 characters at most, in JSON up to twelve bytes each
_MAX_CONNECTIONS = 64
_CLOSE_SECONDS = 3
_READER_KEY = "citegram.reader"  # in the scope of a request: the user id that its token stands for

_ANONYMOUS_TEXT = "Send a token: an admin of the bot makes one with /token, and it goes into Authorization: Bearer."
_UNKNOWN_TEXT = "This token is unknown or revoked: ask an admin of the bot for another one (/token)."

log = logging.getLogger(__name__)


class _Asked(BaseModel, extra="forbid"):
    """Body of POST /ask."""

    question: str = Field(min_length=1, max_length=20_000)


class _TokenMiddleware:
    """ASGI middleware: lets a request in whose token is valid now, with the reader it stands for in its scope."""

    def __init__(self, app: ASGIApp, context: AppContext) -> None:
        self._app, self._context = app, context
        self._on_loopback = is_loopback(context.settings.mcp.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer with one sentence."""
        if scope["type"] == "http" and (refusal := await self._find_refusal(Request(scope))):
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _find_refusal(self, request: Request) -> Response | None:
        host = request.headers.get("Host", "")
        if "Origin" in request.headers or (self._on_loopback and not LOOPBACK_PATTERN.fullmatch(host)):
            return _refuse(request, 403, "Pages in a browser cannot ask here: ask from a program on this machine.")
        kind, _, secret = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer" or not secret:
            return _refuse(request, 401, _ANONYMOUS_TEXT)
        try:
            token = await find_token(self._context.archive, secret.strip())
        except ArchiveUnavailable:
            return _refuse(request, 503, "The bot cannot reach its archive right now: try again later.")
        if token is None or token.made_by not in self._context.admins:  # who is no admin any more lends no rights
            return _refuse(request, 401, _UNKNOWN_TEXT)
        request.scope[_READER_KEY] = token.user_id
        return None


def _refuse(request: Request, status: int, sentence: str) -> Response:
    """Refuse a request with a sentence, for MCP in the form that its clients show."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    if request.url.path == "/mcp":
        error = {"code": INVALID_REQUEST, "message": sentence}
        return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status, headers)
    return JSONResponse({"error": sentence}, status, headers)


def build_http_app(context: AppContext) -> Starlette:
    """Build the application: /mcp and /ask behind the check of tokens."""
    turns = SearchQueue()

    def find_application(request: Any) -> ReaderApplication:
        return ReaderApplication(context, turns, request.scope[_READER_KEY])

    async def ask(request: Request) -> Response:
        try:
            question = _Asked.model_validate_json(await request.body()).question
        except ValidationError:
            return _refuse(request, 400, 'Post JSON with a question of up to 20,000 characters: {"question": "…"}.')
        application = find_application(request)
        if "text/event-stream" in request.headers.get("Accept", ""):
            return EventSourceResponse(_stream_answer(application, question))
        try:
            return JSONResponse(await application.ask(question))
        except RequestRefused as exc:
            return _refuse(request, exc.status, exc.reason)

    server = build_mcp_server(lambda context: find_application(context.request_context.request))
    server.custom_route("/ask", methods=["POST"])(ask)
    app = server.streamable_http_app(
        stateless_http=True, host=context.settings.mcp.host, max_request_body_size=_MAX_BODY_BYTES
    )
    app.add_middleware(RequestBodyLimitMiddleware, max_body_size=_MAX_BODY_BYTES)
    app.add_middleware(_TokenMiddleware, context=context)  # the last one added comes first
    return app


async def _stream_answer(application: ReaderApplication, question: str) -> AsyncIterator[dict[str, str]]:
    """Stream the events of an answer: stages and drafts, and at last the answer or an error."""
    events: asyncio.Queue[tuple[str, JsonObject]] = asyncio.Queue()

    async def show(name: str, told: JsonObject) -> None:
        events.put_nowait((name, told))

    async def answer() -> None:
        try:
            events.put_nowait(("answer", await application.ask(question, show)))
        except RequestRefused as exc:
            events.put_nowait(("error", {"error": exc.reason}))

    task = asyncio.create_task(answer())
    try:
        name = ""
        while name not in {"answer", "error"}:
            name, told = await events.get()
            yield {"event": name, "data": json.dumps(told, ensure_ascii=False)}
    finally:
        task.cancel()


class _Server(uvicorn.Server):
    """Server that leaves the process's signals to the bot."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Capture none."""
        return nullcontext()


@asynccontextmanager
async def serve_programs(context: AppContext) -> AsyncIterator[None]:
    """Serve at MCP__LISTEN until the block ends; running requests then get 3 seconds. Raises SettingsWrong."""
    settings = context.settings.mcp
    refusal = f"MCP__LISTEN={settings.listen} cannot be opened ({{}}): choose another address or port."
    with translate_errors(SettingsWrong, OSError, say=refusal):
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listening = socket.create_server((settings.host, settings.port), family=family)
    for name in ("mcp", "uvicorn.error", "sse_starlette"):  # they tell of each request
        logging.getLogger(name).setLevel(logging.WARNING)
    server = _Server(
        uvicorn.Config(
            build_http_app(context),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=_CLOSE_SECONDS,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    log.info("programs ask on http://%s/mcp and /ask", settings.listen)
    if not is_loopback(settings.host):
        log.warning(
            "MCP__LISTEN=%s can be reached by others, and HTTP hides no token: put TLS before it", settings.listen
        )
    try:
        yield
    finally:
        server.should_exit = True
        await serving
        listening.close()
