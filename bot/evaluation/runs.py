"""Evaluation runs: ask every question of a dataset, score the results, fit the answer threshold."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol, TypeVar

import numpy as np
from tqdm import tqdm

from bot.evaluation.datasets import EvaluationQuery
from bot.evaluation.index import IndexedDataset
from bot.evaluation.scoring import JudgedAnswer, Metrics, RankedQuery, judge_answer, measure_answer_cost
from rag_core.answer import answer_question
from rag_core.context.calibration import Calibration
from rag_core.retrieval.rerank import rerank_hits
from rag_core.retrieval.search import search_passages
from rag_core.steps import make_plan
from rag_core.tracing import Run, Stage
from rag_core.types import Question

_FOLD_COUNT = 5
MAX_SURE_WRONG = 0.08  # share of the sure answers


class HasLanguage(Protocol):
    """Protocol of rows with a language."""

    @property
    def lang(self) -> str:
        """Language code, such as "ru"."""


R = TypeVar("R")
L = TypeVar("L", bound=HasLanguage)


def _build_question(query: EvaluationQuery, data: IndexedDataset) -> Question:
    return Question(query.text, query.lang, query.asked_at or datetime.now(UTC), data.viewer)


async def search_query(query: EvaluationQuery, data: IndexedDataset) -> RankedQuery:
    """Run plan, search and reranker for one question, and judge the ranking that the writer would get."""
    question, rag = _build_question(query, data), data.rag
    started = time.perf_counter()
    run = Run(rag.settings.budgets, "search")
    plan = await run.require(Stage.PLAN, make_plan(question, rag, run))
    hits = await search_passages(plan, question, rag, run)
    hits = await run.attempt(Stage.RERANK, rerank_hits(question, hits, rag, run), hits)
    took = (time.perf_counter() - started) * 1000
    ids = dict.fromkeys(data.id_of(hit.passage.key) for hit in hits)
    return RankedQuery(query.lang, tuple(name in query.relevant for name in ids), len(query.relevant), took)


async def answer_query(query: EvaluationQuery, data: IndexedDataset) -> JudgedAnswer:
    """Answer one question with `answer_question`, and judge the answer."""
    started, (hits, looks) = time.perf_counter(), data.rag.caches.counts
    reply = await answer_question(_build_question(query, data), data.rag)
    took, (hits_after, looks_after) = (time.perf_counter() - started) * 1000, data.rag.caches.counts
    row = judge_answer(query, reply, [data.id_of(key) for key in reply.posts()], took)
    return replace(
        row,
        cached=(hits_after - hits, looks_after - looks),
        cost=measure_answer_cost(data.run, by_model=reply.model is not None),
    )


async def run_interleaved(
    queries: Sequence[EvaluationQuery],
    ask: Callable[[EvaluationQuery, IndexedDataset], Awaitable[R]],
    ways: Mapping[str, IndexedDataset],
) -> dict[str, list[R]]:
    """Ask every question in each variant, interleaved; each variant comes first equally often.

    Other load on the machine, and caches warmed by the previous variant, then affect all alike.
    """
    names, rows = list(ways), {name: list[R]() for name in ways}
    for n, query in enumerate(tqdm(queries, desc="ask", delay=1, leave=False, disable=None)):
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


@dataclass(frozen=True, slots=True)
class FittedCalibration:
    """Fitted thresholds, and their effect on held-out questions (5-fold over groups; 95 % interval).

    `abstained` and `refused`: shares of the answerable and the unanswerable below `bar`; `wrong`: of those from `sure`.
    """

    calibration: Calibration
    abstained: tuple[float, float, float]
    refused: tuple[float, float, float]
    wrong: tuple[float, float, float]


def fit_calibration(rows: Sequence[JudgedAnswer], target: float, data: str) -> FittedCalibration:
    """Fit the thresholds of probable and of sure answers.

    `bar`: the greatest that refuses at most `target` of the answerable questions of each language; `sure`: the lowest
    from which at most MAX_SURE_WRONG of the answers are wrong.

    Source of the quantile with its finite-sample correction: Vovk et al., "Algorithmic Learning in a Random World"
    (2005), split conformal prediction. The rows must have been measured with a threshold of 0.
    """
    groups = sorted({row.group for row in rows})
    fold = {group: n % _FOLD_COUNT for n, group in enumerate(groups)}
    abstained, refused, wrong = [], [], []
    for n in range(_FOLD_COUNT):
        train = [row for row in rows if fold[row.group] != n]
        bar, sure = _compute_bar(train, target), _compute_sure_bar(train)
        test = [row for row in rows if fold[row.group] == n]
        abstained += [row.confidence < bar for row in test if row.answerable]
        refused += [row.confidence < bar for row in test if not row.answerable]
        wrong += [not row.shown_right for row in test if row.confidence >= max(bar, sure)]
    bar = round(_compute_bar(rows, target), 4)
    calibration = Calibration(bar, max(bar, _compute_sure_bar(rows)), data, f"{datetime.now(UTC):%Y-%m-%d}")
    return FittedCalibration(calibration, *map(_compute_wilson_interval, (abstained, refused, wrong)))


def _compute_bar(rows: Sequence[JudgedAnswer], target: float) -> float:
    bars = []
    for lang in {row.lang for row in rows if row.answerable}:
        scores = sorted(row.confidence for row in rows if row.answerable and row.lang == lang)
        bars.append(scores[max(0, int(target * (len(scores) + 1)) - 1)])
    return min(bars, default=0.0)


def _compute_sure_bar(rows: Sequence[JudgedAnswer]) -> float:
    """Compute the lowest confidence from which at most MAX_SURE_WRONG of the answers are wrong; 1 if there is none."""
    best, wrong = 1.0, 0
    for n, row in enumerate(sorted(rows, key=lambda row: -row.confidence), 1):
        wrong += not row.shown_right
        if wrong <= MAX_SURE_WRONG * n:
            best = round(row.confidence, 4)
    return best


def _compute_wilson_interval(flags: Sequence[bool]) -> tuple[float, float, float]:
    """Compute a share with its 95 % interval (Wilson 1927)."""
    n, z = len(flags), 1.96
    if not n:
        return (0.0, 0.0, 1.0)
    share = float(np.mean(flags))
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)))
    return (round(share, 4), round(middle - half, 4), round(middle + half, 4))
