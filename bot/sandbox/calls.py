"""From an HTTP request to a checked method and back: aiogram's own models judge both sides."""

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

from bot.sandbox import methods_bot, methods_chats, methods_messages
from bot.sandbox.refused import Refused, bad, missing
from bot.sandbox.rooms import Json
from bot.sandbox.world import Upload, World

__all__ = ["carry_out", "known_method", "read_parameters"]

Method = type[TelegramMethod[Any]]

_KNOWN: dict[str, Method] = {
    method.__api_method__.lower(): method
    for method in vars(aiogram.methods).values()
    if isclass(method) and issubclass(method, TelegramMethod) and method is not TelegramMethod
}
_HANDLERS: Mapping[Method, Callable[..., Any]] = (
    methods_bot.HANDLERS | methods_chats.HANDLERS | methods_messages.HANDLERS
)
_NOT_GIVEN = {
    "chat_id": "chat_id is empty",
    "text": "message text is empty",
    "message_id": "message identifier is not specified",
    "user_id": "invalid user_id specified",
    "draft_id": "draft_id must be non-zero",
}


def known_method(name: str) -> Method:
    """Aiogram's model of a method; 404 where Telegram has none, 501 where the sandbox has none yet."""
    method = _KNOWN.get(name.lower())
    if method is None:
        raise missing("method not found")
    if method not in _HANDLERS:
        raise Refused(501, f"Not Implemented: the sandbox does not know {method.__api_method__} yet")
    return method


async def read_parameters(request: web.Request, world: World) -> Json:
    """The parameters of a call, from the query and the body; uploads become files of the world."""
    given: Json = dict(request.query)
    if request.content_type == "application/json":
        try:
            body = await request.json()
        except ValueError as exc:
            raise bad("can't parse JSON object") from exc
        return given | (body if isinstance(body, dict) else {})
    uploads: dict[str, str] = {}
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            uploads[name] = _kept(value, world)
        else:
            given[name] = value if isinstance(value, str) else bytes(value).decode()
    return _joined(given, uploads)


def _joined(given: Json, uploads: Mapping[str, str]) -> Json:
    """Files stand where the call names them: `attach://<part>`, or a part with the parameter's own name."""
    named = {part: name for name, value in given.items() if (part := _part(value)) in uploads}
    by_name = {named.get(part, part): file_id for part, file_id in uploads.items()}
    return given | by_name


def _part(value: Any) -> str:
    return value.removeprefix("attach://") if isinstance(value, str) and value.startswith("attach://") else ""


def _kept(field: web.FileField, world: World) -> str:
    upload = Upload(token_urlsafe(12), field.filename, field.content_type, field.file.read())
    world.files[upload.file_id] = upload
    return upload.file_id


async def carry_out(method: Method, parameters: Json, world: World) -> Any:
    """Check a call, do what it asks, check the answer."""
    handler = _HANDLERS[method]
    try:
        call = method.model_validate(_decoded(method, parameters))
    except ValidationError as exc:
        raise _first(exc) from exc
    result = handler(call, world)
    if isawaitable(result):
        return await result  # raw updates go out as they are, broken ones too
    _returning(method).validate_python(result)
    return result


@cache
def _returning(method: Method) -> TypeAdapter[Any]:
    return TypeAdapter(method.__returning__)


def _decoded(method: Method, parameters: Json) -> Json:
    """Nested values travel as JSON text; a parameter that may be text is left as it is."""
    return {name: _value(method, name, value) for name, value in parameters.items()}


def _value(method: Method, name: str, value: Any) -> Any:
    if not isinstance(value, str) or not value or value[0] not in "[{" or _may_be_text(method, name):
        return value
    try:
        return json.loads(value)
    except ValueError as exc:
        raise bad(f"can't parse {name} JSON object") from exc


@cache
def _may_be_text(method: Method, name: str) -> bool:
    field = method.model_fields.get(name)
    return field is None or str in _flat(field.annotation)


def _flat(annotation: Any) -> set[Any]:
    union = get_origin(annotation) is Union or type(annotation).__name__ == "UnionType"
    return set().union(*map(_flat, get_args(annotation))) if union else {annotation}


def _first(exc: ValidationError) -> Refused:
    """The first complaint, in Telegram's words where it has some."""
    error = exc.errors(include_url=False)[0]
    name = str(error["loc"][0]) if error["loc"] else "request"
    if error["type"] == "missing" and len(error["loc"]) == 1:
        return bad(_NOT_GIVEN.get(name, f'parameter "{name}" is required'))
    if name in {"entities", "caption_entities", "quote_entities"}:
        return bad(f"can't parse entities: {error['msg']}")
    return bad(f"can't parse {'.'.join(map(str, error['loc']))}: {error['msg']}")
