"""The whole of it: an archive with its index on disk, a cold start, questions answered without a model."""

import asyncio
import json
import time
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime

from bench.measure_process import disk_mb, memory_mb, peak_mb, percentiles, seconds, times

_SLICE = 5000


def fill(size, folder, count):
    """Write the posts into an archive in the folder, index them, and leave questions about them there."""
    from bench import synthetic_posts

    posts = synthetic_posts.make_posts(size)
    questions = synthetic_posts.draw_queries(posts, count, seed=6)
    answers = [{"text": word_question(q.words), "post": q.post, "word": q.words[0]} for q in questions]
    (folder / "questions.json").write_text(json.dumps(answers), encoding="utf-8")
    kept, indexed = asyncio.run(_filled(posts, folder))
    archive = sum(disk_mb(file) for file in folder.glob("citegram.db*"))
    return {
        "kept_per_s": size / kept,
        "indexed_per_s": size / indexed,
        "archive_mb": archive,
        "index_mb": disk_mb(folder / "lexical"),
    }


async def _filled(posts, folder):
    """Seconds for the archive and for the index."""
    from bench.synthetic_posts import CHANNELS

    from ingest.indexer import LexicalIndexer
    from rag_core.index.lexical_index import LexicalIndex
    from rag_core.storage import Archive, channels
    from rag_core.storage.posts import save_posts

    archive = await Archive.open(folder)
    try:
        for channel in CHANNELS:
            await channels.save_channel(archive, channel)
        started = time.perf_counter()
        for first in range(0, len(posts), _SLICE):
            await save_posts(archive, list(posts.posts(first, first + _SLICE)), source="import")
        kept = time.perf_counter()
        indexer = LexicalIndexer(archive, LexicalIndex())
        await indexer.catch_up()
        await indexer.save()
        return kept - started, time.perf_counter() - kept
    finally:
        await archive.close()


def word_question(words):
    said = " ".join(words)
    return f"What is known about {said}?" if words[0].isascii() else f"Что известно про {said}?"


def _counting(word):
    return f"How many posts mention {word}?" if word.isascii() else f"В скольких постах упоминается {word}?"


def ask(folder, begun):
    """Start as the bot starts and answer; `begun` is when this process was told to start (monotonic clock)."""
    import bot.app  # what the bot imports is part of its cold start
    from ingest.indexer import LexicalIndexer
    from rag_core.engine import open_engine
    from rag_core.settings import DataSettings, RagSettings
    from rag_core.storage import channels

    assert bot.app
    imported = time.monotonic()
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        settings = RagSettings(data=DataSettings(dir=folder))
        rag = runner.run(stack.enter_async_context(open_engine(settings)))
        missed = runner.run(LexicalIndexer(rag.archive, rag.lexical).catch_up(save=False))
        ready = time.monotonic()
        assert not missed, "the saved index was not used"
        known = frozenset(runner.run(channels.load_channels(rag.archive)))
        row = {"exec_to_ready_s": ready - begun, "imports_to_ready_s": ready - imported}
        row |= _answered(runner, rag, known, json.loads((folder / "questions.json").read_text(encoding="utf-8")))
        row |= {"memory_mb": memory_mb(), "peak_mb": peak_mb()}
        runner.run(stack.aclose())
        return row


def _answered(runner, rag, known, asked):
    from rag_core.answer import answer_question
    from rag_core.errors import StageTimeout
    from rag_core.types import Question, Viewer

    right, viewer, now = set(), Viewer(1, known), datetime(2026, 1, 1, tzinfo=UTC)

    def told(text):
        lang = "en" if text.isascii() else "ru"
        return runner.run(answer_question(Question(text, lang, now, viewer), rag))

    def one(row):
        said = told(row["text"])
        copies = {copy for copies in said.copies.values() for copy in copies}
        if any(key.message_id == row["post"] + 1 for key in (*said.posts(), *copies)):
            right.add(row["post"])

    def count(word):
        with suppress(StageTimeout):  # said to the asker, after the seconds of its budget
            told(_counting(word))

    first = seconds(lambda: one(asked[0])) * 1000
    took = times(asked, one)
    counted = times([row["word"] for row in asked[: len(asked) // 10]], count)
    row = {"first_answer_ms": first, "right": len(right) / len(took)}
    return row | percentiles(took, "answer") | percentiles(counted, "count")
