"""Logging: formatters, and filters that keep secrets and readers' texts out of the log.

Secrets: a bot token is recognized by its form, since Telegram's addresses contain it and exceptions repeat
addresses; so are the tokens of other programs, and a password in an address. Every other secret is recognized by its
value, after `register_secrets`.

Texts: a reader's text gets into a log inside an exception, because a parser shows what it could not parse. An
exception is therefore logged with its class and traceback; its message is kept only for classes whose messages
never contain a reader's text. Control characters are escaped and continuation lines indented, so that no text can
forge a line. aiogram reports a failing getUpdates twice every few seconds; this is throttled to once an hour.
"""

import json
import logging
import re
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import TextIOWrapper
from types import TracebackType
from typing import Literal
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretStr

from rag_core.errors import RagError
from rag_core.run import get_request_id

# Format of bot tokens: https://core.telegram.org/bots/features#authentication
_TOKEN_PATTERN = re.compile(r"\d{1,20}(?::|%3[aA])[\w-]{30,}|\bcg_[\w-]{43}")  # or of rag_core/storage/readers.py
# A user name alone may be a key: https://key@host
_PASSWORD_PATTERN = re.compile(r"(?<=://)[^\s/?#@\"'<>]{1,1000}@(?=[\w\[])")
_MIN_SECRET_LENGTH = 6  # characters: a shorter one would match inside words

_known_secrets: set[str] = set()


def register_secrets(secrets: Iterable[str]) -> None:
    """Register values to redact. Values under six characters are ignored: they cannot be told from words."""
    _known_secrets.update(secret for secret in secrets if len(secret) >= _MIN_SECRET_LENGTH)


def collect_secrets(settings: BaseModel) -> Iterator[str]:
    """Values of all SecretStr fields that are set in a settings tree."""
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from collect_secrets(value)
        elif isinstance(value, SecretStr) and value.get_secret_value():
            yield value.get_secret_value()
            yield from _extract_passwords(value.get_secret_value())
        elif isinstance(value, str):
            yield from _extract_passwords(value)


def _extract_passwords(address: str) -> Iterator[str]:
    """Password of an address, as written and percent-decoded: libraries report it without the address."""
    try:
        password = urlsplit(address).password if "://" in address else None
    except ValueError:  # not an address
        return
    if password:
        yield from {password, unquote(password)}


def redact_secrets(text: str) -> str:
    """Replace secrets in a text."""
    for secret in sorted(_known_secrets, key=len, reverse=True):
        text = text.replace(secret, "<secret>")
    return _PASSWORD_PATTERN.sub("<secret>@", _TOKEN_PATTERN.sub("<token>", text))


class _RedactingStream(TextIOWrapper):
    """Output stream that redacts secrets, whoever writes to it."""

    def write(self, text: str) -> int:
        super().write(redact_secrets(text))
        return len(text)


def protect_process_output() -> None:
    """Redact the process's output streams, and log uncaught exceptions like all others. Call at process start.

    Python's own traceback would repeat the exception's message: an address with a token, or a reader's text.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):  # neither closed nor replaced by a buffer
            shielded = _RedactingStream(stream.detach(), stream.encoding, stream.errors, line_buffering=True)
            setattr(sys, name, shielded)
            setattr(sys, f"__{name}__", shielded)
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda lost: _log_uncaught(lost.exc_type, lost.exc_value, lost.exc_traceback)
    sys.unraisablehook = lambda lost: _log_uncaught(lost.exc_type, lost.exc_value, lost.exc_traceback)


def _log_uncaught(kind: type[BaseException], exc: BaseException | None, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt | SystemExit):
        return
    logging.getLogger(__name__).critical("nobody expected this", exc_info=(kind, exc or kind(), trace))


_REPEAT_SECONDS = 3600.0


@contextmanager
def throttle_polling_errors() -> Iterator[None]:
    """Log a repeated failure to fetch updates once an hour while the block lasts; recovery resets it."""
    logger, last = logging.getLogger("aiogram.dispatcher"), ("", 0.0)

    def is_news(record: logging.LogRecord) -> bool:
        nonlocal last
        template, now = str(record.msg), time.monotonic()
        if template.startswith("Connection established"):
            last = "", 0.0
        elif template.startswith("Failed to fetch updates"):
            if record.getMessage() == last[0] and now - last[1] < _REPEAT_SECONDS:
                return False
            last = record.getMessage(), now
        return not template.startswith("Sleep for")

    logger.addFilter(is_news)
    try:
        yield
    finally:
        logger.removeFilter(is_news)


# By name, as aiogram takes seconds to load. Its other errors may repeat what was sent or received.
_TELEGRAM_ERROR_NAMES = {"TelegramAPIError", "ClientError"}
_MAX_TELEGRAM_MESSAGE = 200  # characters of Telegram's message
# Control characters (also C1: 9B begins a terminal sequence), line separators, and marks that reorder the display.
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# asyncio logs what it cannot raise, with the arguments of the call and the exception's message.
_ASYNCIO_PREFIX_PATTERN = re.compile(r"[^<('\"\n]*")

log = logging.getLogger(__name__)


class PrivacyFilter(logging.Filter):
    """Log filter, for every log handler, that redacts secrets in messages and tracebacks.

    Unless `texts` are let through, it also reduces an exception that may hold a reader's text to its class.
    """

    texts = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record in place; always True."""
        exc = record.exc_info[1] if record.exc_info else None
        if not self.texts:
            if isinstance(record.args, tuple):
                record.args = tuple(_strip_texts(one) for one in record.args)
            if record.name == "asyncio":
                found = _ASYNCIO_PREFIX_PATTERN.match(record.getMessage())
                record.msg, record.args = found[0].strip() if found else "", ()
            if exc:
                record.exc_text = "".join(_format_traceback(exc)).rstrip()
        elif exc and not record.exc_text:
            record.exc_text = "".join(traceback.format_exception(exc)).rstrip()
        record.msg, record.args = redact_secrets(record.getMessage()), ()
        if record.exc_text:
            record.exc_text = redact_secrets(record.exc_text)
        if record.stack_info:
            record.stack_info = redact_secrets(record.stack_info)
        return True


def _strip_texts(argument: object) -> object:
    """Replace exceptions in a log argument, also in a list, by what may be logged of them."""
    if isinstance(argument, BaseException):
        return _describe_exception(argument)
    return [_strip_texts(one) for one in argument] if isinstance(argument, list | tuple) else argument


def _escape_control_characters(text: str) -> str:
    return _CONTROL_CHARACTERS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def _describe_exception(exc: BaseException) -> str:
    names = {kind.__name__ for kind in type(exc).__mro__}
    if isinstance(exc, RagError | OSError | sqlite3.Error):  # worded by this program, the system or SQLite
        return exc.reason if isinstance(exc, RagError) else str(exc)
    return str(exc)[:_MAX_TELEGRAM_MESSAGE] if _TELEGRAM_ERROR_NAMES & names else type(exc).__name__


def _format_traceback(exc: BaseException, depth: int = 3) -> Iterator[str]:
    """Traceback without the exceptions' messages, causes first."""
    cause = exc.__cause__ or (None if exc.__suppress_context__ else exc.__context__)
    if cause and depth:
        yield from _format_traceback(cause, depth - 1)
        yield "\n"
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(exc.__traceback__)
    yield f"{type(exc).__name__}: {_describe_exception(exc)}\n"
    if isinstance(exc, BaseExceptionGroup) and depth:
        for one in exc.exceptions:
            yield from _format_traceback(one, depth - 1)


class PlainFormatter(logging.Formatter):
    """Plain-text log formatter; lines of a question begin with its trace id."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a line, with what the filters left of an exception indented below it."""
        prefix = f" [{request}]" if (request := get_request_id()) else ""
        message = _escape_control_characters(record.getMessage())
        header = f"{self.formatTime(record)} {record.levelname} {record.name}{prefix}: {message}"
        below = "\n".join(part for part in (record.exc_text, record.stack_info) if part)
        return "\n".join([header, *(f"  {_escape_control_characters(line)}" for line in below.split("\n") if below)])


class JsonFormatter(logging.Formatter):
    """JSON log formatter: time (UTC), level, logger, message, and request and exception where there are any."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a line; `exc_text` is what the filters left of an exception."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request := get_request_id():
            entry["request"] = request
        if record.exc_text:
            entry["exception"] = record.exc_text
        # JSON escapes; JSON syntax itself has none of these characters.
        return _CONTROL_CHARACTERS.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(entry, ensure_ascii=False))


_filter = PrivacyFilter()


def set_up_logging(verbose: bool) -> None:
    """Set up logging to stderr: warnings or, with `verbose`, info; without readers' texts unless `set_text_logging`."""
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING)
    set_log_format("plain")
    # It logs each request to a Qdrant server with its address, which may hold a password.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    # Of each retry it says "stamina.retry_scheduled" alone, which tells nobody what failed; who retries does.
    logging.getLogger("stamina").setLevel(logging.ERROR)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_filter)


def set_log_format(name: Literal["plain", "json"]) -> None:
    """Choose the log format: plain lines for people, JSON for log collectors."""
    for handler in logging.getLogger().handlers:
        if type(handler) is logging.StreamHandler:  # the one for stderr: other handlers have their own format
            handler.setFormatter(JsonFormatter() if name == "json" else PlainFormatter())


def set_text_logging(let: bool) -> None:
    """Allow or forbid texts of questions in the log."""
    _filter.texts = let


def log_question(question_id: int, text: str) -> None:
    """Log a question with its text, where that is allowed."""
    if _filter.texts:
        log.info("question %d: %s", question_id, text)
