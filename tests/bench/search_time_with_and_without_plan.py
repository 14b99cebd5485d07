"""Search time with and without a plan: the same questions searched with their plan and with the question alone.

    python tests/bench/search_time_with_and_without_plan.py --posts 100000 [--models DIR] [--questions N]
                                        [--at-once]

Measured are the plan by rules and the search with its fusion, up to the hits, with empty caches: the best of three
rounds, turn and turn about. With --at-once whole answers are timed: all questions come at the same moment and are
answered two at a time, as the bot does. With --models there is an invented vector for each post as well (to embed
100,000 posts would take an hour); the questions' are the model's own.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy, as rag_core does in the bot

import numpy as np
from bench import end_to_end_engine

from ingest.indexer import DenseIndexer
from rag_core import RagSettings, open_engine
from rag_core.answer import answer_question
from rag_core.planning.plan import build_bare_plan, plan_by_rules
from rag_core.retrieval.search import search_passages
from rag_core.run import Run
from rag_core.storage import channels
from rag_core.types import Question, Viewer

_ROUNDS = 3
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


class RandomEmbedder:
    """Vectors of no meaning under the name of a model."""

    def __init__(self, name, dimension):
        self.name = name
        self._dimension, self._rng = dimension, np.random.default_rng(1)

    async def passages(self, texts):
        return self._rng.normal(size=(len(texts), self._dimension)).astype(np.float32)


def asked(text, number):
    """A generated question as people ask: alone, with names, with two clauses, or with quotes and a year, in turn."""
    *start, first, second, last = text.removesuffix("?").split()
    if number % 4 == 1:
        return " ".join((*start, first.title(), second.title(), last)) + "?"
    if number % 4 == 2:
        return " ".join((*start, first)) + (", and where is " if text.isascii() else " и где ") + f"{second} {last}?"
    if number % 4 == 3:
        return " ".join((*start, f"«{first} {second}»", last, "2025")) + "?"
    return text


async def _took(question, plan, rag):
    fresh, run = replace(rag), Run(rag.budgets, "bench")
    started = time.perf_counter()
    await search_passages(plan(question), question, fresh, run)
    took = (time.perf_counter() - started) * 1000
    assert not run.shortfalls, run.shortfalls
    return took


_AT_A_TIME, _TICK_S, _THREAD_SWITCH_S = 2, 0.005, 0.0005  # questions; of the clock; as `citegram run` sets it


async def _time_answers_at_once(questions, rag):
    """Seconds of all answers together, and milliseconds by which the event loop comes late to a clock beside them."""
    for question in questions[:5]:
        await answer_question(question, replace(rag, recipe="direct"))
    turn, late = asyncio.Semaphore(_AT_A_TIME), []

    async def answer(question):
        async with turn:
            await answer_question(question, replace(rag, recipe="direct"))

    async def tick():
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(_TICK_S)
            late.append((time.perf_counter() - begun - _TICK_S) * 1000)

    clock = asyncio.create_task(tick())
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*map(answer, questions))
    took, spent = time.perf_counter() - started, time.process_time() - cpu
    clock.cancel()
    return {
        "all_s": took,
        "answers_per_s": len(questions) / took,
        "answer_cpu_ms": spent * 1000 / len(questions),
        "loop_late_p99_ms": float(np.percentile(late, 99)),
    }


async def measured(folder, models, at_once):
    told = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    chosen = {"dir": models, "reranker": "none"} if models else {"embedder": "none", "reranker": "none"}
    async with open_engine(RagSettings.model_validate({"data": {"dir": folder}, "models": chosen})) as rag:
        if rag.dense:
            inventing = RandomEmbedder(rag.dense.embedder.name, rag.dense.embedder.dimension)
            await DenseIndexer(rag.archive, rag.dense.vectors, inventing).catch_up()
        known = await channels.load_channels(rag.archive)
        viewer = Viewer(1, frozenset(known))
        questions = [
            Question(asked(q["text"], n), "en" if q["text"].isascii() else "ru", _NOW, viewer)
            for n, q in enumerate(told)
        ]
        return await (_time_answers_at_once(questions, rag) if at_once else _compare(questions, known, rag))


async def _compare(questions, known, rag):
    """Milliseconds of the questions alone and with their plans, each the best of the rounds."""

    def planned(question):
        return plan_by_rules(question, known)

    for question in questions[:5]:  # what is made at the first use
        await _took(question, planned, rag)
    alone, plans = [np.inf] * len(questions), [np.inf] * len(questions)
    for turn in range(_ROUNDS):
        for n, question in enumerate(questions):
            ways = [(build_bare_plan, alone), (planned, plans)]
            for plan, best in ways if (n + turn) % 2 else reversed(ways):
                best[n] = min(best[n], await _took(question, plan, rag))
    row = {"queries": float(np.mean([len(planned(question).queries) for question in questions]))}
    for share in (50, 95):
        one, other = float(np.percentile(alone, share)), float(np.percentile(plans, share))
        row |= {f"alone_p{share}_ms": one, f"planned_p{share}_ms": other, f"ratio_p{share}": other / one}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--posts", type=int, default=2000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--models", type=Path, help="folder with the offline embedder: vectors too")
    parser.add_argument("--at-once", action="store_true", help="time whole answers, all at once")
    args = parser.parse_args()
    sys.setswitchinterval(_THREAD_SWITCH_S)
    with tempfile.TemporaryDirectory() as folder:
        end_to_end_engine.fill(args.posts, Path(folder), min(args.questions, args.posts // 5))
        row = asyncio.run(measured(Path(folder), args.models, args.at_once))
    for name, value in row.items():
        print(f"{name:16} {value:10,.2f}")


if __name__ == "__main__":
    main()
