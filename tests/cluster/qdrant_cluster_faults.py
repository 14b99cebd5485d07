"""The life of a Qdrant cluster under Citegram: vectors on three real nodes, questions all the time, and every fault.

QDRANT_BIN=… [QDRANT_NEXT_BIN=…] python tests/cluster/qdrant_cluster_faults.py [--posts 100000] [--embeddings e5]

Posts are indexed while questions are asked, and the search is measured. Then one node is killed in the midst of
indexing and comes back, each is exchanged for the later version that QDRANT_NEXT_BIN names, the collection is deleted
by hand, one node is held (what a cut cable looks like), one has no room on its disk, older snapshots are put back, and
the vectors move to the data folder and back. After each part both indexes are compared with the archive, post by post:
what is wrong, missing or there twice ends the run with an error. QDRANT__LINKS and the like are used as everywhere.

Posts are invented. Embeddings are of 64 numbers, in which texts of the same words are near. With `--embeddings e5` they
are of 384, in the space of multilingual-e5-small (MODELS__DIR): the posts and sentences of the project's own channels
are embedded by the model, and an invented post lies on a random spot between one of these and one of its ten nearest,
at a cosine of 0.9 from that spot; a question on the same spot as its post, at 0.8. So directions are as dense or empty
as real ones, but which words are in a post says nothing of where it lies.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import math
import os
import re
import struct
import sys
import tempfile
import time
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import synthetic_posts
from bench.measure_process import percentiles
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException
from qdrant_node import run_cluster

from bot.indexing import IndexingWorker
from bot.settings import Settings
from ingest.indexer import DenseIndexer, LexicalIndexer
from ingest.integrity import check_integrity
from rag_core import Question, Viewer, answer_question, open_engine
from rag_core.errors import RagError
from rag_core.index.vectors_edge import open_vector_store
from rag_core.models.active_models import DenseIndex, get_models_folder
from rag_core.models.catalog import ModelTier, find_models
from rag_core.models.onnx_models import open_embedder
from rag_core.storage import Archive, channels
from rag_core.storage.posts import get_last_seq, save_posts
from rag_core.text.tokens import fold_characters
from rag_core.types import SearchFilter

_NEXT_BINARY = os.environ.get("QDRANT_NEXT_BIN", "")
_E5 = "e5-small-centred"
_SHARDS, _REPLICAS = 6, 2
_SLICE = 2000
_HELD_SECONDS = 15.0
_ACTIVE_SECONDS = 1800.0  # until a node that came back has all its shards again, of a million posts at most
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_EVERYWHERE = SearchFilter(frozenset(channel.chat_id for channel in synthetic_posts.CHANNELS))
_SEARCHES = 100  # of each kind that is measured


class WordDirections:
    """An embedder of no meaning: each word of a text is a fixed random direction. Near texts share words."""

    name, dimension, languages = "generated", 64, frozenset({"ru", "en"})

    def __init__(self):
        self._directions = {}

    async def passages(self, texts):
        return np.array([self._embed(text) for text in texts], np.float32)

    def has_word(self, word):
        return True

    async def query(self, text):
        return self._embed(text)

    async def close(self):
        """Keep everything: it serves the next engine too."""

    def _embed(self, text):
        total = np.full(self.dimension, 1e-3, np.float32)
        for word in text.casefold().split():
            if word not in self._directions:
                drawn = np.random.default_rng(_hash(word))
                self._directions[word] = drawn.standard_normal(self.dimension).astype(np.float32)
            total += self._directions[word]
        return total / np.linalg.norm(total)


class RealSpace(WordDirections):
    """The space of a real model: a text is near real ones, on a spot that its first sentence chooses."""

    name = "generated-e5"

    def __init__(self, real):
        """`real`: vectors of length 1 of different texts, one a row."""
        self._real, self.dimension = real, real.shape[1]
        self._nearest = np.argsort(-(real @ real.T), axis=1)[:, 1:11]
        self._noise = np.random.default_rng(0).standard_normal((4096, self.dimension)).astype(np.float32)
        self.asked = {}  # by question, the text of the post that it is about

    @classmethod
    async def embed(cls, settings):
        """Embed the posts of the project's channels, whole and by sentence: a minute or two."""
        embedder = await open_embedder(find_models(_E5)[0], get_models_folder(settings) / _E5)
        texts = sorted({part for text in _read_own_posts() for part in (text, *re.split(r"(?<=[.!?…])\s+|\n+", text))})
        real = await embedder.passages([text for text in texts if len(text) >= 30])
        await embedder.close()
        return cls(real / np.linalg.norm(real, axis=1, keepdims=True))

    async def query(self, text):
        return self._place(self.asked.get(text, text), text, 0.8)

    def _embed(self, text):
        return self._place(text.partition("\n")[2], text, 0.9)

    def _place(self, post, text, cosine):
        at, to, share = _hash(fold_characters(post).partition(".")[0])
        first = at % len(self._real)
        second, share = self._nearest[first, to % self._nearest.shape[1]], share / 2**64
        spot = (1 - share) * self._real[first] + share * self._real[second]
        one, other, shift = _hash(text)
        noise = np.roll(self._noise[one % len(self._noise)] + self._noise[other % len(self._noise)], shift % len(spot))
        ways = (cosine, spot), (np.sqrt(1 - cosine**2), noise)
        return sum(length / np.linalg.norm(way) * way for length, way in ways)


def _hash(text):
    return struct.unpack("QQQ", hashlib.blake2b(text.encode(), digest_size=24).digest())


def _read_own_posts():
    root = Path(__file__).parents[2]
    for export in sorted(root.glob("bot/sandbox/channels/*/result.json")):
        for message in json.loads(export.read_text())["messages"]:
            parts = message.get("text", "")
            yield parts if isinstance(parts, str) else "".join(p if isinstance(p, str) else p["text"] for p in parts)
    for file in sorted(root.glob("tests/data/validation[345]/posts.jsonl")):
        yield from (json.loads(line)["text"] for line in file.read_text().splitlines())


@dataclass
class Asked:
    """What became of the questions in one part of the life."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)


class Life:
    """A data folder, the engine on it, and questions asked at a rate while something happens."""

    def __init__(self, folder, nodes, posts, rate):
        self.nodes, self._folder, self._rate = nodes, folder, rate
        self.embedder = WordDirections()
        self.corpus = synthetic_posts.make_posts(posts)
        self._queries = synthetic_posts.draw_queries(self.corpus, min(posts // 2, 2000), seed=6)
        self._kept = 0  # posts in the archive, and
        self._indexed = 0  # those of them in both indexes for sure
        self._edits = 0

    def settings(self, cluster):
        url = ",".join(node.url for node in self.nodes) if cluster else ""
        qdrant = {"url": url, "shards": _SHARDS, "replicas": _REPLICAS}
        models = {"embedder": "none", "reranker": "none"}
        return Settings.model_validate({"data": {"dir": self._folder}, "qdrant": qdrant, "models": models}).rag()

    @asynccontextmanager
    async def running(self, cluster=True):
        """The engine with its indexing at work."""
        settings = self.settings(cluster)
        async with open_engine(settings, language=False) as rag:
            name, dimension = self.embedder.name, self.embedder.dimension
            row = replace(find_models(ModelTier.TINY)[0], name=name, dimension=dimension)
            folder = settings.data.dir / f"vectors-{name}"
            vectors = await open_vector_store(folder, model=name, dimension=dimension, qdrant=settings.qdrant)
            rag.dense = DenseIndex(row, self.embedder, vectors)
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

    async def keep(self, rag, share):
        """Take posts into the archive until this share of all is there."""
        until = int(len(self.corpus) * share)
        for first in range(self._kept, until, _SLICE):
            await save_posts(rag.archive, list(self.corpus.posts(first, min(until, first + _SLICE))), source="import")
            await asyncio.sleep(0)
        self._kept = until

    async def edit(self, rag, every):
        """Edit each post of such a number: a word is added."""
        numbers = range(0, self._indexed, every)
        self._edits += 1
        for first in range(0, len(numbers), _SLICE):
            some = [next(self.corpus.posts(n, n + 1)) for n in numbers[first : first + _SLICE]]
            edited = [replace(post, text=f"{post.text} Поправка {self._edits}.", edited=_NOW) for post in some]
            await save_posts(rag.archive, edited, source="live")

    async def caught_up(self, rag, worker):
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
    async def asking(self, rag, name):
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

    async def _ask_for_ever(self, rag, asked):
        at, running = 0, set()
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

    async def _ask(self, rag, query, asked):
        words = " ".join(query.words)
        english = words.isascii()
        text = f"What is known about {words}?" if english else f"Что известно про {words}?"
        if isinstance(self.embedder, RealSpace):
            self.embedder.asked[text] = self.corpus.text(query.post)
        viewer = Viewer(1, _EVERYWHERE.channels)
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
        asked.outcomes["found" if found else "not_found_and_told" if answer.shortfalls else "not_found"] += 1

    async def compare(self, rag, worker):
        report = await check_integrity(rag, worker.indexer, _tell_nobody, samples=500)
        wrong = len(report.words_wrong), len(report.vectors_wrong)
        print(f"  compared: {report}", flush=True)
        assert wrong == (0, 0), f"{wrong} posts are wrong in words and vectors"
        assert report.posts == self._kept

    async def measure(self, rag):
        """Measure searches by kind of filter: milliseconds, and the share of the exact search's ten hits found."""
        assert rag.dense is not None
        started = time.monotonic()
        await asyncio.to_thread(wait_until_optimized, self.nodes, rag.settings.qdrant.collection)
        print(f"  optimized after {time.monotonic() - started:.0f} s", flush=True)
        client = QdrantClient(url=self.nodes[0].url, timeout=60, check_compatibility=False)
        name = rag.settings.qdrant.collection
        queries = [query for query in self._queries if query.post < self._indexed][:_SEARCHES]
        kinds = {
            "all channels": lambda _: _EVERYWHERE,
            "one channel": lambda query: SearchFilter(frozenset({self.corpus.frame.key(query.post).chat_id})),
            "three channels in half a year": lambda query: query.window,
        }
        for kind, make_filter in kinds.items():
            took, same, exact_ms = [], 0, []
            for query in queries:
                only, text = make_filter(query), self.corpus.text(query.post)
                if isinstance(self.embedder, RealSpace):
                    self.embedder.asked[" ".join(query.words)] = text
                vector = await self.embedder.query(" ".join(query.words))
                started = time.perf_counter()
                hits = await rag.dense.vectors.search(vector, only, 10)
                took.append(1000 * (time.perf_counter() - started))
                started = time.perf_counter()
                right = await asyncio.to_thread(_search_exactly, client, name, vector, only)
                exact_ms.append(1000 * (time.perf_counter() - started))
                same += len({(*place.key, place.part) for place, _ in hits} & right)
            row = {"searches in": kind, **percentiles(took), **percentiles(exact_ms, "exact")}
            print(json.dumps(row | {"recall@10": round(same / 10 / len(queries), 4)}), flush=True)
        client.close()
        for node in self.nodes:
            print(f"  {node.describe_use()}", flush=True)


def _search_exactly(client, name, vector, only):
    """Find the ten nearest by comparing all: channel, message and part of each."""
    must = [
        models.FieldCondition(key="chat", match=models.MatchAny(any=sorted(only.channels))),
    ]
    if only.since and only.until:
        dates = models.Range(gte=math.ceil(only.since.timestamp()), lt=math.ceil(only.until.timestamp()))
        must.append(models.FieldCondition(key="date", range=dates))
    found = client.query_points(
        name,
        query=vector.tolist(),
        using="dense",
        query_filter=models.Filter(must=must),
        search_params=models.SearchParams(exact=True),
        limit=10,
    )
    return {(row["chat"], row["message"], row["part"]) for point in found.points if (row := point.payload)}


async def _tell_nobody(_):
    """Notify nobody: the report is looked at."""
    return True


async def wait_until_active(node):
    """Wait until the cluster has all replicas of all collections active, as this node sees it. Raises TimeoutError."""
    client = QdrantClient(url=node.url, timeout=10, check_compatibility=False)
    states = []
    try:
        async with asyncio.timeout(_ACTIVE_SECONDS):
            while True:
                with contextlib.suppress(ApiException):
                    names = [one.name for one in (await asyncio.to_thread(client.get_collections)).collections]
                    infos = [await asyncio.to_thread(client.collection_cluster_info, name) for name in names]
                    states = [
                        str(one.state.value) for info in infos for one in (*info.local_shards, *info.remote_shards)
                    ]
                    if {*states} <= {"Active"}:
                        return
                await asyncio.sleep(0.5)
    except TimeoutError:
        raise TimeoutError(f"the replicas are {Counter(states)} after {_ACTIVE_SECONDS:.0f} s") from None
    finally:
        client.close()


def wait_until_optimized(nodes, collection):
    """Wait until every node has built what it builds beside questions: segments and graphs."""
    for node in nodes:
        client = QdrantClient(url=node.url, timeout=60, check_compatibility=False)
        while client.get_collection(collection).status != models.CollectionStatus.GREEN:
            time.sleep(1)
        client.close()


def take_shard_snapshots(nodes, collection):
    """Take a snapshot of each shard, on one of the nodes that have it: the node and the file, by shard."""
    taken = {}
    for node in nodes:
        client = QdrantClient(url=node.url, timeout=3600, check_compatibility=False)
        for shard in client.collection_cluster_info(collection).local_shards:
            if shard.shard_id not in taken:
                snapshot = client.create_shard_snapshot(collection, shard.shard_id)
                taken[shard.shard_id] = node, snapshot.name
        client.close()
    return taken


async def put_shard_snapshots_back(taken, collection):
    """Put each shard back on the node it is from; the server makes its other copy anew before the next one.

    Snapshots of whole collections are no such way: each node puts back all of its shards, so that two transfers of a
    shard can meet, and the server then leaves a copy partial for ever.
    """
    for shard, (node, file) in taken.items():
        client = QdrantClient(url=node.url, timeout=3600, check_compatibility=False)
        priority = models.SnapshotPriority.SNAPSHOT
        await asyncio.to_thread(client.recover_shard_snapshot, collection, shard, file, priority=priority)
        client.close()
        await wait_until_active(node)


async def play(life):
    archive = await Archive.open(life.settings(True).data.dir)
    for channel in synthetic_posts.CHANNELS:
        await channels.save_channel(archive, channel)
    await archive.close()
    async with life.running() as (rag, worker):
        started = time.monotonic()
        await life.keep(rag, 0.8)
        await life.caught_up(rag, worker)
        print(f"indexed: {life._kept / (time.monotonic() - started):.0f} posts a second", flush=True)
        await life.compare(rag, worker)
        await life.measure(rag)
        async with life.asking(rag, "all well"):
            await asyncio.sleep(20)
        for part in (play_kill, play_upgrade, play_deletion, play_cut, play_full_disk, play_first_killed):
            await part(life, rag, worker)
            await life.compare(rag, worker)
    await play_snapshots(life)
    await play_moves(life)


async def play_kill(life, rag, worker):
    first, second, _ = life.nodes
    async with life.asking(rag, "a node killed while indexing, and back"):
        adding = asyncio.create_task(life.keep(rag, 0.9))
        await asyncio.sleep(2)
        second.kill()
        await adding
        await life.caught_up(rag, worker)
        await asyncio.to_thread(second.start, _ACTIVE_SECONDS)
        await wait_until_active(first)


async def play_upgrade(life, rag, worker):
    """Stop each node in turn and start it as the later version, while posts are indexed."""
    if not _NEXT_BINARY:
        print("QDRANT_NEXT_BIN names no later version: no upgrade", flush=True)
        return
    async with life.asking(rag, "upgraded node by node"):
        adding = asyncio.create_task(life.keep(rag, 0.93))
        for node in life.nodes:
            before = node.version
            await asyncio.to_thread(node.stop)
            node.binary = _NEXT_BINARY
            await asyncio.to_thread(node.start, _ACTIVE_SECONDS)
            await wait_until_active(node)
            print(f"  {before} became {node.version}", flush=True)
        await adding
        await life.caught_up(rag, worker)


async def play_deletion(life, rag, worker):
    """Delete the collection by hand: it is made and filled again."""
    async with life.asking(rag, "a collection deleted by hand"):
        client = QdrantClient(url=life.nodes[0].url, check_compatibility=False)
        await asyncio.to_thread(client.delete_collection, rag.settings.qdrant.collection)
        client.close()
        await asyncio.sleep(3)
        await life.caught_up(rag, worker)


async def play_cut(life, rag, worker):
    first, _, third = life.nodes
    async with life.asking(rag, "a node cut off, and back"):
        third.hold()
        adding = asyncio.create_task(life.keep(rag, 0.96))
        await asyncio.sleep(_HELD_SECONDS)
        third.resume()
        await adding
        await wait_until_active(first)
        await life.caught_up(rag, worker)


async def play_full_disk(life, rag, worker):
    first, second, _ = life.nodes
    async with life.asking(rag, "a full disk on one node, and room again"):
        second.limit_disk(1)
        await life.edit(rag, 25)
        await asyncio.sleep(10)
        second.limit_disk(None)
        second.kill()  # a server that could not write is started again by its supervisor
        await asyncio.to_thread(second.start, _ACTIVE_SECONDS)
        await wait_until_active(first)
        await life.caught_up(rag, worker)


async def play_first_killed(life, rag, worker):
    first, _, third = life.nodes
    async with life.asking(rag, "the first node killed, and back"):
        first.kill()
        await life.edit(rag, 40)
        await life.caught_up(rag, worker)
        await asyncio.sleep(5)
        await asyncio.to_thread(first.start, _ACTIVE_SECONDS)
        await wait_until_active(third)


async def play_snapshots(life):
    """Take snapshots, index more, stop, put them back and start: the check finds what they lack."""
    async with life.running() as (rag, worker):
        collection = rag.settings.qdrant.collection
        taken = await asyncio.to_thread(take_shard_snapshots, life.nodes, collection)
        await life.keep(rag, 0.98)
        await life.caught_up(rag, worker)
    started = time.monotonic()
    await put_shard_snapshots_back(taken, collection)
    print(f"snapshots put back in {time.monotonic() - started:.0f} s", flush=True)
    async with life.running() as (rag, worker):
        async with life.asking(rag, "older snapshots put back"):
            report = await check_integrity(rag, worker.indexer, _tell_nobody, samples=500)
            print(f"  the nightly check found {len(report.vectors_wrong)} posts without their vectors", flush=True)
            assert report.vectors_wrong
            await life.caught_up(rag, worker)
        await life.compare(rag, worker)


async def play_moves(life):
    """Move the vectors to the folder and back."""
    async with life.running(cluster=False) as (rag, worker):
        async with life.asking(rag, "moved to the folder"):
            await life.caught_up(rag, worker)
        await life.compare(rag, worker)
    async with life.running() as (rag, worker):
        async with life.asking(rag, "moved to the cluster again"):
            await life.keep(rag, 1.0)
            await life.caught_up(rag, worker)
        await life.compare(rag, worker)


async def embed_and_play(life, embeddings):
    """Make the embeddings, and play."""
    if embeddings == "e5":
        life.embedder = await RealSpace.embed(life.settings(True))
    await play(life)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--posts", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=5)
    parser.add_argument("--embeddings", choices=("words", "e5"), default="words")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, run_cluster(Path(name) / "cluster") as nodes:
        asyncio.run(embed_and_play(Life(Path(name) / "data", nodes, args.posts, args.rate), args.embeddings))


if __name__ == "__main__":
    main()
