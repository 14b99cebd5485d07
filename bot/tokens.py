"""Secrets stay out of whatever this process writes: log lines, tracebacks, what a command prints.

A token is known by its looks, since Telegram's addresses contain it and exceptions repeat addresses; the password of
an address too. All else that is set as a secret is known by its value, once `hide` was told of it.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from types import TracebackType
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretStr

__all__ = ["TokenFilter", "hide", "redacted", "secrets_in", "shield"]

# Bot tokens as @BotFather writes them: https://core.telegram.org/bots/features#authentication
_TOKEN = re.compile(r"\d{1,20}(?::|%3[aA])[\w-]{30,}")
# A name alone may be a key too: https://key@host
_PASSWORD = re.compile(r"(?<=://)[^\s/?#@\"'<>]{1,1000}@(?=[\w\[])")
_SHORTEST = 6  # characters: a shorter one would be found in any word

_known: set[str] = set()


def hide(secrets: Iterable[str]) -> None:
    """From now on these values are left out too. Those of fewer than six characters cannot be told from words."""
    _known.update(secret for secret in secrets if len(secret) >= _SHORTEST)


def secrets_in(settings: BaseModel) -> Iterator[str]:
    """The values of all SecretStr of a tree of settings that are set."""
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from secrets_in(value)
        elif isinstance(value, SecretStr) and value.get_secret_value():
            yield value.get_secret_value()
            yield from _passwords(value.get_secret_value())
        elif isinstance(value, str):
            yield from _passwords(value)


def _passwords(address: str) -> Iterator[str]:
    """The password of an address, as it is written and as it is meant: libraries say it without the address."""
    try:
        password = urlsplit(address).password if "://" in address else None
    except ValueError:  # no address
        return
    if password:
        yield from {password, unquote(password)}


def redacted(text: str) -> str:
    """The text without secrets."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, "<secret>")
    return _PASSWORD.sub("<secret>@", _TOKEN.sub("<token>", text))


class TokenFilter(logging.Filter):
    """For every log handler: hides secrets in texts and tracebacks."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record without secrets; always True."""
        record.msg, record.args = redacted(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip()
        if record.exc_text:
            record.exc_text = redacted(record.exc_text)
        if record.stack_info:
            record.stack_info = redacted(record.stack_info)
        return True


class _Shielded(TextIOWrapper):
    """A stream of the process that lets no secret through, whoever writes to it."""

    def write(self, text: str) -> int:
        super().write(redacted(text))
        return len(text)


def shield() -> None:
    """For the start of a process: its streams are shielded, and what nobody caught goes to the log, as all else.

    Python's own traceback would say what the exception says: an address with a token, or a reader's words.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):  # neither closed nor somebody's buffer
            shielded = _Shielded(stream.detach(), stream.encoding, stream.errors, line_buffering=True)
            setattr(sys, name, shielded)
            setattr(sys, f"__{name}__", shielded)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda lost: _uncaught(lost.exc_type, lost.exc_value, lost.exc_traceback)
    sys.unraisablehook = lambda lost: _uncaught(lost.exc_type, lost.exc_value, lost.exc_traceback)


def _uncaught(kind: type[BaseException], exc: BaseException | None, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt | SystemExit):
        return
    logging.getLogger(__name__).critical("nobody expected this", exc_info=(kind, exc or kind(), trace))
