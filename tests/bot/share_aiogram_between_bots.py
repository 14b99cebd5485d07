"""What aiogram makes anew for each bot, made once for all bots of a process: a quarter of the time of a bot's test."""

from __future__ import annotations

import inspect
import ssl
from functools import cache
from types import CodeType, FunctionType, MethodType, SimpleNamespace
from typing import Any

from aiogram.client.session import aiohttp
from aiogram.dispatcher.event import handler

_signatures: dict[tuple[type, CodeType], inspect.Signature] = {}


def find_signature(callback: Any, **options: Any) -> inspect.Signature:
    """Signature of a function, a method or what has `__call__`; those of the same code have the same parameters."""
    called = callback if isinstance(callback, FunctionType | MethodType) else type(callback).__call__
    code = getattr(called, "__code__", None)
    if code is None or isinstance(callback, type) or hasattr(callback, "__signature__"):
        return inspect.signature(callback, **options)
    if (key := (type(callback), code)) not in _signatures:
        _signatures[key] = inspect.signature(callback, **options)
    return _signatures[key]


def share_between_bots() -> None:
    """Certificates and signatures of handlers."""
    aiohttp.ssl = SimpleNamespace(create_default_context=cache(ssl.create_default_context))  # type: ignore[attr-defined]
    handler.inspect = SimpleNamespace(**(vars(inspect) | {"signature": find_signature}))  # type: ignore[attr-defined]
