"""Evaluation data into posts and questions: JSON Lines, gzipped or not, and Telegram Desktop exports.

A document is `{id, text, title or channel, lang?, date?}`; a question `{id, text, lang, relevant, answers?,
answerable?, group?, asked_at?}`. An export's posts are known as `msg-<id>`, or `<folder>/msg-<id>` where
the folder holds several exports.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rag_core.analysis import language_of
from rag_core.errors import ImportRefused
from rag_core.types import Channel, Post, PostKey, Visibility

__all__ = ["Dataset", "Document", "Query", "drawn", "read_dataset", "rows_of"]

T = TypeVar("T")

_UNDATED = datetime(2000, 1, 1, tzinfo=UTC)  # documents that are no posts have no date


@dataclass(frozen=True, slots=True)
class Document:
    """Something to index."""

    id: str
    text: str
    source: str
    date: datetime


@dataclass(frozen=True, slots=True)
class Query:
    """A question with what answers it; `group` keeps questions together that share documents."""

    id: str
    text: str
    lang: str
    relevant: frozenset[str]
    answers: tuple[str, ...]
    answerable: bool
    group: str
    asked_at: datetime | None


@dataclass(frozen=True, slots=True)
class Dataset:
    """Documents and exports to index, and questions about them. `ids` is filled where posts are made."""

    name: str
    documents: tuple[Document, ...]
    exports: tuple[Path, ...]
    queries: tuple[Query, ...]
    ids: dict[PostKey, str] = field(default_factory=dict)

    def posts(self) -> Iterator[tuple[Channel, list[Post]]]:
        """The documents as posts of invented channels, one per source."""
        sources: dict[str, list[Document]] = {}
        for document in self.documents:
            sources.setdefault(document.source, []).append(document)
        for n, (source, documents) in enumerate(sources.items(), 1):
            chat = -1_000_000_000_000 - n
            posts = []
            for number, document in enumerate(documents, 1):
                key = PostKey(chat, number)
                self.ids[key] = document.id
                posts.append(Post(key, document.date, document.text))
            yield Channel(chat, source, visibility=Visibility.PUBLIC), posts


def rows_of(file: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file. Raises ImportRefused."""
    try:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    yield _row(json.loads(line))
    except (OSError, ValueError, TypeError, EOFError, RecursionError, zlib.error) as exc:
        raise ImportRefused(f"{file} cannot be read as JSON Lines ({exc}): check the path and the format.") from exc


def _row(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"a row is a {type(value).__name__}, not an object")
    return value


def _text(row: dict[str, Any]) -> str:
    if not isinstance(text := row["text"], str):
        raise TypeError("text is no string")
    return text


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _strings(value: object) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(map(str, value)) if isinstance(value, list) else ()


def _documents(file: Path) -> Iterator[Document]:
    for row in rows_of(file):
        try:
            date = _moment(row["date"]) if row.get("date") else _UNDATED
            source = str(row.get("title") or row.get("channel") or "")
            yield Document(str(row["id"]), _text(row), source, date)
        except (KeyError, TypeError, ValueError) as exc:
            raise ImportRefused(f"A row of {file} lacks what a document needs: id and text ({exc}).") from exc


def _queries(file: Path) -> Iterator[Query]:
    for row in rows_of(file):
        try:
            answerable = bool(row.get("answerable", True))
            asked = row.get("asked_at")
            yield Query(
                str(row["id"]), text := _text(row), row.get("lang") or language_of(text),
                frozenset(_strings(row.get("relevant"))), _strings(row.get("answers")), answerable,
                str(row.get("group") or row["id"]), _moment(asked) if asked else None,
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as exc:
            raise ImportRefused(f"A row of {file} lacks what a question needs: id and text ({exc}).") from exc


def drawn(rows: Sequence[T], limit: int | None, seed: int | None = None) -> tuple[T, ...]:
    """The first rows up to the limit; with a seed as many as it draws, in the order they stand in."""
    if limit is None or seed is None or limit >= len(rows):
        return tuple(rows[:limit])
    chosen = np.random.default_rng(seed).choice(len(rows), size=limit, replace=False)
    return tuple(rows[n] for n in sorted(chosen))


def read_dataset(
    folder: Path,
    distractors: Sequence[Path] = (),
    limit: int | None = None,
    seed: int | None = None,
    asked: Sequence[str] = ("queries.jsonl", "questions.jsonl"),
) -> Dataset:
    """Read a folder. Raises ImportRefused with one sentence where it holds no questions or nothing to index.

    `asked`: what the file of questions may be called.
    """
    questions = next((f for name in asked if (f := folder / name).exists()), None)
    if questions is None:
        raise ImportRefused(f"{folder} holds no {asked[0]}: name a folder of evaluation data.")
    corpora = [f for name in ("corpus.jsonl", "posts.jsonl", "posts.jsonl.gz") if (f := folder / name).exists()]
    exports = sorted(folder.glob("**/result.json"))
    documents = tuple(document for file in (*corpora, *distractors) for document in _documents(file))
    if not documents and not exports:
        raise ImportRefused(
            f"{folder} holds nothing to index: add corpus.jsonl, posts.jsonl or an export, or --distractors."
        )
    queries = drawn(tuple(_queries(questions)), limit, seed)
    return Dataset(folder.resolve().name, documents, tuple(exports), queries)
