"""Method dispatch: from an HTTP request to a checked Bot API call and back; aiogram's models validate both sides."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from inspect import isawaitable, isclass
from secrets import token_urlsafe
from typing import Any, Union, get_args, get_origin

import aiogram.methods
from aiogram.methods import TelegramMethod
from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from bot.sandbox import methods
from bot.sandbox.chats import Json
from bot.sandbox.entities import BotApiError, bad_request, not_found
from bot.sandbox.state import SandboxState, UploadedFile

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
