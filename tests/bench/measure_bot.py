"""The bot beside the sandbox: import of an export, start-up, many different questions at once, first words.

It searches by words alone. Throughput is without a model; first words are with one that needs 20 seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
from bench import synthetic_posts
from bench.end_to_end_engine import word_question
from bench.measure_process import Row, seconds

from bot.app import run_bot
from bot.sandbox import Sandbox
from bot.settings import Settings
from rag_core.models.selection import LanguageModels

_ROOT = Path(__file__).parents[2]
_READER = 501
_AT_ONCE = 100  # readers, each with a question of its own
_MODEL_SECONDS = 20.0
_PATIENCE = 300.0  # seconds


def measure_bot(size: int, folder: Path, count: int) -> Row:
    """Figures of a bot whose archive was imported; `count` is the number of first words."""
    posts = synthetic_posts.make_posts(size)
    at_once = min(_AT_ONCE, size // 50)
    drawn = synthetic_posts.draw_queries(posts, at_once + count, seed=7)
    texts = [word_question(query.words) for query in drawn]
    export = folder / "result.json"
    _write_export(posts, export)
    data = folder / "data"
    command = [sys.executable, "-m", "bot", "--data", str(data), "import", str(export), "--username", "bench_posts"]
    took = seconds(lambda: _run_command(command))
    return {"imported_per_s": size / took} | asyncio.run(_measure_running(data, texts[:at_once], texts[at_once:]))


def _write_export(posts: synthetic_posts.Corpus, file: Path) -> None:
    """One channel as Telegram Desktop exports it."""
    with file.open("w", encoding="utf-8") as out:
        out.write('{"name": "Bench", "type": "public_channel", "id": 1000000001, "messages": [\n')
        for n in range(len(posts)):
            text, when = posts.text(n), posts.frame.when(n)
            message = {"id": n + 1, "type": "message", "date": when.strftime("%Y-%m-%dT%H:%M:%S")}
            message |= {"date_unixtime": str(int(when.timestamp())), "from": "Bench", "from_id": "channel1000000001"}
            message |= {"text": text, "text_entities": [{"type": "plain", "text": text}]}
            out.write((",\n" if n else "") + json.dumps(message, ensure_ascii=False))
        out.write("]}\n")


def _environment() -> dict[str, str]:
    return os.environ | {"MODELS__EMBEDDER": "none", "MODELS__RERANKER": "none", "PYTHONPATH": str(_ROOT)}


def _run_command(command: list[str]) -> None:
    subprocess.run(command, env=_environment(), stdout=subprocess.DEVNULL, check=True)


async def _measure_running(data: Path, different: list[str], slow: list[str]) -> Row:
    row: Row = {"exec_to_polling_s": await _time_start(data)}
    async with _run_in_sandbox(data, _READER) as sandbox:
        row |= await _time_questions_at_once(sandbox, different)
    from slow_model import SlowLlm

    import rag_core.engine

    async def open_slow_model(*_: Any) -> LanguageModels:
        return LanguageModels(SlowLlm("Nothing of this was asked. [1]\n", _MODEL_SECONDS), None)

    rag_core.engine.open_language_models = open_slow_model
    async with _run_in_sandbox(data, _READER) as sandbox:
        took = [each for text in slow if (each := await _time_first_words(sandbox, text)) is not None]
    if took:  # of a tiny archive every question may be answered without the model
        row |= {f"first_words_p{share}_s": float(np.percentile(took, share)) for share in (50, 95)}
    return row | {"first_words_shown": len(took) / len(slow)}


async def _time_start(data: Path) -> float:
    """Seconds from exec of the real command until it asks Telegram for updates."""
    sandbox = Sandbox()
    await sandbox.start()
    environment = _environment() | {"BOT__TOKEN": sandbox.token, "BOT__API": sandbox.url, "DATA__DIR": str(data)}
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "bot", "run", env=environment, cwd=data)
    try:
        polled = await sandbox.until(lambda: any(c["method"] == "getUpdates" for c in sandbox.transcript), _PATIENCE)
        took = time.perf_counter() - begun
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()
        await sandbox.stop()
    if not polled:
        raise TimeoutError("the bot did not ask for updates")
    return took


@asynccontextmanager
async def _run_in_sandbox(data: Path, admin: int) -> AsyncIterator[Sandbox]:
    sandbox = Sandbox()
    sandbox.world.add_person(admin, "Ada")
    await sandbox.start()
    given = {"token": sandbox.token, "api": sandbox.url, "admins": (admin,), "reader_limit": 10_000}
    models = {"embedder": "none", "reranker": "none"}
    settings = Settings.model_validate({"bot": given, "data": {"dir": data}, "models": models})
    stop, ready = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(run_bot(settings, stop=stop, ready=ready))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():  # it could not start: say why
        running.result()
    yield sandbox
    stop.set()
    await running
    await sandbox.stop()


async def _time_questions_at_once(sandbox: Sandbox, texts: list[str]) -> Row:
    """Answers a second, and how long readers wait: every one asks something else, all in the same moment."""
    readers = range(10_000, 10_000 + len(texts))
    for reader in readers:
        sandbox.world.add_person(reader, f"R{reader}")
    started, cpu, begun = time.perf_counter(), time.process_time(), sandbox.world.clock()
    for reader, text in zip(readers, texts, strict=True):
        await sandbox.say(reader, text)
    replies = [reply for reader in readers for reply in await sandbox.replies(reader, timeout=_PATIENCE)]
    took, cpu = time.perf_counter() - started, time.process_time() - cpu
    came = dict[int, float]()
    for call in sandbox.transcript:
        if call["method"] == "sendMessage":
            came.setdefault(int(call["params"]["chat_id"]), call["at"] - begun)
    waited = [came[reader] for reader in readers]
    row: Row = {"answers_per_s": len(texts) / took, "at_once": len(texts), "answer_cpu_ms": cpu / len(texts) * 1000}
    row["cited"] = sum("t.me/bench_posts" in str(reply) for reply in replies) / len(texts)
    return row | {"waited_p50_s": float(np.percentile(waited, 50)), "waited_most_s": max(waited)}


async def _time_first_words(sandbox: Sandbox, text: str) -> float | None:
    """Seconds to the first draft with a post's own words; None where it is answered or refused without a model."""
    sent = sandbox.world.sent.setdefault(_READER, [])
    before, already = len(sandbox.transcript), len(sent)
    begun = time.perf_counter()
    await sandbox.say(_READER, text)

    def drafted() -> bool:
        lines = sandbox.transcript[before:]
        return any(line["method"] == "sendMessageDraft" and "t.me/" in str(line["params"]) for line in lines)

    await sandbox.until(lambda: drafted() or len(sent) > already, _PATIENCE)
    took = time.perf_counter() - begun
    if not drafted():
        return None
    await sandbox.say(_READER, "/stop")
    await sandbox.until(lambda: len(sent) > already, _PATIENCE)
    return took
