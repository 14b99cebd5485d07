"""Evaluation datasets: documents, questions and claims from JSON Lines (also gzipped) and from exports.

A document is `{id, text, title or channel, lang?, date?}`; a question is `{id, text, lang, relevant, answers?,
answerable?, group?, asked_at?, kind?, stale?, typo?}`. The posts of an export are named `msg-<id>`, or
`<folder>/msg-<id>` where the folder holds several exports. A claim comes with its evidence, or is looked up in a
corpus.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rag_core.errors import ImportRefused
from rag_core.text.language_detection import detect_language
from rag_core.types import Channel, Post, PostKey, Visibility

T = TypeVar("T")

_DEFAULT_DATE = datetime(2000, 1, 1, tzinfo=UTC)  # for documents without a date


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    """A document to index."""

    id: str
    text: str
    source: str
    date: datetime


@dataclass(frozen=True, slots=True)
class EvaluationQuery:
    """A question with its relevant documents and accepted answers; questions of one `group` share documents.

    `kind`: what is asked for, such as "price"; `stale`: answers that were right before; `typo`: it is misspelled.
    """

    id: str
    text: str
    lang: str
    relevant: frozenset[str]
    answers: tuple[str, ...]
    answerable: bool
    group: str
    asked_at: datetime | None
    kind: str = ""
    stale: tuple[str, ...] = ()
    typo: bool = False


@dataclass(frozen=True, slots=True)
class Dataset:
    """Documents and exports to index, and questions about them. `ids` is filled as posts are made."""

    name: str
    documents: tuple[CorpusDocument, ...]
    exports: tuple[Path, ...]
    queries: tuple[EvaluationQuery, ...]
    ids: dict[PostKey, str] = field(default_factory=dict)

    def posts(self) -> Iterator[tuple[Channel, list[Post]]]:
        """Convert the documents to posts of invented channels, one for each source."""
        sources: dict[str, list[CorpusDocument]] = {}
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


def read_json_lines(file: Path) -> Iterator[dict[str, Any]]:
    """Read the objects of a JSON Lines file. Raises ImportRefused."""
    try:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    value = json.loads(line)
                    if not isinstance(value, dict):
                        raise TypeError(f"a row is a {type(value).__name__}, not an object")
                    yield value
    except (OSError, ValueError, TypeError, EOFError, RecursionError, zlib.error) as exc:
        raise ImportRefused(f"{file} cannot be read as JSON Lines ({exc}): check the path and the format.") from exc


def _require_text(row: dict[str, Any]) -> str:
    if not isinstance(text := row["text"] if "text" in row else row["claim"], str):
        raise TypeError("text is no string")
    return text


def parse_time(text: str) -> datetime:
    """Parse an ISO 8601 time; without an offset it is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _parse_strings(value: object) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(map(str, value)) if isinstance(value, list) else ()


def _read_documents(file: Path) -> Iterator[CorpusDocument]:
    for row in read_json_lines(file):
        try:
            date = parse_time(row["date"]) if row.get("date") else _DEFAULT_DATE
            source = str(row.get("title") or row.get("channel") or "")
            yield CorpusDocument(str(row["id"]), _require_text(row), source, date)
        except (KeyError, TypeError, ValueError) as exc:
            raise ImportRefused(f"A row of {file} lacks what a document needs ({exc}): give it id and text.") from exc


def parse_query(row: dict[str, Any], file: Path) -> EvaluationQuery:
    """Parse a row of questions. Raises ImportRefused."""
    try:
        answerable = bool(row.get("answerable", True))
        asked_at = row.get("asked_at")
        return EvaluationQuery(
            str(row["id"]), text := _require_text(row), row.get("lang") or detect_language(text),
            frozenset(_parse_strings(row.get("relevant"))), _parse_strings(row.get("answers")), answerable,
            str(row.get("group") or row["id"]), parse_time(asked_at) if asked_at else None,
            str(row.get("kind") or ""), _parse_strings(row.get("stale")), bool(row.get("typo")),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as exc:
        raise ImportRefused(f"A row of {file} lacks what a question needs ({exc}): give it id and text.") from exc


def draw_sample(rows: Sequence[T], limit: int | None, seed: int | None = None) -> tuple[T, ...]:
    """Draw a sample: the first rows up to the limit, or with a seed random rows in their original order."""
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
    """Read a dataset folder. `asked` lists the accepted names of the questions file.

    Raises ImportRefused with one sentence if there are no questions or nothing to index.
    """
    questions = next((f for name in asked if (f := folder / name).exists()), None)
    if questions is None:
        raise ImportRefused(f"{folder} holds no {asked[0]}: name a folder of evaluation data.")
    queries = draw_sample(tuple(parse_query(row, questions) for row in read_json_lines(questions)), limit, seed)
    return replace(read_corpus(folder, distractors), queries=queries)


def read_corpus(folder: Path, distractors: Sequence[Path] = ()) -> Dataset:
    """Read the documents and find the exports of a folder, without questions. Raises ImportRefused."""
    corpora = [f for name in ("corpus.jsonl", "posts.jsonl", "posts.jsonl.gz") if (f := folder / name).exists()]
    exports = sorted(folder.glob("**/result.json"))
    documents = tuple(document for file in (*corpora, *distractors) for document in _read_documents(file))
    if not documents and not exports:
        raise ImportRefused(
            f"{folder} holds nothing to index: add corpus.jsonl, posts.jsonl or an export, or --distractors."
        )
    return Dataset(folder.resolve().name, documents, tuple(exports), ())


CLAIMS_FILE_NAME = "claims.jsonl"
# Labels of public datasets, mapped to supported, contradicted, not_found; "disputed" has evidence for and against.
_GOLD_BY_LABEL = {
    "supports": "supported", "supported": "supported", "refutes": "contradicted", "refuted": "contradicted",
    "contradicted": "contradicted", "not_enough_info": "not_found", "not enough evidence": "not_found",
    "not_enough": "not_found",
    "not_supported": "not_found", "not_found": "not_found", "disputed": "disputed",
    "conflicting evidence/cherrypicking": "disputed",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A claim, its evidence (empty if it is to be retrieved), and its gold label; `group` rows share documents.

    `trap` says why one may get it wrong; of a `disputed` claim "the posts disagree" is right too; posts after
    `asked_at` are not looked at.
    """

    id: str
    lang: str
    claim: str
    evidence: tuple[str, ...]
    gold: str
    group: str
    trap: str = ""
    disputed: bool = False
    asked_at: datetime | None = None


def read_claims(place: Path) -> list[ClaimRow]:
    """Read the claims of a file, or of `claims.jsonl` in a folder. Raises ImportRefused."""
    file = place / CLAIMS_FILE_NAME if place.is_dir() else place
    claims = [_parse_claim_row(row, file) for row in read_json_lines(file)]
    if not claims:
        raise ImportRefused(f"{file} holds no claims: name a file of claims in JSON Lines.")
    return claims


def _parse_claim_row(row: dict[str, Any], file: Path) -> ClaimRow:
    try:
        text = str(row["claim"] if "claim" in row else row["text"])
        evidence = tuple(_extract_evidence(row.get("evidence")))
        group = str(row.get("group") or (evidence[0] if evidence else row["id"]))
        gold = _GOLD_BY_LABEL[str(row["label"]).lower()]
        asked_at = parse_time(row["asked_at"]) if row.get("asked_at") else None
        return ClaimRow(
            str(row["id"]), row.get("lang") or detect_language(text), text, evidence, gold, group,
            str(row.get("trap") or ""), bool(row.get("disputed")), asked_at,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as exc:
        raise ImportRefused(f"A row of {file} lacks what a claim needs ({exc}): give it id, claim and label.") from exc


def _extract_evidence(given: object) -> Iterator[str]:
    """Extract the evidence: a text, or questions with their answers; ids of a corpus are not evidence by themselves."""
    if isinstance(given, str):
        yield given
    for part in given if isinstance(given, list) else []:
        if isinstance(part, dict) and "q" in part:
            answers = " ".join(str(answer.get("text") or "") for answer in part.get("a") or [])
            yield f"{part['q']}\n{answers}".strip()
