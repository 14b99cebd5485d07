"""What aiogram makes anew for each bot, made once for all bots of a process: a quarter of the time of a bot's test."""

from __future__ import annotations

import inspect
import ssl
from functools import cache
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

from aiogram.client.session import aiohttp
from aiogram.dispatcher.event import handler

_signatures: dict[CodeType, inspect.Signature] = {}


def find_signature(function: Any, **options: Any) -> inspect.Signature:
    """Signature of a function; functions of the same code have the same parameters."""
    if not isinstance(function, FunctionType) or hasattr(function, "__signature__"):
        return inspect.signature(function, **options)
    if function.__code__ not in _signatures:
        _signatures[function.__code__] = inspect.signature(function, **options)
    return _signatures[function.__code__]


def share_between_bots() -> None:
    """Certificates and signatures of handlers."""
    aiohttp.ssl = SimpleNamespace(create_default_context=cache(ssl.create_default_context))  # type: ignore[attr-defined]
    handler.inspect = SimpleNamespace(**(vars(inspect) | {"signature": find_signature}))  # type: ignore[attr-defined]
