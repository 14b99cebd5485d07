"""Method dispatch: from an HTTP request to a checked Bot API call and back; aiogram's models validate both sides.

Faults are injected on the way, on demand: errors, proxies' pages, dropped connections and delays. The rate limits are
Telegram's published ones and are off until `limits = True`
(https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this).
"""

from __future__ import annotations

import json
import math
from collections import deque
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

from bot.sandbox import methods
from bot.sandbox.chats import Json
from bot.sandbox.entities import BotApiError, bad_request, not_found
from bot.sandbox.state import SandboxState, UploadedFile

FaultKind = Literal["429", "500", "502html", "409", "garbled", "drop", "lost", "stall"]

_CHAT_LIMIT = (1, 1.0)
_GROUP_LIMIT = (20, 60.0)
_OVERALL_LIMIT = (30, 1.0)
_LIMITED_METHOD_PREFIXES = ("send", "edit", "forward", "copy")


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
    """Pending faults and rate limits."""

    clock: Callable[[], float]
    limits: bool = False
    waiting: list[Fault] = field(default_factory=list)
    _sent: dict[object, deque[float]] = field(default_factory=dict)
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

    def count(self, method: str, chat_id: int | None) -> None:
        """Count a call against the rate limits; raises 429 with `retry_after` beyond them."""
        if not self.limits or not method.lower().startswith(_LIMITED_METHOD_PREFIXES):
            return
        windows: list[tuple[object, int, float]] = [("all", *_OVERALL_LIMIT)]
        if chat_id is not None and not method.lower().endswith(("draft", "action")):
            windows.append((chat_id, *_CHAT_LIMIT))
            if chat_id < 0:
                windows.append((("group", chat_id), *_GROUP_LIMIT))
        now = self.clock()
        wait = max(self._wait(key, most, span, now) for key, most, span in windows)
        if wait > 0:
            raise too_many_requests(math.ceil(wait))
        for key, _, _ in windows:
            self._sent.setdefault(key, deque()).append(now)

    def _wait(self, key: object, most: int, span: float, now: float) -> float:
        times = self._sent.setdefault(key, deque())
        while times and times[0] <= now - span:
            times.popleft()
        return times[0] + span - now if len(times) >= most else 0.0


def too_many_requests(seconds: int) -> BotApiError:
    """Build a 429 error with the seconds to wait."""
    return BotApiError(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)


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


def find_method(name: str) -> BotApiMethod:
    """Find aiogram's model of a method; 404 if Telegram has no such method, 501 if the sandbox does not have it."""
    method = _METHOD_BY_NAME.get(name.lower())
    if method is None:
        raise not_found("method not found")
    if method not in _HANDLER_BY_METHOD:
        raise BotApiError(501, f"Not Implemented: the sandbox does not know {method.__api_method__} yet")
    return method


async def read_call_parameters(request: web.Request, world: SandboxState) -> Json:
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


async def execute_call(method: BotApiMethod, parameters: Json, world: SandboxState) -> Any:
    """Validate a call, run its handler, and validate the result."""
    handler = _HANDLER_BY_METHOD[method]
    try:
        call = method.model_validate({name: _decode_value(method, name, value) for name, value in parameters.items()})
    except ValidationError as exc:
        raise _convert_first_error(exc) from exc
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
