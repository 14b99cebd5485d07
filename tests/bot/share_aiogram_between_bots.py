"""What aiogram makes anew for each bot, made once for all bots of a process: a quarter of the time of a bot's test."""

from __future__ import annotations

import inspect
import ssl
from functools import cache
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

from aiogram.client.session import aiohttp, base
from aiogram.dispatcher.event import handler
from aiogram.methods import Response

_signatures: dict[CodeType, inspect.Signature] = {}


def find_signature(function: Any, **options: Any) -> inspect.Signature:
    """Signature of a function; functions of the same code have the same parameters."""
    if not isinstance(function, FunctionType) or hasattr(function, "__signature__"):
        return inspect.signature(function, **options)
    if function.__code__ not in _signatures:
        _signatures[function.__code__] = inspect.signature(function, **options)
    return _signatures[function.__code__]


class KeptResponses:
    """Models of replies, which pydantic forgets when nobody holds them."""

    @staticmethod
    @cache
    def _make(kind: Any) -> Any:
        return Response[kind]

    def __getitem__(self, kind: Any) -> Any:
        return self._make(kind)


def share_between_bots() -> None:
    """Certificates, signatures of handlers and models of replies."""
    aiohttp.ssl = SimpleNamespace(create_default_context=cache(ssl.create_default_context))  # type: ignore[attr-defined]
    handler.inspect = SimpleNamespace(**(vars(inspect) | {"signature": find_signature}))  # type: ignore[attr-defined]
    base.Response = KeptResponses()  # type: ignore[attr-defined]
