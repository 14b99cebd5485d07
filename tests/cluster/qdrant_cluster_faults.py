"""The life of a Qdrant cluster under Citegram: both legs on three real nodes, questions all the time, and every fault.

QDRANT_BIN=/path/to/qdrant python tests/cluster/qdrant_cluster_faults.py [--posts 100000] [--rate 5]

Posts are indexed while questions are asked; one node is killed in the midst of it and comes back, one is held (what a
cut cable looks like), one has no room on its disk, a collection is deleted by hand, and the indexes move to the data
folder and back. After each part both indexes are compared with the archive, post by post: what is wrong, missing or
there twice ends the run with an error. Embeddings are generated from the text.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import synthetic_posts
from bench.measure_process import percentiles
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ApiException
from qdrant_node import QdrantNode, run_cluster

from bot.indexing import IndexingWorker
from ingest.indexer import DenseIndexer, LexicalIndexer
from ingest.integrity import check_integrity
from rag_core import Engine, Question, RagSettings, Viewer, answer_question, open_engine
from rag_core.errors import RagError
from rag_core.index.vectors_edge import open_vector_store
from rag_core.models.active_models import DenseIndex
from rag_core.models.catalog import ModelTier, find_models
from rag_core.models.onnx_models import EmbeddingArray
from rag_core.storage import Archive, channels
from rag_core.storage.posts import get_last_seq, save_posts

DIMENSION = 64
_SHARDS, _REPLICAS = 6, 2
_SLICE = 2000
_HELD_SECONDS = 15.0
_ACTIVE_SECONDS = 3600.0  # until a node that came back has all its shards again, of a million posts at most
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


class GeneratedEmbedder:
    """An embedder of no meaning: each word of a text is a fixed random direction. Near texts share words."""

    name, dimension, languages = "generated", DIMENSION, frozenset({"ru", "en"})

    def __init__(self) -> None:
        self._directions: dict[str, EmbeddingArray] = {}

    async def passages(self, texts: Sequence[str]) -> EmbeddingArray:
        return np.array([self._embed(text) for text in texts], np.float32)

    def has_word(self, word: str) -> bool:
        return True

    async def query(self, text: str) -> EmbeddingArray:
        return self._embed(text)

    async def close(self) -> None:
        self._directions.clear()

    def _embed(self, text: str) -> EmbeddingArray:
        total = np.full(DIMENSION, 1e-3, np.float32)
        for word in text.casefold().split():
            if word not in self._directions:
                seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
                self._directions[word] = np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)
            total += self._directions[word]
        unit: EmbeddingArray = total / np.linalg.norm(total)
        return unit


@dataclass
class Asked:
    """What became of the questions in one part of the life."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)


class Life:
    """A data folder, the engine on it, and questions asked at a rate while something happens."""

    def __init__(self, folder: Path, nodes: list[QdrantNode], posts: int, rate: float) -> None:
        self.nodes, self._folder, self._rate = nodes, folder, rate
        self.corpus = synthetic_posts.make_posts(posts)
        self._queries = synthetic_posts.draw_queries(self.corpus, min(posts // 2, 2000), seed=6)
        self._kept = 0  # posts in the archive, and
        self._indexed = 0  # those of them in both indexes for sure
        self._edits = 0

    def settings(self, cluster: bool) -> RagSettings:
        """Settings for vectors on the cluster, or in the folder."""
        url = ",".join(node.url for node in self.nodes) if cluster else ""
        qdrant = {"url": url, "shards": _SHARDS, "replicas": _REPLICAS}
        models = {"embedder": "none", "reranker": "none"}
        return RagSettings.model_validate({"data": {"dir": self._folder}, "qdrant": qdrant, "models": models})

    @asynccontextmanager
    async def running(self, cluster: bool = True) -> AsyncIterator[tuple[Engine, IndexingWorker]]:
        """The engine with its indexing at work."""
        settings = self.settings(cluster)
        async with open_engine(settings, language=False) as rag:
            row = replace(find_models(ModelTier.TINY)[0], name="generated", dimension=DIMENSION)
            folder = settings.data.dir / "vectors-generated"
            vectors = await open_vector_store(folder, model=row.name, dimension=DIMENSION, qdrant=settings.qdrant)
            rag.dense = DenseIndex(row, GeneratedEmbedder(), vectors)
            indexer = LexicalIndexer(rag.archive, rag.lexical)
            dense = DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder)
            worker = IndexingWorker(rag.archive, indexer, dense, every=0.2)
            task = asyncio.create_task(worker.run())
            try:
                yield rag, worker
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await worker.save()
                await rag.dense.close()

    async def keep(self, rag: Engine, share: float) -> None:
        """Take posts into the archive until this share of all is there."""
        until = int(len(self.corpus) * share)
        for first in range(self._kept, until, _SLICE):
            await save_posts(rag.archive, list(self.corpus.posts(first, min(until, first + _SLICE))), source="import")
            await asyncio.sleep(0)
        self._kept = until

    async def edit(self, rag: Engine, every: int) -> None:
        """Edit each post of such a number: a word is added."""
        numbers = range(0, self._indexed, every)
        self._edits += 1
        for first in range(0, len(numbers), _SLICE):
            some = [next(self.corpus.posts(n, n + 1)) for n in numbers[first : first + _SLICE]]
            edited = [replace(post, text=f"{post.text} Поправка {self._edits}.", edited=_NOW) for post in some]
            await save_posts(rag.archive, edited, source="live")

    async def caught_up(self, rag: Engine, worker: IndexingWorker) -> None:
        """Wait until both indexes hold all that is in the archive."""
        assert rag.dense is not None
        dense = DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder)
        async with asyncio.timeout(7200):
            while True:
                with contextlib.suppress(RagError):
                    behind = await get_last_seq(rag.archive) - worker.indexer.lexical.watermark
                    if not behind and not await dense.waiting():
                        break
                await asyncio.sleep(0.3)
        self._indexed = self._kept

    @asynccontextmanager
    async def asking(self, rag: Engine, name: str) -> AsyncIterator[Asked]:
        """Ask all the while; a row of figures is kept at the end."""
        asked, started = Asked(), time.monotonic()
        task = asyncio.create_task(self._ask_for_ever(rag, asked))
        try:
            yield asked
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            row = {"part": name, "seconds": round(time.monotonic() - started, 1), **asked.outcomes}
            if asked.seconds:
                row |= percentiles([1000 * seconds for seconds in asked.seconds])
            print(json.dumps(row | {"reasons": dict(asked.reasons.most_common(3))}, ensure_ascii=False), flush=True)

    async def _ask_for_ever(self, rag: Engine, asked: Asked) -> None:
        at, running = 0, set[asyncio.Task[None]]()
        try:
            while True:
                query = self._queries[at % len(self._queries)]
                at += 1
                if query.post < self._indexed:
                    task = asyncio.create_task(self._ask(rag, query, asked))
                    running.add(task)
                    task.add_done_callback(running.discard)
                    await asyncio.sleep(1 / self._rate)
                else:
                    await asyncio.sleep(0)
        finally:
            await asyncio.gather(*running, return_exceptions=True)

    async def _ask(self, rag: Engine, query: synthetic_posts.Query, asked: Asked) -> None:
        words = " ".join(query.words)
        english = words.isascii()
        text = f"What is known about {words}?" if english else f"Что известно про {words}?"
        viewer = Viewer(1, frozenset(channel.chat_id for channel in synthetic_posts.CHANNELS))
        started = time.perf_counter()
        try:
            answer = await answer_question(Question(text, "en" if english else "ru", _NOW, viewer), rag)
        except RagError as exc:
            asked.outcomes["without_answer"] += 1
            asked.reasons[exc.reason] += 1
            return
        asked.seconds.append(time.perf_counter() - started)
        copies = {copy for of in answer.copies.values() for copy in of}
        known = {*answer.posts(), *copies, *(hit.passage.key for hit in answer.found)}
        found = self.corpus.frame.key(query.post) in known
        if answer.shortfalls:
            asked.outcomes["by_one_leg"] += 1
            asked.reasons.update(short.reason for short in answer.shortfalls)
        asked.outcomes["found" if found else "not_found"] += 1

    async def compare(self, rag: Engine, worker: IndexingWorker) -> None:
        """Compare both indexes with the archive. Raises AssertionError."""
        report = await check_integrity(rag, worker.indexer, _tell_nobody, samples=500)
        wrong = len(report.words_wrong), len(report.vectors_wrong)
        print(f"  compared: {report}", flush=True)
        assert wrong == (0, 0), f"{wrong} posts are wrong in words and vectors"
        assert report.posts == self._kept


async def _tell_nobody(_: object) -> bool:
    """Notify nobody: the report is looked at."""
    return True


async def wait_until_active(node: QdrantNode) -> None:
    """Wait until the cluster has all replicas of all collections active, as this node sees it. Raises TimeoutError."""
    client = QdrantClient(url=node.url, timeout=10, check_compatibility=False)
    try:
        async with asyncio.timeout(_ACTIVE_SECONDS):
            while True:
                with contextlib.suppress(ApiException):
                    names = [one.name for one in (await asyncio.to_thread(client.get_collections)).collections]
                    infos = [await asyncio.to_thread(client.collection_cluster_info, name) for name in names]
                    states = {
                        str(one.state.value) for info in infos for one in (*info.local_shards, *info.remote_shards)
                    }
                    if states <= {"Active"}:
                        return
                await asyncio.sleep(0.5)
    finally:
        client.close()


async def play(life: Life) -> None:
    """Play all parts. Raises AssertionError for what is wrong, lost or doubled."""
    archive = await Archive.open(life.settings(True).data.dir)
    for channel in synthetic_posts.CHANNELS:
        await channels.save_channel(archive, channel)
    await archive.close()
    await play_faults(life)
    await play_moves(life)


async def play_faults(life: Life) -> None:
    """Fill 60 % of the posts, then each fault in turn, up to 90 %."""
    first, second, third = life.nodes
    async with life.running() as (rag, worker):
        await life.keep(rag, 0.6)
        started = time.monotonic()
        await life.caught_up(rag, worker)
        print(f"indexed: {life._kept / (time.monotonic() - started):.0f} posts a second", flush=True)
        async with life.asking(rag, "all well"):
            await asyncio.sleep(10)
        await life.compare(rag, worker)

        async with life.asking(rag, "a node killed while indexing, and back"):
            adding = asyncio.create_task(life.keep(rag, 0.8))
            await asyncio.sleep(2)
            second.kill()
            await adding
            await life.caught_up(rag, worker)
            await asyncio.sleep(5)
            await asyncio.to_thread(second.start, _ACTIVE_SECONDS)
            await wait_until_active(first)
        await life.compare(rag, worker)

        async with life.asking(rag, "the first node killed, and back"):
            first.kill()
            await life.edit(rag, 40)
            await life.caught_up(rag, worker)
            await asyncio.sleep(5)
            await asyncio.to_thread(first.start, _ACTIVE_SECONDS)
            await wait_until_active(third)
        await life.compare(rag, worker)

        async with life.asking(rag, "a node cut off, and back"):
            third.hold()
            adding = asyncio.create_task(life.keep(rag, 0.9))
            await asyncio.sleep(_HELD_SECONDS)
            third.resume()
            await adding
            await wait_until_active(first)
            await life.caught_up(rag, worker)
        await life.compare(rag, worker)

        async with life.asking(rag, "a full disk on one node, and room again"):
            second.limit_disk(1)
            await life.edit(rag, 25)
            await asyncio.sleep(10)
            second.limit_disk(None)
            second.kill()  # a server that could not write is started again by its supervisor
            await asyncio.to_thread(second.start, _ACTIVE_SECONDS)
            await wait_until_active(first)
            await life.caught_up(rag, worker)
        await life.compare(rag, worker)

        async with life.asking(rag, "a collection deleted by hand"):
            client = QdrantClient(url=first.url, check_compatibility=False)
            await asyncio.to_thread(client.delete_collection, rag.settings.qdrant.collection)
            client.close()
            await asyncio.sleep(3)
            await life.caught_up(rag, worker)
        await life.compare(rag, worker)


async def play_moves(life: Life) -> None:
    """Move both indexes to the folder and back."""
    async with life.running(cluster=False) as (rag, worker):
        async with life.asking(rag, "moved to the folder"):
            await life.caught_up(rag, worker)
        await life.compare(rag, worker)
    async with life.running() as (rag, worker):
        async with life.asking(rag, "moved to the cluster again"):
            await life.keep(rag, 1.0)
            await life.caught_up(rag, worker)
        await life.compare(rag, worker)


def main() -> None:
    """Play it and print what became of the questions."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--posts", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, run_cluster(Path(name) / "cluster") as nodes:
        asyncio.run(play(Life(Path(name) / "data", nodes, args.posts, args.rate)))


if __name__ == "__main__":
    main()
