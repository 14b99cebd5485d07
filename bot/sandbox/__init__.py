"""Sandbox: a Bot API server on this machine and a web chat in front of it: the real bot, no token, no network.

The Bot API, its files, the page and the page API on one loopback port. A request becomes a checked Bot API call;
aiogram's models validate both sides.
"""

import hmac
import json
import time
from collections.abc import Callable
from functools import cache
from inspect import isawaitable, isclass
from secrets import token_urlsafe
from types import UnionType
from typing import Any, Union, get_args, get_origin

import aiogram.methods
from aiogram.methods import TelegramMethod
from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from bot.sandbox import methods
from bot.sandbox.messages import BotApiError, Json, bad_request
from bot.sandbox.page_api import DemoObserver, add_page_routes
from bot.sandbox.state import SandboxState, SandboxUser, UpdateQueue, UploadedFile
from bot.telegram.updates import refuse_foreign_pages

BotApiMethod = type[TelegramMethod[Any]]

_make_result_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
_METHOD_BY_NAME: dict[str, BotApiMethod] = {
    method.__api_method__.lower(): method
    for method in vars(aiogram.methods).values()
    if isclass(method) and issubclass(method, TelegramMethod) and method is not TelegramMethod
}


def find_method(name: str) -> BotApiMethod:
    """Find aiogram's model of a method; 404 if Telegram has no such method, 501 if the sandbox does not have it."""
    method = _METHOD_BY_NAME.get(name.lower())
    if method is None:
        raise BotApiError(404, "method not found")
    if method not in methods.HANDLERS:
        raise BotApiError(501, f"the sandbox does not know {method.__api_method__} yet")
    return method


async def read_call_parameters(request: web.Request, world: SandboxState) -> Json:
    """Read the parameters of a call from query and body; uploads are stored in the state's files."""
    parameters: Json = dict(request.query)
    if request.content_type == "application/json":
        raise bad_request("the sandbox reads no JSON bodies: send a form")
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


async def execute_call(method: BotApiMethod, parameters: Json, world: SandboxState) -> Any:
    """Validate a call, run its handler, and validate the result, which is True where the handler has none."""
    handler = methods.HANDLERS[method]
    if not world.ephemeral:  # a server of an earlier version knows no such method, and ignores such parameters
        if "Ephemeral" in method.__name__:
            raise BotApiError(404, "method not found")
        parameters.pop("ephemeral_message_parameters", None)
    try:
        call = method.model_validate({name: _decode_value(method, name, value) for name, value in parameters.items()})
    except ValidationError as exc:  # aiogram would not send such a call
        error = exc.errors(include_url=False)[0]
        raise bad_request(f"can't parse {'.'.join(map(str, error['loc']))}: {error['msg']}") from exc
    except ValueError as exc:  # a value that begins like JSON and is none
        raise bad_request("can't parse the JSON of a parameter") from exc
    if isinstance(getattr(call, "parse_mode", None), str):
        raise bad_request(methods.NO_MARKUP_TEXT)
    result = handler(call, world)
    if isawaitable(result):
        return await result  # raw updates are returned unchecked, since a test may queue invalid ones
    result = True if result is None else result
    _make_result_adapter(method.__returning__).validate_python(result)
    return result


def _decode_value(method: BotApiMethod, name: str, value: str) -> Any:
    """Decode the JSON of a value, unless the field takes texts."""
    field = method.model_fields.get(name)
    union = field is not None and get_origin(field.annotation) in (Union, UnionType)
    takes_text = field is None or field.annotation is str or (union and str in get_args(field.annotation))
    return value if takes_text or not value.startswith(("[", "{")) else json.loads(value)


_MAX_REQUEST_BYTES = 60 * 2**20  # Telegram takes documents of 50 MB
_UPDATE_ID_EPOCH = 1_500_000_000  # before any clock here
_UPDATE_IDS_PER_SECOND = 1000  # more than a run takes, so that the next run begins above it


class Sandbox:
    """Bot API server for one bot, on this machine.

    `world` is its state, `observed` collects what the page shows if the bot runs with it as its observer. `token` is
    random by default: whoever has it can act as the bot.
    """

    def __init__(self, *, token: str = "", clock: Callable[[], float] = time.time) -> None:
        self.token = token or f"42:{token_urlsafe(26)}"  # 35 characters, as Telegram's
        self.url = ""
        bot_id = int(self.token.partition(":")[0])
        bot = SandboxUser(bot_id, "Citegram", "citegram_bot", lang=None, is_bot=True)
        # Update ids grow with time: a bot that remembers them must not drop those of the next run.
        queue = UpdateQueue(clock, next_id=max(1, int((clock() - _UPDATE_ID_EPOCH) * _UPDATE_IDS_PER_SECOND)))
        self.world = SandboxState(bot, clock, queue, bell=queue.bell)  # `until` wakes when updates are taken, too
        self.observed = DemoObserver(self.world)
        self._runner: web.AppRunner | None = None

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

    async def stop(self) -> None:
        """Close the port and end all waiting requests."""
        self.world.queue.closed = True
        self.world.changed()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _on_call(self, request: web.Request) -> web.StreamResponse:
        try:
            if not self._has_valid_token(request):
                raise BotApiError(401)
            method = find_method(request.match_info["method"])
            result = await execute_call(method, await read_call_parameters(request, self.world), self.world)
        except BotApiError as exc:
            return web.json_response(exc.body(), status=exc.code)
        return web.json_response({"ok": True, "result": result})

    def _has_valid_token(self, request: web.Request) -> bool:
        return hmac.compare_digest(request.match_info["token"].encode(errors="replace"), self.token.encode())

    async def _on_file(self, request: web.Request) -> web.StreamResponse:
        for upload in self.world.files.values() if self.world.local is None else ():
            if upload.path() == request.match_info["path"] and self._has_valid_token(request):
                return web.Response(body=upload.data, content_type="application/octet-stream")
        return web.json_response(BotApiError(404, "file not found").body(), status=404)
