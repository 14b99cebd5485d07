"""Arguments made of one hostile text, by the annotations of a function's parameters.

Dataclasses, named tuples and pydantic models are filled field by field; what has a maker of its own in `_MAKERS` is
made by it. What no text can stand in (an archive, an open model, a folder) cannot be made: `CannotBuild` says so.
"""

import collections.abc
import dataclasses
import datetime as dt
import enum
import inspect
import io
import logging
import re
import sys
import types
import typing
import zipfile
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from aiogram.types import Chat, Message, TelegramObject, User
from aiogram.utils.formatting import Text
from pydantic import BaseModel, SecretStr

from bot.i18n import Translator, get_translator
from ingest.copies import ComparedText as DuplicateWords
from ingest.copies import parse_compared_text as duplicate_words
from ingest.json_export import ImportNote
from rag_core.models.onnx_models import PassageSimilarity, TokenVectors
from rag_core.retrieval.post_search import Highlight, TextMatcher
from rag_core.text.numbers import Number
from rag_core.text.query_terms import QueryTerms
from rag_core.types import Passage, PostKey, Question, Source, Viewer
from rag_core.verification import Claim
from rag_core.verification.facts import (
    Moment,
    SentenceFacts,
    Vocabulary,
    Word,
    extract_facts,
    extract_facts_by_sentence,
    split_words,
)
from rag_core.verification.stance import ClaimTerms

NOW = dt.datetime(2026, 1, 15, 9, tzinfo=dt.UTC)
_DEEPEST = 8  # nested types; a type that holds itself has no end


class CannotBuild(Exception):
    """No value of this type can be made of a text."""


def make_hostile_argument(pattern, length):
    """The pattern again and again, `length` characters."""
    return (pattern * (length // len(pattern) + 1))[:length]


def _message(text):
    sender = User(id=500, is_bot=False, first_name=text)
    return Message(message_id=7, date=NOW, chat=Chat(id=500, type="private"), from_user=sender, text=text)


def _record(text):
    return logging.LogRecord("bot", logging.ERROR, "bot.py", 1, "%s", (text,), None)


def _post_words(text):
    return Passage(PostKey(-1001, 7), 0, "Harbour News", text, 0, len(text), NOW)


def _compare_tokens(text):
    """A question of four tokens, and a passage of one for every four characters."""
    first = 4 * np.arange(len(text) // 4 + 1)
    spans = np.stack([first, first + 4], axis=1)
    vectors, heads = np.ones((len(spans), 4), np.float32), np.ones((2, 4), np.float32)
    return PassageSimilarity(TokenVectors(vectors[:4], spans[:4], heads), TokenVectors(vectors, spans, heads))


_MAKERS = {
    ImportNote: lambda text: ImportNote("{title}", code="import-note-empty", title=text),
    str: lambda text: text,
    bytes: lambda text: text.encode(),
    int: lambda text: 60,  # a length, a number, a minute: one a caller would give
    float: lambda text: 0.5,
    bool: lambda text: True,
    object: lambda text: text,
    Any: lambda text: text,
    type(None): lambda text: None,
    dt.datetime: lambda text: NOW,
    dt.date: lambda text: NOW.date(),
    dt.time: lambda text: NOW.time(),
    dt.timedelta: lambda text: dt.timedelta(days=1),
    dt.tzinfo: lambda text: dt.UTC,
    ZoneInfo: lambda text: ZoneInfo("UTC"),
    range: lambda text: range(len(text)),
    re.Match: lambda text: re.match(r"(?s).*", text),
    zipfile.ZipInfo: zipfile.ZipInfo,
    logging.LogRecord: _record,
    SecretStr: SecretStr,
    Exception: ValueError,
    BaseException: ValueError,
    Text: Text,
    Message: _message,
    Translator: lambda text: get_translator("en"),
    DuplicateWords: duplicate_words,
    QueryTerms: lambda text: QueryTerms.of(text, lambda term: 1.0),
    TextMatcher: lambda text: TextMatcher.of(text, [text]),
    Passage: _post_words,
    PassageSimilarity: _compare_tokens,
    Source: lambda text: Source(1, _post_words(text), 0.5),
    Question: lambda text: Question(text, "en", NOW, Viewer(500, frozenset({-1001})), 500),
    Claim: lambda text: Claim(text, "en", 0, len(text)),
    SentenceFacts: lambda text: extract_facts(text, "en"),
    ClaimTerms: lambda text: ClaimTerms(extract_facts(text, "en"), text, lambda _: 1.0),
    Word: lambda text: next(iter(split_words(text)), Word(text, text, 0, len(text), True, True)),
    Vocabulary: lambda text: Vocabulary(split_words(text)),
    Moment: lambda text: next(iter(extract_facts(text, "en").moments), Moment(0, 1, 2024, 3, 12)),
    Number: lambda text: next(iter(extract_facts(text, "en").numbers), Number((5.0,), "eur", "", 0, 1)),
}
# Many of them, as they come out of one text.
_MANY = {
    str: lambda text: text.split() or [text],
    Word: split_words,
    SentenceFacts: lambda text: extract_facts_by_sentence(text, "en"),
    Moment: lambda text: extract_facts(text, "en").moments,
    Number: lambda text: extract_facts(text, "en").numbers,
    Highlight: lambda text: TextMatcher.of(text).within(text),
    int: lambda text: range(len(text)),
}


def make_hostile_arguments(function, text, other):
    """A value for each parameter without a default: the first text goes into the first, the other into the rest."""
    hints, given = _hints(function)
    texts = iter((text,))
    try:
        return {name: _built(hints[name], next(texts, other)) for name in given}
    except (TypeError, ValueError, NameError, AttributeError) as exc:
        raise CannotBuild(f"{type(exc).__name__}: {exc}") from exc


@cache
def _hints(function):
    plain = inspect.unwrap(function)
    try:
        hints = _read_hints(plain)
    except (NameError, TypeError) as exc:
        raise CannotBuild(f"an annotation that only the type checker reads: {exc}") from exc
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = [p for p in inspect.signature(plain).parameters.values() if p.kind not in kinds]
    given = tuple(p.name for p in found if p.default is p.empty or hints.get(p.name) in {str, str | None})
    if missing := [name for name in given if name not in hints]:
        raise CannotBuild(f"no annotation: {', '.join(missing)}")
    return hints, given


@cache
def _list_types():
    """Types by name, those of the project and of Telegram: what a module imports for the type checker alone."""
    named = [module for name, module in sys.modules.items() if name.split(".")[0] in {"bot", "ingest", "rag_core"}]
    found = {name: kind for module in named for name, kind in vars(module).items() if hasattr(kind, "__origin__")}
    return found | {name: kind for module in named for name, kind in vars(module).items() if isinstance(kind, type)}


def _read_hints(of):
    own = vars(sys.modules[of.__module__])
    return typing.get_type_hints(of, localns={**_list_types(), **own, **getattr(of, "__globals__", {})})


def _built(wanted, text, deep=0):
    if deep > _DEEPEST:
        raise CannotBuild("a type that holds itself")
    if isinstance(wanted, typing.TypeVar):
        return _built(wanted.__bound__ or str, text, deep + 1)
    if isinstance(wanted, typing.NewType):
        return _built(wanted.__supertype__, text, deep + 1)
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is typing.Annotated:
        return _built(inner[0], text, deep + 1)
    if origin is typing.Literal:
        return inner[0]
    if origin in {typing.Union, types.UnionType}:
        return _first_of(inner, text, deep)
    if isinstance(wanted, types.GenericAlias) and wanted in _MAKERS:
        return _made(wanted, text)
    if (origin or wanted) in _MAKERS:
        return _made(origin or wanted, text)
    if origin is typing.IO:
        return io.BytesIO(text.encode())  # read to its end by each call, so none is kept
    if origin is collections.abc.Callable:
        value = _built(inner[1], text, deep + 1) if inner else text
        return lambda *_, **__: value
    if origin is tuple and inner[-1:] != (...,):
        return tuple(_built(one, text, deep + 1) for one in inner)
    if origin is not None and issubclass(origin, collections.abc.Mapping):
        return {_built(inner[0], text, deep + 1): _built(inner[1], text, deep + 1)}
    if origin is not None and issubclass(origin, collections.abc.Iterable) and inner:
        values = list(_made_many(inner[0], text)) if inner[0] in _MANY else [_built(inner[0], text, deep + 1)]
        if origin is collections.abc.Iterator:
            return iter(values)
        return origin(values) if origin in {tuple, list, set, frozenset} else values
    if isinstance(wanted, type):
        return _object(wanted, text, deep)
    raise CannotBuild(f"{wanted}")


# Each function goes through all patterns: a bounded cache would have lost each of them when it comes again.
@cache
def _made(wanted, text):
    return _MAKERS[wanted](text)


@cache
def _made_many(wanted, text):
    return tuple(_MANY[wanted](text))


def _first_of(wanted, text, deep):
    reasons = []
    for one in sorted(wanted, key=lambda one: one is type(None)):
        try:
            return _built(one, text, deep + 1)
        except CannotBuild as exc:
            reasons.append(str(exc))
    raise CannotBuild("; ".join(reasons))


def _object(wanted, text, deep):
    if issubclass(wanted, enum.Enum):
        return next(iter(wanted))
    if dataclasses.is_dataclass(wanted):
        fields = [f for f in dataclasses.fields(wanted) if f.init]
        hints = _read_hints(wanted)
        return wanted(**{f.name: _built(hints[f.name], text, deep + 1) for f in fields})
    if issubclass(wanted, tuple) and hasattr(wanted, "_fields"):
        hints = _read_hints(wanted)
        return wanted(*(_built(hints[name], text, deep + 1) for name in wanted._fields))
    if typing.is_typeddict(wanted):
        return {name: _built(hint, text, deep + 1) for name, hint in _read_hints(wanted).items()}
    if issubclass(wanted, TelegramObject):  # without what may be missing: objects of Telegram hold each other
        wanted.model_rebuild()  # its annotations are names until it is built
        fields = wanted.model_fields.items()
        asked = {
            name: field.annotation for name, field in fields if field.is_required() or field.annotation == str | None
        }
        return wanted.model_construct(**{name: _built(hint, text, deep + 1) for name, hint in asked.items()})
    if issubclass(wanted, BaseModel):
        hints = _read_hints(wanted)
        return wanted.model_construct(**{name: _built(hints[name], text, deep + 1) for name in wanted.model_fields})
    raise CannotBuild(f"{wanted.__module__}.{wanted.__qualname__}")
