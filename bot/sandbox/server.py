"""Sandbox server: the Bot API, its files, the page and the page API on one loopback port.

A request becomes a checked Bot API call; aiogram's models validate both sides. Faults are injected on the way, on
demand: errors, proxies' pages, dropped connections and delays.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import isawaitable, isclass
from random import Random
from secrets import token_urlsafe
from typing import Any, Literal, Union, get_args, get_origin

import aiogram.methods
from aiogram.methods import TelegramMethod
from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from bot.http_listener import refuse_foreign_pages
from bot.sandbox import methods, user_actions
from bot.sandbox.api_errors import BotApiError, bad_request, conflict, not_found
from bot.sandbox.chats import Json, SandboxUser
from bot.sandbox.demo_observer import DemoObserver
from bot.sandbox.page_api import add_page_routes
from bot.sandbox.state import SandboxState, UploadedFile
from bot.sandbox.update_delivery import OTHER_POLLER_TEXT, UpdateQueue, WebhookSender
from bot.sandbox.user_actions import UserMessage

FaultKind = Literal["429", "500", "502html", "409", "garbled", "drop", "lost", "stall"]


@dataclass(slots=True)
class Fault:
    """A pending fault: the next `times` calls of `method` meet it ("*": any but getUpdates; "file": a download).

    "drop" closes the connection before the call is read, "lost" after it is carried out; "stall" waits `seconds` and
    then carries it out; "409" reports another poller with the same token; "garbled" answers truncated JSON.
    """

    method: str
    kind: FaultKind
    times: int
    retry_after: int
    seconds: float


@dataclass(slots=True)
class FaultInjector:
    """Pending faults."""

    waiting: list[Fault] = field(default_factory=list)
    _storm: tuple[float, Fault, Random] | None = None

    def fail_next(
        self, method: str, kind: FaultKind = "429", *, times: int = 1, retry_after: int = 1, seconds: float = 10
    ) -> None:
        """Make the next `times` calls of a method fail."""
        self.waiting.append(Fault(method.lower(), kind, times, retry_after, seconds))

    def storm(self, kind: FaultKind, share: float, *, retry_after: int = 1, seconds: float = 10, seed: int = 0) -> None:
        """Make this share (0..1) of all calls but getUpdates fail, until `clear`. The same seed selects the same."""
        self._storm = share, Fault("*", kind, 1, retry_after, seconds), Random(seed)  # noqa: S311 - no secret

    def clear(self) -> None:
        """Remove the pending faults, and end the storm."""
        self.waiting.clear()
        self._storm = None

    def meet(self, method: str) -> Fault | None:
        """Take the fault for this call, if any."""
        name = method.lower()
        for fault in self.waiting:
            if fault.method == name or (fault.method == "*" and name != "getupdates"):
                fault.times -= 1
                if fault.times <= 0:
                    self.waiting.remove(fault)
                return fault
        if self._storm and name != "getupdates" and self._storm[2].random() < self._storm[0]:
            return self._storm[1]
        return None


BotApiMethod = type[TelegramMethod[Any]]

_METHOD_BY_NAME: dict[str, BotApiMethod] = {
    method.__api_method__.lower(): method
    for method in vars(aiogram.methods).values()
    if isclass(method) and issubclass(method, TelegramMethod) and method is not TelegramMethod
}
_HANDLER_BY_METHOD: Mapping[BotApiMethod, Callable[..., Any]] = (
    methods.BOT_METHODS | methods.CHAT_METHODS | methods.MESSAGE_METHODS
)
_MISSING_PARAMETER_TEXTS = {
    "chat_id": "chat_id is empty",
    "text": "message text is empty",
    "message_id": "message identifier is not specified",
    "user_id": "invalid user_id specified",
    "draft_id": "draft_id must be non-zero",
}


def _find_method(name: str) -> BotApiMethod:
    """Find aiogram's model of a method; 404 if Telegram has no such method, 501 if the sandbox does not have it."""
    method = _METHOD_BY_NAME.get(name.lower())
    if method is None:
        raise not_found("method not found")
    if method not in _HANDLER_BY_METHOD:
        raise BotApiError(501, f"Not Implemented: the sandbox does not know {method.__api_method__} yet")
    return method


async def _read_call_parameters(request: web.Request, world: SandboxState) -> Json:
    """Read the parameters of a call from query and body; uploads are stored in the state's files."""
    parameters: Json = dict(request.query)
    if request.content_type == "application/json":
        try:
            body = await request.json()
        except ValueError as exc:
            raise bad_request("can't parse JSON object") from exc
        return parameters | (body if isinstance(body, dict) else {})
    uploads: dict[str, str] = {}
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            upload = UploadedFile(token_urlsafe(12), value.filename, value.content_type, value.file.read())
            world.files[upload.file_id] = upload
            uploads[name] = upload.file_id
        else:
            parameters[name] = value if isinstance(value, str) else bytes(value).decode()
    # References to uploads become file ids: `attach://<part>`, or a part with the parameter's own name.
    named = {str(value).removeprefix("attach://"): name for name, value in parameters.items()
             if str(value).startswith("attach://")}  # fmt: skip
    return parameters | {named.get(part, part): file_id for part, file_id in uploads.items()}


async def _execute_call(method: BotApiMethod, parameters: Json, world: SandboxState) -> Any:
    """Validate a call, run its handler, and validate the result."""
    handler = _HANDLER_BY_METHOD[method]
    try:
        call = method.model_validate({name: _decode_value(method, name, value) for name, value in parameters.items()})
    except ValidationError as exc:
        raise _convert_first_error(exc) from exc
    if isinstance(getattr(call, "parse_mode", None), str):
        raise bad_request(methods.NO_MARKUP_TEXT)
    result = handler(call, world)
    if isawaitable(result):
        return await result  # raw updates are returned unchecked, since a test may queue invalid ones
    _make_result_adapter(method).validate_python(result)
    return result


@cache
def _make_result_adapter(method: BotApiMethod) -> TypeAdapter[Any]:
    return TypeAdapter(method.__returning__)


def _decode_value(method: BotApiMethod, name: str, value: Any) -> Any:
    if not isinstance(value, str) or not value or value[0] not in "[{" or _may_be_text(method, name):
        return value
    try:
        return json.loads(value)
    except ValueError as exc:
        raise bad_request(f"can't parse {name} JSON object") from exc


@cache
def _may_be_text(method: BotApiMethod, name: str) -> bool:
    field = method.model_fields.get(name)
    return field is None or str in _flatten_union(field.annotation)


def _flatten_union(annotation: Any) -> set[Any]:
    union = get_origin(annotation) is Union or type(annotation).__name__ == "UnionType"
    return set().union(*map(_flatten_union, get_args(annotation))) if union else {annotation}


def _convert_first_error(exc: ValidationError) -> BotApiError:
    """Convert the first validation error, with Telegram's wording where it is known."""
    error = exc.errors(include_url=False)[0]
    name = str(error["loc"][0]) if error["loc"] else "request"
    if error["type"] == "missing" and len(error["loc"]) == 1:
        return bad_request(_MISSING_PARAMETER_TEXTS.get(name, f'parameter "{name}" is required'))
    if name in {"entities", "caption_entities", "quote_entities"}:
        return bad_request(f"can't parse entities: {error['msg']}")
    return bad_request(f"can't parse {'.'.join(map(str, error['loc']))}: {error['msg']}")


_MAX_REQUEST_BYTES = 60 * 2**20  # Telegram takes documents of 50 MB
_UPDATE_ID_EPOCH = 1_500_000_000  # before any clock here; keeps update ids small
_DEFAULT_BOT_ID = 42
_PROXY_ERROR_PAGE = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"


class Sandbox:
    """Bot API server for one bot, on this machine.

    `world` is its state, `faults` injects errors, `hooks` sends updates to a webhook, `observed` collects what the page
    shows if the bot runs with it as its observer. `token` is random by default: whoever has it can act as the bot.
    """

    def __init__(
        self,
        *,
        token: str = "",
        clock: Callable[[], float] = time.time,
        name: str = "Citegram",
        username: str = "citegram_bot",
    ) -> None:
        self.token = token or f"{_DEFAULT_BOT_ID}:{token_urlsafe(26)}"  # 35 characters, as Telegram's
        self.url = ""
        bot = SandboxUser(int(self.token.partition(":")[0]), name, username, lang=None, is_bot=True)
        # Update ids grow with time: a bot that remembers them must not drop those of the next run.
        queue = UpdateQueue(clock, next_id=max(1, int(clock()) - _UPDATE_ID_EPOCH))
        self.world = SandboxState(bot, clock, queue, bell=queue.bell)  # `until` wakes when updates are taken, too
        self.observed = DemoObserver(self.world)
        self.faults = FaultInjector()
        self.hooks = WebhookSender(self.world.queue)
        self.transcript: list[Json] = []
        self._read_counts: dict[int, int] = {}
        self._runner: web.AppRunner | None = None
        self._webhook_task: asyncio.Task[None] | None = None

    async def start(self, *ports: int) -> None:
        """Listen on 127.0.0.1 at the first of these ports that is free, or at any, and set `url`. Raises OSError."""
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES, middlewares=[refuse_foreign_pages])
        app.router.add_route("*", "/bot{token}/{method}", self._on_call)
        app.router.add_get("/file/bot{token}/{path:.+}", self._on_file)
        add_page_routes(app, self.world, self.observed)
        # Long polls of a bot that disconnected must end with its connection.
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        for port in ports or (0,):
            try:
                await web.TCPSite(self._runner, "127.0.0.1", port).start()
                break
            except OSError:
                if port == ports[-1]:
                    await self._runner.cleanup()
                    raise
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        self._webhook_task = asyncio.create_task(self.hooks.run())

    async def stop(self) -> None:
        """Close the port and end all waiting requests."""
        self.world.queue.closed = True
        self.world.queue.bell.ring()
        self.world.changed()
        if self._webhook_task is not None:
            await self._webhook_task
        if self._runner is not None:
            await self._runner.cleanup()

    async def say(
        self,
        user_id: int,
        text: str,
        *,
        chat_id: int | None = None,
        reply_to: int | None = None,
        thread: int | None = None,
        forward_of: tuple[int, int] | None = None,
    ) -> Json:
        """Write a message as a person, to the bot or in `chat_id`. `forward_of`: (chat id, message id)."""
        message = UserMessage(text, reply_to, thread, forward_of)
        return user_actions.send_as_person(self.world, user_id, user_id if chat_id is None else chat_id, message)

    async def post(
        self,
        chat_id: int,
        text: str,
        *,
        album: str | None = None,
        origin: Mapping[str, object] | str | tuple[int, int] | None = None,
        reply_to: int | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> Json:
        """Write a post as a channel. `UserMessage` explains album, origin and extra."""
        return user_actions.post_as_channel(
            self.world, chat_id, UserMessage(text, reply_to, None, origin, album, extra)
        )

    async def send_file(
        self, user_id: int, name: str, data: bytes, caption: str = "", *, mime: str = "application/octet-stream"
    ) -> Json:
        """Send a document to the bot as a person."""
        return user_actions.send_file_as_person(
            self.world, user_id, UploadedFile(token_urlsafe(12), name, mime, data), caption
        )

    async def edit(self, chat_id: int, message_id: int, text: str) -> Json:
        """Edit the text of a person's or channel's message."""
        return user_actions.edit_as_author(self.world, chat_id, message_id, text)

    async def delete(self, chat_id: int, message_id: int) -> None:
        """Delete a person's or channel's message; the bot gets no update."""
        user_actions.delete_as_author(self.world, chat_id, message_id)

    async def press(self, user_id: int, chat_id: int, message_id: int, data: str) -> Json:
        """Press a button and wait for the bot's answer: {"id", "answer"}; the answer is None without one."""
        query_id = user_actions.press_button(self.world, user_id, chat_id, message_id, data)
        query = self.world.queries[query_id]
        await self.until(lambda: query.answer is not None)
        return {"id": query_id, "answer": query.answer}

    async def type_inline(self, user_id: int, text: str) -> Json | None:
        """Type "@bot text" in some chat and wait for the bot's answer; None without one."""
        query = self.world.queries[user_actions.type_inline_query(self.world, user_id, text)]
        await self.until(lambda: query.answer is not None)
        return query.answer

    def push(self, update: Json) -> None:
        """Queue a raw update, valid or not."""
        self.world.queue.push_raw(update)

    async def replies(self, chat_id: int, count: int = 1, timeout: float = 30) -> list[Json]:  # noqa: ASYNC109
        """Wait for the next `count` messages of the bot in a chat, in their current state. Raises TimeoutError."""
        sent = self.world.sent.setdefault(chat_id, [])
        start = self._read_counts.get(chat_id, 0)
        if not await self.until(lambda: len(sent) >= start + count, timeout):
            raise TimeoutError(f"{len(sent) - start} of {count} messages came within {timeout} s")
        self._read_counts[chat_id] = start + count
        room = self.world.room(chat_id)
        return [room.messages[i] for i in sent[start : start + count] if i in room.messages]

    async def until(self, true: Callable[[], bool], timeout: float = 30) -> bool:  # noqa: ASYNC109
        """Wait for a condition, checked again after each change of the sandbox, and at least ten times a second.

        Returns its last value. What a bot writes into its archive is no change of the sandbox.
        """
        end = asyncio.get_running_loop().time() + timeout
        while (left := end - asyncio.get_running_loop().time()) > 0:
            if await self.world.bell.until(true, min(left, 0.1)):
                return True
        return true()

    async def _on_call(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["method"]
        line: Json = {"n": len(self.transcript) + 1, "at": self.world.clock(), "method": name}
        line |= {"params": {}, "ok": False, "error": "not answered"}
        self.transcript.append(line)
        fault = self.faults.meet(name)
        try:
            if fault and (broken := await self._apply_fault(fault, request)) is not None:
                return broken
            if not self._has_valid_token(request):
                raise BotApiError(401, "Unauthorized")
            method = _find_method(name)
            line["method"] = method.__api_method__
            parameters = await _read_call_parameters(request, self.world)
            line["params"] = parameters
            result = await _execute_call(method, parameters, self.world)
        except BotApiError as exc:
            line["error"] = exc.description
            return web.json_response(exc.body(), status=exc.code)
        line["ok"], line["error"] = True, None
        if fault and fault.kind == "lost":
            return _close_connection(request)
        return web.json_response({"ok": True, "result": result})

    def _has_valid_token(self, request: web.Request) -> bool:
        return hmac.compare_digest(request.match_info["token"].encode(errors="replace"), self.token.encode())

    async def _apply_fault(self, fault: Fault, request: web.Request) -> web.StreamResponse | None:
        if fault.kind == "429":
            raise BotApiError(429, f"Too Many Requests: retry after {fault.retry_after}", retry_after=fault.retry_after)
        if fault.kind == "500":
            raise BotApiError(500, "Internal Server Error")
        if fault.kind == "409":
            raise conflict(OTHER_POLLER_TEXT)
        if fault.kind == "garbled":
            return web.Response(text='{"ok":true,"result":[{"upd', content_type="application/json")
        if fault.kind == "502html":
            return web.Response(status=502, text=_PROXY_ERROR_PAGE, content_type="text/html")
        if fault.kind == "drop":
            return _close_connection(request)
        if fault.kind == "stall":
            await asyncio.sleep(fault.seconds)
        return None

    async def _on_file(self, request: web.Request) -> web.StreamResponse:
        """Serve the content of a file; its faults have the method "file"."""
        path, fault = request.match_info["path"], self.faults.meet("file")
        try:
            if fault and (broken := await self._apply_fault(fault, request)) is not None:
                return broken
            for upload in self.world.files.values() if self.world.local is None else ():
                if upload.path() == path and self._has_valid_token(request):
                    return web.Response(body=upload.data, content_type="application/octet-stream")
            raise not_found("file not found")
        except BotApiError as exc:
            return web.json_response(exc.body(), status=exc.code)


def _close_connection(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
