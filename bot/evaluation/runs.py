"""The evaluations: ask every question of a dataset, judge what comes back, fit the bar."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol, TypeVar

import numpy as np
from tqdm import tqdm

from bot.evaluation.datasets import Query
from bot.evaluation.index import Indexed
from bot.evaluation.scoring import Judged, Metrics, Ranked, cost_of, judged
from rag_core.answering import answer
from rag_core.calibration import Calibration
from rag_core.planned import planned
from rag_core.rerank import rerank
from rag_core.search import search
from rag_core.stage import Run
from rag_core.types import Question

__all__ = ["Fitted", "answered", "ask_all", "by_language", "fit", "in_turn", "search_all", "searched"]

_FOLDS = 5


class InLanguage(Protocol):
    """A row that says in which language it was."""

    @property
    def lang(self) -> str:
        """Its code, such as "ru"."""


R = TypeVar("R")
L = TypeVar("L", bound=InLanguage)


def _question(query: Query, data: Indexed) -> Question:
    return Question(query.text, query.lang, query.asked_at or datetime.now(UTC), data.viewer)


async def searched(query: Query, data: Indexed) -> Ranked:
    """One question through plan, search and reranker: what the writer would get to read, best first."""
    question, rag = _question(query, data), data.rag
    started = time.perf_counter()
    run = Run(rag.settings.budgets, "search")
    plan = await run.require("plan", planned(question, rag, run))
    hits = await search(plan, question, rag, run)
    hits = await run.attempt("rerank", rerank(question, hits, rag, run), hits)
    took = (time.perf_counter() - started) * 1000
    found = dict.fromkeys(data.id_of(hit.passage.key) for hit in hits)
    return Ranked(query.lang, tuple(name in query.relevant for name in found), len(query.relevant), took)


async def answered(query: Query, data: Indexed) -> Judged:
    """One question through the whole `answer`."""
    started, (hits, looks) = time.perf_counter(), data.rag.caches.counts
    reply = await answer(_question(query, data), data.rag)
    took, (known, asked) = (time.perf_counter() - started) * 1000, data.rag.caches.counts
    row = judged(query, reply, [data.id_of(key) for key in reply.posts()], took)
    return replace(row, cached=(known - hits, asked - looks), cost=cost_of(data.run, by_model=reply.model is not None))


async def in_turn(
    queries: Sequence[Query], ask: Callable[[Query, Indexed], Awaitable[R]], ways: Mapping[str, Indexed]
) -> dict[str, list[R]]:
    """Every question in each of the ways, turn and turn about, each way first as often as the others.

    What else the machine does, and what the way before has warmed, is then the same for all.
    """
    names, rows = list(ways), {name: list[R]() for name in ways}
    for n, query in enumerate(tqdm(queries, desc="ask", delay=1, leave=False)):
        first = n % len(names)
        for name in (*names[first:], *names[:first]):
            rows[name].append(await ask(query, ways[name]))
    return rows


async def search_all(data: Indexed) -> list[Ranked]:
    """Every answerable question through the search."""
    return (await in_turn([q for q in data.dataset.queries if q.relevant], searched, {"": data}))[""]


async def ask_all(data: Indexed) -> list[Judged]:
    """Every question through the whole `answer`."""
    return (await in_turn(data.dataset.queries, answered, {"": data}))[""]


def by_language(rows: Sequence[L], metrics: Callable[[Sequence[L]], Metrics]) -> dict[str, Metrics]:
    """The same figures for all questions and for those of each language."""
    langs = sorted({row.lang for row in rows})
    return {"all": metrics(rows)} | {lang: metrics([r for r in rows if r.lang == lang]) for lang in langs}


@dataclass(frozen=True, slots=True)
class Fitted:
    """A bar, and what it does to questions it was not fitted on (5-fold over groups; 95 % interval)."""

    calibration: Calibration
    abstained: tuple[float, float, float]
    refused: tuple[float, float, float]


def fit(rows: Sequence[Judged], target: float, data: str) -> Fitted:
    """The greatest bar that refuses at most `target` of the answerable questions of each language.

    Source of the quantile with its finite-sample correction: Vovk et al., "Algorithmic Learning in a
    Random World" (2005), split conformal prediction. The rows must have been asked with the bar at 0.
    """
    groups = sorted({row.group for row in rows})
    fold = {group: n % _FOLDS for n, group in enumerate(groups)}
    kept, gone = [], []
    for n in range(_FOLDS):
        bar = _bar([row for row in rows if fold[row.group] != n], target)
        test = [row for row in rows if fold[row.group] == n]
        kept += [row.confidence < bar for row in test if row.answerable]
        gone += [row.confidence < bar for row in test if not row.answerable]
    calibration = Calibration(round(_bar(rows, target), 4), data, f"{datetime.now(UTC):%Y-%m-%d}")
    return Fitted(calibration, _interval(kept), _interval(gone))


def _bar(rows: Sequence[Judged], target: float) -> float:
    bars = []
    for lang in {row.lang for row in rows if row.answerable}:
        scores = sorted(row.confidence for row in rows if row.answerable and row.lang == lang)
        bars.append(scores[max(0, int(target * (len(scores) + 1)) - 1)])
    return min(bars, default=0.0)


def _interval(flags: Sequence[bool]) -> tuple[float, float, float]:
    """A share with its 95 % interval (Wilson 1927)."""
    n, z = len(flags), 1.96
    if not n:
        return (0.0, 0.0, 1.0)
    share = float(np.mean(flags))
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)))
    return (round(share, 4), round(middle - half, 4), round(middle + half, 4))
