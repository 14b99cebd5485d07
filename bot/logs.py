"""The log: what happened, when and to which number; never a token, and no text of a reader unless that is switched on.

A text gets into a log inside an exception: a parser shows what it could not parse, a server what it was sent. So an
exception is logged with its class and the way to it; what it says is kept only of those that say nothing of a reader.
Nor can a text write lines of its own: control characters are escaped, and what follows a line is indented.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Literal

from bot.tokens import TokenFilter
from rag_core.errors import RagError
from rag_core.request import request_id

__all__ = ["Json", "Plain", "TextFilter", "asked", "set_up", "with_format", "with_texts"]

# Their sentences are ours, the system's or SQLite's.
_SPEAK = (RagError, OSError, sqlite3.Error)
# By their names, as aiogram takes seconds to load. Its others may repeat what was sent or received.
_TELEGRAMS = {"TelegramAPIError", "ClientError"}
_FIRST = 200  # of a sentence of Telegram's
# Control characters (also C1: 9B begins a terminal's sequence), line separators, and marks that reorder what is shown.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# asyncio writes what it cannot raise, with the arguments of the call and what the exception says.
_ASYNCIO = re.compile(r"[^<('\"\n]*")

log = logging.getLogger(__name__)


class TextFilter(logging.Filter):
    """For every log handler: of an exception that may hold a reader's text, only its class is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record; always True."""
        if self.texts:
            return True
        if isinstance(record.args, tuple):
            record.args = tuple(_without_texts(one) for one in record.args)
        if record.name == "asyncio":
            found = _ASYNCIO.match(record.getMessage())
            record.msg, record.args = found[0].strip() if found else "", ()
        if record.exc_info and record.exc_info[1]:
            record.exc_text = "".join(_traced(record.exc_info[1])).rstrip()
        return True


def _without_texts(argument: object) -> object:
    """An argument of a log line; of exceptions, also in a list, only what may be logged."""
    if isinstance(argument, BaseException):
        return _said(argument)
    return [_without_texts(one) for one in argument] if isinstance(argument, list | tuple) else argument


def _escaped(text: str) -> str:
    """The text with control characters as Python writes them in a literal."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def _said(exc: BaseException) -> str:
    """What may be logged of an exception."""
    names = {kind.__name__ for kind in type(exc).__mro__}
    if isinstance(exc, _SPEAK):
        return exc.reason if isinstance(exc, RagError) else str(exc)
    return str(exc)[:_FIRST] if _TELEGRAMS & names else type(exc).__name__


def _traced(exc: BaseException, depth: int = 3) -> Iterator[str]:
    """The traceback without what exceptions say, causes first."""
    cause = exc.__cause__ or (None if exc.__suppress_context__ else exc.__context__)
    if cause and depth:
        yield from _traced(cause, depth - 1)
        yield "\n"
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(exc.__traceback__)
    yield f"{type(exc).__name__}: {_said(exc)}\n"
    if isinstance(exc, BaseExceptionGroup) and depth:
        for one in exc.exceptions:
            yield from _traced(one, depth - 1)


class Plain(logging.Formatter):
    """A line for people; those of a question begin with the id of its trace."""

    def __init__(self) -> None:
        super().__init__()

    def format(self, record: logging.LogRecord) -> str:
        """The line, and indented below it what there is of an exception."""
        of = f" [{request}]" if (request := request_id()) else ""
        said = f"{self.formatTime(record)} {record.levelname} {record.name}{of}: {_escaped(record.getMessage())}"
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        below = "\n".join(part for part in (record.exc_text, record.stack_info) if part)
        return "\n".join([said, *(f"  {_escaped(line)}" for line in below.split("\n") if below)])


class Json(logging.Formatter):
    """One object on a line: time (UTC), level, logger, message, and where there are any request and exception."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; `exc_text` is what the filters left of an exception."""
        said = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request := request_id():
            said["request"] = request
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            said["exception"] = record.exc_text
        # JSON's own escapes; its syntax has none of these characters.
        return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(said, ensure_ascii=False))


_FORMATS: dict[str, type[logging.Formatter]] = {"plain": Plain, "json": Json}
_filter = TextFilter()


def set_up(verbose: bool) -> None:
    """Log to stderr, what is said and, with `verbose`, what happens; without texts until `with_texts` lets them."""
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING)
    with_format("plain")
    # A line for each request to a Qdrant server, with its address, which may hold a password.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_filter)
        handler.addFilter(TokenFilter())


def with_format(name: Literal["plain", "json"]) -> None:
    """Write lines for people, or for programs that gather logs."""
    for handler in logging.getLogger().handlers:
        if type(handler) is logging.StreamHandler:  # the one for stderr: others have lines of their own
            handler.setFormatter(_FORMATS[name]())


def with_texts(let: bool) -> None:
    """Let the texts of questions into the log, or keep them out."""
    _filter.texts = let


def asked(question_id: int, text: str) -> None:
    """Note a question with its text, where that is switched on."""
    if _filter.texts:
        log.info("question %d: %s", question_id, text)
