"""HTTP server for other programs: MCP at /mcp and POST /ask, in the name of the reader whose token a request has.

Nothing is asked, listed or read without a valid token, and no session outlives a request: a token that is revoked ends
at once. Pages in browsers are kept out by the Origin header, and on loopback by the Host header, too.

The reader has the same access, limits, queue and checks as in their private chat. Rights are worked out anew for every
request, and looked at again before an answer is handed out. A question is stored and counted as one of the reader's;
it is not part of the conversation in the chat.
"""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from datetime import UTC, datetime
from secrets import randbits
from typing import Any

import uvicorn
from aiogram.utils.formatting import Text
from mcp.server.transport_security import RequestBodyLimitMiddleware
from mcp.types import INVALID_REQUEST
from pydantic import BaseModel, Field, ValidationError
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bot import access, logs
from bot.api import JsonObject, RequestRefused, present_answer, present_channels, present_search, present_verdicts
from bot.api.mcp_server import build_mcp_server
from bot.app_context import AppContext
from bot.background import run_in_background
from bot.control import MAX_REQUEST_BYTES, answers
from bot.handlers import errors
from bot.handlers.search import SearchQueue
from bot.i18n import Translator, detect_question_language, get_translator
from bot.middlewares import MAX_QUESTION_LENGTH
from bot.stored_answer import dump_with_messages, serialize_answer, serialize_verdicts
from bot.telegram import recheck
from bot.telegram.updates import LOOPBACK_PATTERN, is_loopback
from bot.worker.rate_limits import format_rate_limit
from bot.worker.streaming import ProgressView
from rag_core.conversation.small_talk import detect_talk
from rag_core.errors import ArchiveUnavailable, RagError, SettingsWrong, translate_errors
from rag_core.retrieval.post_search import list_posts
from rag_core.storage import channels, questions, visible_posts
from rag_core.storage.readers import find_token, narrow_to_channel_set
from rag_core.types import Answer, Question, Viewer
from rag_core.verification import Verification

log = logging.getLogger(__name__)

Show = Callable[[str, JsonObject], None]  # takes the name of an event, and what it tells; returns at once


class ReaderApplication:
    """Application in the name of one reader; `turns` are shared by all, so that one reader cannot take them all."""

    def __init__(self, context: AppContext, turns: SearchQueue, user_id: int) -> None:
        self._context, self._turns, self._user_id = context, turns, user_id
        self._reader = access.Reader(user_id, user_id, private=True)

    async def ask(self, question: str, show: Show | None = None) -> JsonObject:
        """Answer a question, as in a private chat, or reply to small talk.

        `show` is told each "stage" that begins and a "draft": the posts' own words, until the model has written.
        """
        async with self._explain_errors(question) as words:
            _check_length(question, "ask-too-long", words)
            if detect_talk(question):
                self._count_command(words)
                viewer = await self._build_viewer(words)
                asked = Question(question, words.lang, datetime.now(UTC), viewer, self._user_id)
                if (reply := await answers.reply_to_talk(asked, self._context.archive)) is not None:
                    await self._recheck(recheck.ShownContent(counted=viewer.channels))
                    return present_answer(reply, words.lang)
            return await self._find(question, "ask", words, show)

    async def verify(self, text: str) -> JsonObject:
        """Check what a text claims, as in a private chat."""
        async with self._explain_errors(text) as words:
            return await self._find(text, "verify", words)

    async def search(self, query: str, page: int) -> JsonObject:
        """Find posts, as /search does: nothing of it is stored."""
        async with self._explain_errors(query) as words:
            _check_length(query, "search-too-long", words)
            self._count_command(words)
            async with self._turns.wait_turn(self._user_id, words), self._turns.running:
                viewer = await self._build_viewer(words)
                text, viewer = await narrow_to_channel_set(self._context.archive, [self._user_id], query, viewer)
                if not viewer.channels:
                    raise RequestRefused(access.describe_shortfalls(viewer, words) or words("sets-nothing-readable"))
                zone = await self._context.load_zone(self._user_id)
                listing = await list_posts(Question(text, words.lang, datetime.now(zone), viewer), self._context.rag)
            shown = listing.found[(page - 1) * answers.RESULTS_PER_PAGE : page * answers.RESULTS_PER_PAGE]
            copies = frozenset(key.chat_id for one in shown for key in one.copies)
            content = recheck.collect_content_of_posts(one.post for one in shown)
            await self._recheck(content | recheck.ShownContent((), copies, viewer.channels))
            return present_search(answers.describe_search(listing, page), words.lang)

    async def list_channels(self) -> JsonObject:
        """List the channels that this reader may read now."""
        async with self._explain_errors() as words:
            self._count_command(words)
            viewer = await self._build_viewer(words)
            readable = viewer.select_readable(await channels.load_channels(self._context.archive))
            found = await answers.describe_channels(readable, self._context.archive)
            await self._recheck(recheck.ShownContent(counted=viewer.channels))
            return present_channels(found)

    async def _find(self, text: str, kind: str, words: Translator, show: Show | None = None) -> JsonObject:
        """Answer or verify: counted before, recorded after, and checked again between."""
        archive, worker = self._context.archive, self._context.worker
        asked = questions.QuestionRow(
            bot_id=0, update_id=-randbits(62), chat_id=self._user_id, message_id=0, user_id=self._user_id, text=text,
            lang=words.lang, asked_at=datetime.now(UTC), private=True, kind=kind, mode=questions.PROGRAM_MODE,
        )  # fmt: skip
        async with self._turns.wait_turn(self._user_id, words):
            async with worker.limits.hold_count(self._user_id, self._user_id, words, program=True):
                number = await questions.queue_question(archive, asked)
            assert number is not None  # its update id was drawn
            logs.log_question(number, text)
            with worker.meter.turn(asked):
                try:
                    async with self._show_progress(words, show) as live:
                        found = await worker.find_answer(asked, live)
                    shown, stored = ({}, {}) if isinstance(found, Text) else await self._present(found, words.lang)
                except Exception:
                    worker.meter.count_question("trouble")
                    raise
            await questions.finish_question(archive, number, state="answered", answer=dump_with_messages(stored, ()))
        if isinstance(found, Text):  # they may read nothing
            raise RequestRefused(found.render()[0])
        return shown

    async def _present(
        self, found: Answer | Verification, lang: str, max_age_s: float = 0.0
    ) -> tuple[JsonObject, JsonObject]:
        """Present an answer or verdicts, checked again, and serialize them for the archive."""
        archive = self._context.archive
        if isinstance(found, Verification):
            posts = await visible_posts.fetch_posts(archive, found.posts())
            await self._recheck(recheck.collect_content_of_verdicts(found, posts))
            described = answers.describe_verdicts(found, posts, lang)
            return present_verdicts(described, lang), serialize_verdicts(found, posts)
        named = (*found.list_named_posts(), *(passage.key for passage in found.nearest))
        posts = await visible_posts.fetch_posts(archive, named)
        await self._recheck(recheck.collect_content_of_answer(found, posts), max_age_s)
        return present_answer(answers.describe_answer(found, posts, lang), lang), serialize_answer(found, posts)

    async def _recheck(self, content: recheck.ShownContent, max_age_s: float = 0.0) -> None:
        await recheck.recheck_shown_content(content, self._reader, self._context.admins, max_age_s=max_age_s)

    @asynccontextmanager
    async def _show_progress(self, words: Translator, show: Show | None) -> AsyncIterator[ProgressView]:
        live = ProgressView(words)

        async def relay(show: Show) -> None:
            drafted = None
            while True:
                await live.news.wait()
                live.news.clear()
                if live.extract is None or live.extract is drafted:
                    show("stage", {"stage": live.stage})
                    continue
                drafted = live.extract
                with suppress(RagError):  # a draft that does not hold is not shown
                    draft, _ = await self._present(drafted, words.lang, recheck.DRAFT_MEMBERSHIP_MAX_AGE_SECONDS)
                    show("draft", draft)

        async with run_in_background(*([relay(show)] if show else [])):
            yield live

    async def _build_viewer(self, words: Translator) -> Viewer:
        """Build the viewer of this reader. Raises RequestRefused where they may read no channel."""
        viewer = await access.build_viewer(self._context.admins, self._reader)
        if not viewer.channels:
            raise RequestRefused(await access.format_no_access(self._context.admins, words, self._reader, viewer))
        return viewer

    def _count_command(self, words: Translator) -> None:
        wait = self._context.worker.limits.count_command(self._user_id, self._user_id, program=True)
        if wait:
            raise RequestRefused(format_rate_limit(wait, words), 429)

    @asynccontextmanager
    async def _explain_errors(self, text: str = "") -> AsyncIterator[Translator]:
        """Turn every error into a sentence in the language of `text`, else in the bot's; the log says more."""
        words = get_translator(detect_question_language(text, self._context.settings.bot.language))
        try:
            yield words
        except RequestRefused:
            raise
        except access.Refusal as exc:  # of the limits
            raise RequestRefused(str(exc), 429) from exc
        except Exception as exc:
            log.error("a program's request failed: %s", exc, exc_info=None if isinstance(exc, RagError) else exc)
            raise RequestRefused(errors.format_error(exc, words, admin=False), 503) from exc


def _check_length(text: str, refusal: str, words: Translator) -> None:
    if len(text) > MAX_QUESTION_LENGTH:
        raise RequestRefused(words(refusal, limit=MAX_QUESTION_LENGTH, length=len(text)))


_MAX_CONNECTIONS = 64
_CLOSE_SECONDS = 3
_READER_KEY = "citegram.reader"  # in the scope of a request: the user id that its token stands for

_ANONYMOUS_TEXT = "Send a token: an admin of the bot makes one with /token, and it goes into Authorization: Bearer."
_UNKNOWN_TEXT = "This token is unknown or revoked: ask an admin of the bot for another one (/token)."


class _Asked(BaseModel, extra="forbid"):
    """Body of POST /ask."""

    question: str = Field(min_length=1, max_length=20_000)


class _TokenMiddleware:
    """ASGI middleware: lets a request in whose token is valid now, with the reader it stands for in its scope."""

    def __init__(self, app: ASGIApp, context: AppContext) -> None:
        self._app, self._context = app, context
        self._on_loopback = is_loopback(context.settings.mcp.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        stateless_http=True, host=context.settings.mcp.host, max_request_body_size=MAX_REQUEST_BYTES
    )
    app.add_middleware(RequestBodyLimitMiddleware, max_body_size=MAX_REQUEST_BYTES)
    app.add_middleware(_TokenMiddleware, context=context)  # the last one added comes first
    return app


async def _stream_answer(application: ReaderApplication, question: str) -> AsyncIterator[dict[str, str]]:
    """Stream the events of an answer: stages and drafts, and at last the answer or an error."""
    events: asyncio.Queue[tuple[str, JsonObject]] = asyncio.Queue()

    def show(name: str, told: JsonObject) -> None:
        events.put_nowait((name, told))

    async def answer() -> None:
        try:
            show("answer", await application.ask(question, show))
        except RequestRefused as exc:
            show("error", {"error": exc.reason})

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
    config = uvicorn.Config(
        build_http_app(context), log_config=None, access_log=False, server_header=False, proxy_headers=False,
        ws="none", limit_concurrency=_MAX_CONNECTIONS, timeout_graceful_shutdown=_CLOSE_SECONDS,
    )  # fmt: skip
    server = _Server(config)
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
