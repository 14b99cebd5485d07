"""What aiogram makes anew for each bot, made once for all bots of a process: a quarter of the time of a bot's test."""

import inspect
import ssl
from functools import cache
from types import FunctionType, MethodType, SimpleNamespace

from aiogram.client.session import aiohttp
from aiogram.dispatcher.event import handler

_signatures = {}


def find_signature(callback, **options):
    """Signature of a function, a method or what has `__call__`; those of the same code have the same parameters."""
    called = callback if isinstance(callback, FunctionType | MethodType) else type(callback).__call__
    code = getattr(called, "__code__", None)
    if code is None or isinstance(callback, type) or hasattr(callback, "__signature__"):
        return inspect.signature(callback, **options)
    if (key := (type(callback), code)) not in _signatures:
        _signatures[key] = inspect.signature(callback, **options)
    return _signatures[key]


def share_between_bots():
    aiohttp.ssl = SimpleNamespace(create_default_context=cache(ssl.create_default_context))
    handler.inspect = SimpleNamespace(**(vars(inspect) | {"signature": find_signature}))
