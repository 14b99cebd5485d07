"""Evaluation index: index a dataset in a temporary folder, with a real archive and real indexes, as the bot does.

Its questions are asked and judged alone, or in several variants side by side.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar

from bot.cli.index_commands import catch_up_vectors, iterate_with_progress_bar, show_progress_bar
from bot.evaluation.answer_metrics import JudgedAnswer, Metrics, RankedQuery, judge_answer, measure_answer_cost
from bot.evaluation.datasets import Dataset, EvaluationQuery
from bot.evaluation.evaluation_variants import Variant
from bot.evaluation.recorded_replies import Recording, make_key
from ingest.exports.export_checks import ImportOptions
from ingest.exports.telegram_desktop import import_export
from ingest.indexer import LexicalIndexer
from rag_core.answer import answer_question
from rag_core.calibration import Calibration
from rag_core.engine import Engine
from rag_core.engine_factory import open_engine
from rag_core.models.active_models import get_models_folder
from rag_core.recipe_choice import choose_recipe
from rag_core.recipe_steps import make_plan
from rag_core.recipes.iterative_search import search_in_rounds
from rag_core.retrieval.rerank import rerank_hits
from rag_core.retrieval.search import search_passages
from rag_core.settings import DataSettings, RagSettings
from rag_core.storage import channels, posts
from rag_core.storage.user_data import AUTO_RECIPE
from rag_core.tracing import Run, Stage
from rag_core.types import PostKey, Question, Viewer, Visibility


class IndexedDataset:
    """An indexed dataset, ready for questions. `run` is the trace of the latest answer."""

    def __init__(
        self, rag: Engine, dataset: Dataset, viewer: Viewer, recording: Recording | None = None, name: str = ""
    ) -> None:
        """`name`: of the variant, in the recording."""
        self.run: Run | None = None
        self.rag = replace(rag, traced=self._record_run)
        self.dataset, self.viewer, self.recording, self.name = dataset, viewer, recording, name

    def id_of(self, key: PostKey) -> str:
        """Map a post to its id in the dataset."""
        return self.dataset.ids.get(key, "")

    def _record_run(self, run: Run) -> None:
        self.run = run

    def select_variant(self, way: Variant) -> IndexedDataset:
        """Return the same archive and indexes with this variant applied."""
        return IndexedDataset(way.over(self.rag), self.dataset, self.viewer, self.recording, f"{way}")


@asynccontextmanager
async def open_indexed_dataset(
    dataset: Dataset, settings: RagSettings, recording: Recording | None = None
) -> AsyncIterator[IndexedDataset]:
    """Index a dataset in a temporary folder, with the settings and the calibration of this installation.

    With a recording its models are recorded or, where it is replayed, none are opened.
    """
    with tempfile.TemporaryDirectory(prefix="citegram-eval-") as folder:
        models = settings.models.model_copy(update={"dir": get_models_folder(settings)})
        inside = settings.model_copy(update={"data": DataSettings(dir=Path(folder)), "models": models})
        async with open_engine(inside, language=not (recording and recording.replaying)) as opened:
            rag = replace(opened, calibration=Calibration.load(settings))
            rag = recording.wrap(rag) if recording else rag
            for channel, documents in dataset.posts():
                await channels.save_channel(rag.archive, channel)
                await posts.save_posts(rag.archive, documents, source="import")
            for export in dataset.exports:
                options = ImportOptions(visibility=Visibility.PUBLIC)
                report = await import_export(rag.archive, export, options)
                prefix = f"{export.parent.name}/" if len(dataset.exports) > 1 else ""
                for channel in report.channels:
                    for number in await posts.list_message_ids(rag.archive, channel.chat_id):
                        dataset.ids[PostKey(channel.chat_id, number)] = f"{prefix}msg-{number}"
            total = await posts.get_last_seq(rag.archive)
            with show_progress_bar("index") as moved:
                await LexicalIndexer(rag.archive, rag.lexical).catch_up(lambda done: moved(done, total))
            await catch_up_vectors(rag)
            viewer = Viewer(0, frozenset(await channels.load_channels(rag.archive)))
            yield IndexedDataset(rag, dataset, viewer, recording)


class HasLanguage(Protocol):
    """Protocol of rows with a language."""

    @property
    def lang(self) -> str:
        """Language code, such as "ru"."""


R = TypeVar("R")
W = TypeVar("W")  # what a variant is asked by
L = TypeVar("L", bound=HasLanguage)


def build_question(query: EvaluationQuery, data: IndexedDataset) -> Question:
    """Build the question of a reader who may read all channels, asked when the row says."""
    now = data.recording.now if data.recording else datetime.now(UTC)
    return Question(query.text, query.lang, query.asked_at or now, data.viewer)


async def search_query(query: EvaluationQuery, data: IndexedDataset) -> RankedQuery:
    """Run plan, search and reranker for one question, and judge the ranking that the writer would get.

    With the recipe `agent` that is the evidence after all of its rounds.
    """
    question, rag = build_question(query, data), data.rag
    started = time.perf_counter()
    run = Run(rag.settings.budgets, "search")
    plan = await run.require(Stage.PLAN, make_plan(question, rag, run))
    if (await choose_recipe(question, rag)).recipe == "agent":
        hits = await search_in_rounds(question, plan, rag, run)
    else:
        hits = await search_passages(plan, question, rag, run)
    hits = await run.attempt(Stage.RERANK, rerank_hits(question, hits, rag, run), hits)
    took = (time.perf_counter() - started) * 1000
    ids = dict.fromkeys(data.id_of(hit.passage.key) for hit in hits)
    return RankedQuery(query.lang, tuple(name in query.relevant for name in ids), len(query.relevant), took)


async def answer_query(query: EvaluationQuery, data: IndexedDataset) -> JudgedAnswer:
    """Answer one question with `answer_question`, and judge the answer."""
    started, (hits, looks) = time.perf_counter(), data.rag.caches.counts
    reply = await answer_question(build_question(query, data), data.rag)
    took, (hits_after, looks_after) = (time.perf_counter() - started) * 1000, data.rag.caches.counts
    row = judge_answer(query, reply, [data.id_of(key) for key in reply.posts()], took)
    row = replace(
        row,
        cached=(hits_after - hits, looks_after - looks),
        cost=measure_answer_cost(data.run, by_model=reply.model is not None),
        fell_back=data.rag.recipe not in {reply.recipe, AUTO_RECIPE},
    )
    return data.recording.keep_cost(row, make_key(data.name, query.id, query.text)) if data.recording else row


async def run_interleaved(
    queries: Sequence[EvaluationQuery], ask: Callable[[EvaluationQuery, W], Awaitable[R]], ways: Mapping[str, W]
) -> dict[str, list[R]]:
    """Ask every question in each variant, interleaved; each variant comes first equally often.

    Other load on the machine, and caches warmed by the previous variant, then affect all alike.
    """
    names, rows = list(ways), {name: list[R]() for name in ways}
    for n, query in enumerate(iterate_with_progress_bar(queries, "ask")):
        first = n % len(names)
        for name in (*names[first:], *names[:first]):
            rows[name].append(await ask(query, ways[name]))
    return rows


async def ask_all(data: IndexedDataset) -> list[JudgedAnswer]:
    """Answer every question."""
    return (await run_interleaved(data.dataset.queries, answer_query, {"": data}))[""]


def compute_by_language(rows: Sequence[L], metrics: Callable[[Sequence[L]], Metrics]) -> dict[str, Metrics]:
    """Compute the metrics for all questions and for those of each language."""
    langs = sorted({row.lang for row in rows})
    return {"all": metrics(rows)} | {lang: metrics([r for r in rows if r.lang == lang]) for lang in langs}
