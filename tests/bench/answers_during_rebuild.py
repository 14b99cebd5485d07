"""A rebuild of the indexes while questions are answered: how long answers take before it and during it.

    python tests/bench/answers_during_rebuild.py --posts 100000 [--models DIR] [--rounds 1] [--kill]

In one process, as the bot does it: the real rebuild with its child, the indexers that follow the archive, posts
that arrive, and questions at a steady rate whether the last ones are answered or not. With --models there is a
vector for each post as well. They are invented (to embed 100,000 posts would take an hour, and a rebuild asks only
what text a vector is of); questions and new posts are embedded by the real model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from bench import end_to_end_engine, synthetic_posts

from bot.indexing import IndexingWorker, RebuildRunner
from ingest.indexer import DenseIndexer, LexicalIndexer
from rag_core import RagSettings, open_engine
from rag_core.answer import answer_question
from rag_core.storage import channels, index_state, posts
from rag_core.types import Post, PostKey, Question, Viewer

_QUESTIONS = 400
_POST_EVERY_S = 1.0
_NEW = 10**9  # message ids of posts that arrive meanwhile

_ARRIVED = "zeppelins"  # no word of the corpus

Measured = dict[str, float]


class QuestionLoad:
    """Questions at a steady rate, and how long each took from the moment it was due, in milliseconds."""

    def __init__(self, rag: Any, questions: list[str], viewer: Viewer, every: float) -> None:
        self._rag, self._questions, self._viewer, self._every = rag, questions, viewer, every
        self._asked = 0
        self.took: list[float] = []
        self.failed: list[str] = []

    async def during(self, work: Any) -> None:
        """Ask until the work is done, and wait for the last answers."""
        running, asked = asyncio.ensure_future(work), list[asyncio.Task[None]]()
        due = time.perf_counter()
        while not running.done():
            asked.append(asyncio.create_task(self._one(due)))
            due += self._every
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await asyncio.gather(*asked)
        await running

    async def _one(self, due: float) -> None:
        text = self._questions[self._asked % len(self._questions)]
        self._asked += 1
        question = Question(text, "en" if text.isascii() else "ru", datetime(2026, 1, 1, tzinfo=UTC), self._viewer)
        try:
            told = await answer_question(question, self._rag)
            missing = {s.stage for s in told.shortfalls} - {s.stage for s in self._rag.without} - {"search"}
            if missing:
                self.failed.append(f"{text}: without {missing}")
        except Exception as exc:  # whatever it is, it is counted
            self.failed.append(f"{text}: {exc!r}")
        self.took.append((time.perf_counter() - due) * 1000)


class RandomEmbedder:
    """Vectors of no meaning under the name of a model."""

    def __init__(self, name: str, dimension: int) -> None:
        self.name = name
        self._dimension, self._rng = dimension, np.random.default_rng(1)

    async def passages(self, texts: Sequence[str]) -> Any:
        """A row for each."""
        return self._rng.normal(size=(len(texts), self._dimension)).astype(np.float32)


class Counted:
    """The real embedder, and how many texts it was given that it had seen before."""

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        self.name = embedder.name
        self.again = 0

    async def passages(self, texts: Sequence[str]) -> Any:
        """As the embedder's."""
        self.again += sum(_ARRIVED not in text for text in texts)
        return await self._embedder.passages(texts)


async def _arriving(rag: Any, indexing: IndexingWorker) -> None:
    """A new post now and then, as long as this is not cancelled."""
    chat, number = synthetic_posts.CHANNELS[0].chat_id, _NEW + random.randrange(10**6) * 1000
    while True:
        number += 1
        new = Post(PostKey(chat, number), datetime.now(UTC), f"A post about {_ARRIVED} {number}.")
        await posts.save_posts(rag.archive, [new], source="live")
        indexing.wake()
        await asyncio.sleep(_POST_EVERY_S)


async def _rebuilt(reindexing: RebuildRunner, rag: Any, rounds: int, kill: bool) -> dict[str, float]:
    """Rebuild so many times; with `kill` the child is killed halfway and goes on."""
    figures, started = {"rebuild_s": 0.0, "killed_at": -1.0, "resumed_at": -1.0}, time.perf_counter()
    for _ in range(rounds):
        await reindexing.start()
        last = 0
        async for now in reindexing.states():
            if figures["killed_at"] >= 0 > figures["resumed_at"] and now.done != last:
                figures["resumed_at"] = float(now.done)
            if kill and figures["killed_at"] < 0 < now.total / 2 < now.done:
                figures["killed_at"] = float(now.done)
                os.kill(_child(), signal.SIGKILL)
            last = now.done
        assert now.state == "done", now.reason
    assert await index_state.find_running_rebuild(rag.archive) is None
    figures["rebuild_s"] = (time.perf_counter() - started) / rounds
    return figures


def _child() -> int:
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split():
        with suppress(OSError):
            if "ingest.rebuild" in Path(f"/proc/{pid}/cmdline").read_text(encoding="ascii", errors="replace"):
                return int(pid)
    raise LookupError("the rebuild has no child")


async def measure_latency(folder: Path, args: argparse.Namespace) -> Measured:
    """Figures of a filled folder."""
    told = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    models = {"dir": args.models} if args.models else {"embedder": "none"}
    settings = RagSettings.model_validate({"data": {"dir": folder}, "models": {**models, "reranker": "none"}})
    async with AsyncExitStack() as stack:
        rag = await stack.enter_async_context(open_engine(settings))
        indexer = LexicalIndexer(rag.archive, rag.lexical)
        counted = Counted(rag.dense.embedder) if rag.dense else None
        dense = DenseIndexer(rag.archive, rag.dense.vectors, counted) if rag.dense and counted else None
        await indexer.catch_up()
        await indexer.save()
        if rag.dense:
            inventing: Any = RandomEmbedder(rag.dense.embedder.name, rag.dense.embedder.dimension)
            await DenseIndexer(rag.archive, rag.dense.vectors, inventing).catch_up()
        indexing = IndexingWorker(rag.archive, indexer, dense)
        beside = [asyncio.create_task(indexing.run()), asyncio.create_task(_arriving(rag, indexing))]
        reindexing = RebuildRunner(rag.archive, indexer, dense)
        viewer = Viewer(1, frozenset(await channels.load_channels(rag.archive)))
        before, during = (QuestionLoad(rag, [q["text"] for q in told], viewer, 1 / args.rate) for _ in range(2))
        await before.during(asyncio.sleep(min(2.0, args.before)))  # what is made at the first use
        before.took.clear()
        await before.during(asyncio.sleep(args.before))
        if counted:
            counted.again = 0
        arrived = await posts.count_posts(rag.archive)
        rebuild: dict[str, float] = {}

        async def rebuilding() -> None:
            rebuild.update(await _rebuilt(reindexing, rag, args.rounds, args.kill))

        await during.during(rebuilding())
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        arrived = await posts.count_posts(rag.archive) - arrived
        await reindexing.stop()
        again = counted.again if counted else 0
        return {**_compared(before, during), **rebuild, "arrived": arrived, "computed_again": again}


def _compared(before: QuestionLoad, during: QuestionLoad) -> Measured:
    for line in before.failed + during.failed:
        print(line, file=sys.stderr)
    found: Measured = {"asked_before": len(before.took), "asked_during": len(during.took)}
    for name, asking in (("before", before), ("during", during)):
        for share in (50, 95, 100):
            found[f"p{share}_{name}_ms"] = float(np.percentile(asking.took, share))
    found["ratio_p50"] = found["p50_during_ms"] / found["p50_before_ms"]
    found["ratio_p95"] = found["p95_during_ms"] / found["p95_before_ms"]
    return found | {"failed": len(before.failed) + len(during.failed)}


def main(argv: list[str] | None = None) -> Measured:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--posts", type=int, default=3000)
    parser.add_argument("--rate", type=float, default=5.0, help="questions a second")
    parser.add_argument("--before", type=float, default=30.0, help="seconds that are measured before the rebuild")
    parser.add_argument("--rounds", type=int, default=1, help="rebuilds one after the other")
    parser.add_argument("--kill", action="store_true", help="kill the child halfway")
    parser.add_argument("--models", type=Path, help="folder with the offline embedder: vectors too")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        end_to_end_engine.fill(args.posts, Path(folder), min(_QUESTIONS, args.posts // 5))
        row = asyncio.run(measure_latency(Path(folder), args))
    for name, value in row.items():
        print(f"{name:16} {value:10,.1f}")
    return row


if __name__ == "__main__":
    main()
