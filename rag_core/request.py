"""Which request the work that runs now belongs to: one id for its trace and for every line of the log."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["new_or_current", "request_id", "requested"]

_REQUEST: ContextVar[str] = ContextVar("request", default="")


def request_id() -> str:
    """The id of the request that is worked on; "" outside of any."""
    return _REQUEST.get()


def new_or_current() -> str:
    """The id of the request that is worked on, or a new one: twelve hexadecimal digits."""
    return _REQUEST.get() or secrets.token_hex(6)


@contextmanager
def requested() -> Iterator[str]:
    """What is done here, and what it starts, is one request; yields its id."""
    outer = _REQUEST.set(secrets.token_hex(6))
    try:
        yield _REQUEST.get()
    finally:
        _REQUEST.reset(outer)
