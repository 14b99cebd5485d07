"""Evaluation data: datasets, the variants in which they are asked, their index, and questions made of one's own posts.

A document is `{id, text, title or channel, lang?, date?}`; a question is `{id, text, lang, relevant, answers?,
answerable?, group?, asked_at?, kind?, stale?, typo?}`. The posts of an export are named `msg-<id>`, or
`<folder>/msg-<id>` where the folder holds several exports. A claim comes with its evidence, or is looked up in a
corpus. Files are JSON Lines, also gzipped, and exports.

A row of small talk is `{id, text, lang, kind?, search?}`: without `search` the right reply is a line or two of the
bot's own, with it an answer (`relevant, answers`). A row of follow-ups is `{id, lang, turns, expect, relevant, answers,
answerable?}`: the last turn is judged, and `expect` is the same question asked alone. `corpus` names a folder beside
the file; without it the corpus is the folder of the file.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import zlib
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bot.data_folder import catch_up_vectors, show_progress_bar
from bot.question_generation import GeneratedQuestion, generate_questions
from ingest.exports import import_export
from ingest.indexer import LexicalIndexer
from ingest.json_export import ImportOptions
from rag_core.answer import RECIPES
from rag_core.calibration import Calibration
from rag_core.engine import Engine, open_engine
from rag_core.errors import ImportRefused, ModelUnavailable, translate_errors
from rag_core.models.active_models import get_models_folder, select_embedder, select_model
from rag_core.models.catalog import ModelRole
from rag_core.planning.plan import plan_by_rules
from rag_core.run import Run
from rag_core.settings import DataSettings, RagSettings
from rag_core.storage import channels, posts
from rag_core.text.tokens import detect_language
from rag_core.types import AUTO_RECIPE, HYBRID, Channel, Plan, Post, PostKey, Question, Viewer, Visibility

T = TypeVar("T")

_DEFAULT_DATE = datetime(2000, 1, 1, tzinfo=UTC)  # for documents without a date


class CorpusDocument(NamedTuple):
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
    errors = (OSError, ValueError, TypeError, EOFError, RecursionError, zlib.error)
    refusal = f"{file} cannot be read as JSON Lines ({{}}): check the path and the format."
    with (
        translate_errors(ImportRefused, *errors, say=refusal),
        gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines,
    ):
        for value in map(json.loads, filter(str.strip, lines)):
            if not isinstance(value, dict):
                raise TypeError(f"a row is a {type(value).__name__}, not an object")
            yield value


def _refuse_row(file: Path, what: str, needed: str) -> AbstractContextManager[None]:
    refusal = f"A row of {file} lacks what a {what} needs ({{}}): give it {needed}."
    return translate_errors(ImportRefused, KeyError, TypeError, ValueError, say=refusal)


def _get_text(row: dict[str, Any]) -> str:
    if not isinstance(text := row["text"], str):
        raise TypeError("text is no string")
    return text


def _parse_time(row: dict[str, Any], name: str = "asked_at") -> datetime | None:
    """Parse an ISO 8601 time of a row, where it has one; without an offset it is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(row[name]) if row.get(name) else None
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)


def _parse_strings(value: object) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(map(str, value)) if isinstance(value, list) else ()


def parse_query(row: dict[str, Any], file: Path) -> EvaluationQuery:
    """Parse a row of questions. Raises ImportRefused."""
    with _refuse_row(file, "question", "id and text"):
        return EvaluationQuery(
            str(row["id"]), text := _get_text(row), row.get("lang") or detect_language(text),
            frozenset(_parse_strings(row.get("relevant"))), _parse_strings(row.get("answers")),
            bool(row.get("answerable", True)), str(row.get("group") or row["id"]),
            _parse_time(row), str(row.get("kind") or ""), _parse_strings(row.get("stale")), bool(row.get("typo")),
        )  # fmt: skip


class Dialogue(NamedTuple):
    """Turns of a reader, of which the last is judged; `query` is its gold, with the text of `expect` if given."""

    turns: tuple[str, ...]
    query: EvaluationQuery
    search: bool
    corpus: Path


def read_dialogues(file: Path, without_corpus: Path | None) -> list[Dialogue]:
    """Read the rows of small talk or follow-ups. Raises ImportRefused.

    `without_corpus`: the corpus where neither a row nor the folder of the file has one.
    """
    own = file.parent
    if without_corpus and not any(own.glob("**/result.json")) and not any(own.glob("corpus.jsonl")):
        own = without_corpus
    dialogues = []
    for row in read_json_lines(file):
        turns = tuple(map(str, row.get("turns") or [row.get("text") or ""]))
        query = parse_query({**row, "text": row.get("expect") or turns[-1]}, file)
        corpus = file.parent / str(row["corpus"]) if row.get("corpus") else own
        dialogues.append(Dialogue(turns, query, bool(row.get("search")), corpus))
    return dialogues


def read_questions(file: Path) -> list[Question]:
    """Read the questions of a queries.jsonl, or one for each line, asked now. Raises ImportRefused."""
    refusal = f"{file} cannot be read ({{}}): give queries.jsonl, or a text file with one question on each line."
    wrong = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
    with translate_errors(ImportRefused, *wrong, say=refusal):
        questions = []
        for line in filter(None, map(str.strip, file.read_text(encoding="utf-8").splitlines())):
            row = json.loads(line) if line.startswith("{") else {"text": line}
            text, asked_at = row["text"], _parse_time(row) or datetime.now(UTC)
            questions.append(Question(text, row.get("lang") or detect_language(text), asked_at, Viewer(0, frozenset())))
    if not questions:
        raise ImportRefused(f"{file} holds no question: give queries.jsonl, or one question on each line.")
    return questions


def draw_sample(rows: Sequence[T], limit: int | None, seed: int | None = None) -> tuple[T, ...]:
    """Draw a sample: the first rows up to the limit, or with a seed random rows in their original order."""
    if limit is None or seed is None or limit >= len(rows):
        return tuple(rows[:limit])
    chosen = np.random.default_rng(seed).choice(len(rows), size=limit, replace=False)
    return tuple(rows[n] for n in sorted(chosen))


def read_dataset(
    folder: Path, distractors: Sequence[Path] = (), limit: int | None = None, seed: int | None = None
) -> Dataset:
    """Read a dataset folder. Raises ImportRefused if there are no questions or nothing to index."""
    questions = next((f for name in ("queries.jsonl", "questions.jsonl") if (f := folder / name).exists()), None)
    if questions is None:
        raise ImportRefused(f"{folder} holds no queries.jsonl: name a folder of evaluation data.")
    queries = draw_sample(tuple(parse_query(row, questions) for row in read_json_lines(questions)), limit, seed)
    return replace(read_corpus(folder, distractors), queries=queries)


def read_corpus(folder: Path, distractors: Sequence[Path] = ()) -> Dataset:
    """Read the documents and find the exports of a folder, without questions. Raises ImportRefused."""
    corpora = [f for name in ("corpus.jsonl", "posts.jsonl", "posts.jsonl.gz") if (f := folder / name).exists()]
    exports = sorted(folder.glob("**/result.json"))
    documents = list[CorpusDocument]()
    for file in (*corpora, *distractors):
        for row in read_json_lines(file):
            with _refuse_row(file, "document", "id and text"):
                date = _parse_time(row, "date") or _DEFAULT_DATE
                source = str(row.get("title") or row.get("channel") or "")
                documents.append(CorpusDocument(str(row["id"]), _get_text(row), source, date))
    if not documents and not exports:
        raise ImportRefused(
            f"{folder} holds nothing to index: add corpus.jsonl, posts.jsonl or an export, or --distractors."
        )
    return Dataset(folder.resolve().name, tuple(documents), tuple(exports), ())


# Labels of public datasets; "disputed" has evidence for and against.
_LABELS_BY_GOLD = {
    "supported": ("supports", "supported"),
    "contradicted": ("refutes", "refuted", "contradicted"),
    "not_found": ("not_enough_info", "not enough evidence", "not_enough", "not_supported", "not_found"),
    "disputed": ("disputed", "conflicting evidence/cherrypicking"),
}
_GOLD_BY_LABEL = {label: gold for gold, labels in _LABELS_BY_GOLD.items() for label in labels}


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
    relevant: frozenset[str] = frozenset()
    trap: str = ""
    disputed: bool = False
    asked_at: datetime | None = None


def read_claims(place: Path) -> list[ClaimRow]:
    """Read the claims of a file, or of `claims.jsonl` in a folder. Raises ImportRefused."""
    file = place / "claims.jsonl" if place.is_dir() else place
    claims = []
    for row in read_json_lines(file):
        with _refuse_row(file, "claim", "id, claim and label"):
            text, given = str(row["claim"] if "claim" in row else row["text"]), row.get("evidence")
            evidence = [given] if isinstance(given, str) else []
            for part in given if isinstance(given, list) else []:
                if isinstance(part, dict) and "q" in part:  # a question with its answers; ids of a corpus are none
                    answers = " ".join(str(answer.get("text") or "") for answer in part.get("a") or [])
                    evidence.append(f"{part['q']}\n{answers}".strip())
            claims.append(ClaimRow(
                str(row["id"]), row.get("lang") or detect_language(text), text, tuple(evidence),
                _GOLD_BY_LABEL[str(row["label"]).lower()],
                str(row.get("group") or (evidence[0] if evidence else row["id"])),
                frozenset(_parse_strings(row.get("relevant"))), str(row.get("trap") or ""),
                bool(row.get("disputed")), _parse_time(row),
            ))  # fmt: skip
    if not claims:
        raise ImportRefused(f"{file} holds no claims: name a file of claims in JSON Lines.")
    return claims


@dataclass(frozen=True, slots=True)
class Variant:
    """How questions are asked; None keeps the setting of this installation. `plan` and `rerank` are "on" or "off"."""

    recipe: str = "direct"
    plan: str = "on"
    legs: str | None = None
    rerank: str | None = None
    rounds: int = 1

    def over(self, rag: Engine) -> Engine:
        """Apply the variant to an engine. Raises ModelUnavailable if a model it needs is not open."""
        if self.legs in {"dense", "hybrid"}:
            _require_model(rag.dense, "embedding model")
        if self.rerank == "on":
            _require_model(rag.reranker, "reranker")

        def plan(question: Question, known: Mapping[int, Channel]) -> Plan:
            planned = plan_by_rules(question, known) if self.plan == "on" else Plan((question.text,))
            # Dense search alone: further queries search for words.
            return replace(planned, queries=planned.queries[:1], legs=HYBRID) if self.legs == "dense" else planned

        return replace(
            rag,
            rounds=self.rounds,
            dense_weight=1.0 if self.legs == "dense" else None,
            dense=None if self.legs == "lexical" else rag.dense,
            reranker=None if self.rerank == "off" else rag.reranker,
            plan=plan,
            expands_plan=self.plan == "on",
            recipe=self.recipe,
            planner=rag.planner if self.plan == "on" and self.legs != "dense" else None,
        )


# What a name of `--compare` changes in a variant.
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"recipe": name} for name in (*RECIPES, AUTO_RECIPE)},
    **{f"plan-{value}": {"plan": value} for value in ("on", "off")},
    **{name: {"legs": name} for name in ("lexical", "dense", "hybrid")},
    **{f"rerank-{value}": {"rerank": value} for value in ("on", "off")},
    **{f"rounds-{number}": {"rounds": number} for number in (1, 2)},
}


def build_variant_settings(settings: RagSettings, ways: Collection[Variant]) -> RagSettings:
    """Build settings that open only what these variants need. Raises ModelUnavailable if a model is missing."""
    models: dict[str, str] = {}
    if all(way.legs == "lexical" for way in ways):
        models["embedder"] = "none"
    elif any(way.legs in {"dense", "hybrid"} for way in ways):
        _require_model(select_embedder(settings), "embedding model")
    if all(way.rerank == "off" for way in ways):
        models["reranker"] = "none"
    elif any(way.rerank == "on" for way in ways):
        folder = get_models_folder(settings)
        _require_model(select_model(ModelRole.RERANKER, settings.models.reranker, folder), "reranker")
    return settings.model_copy(update={"models": settings.models.model_copy(update=models)})


def _require_model(row: object, what: str) -> None:
    if row is None:
        raise ModelUnavailable(f"There is no {what} here: run citegram models pull offline first.")


class IndexedDataset:
    """An indexed dataset, ready for questions. `run` is the trace of the latest answer."""

    def __init__(self, rag: Engine, dataset: Dataset, viewer: Viewer) -> None:
        self.run: Run | None = None
        self.rag = replace(rag, traced=partial(setattr, self, "run"))
        self.dataset, self.viewer = dataset, viewer

    def id_of(self, key: PostKey) -> str:
        """Map a post to its id in the dataset."""
        return self.dataset.ids.get(key, "")

    def select_variant(self, way: Variant) -> IndexedDataset:
        """Return the same archive and indexes with this variant applied."""
        return IndexedDataset(way.over(self.rag), self.dataset, self.viewer)


@asynccontextmanager
async def open_indexed_dataset(dataset: Dataset, settings: RagSettings) -> AsyncIterator[IndexedDataset]:
    """Index a dataset in a temporary folder, with the settings and the calibration of this installation."""
    with tempfile.TemporaryDirectory(prefix="citegram-eval-") as folder:
        models = settings.models.model_copy(update={"dir": get_models_folder(settings)})
        inside = settings.model_copy(update={"data": DataSettings(dir=Path(folder)), "models": models})
        async with open_engine(inside) as opened:
            rag = replace(opened, calibration=Calibration.load(settings))
            for channel, documents in dataset.posts():
                await channels.save_channel(rag.archive, channel)
                await posts.save_posts(rag.archive, documents, source="import")
            for export in dataset.exports:
                report = await import_export(rag.archive, export, ImportOptions(visibility=Visibility.PUBLIC))
                prefix = f"{export.parent.name}/" if len(dataset.exports) > 1 else ""
                for channel in report.channels:
                    for number in await posts.list_message_ids(rag.archive, channel.chat_id):
                        dataset.ids[PostKey(channel.chat_id, number)] = f"{prefix}msg-{number}"
            total = await posts.get_last_seq(rag.archive)
            with show_progress_bar("index") as moved:
                await LexicalIndexer(rag.archive, rag.lexical).catch_up(lambda done: moved(done, total))
            await catch_up_vectors(rag)
            yield IndexedDataset(rag, dataset, Viewer(0, frozenset(await channels.load_channels(rag.archive))))


@asynccontextmanager
async def open_variant(dataset: Dataset, settings: RagSettings, way: Variant) -> AsyncIterator[IndexedDataset]:
    """Index a dataset for one variant, and apply it. Raises ModelUnavailable."""
    async with open_indexed_dataset(dataset, build_variant_settings(settings, [way])) as opened:
        yield opened.select_variant(way)


_HELD_BACK_EVERY = 5  # of the questions one has no answer: its posts are left out of the corpus
# Kinds as in other question sets.
_KINDS = {"price": "price", "until": "when", "hour": "when", "when": "when", "count": "how"}

_Row = dict[str, object]
_Series = list[tuple[Post, GeneratedQuestion]]  # posts that answer the same question, newest first


def make_questions(
    posts: Sequence[Post], known: Mapping[int, Channel], most: int, seed: int
) -> tuple[list[_Row], list[_Row]]:
    """Make rows of queries.jsonl and of corpus.jsonl: at most `most` questions for values, drawn with `seed`."""
    series: dict[tuple[object, ...], _Series] = {}
    for post in sorted(posts, key=lambda one: one.stamp, reverse=True):
        for question in generate_questions(post.text):
            series.setdefault((post.key.chat_id, *question.topic), []).append((post, question))
    newest = [{asked.answer for post, asked in one if post.key == one[0][0].key} for one in series.values()]
    clear = [one for one, answers in zip(series.values(), newest, strict=True) if len(answers) == 1]
    draw = np.random.default_rng(seed)
    drawn = [clear[n] for n in draw.permutation(len(clear))]
    held_back = {post.key for one in drawn[_HELD_BACK_EVERY - 1 : most : _HELD_BACK_EVERY] for post, _ in one}
    queries: list[_Row] = []
    for n, one in enumerate(drawn):
        answerable = n >= most or n % _HELD_BACK_EVERY < _HELD_BACK_EVERY - 1
        # a post that is held back answers no other question either
        if len(queries) < most and not (answerable and any(post.key in held_back for post, _ in one)):
            queries.append(_build_query_row(one, answerable=answerable))
    corpus: list[_Row] = [
        {
            "id": _format_post_id(post.key),
            "text": post.text,
            "title": known[post.key.chat_id].title if post.key.chat_id in known else "",
            "date": post.date.isoformat(),
        }
        for post in posts
        if post.key not in held_back
    ]
    return queries, corpus


def _build_query_row(series: _Series, *, answerable: bool) -> _Row:
    post, question = series[0]
    row: _Row = {
        "id": f"q{_format_post_id(post.key)}-{question.kind}",
        "text": question.text,
        "lang": question.lang,
        "kind": _KINDS[question.kind],
        "answerable": answerable,
        "group": _format_post_id(post.key),
    }
    if not answerable:
        return {**row, "relevant": [], "answers": []}
    relevant = dict.fromkeys(_format_post_id(one.key) for one, other in series if other.answer == question.answer)
    stale = dict.fromkeys(other.answer for _, other in series if other.answer != question.answer)
    return {**row, "relevant": list(relevant), "answers": [question.answer], "stale": list(stale)}


def _format_post_id(key: PostKey) -> str:
    return f"{key.chat_id}-{key.message_id}"
