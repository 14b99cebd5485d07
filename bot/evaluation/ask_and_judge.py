"""Asking and judging: each question of an indexed dataset is answered or searched, and the result judged.

Questions are asked alone, or in several variants side by side.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from bot.cli.progress_bar import iterate_with_progress_bar
from bot.evaluation.answer_metrics import JudgedAnswer, RankedQuery, judge_answer, measure_answer_cost
from bot.evaluation.datasets import EvaluationQuery
from bot.evaluation.indexed_dataset import IndexedDataset
from bot.evaluation.recorded_replies import make_key
from rag_core.answer import answer_question
from rag_core.engine import Engine
from rag_core.errors import StageTimeout
from rag_core.planning.plan import make_plan
from rag_core.recipe_choice import choose_recipe
from rag_core.recipes.iterative_search import search_in_rounds
from rag_core.retrieval.rerank import rerank_hits
from rag_core.retrieval.search import search_passages
from rag_core.stage_runner import Run
from rag_core.stages import Stage
from rag_core.storage.visible_posts import fetch_posts
from rag_core.text.language_detection import detect_language
from rag_core.types import AUTO_RECIPE, Answer, Question, Shortfall

R = TypeVar("R")
W = TypeVar("W")  # what a variant is asked by


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
    try:
        plan = await run.require(Stage.PLAN, make_plan(question, rag, run))
        if (await choose_recipe(question, rag)).recipe == "agent":
            hits = await search_in_rounds(question, plan, rag, run)
        else:
            hits = await search_passages(plan, question, rag, run)
        hits = await run.attempt(Stage.RERANK, rerank_hits(question, hits, rag, run), hits)
    except StageTimeout:
        hits = ()
    took = (time.perf_counter() - started) * 1000
    ids = dict.fromkeys(data.id_of(hit.passage.key) for hit in hits)
    relevant = await fetch_posts(rag.archive, [key for key, name in data.dataset.ids.items() if name in query.relevant])
    across = query.lang not in {detect_language(post.text) for post in relevant.values()}
    return RankedQuery(query.lang, tuple(name in query.relevant for name in ids), len(query.relevant), took, across)


async def answer_or_refuse(question: Question, rag: Engine) -> Answer:
    """Answer a question; where a stage that it needs ran out of time, an empty answer, which counts as a refusal."""
    try:
        return await answer_question(question, rag)
    except StageTimeout as exc:
        return Answer((), 0.0, AUTO_RECIPE, shortfalls=(Shortfall(Stage.SEARCH, exc.reason),))


async def answer_query(query: EvaluationQuery, data: IndexedDataset) -> JudgedAnswer:
    """Answer one question with `answer_question`, and judge the answer."""
    started, (hits, looks) = time.perf_counter(), data.rag.caches.counts
    reply = await answer_or_refuse(build_question(query, data), data.rag)
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
