"""`citegram demo`: the sample channels, the unmodified bot and a messenger in the browser; no token, no network."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from bot.app import run_bot
from bot.commands.indexed import caught_up
from bot.sandbox import Sandbox
from bot.settings import BotSettings, Settings
from ingest.desktop_export import ImportOptions, import_export
from rag_core.doors.archive import Archive, channels, posts
from rag_core.doors.lexical import Lexical
from rag_core.settings import DataSettings
from rag_core.types import Channel, Post, Visibility

__all__ = ["declare", "run"]

_SAMPLES = Path(__file__).parents[1] / "sandbox" / "channels"
_TOKEN = "42:SANDBOX"  # noqa: S105 - the sandbox's own, worth nothing elsewhere
_ADMIN, _READER, _GROUP = 1001, 1002, -1_009_000_000_001
_PATIENCE_S = 30


def declare(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser("demo", help="try everything on this machine: no token, no network")
    parser.add_argument("--port", type=int, default=8765, help="port of the page on 127.0.0.1 (default: 8765)")
    parser.add_argument("--once", metavar="QUESTION", help="ask one question as a reader, print the answer, and end")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run the demo. Returns the exit code."""
    demo = settings.model_copy(update={"data": DataSettings(dir=settings.data.dir / "demo")})
    sandbox = Sandbox(token=_TOKEN)
    await _furnish(sandbox, demo)
    await sandbox.start(0 if args.once else args.port)
    demo = demo.model_copy(update={"bot": _bot_settings(settings.bot, sandbox.url)})
    try:
        if args.once:
            return await _ask_once(sandbox, demo, args.once)
        print(f"Citegram's sandbox: {sandbox.url}\nAnswers are word for word from the posts: there is no model yet.\n"
              "Stop with Ctrl+C.", flush=True)  # fmt: skip
        await run_bot(demo)
        return 0
    finally:
        await sandbox.stop()


def _bot_settings(given: BotSettings, url: str) -> BotSettings:
    values = {"token": SecretStr(_TOKEN), "admins": (_ADMIN,), "api": url, "proxy": SecretStr("")}
    return given.model_copy(update=values)


async def _furnish(sandbox: Sandbox, settings: Settings) -> None:
    """The sample channels into the archive (again is no work), and what the archive has into the sandbox."""
    archive = await Archive.open(settings.data.dir)
    try:
        about = json.loads((_SAMPLES / "channels.json").read_text(encoding="utf-8"))
        found = [Channel(row["chat_id"], row["title"], row["username"], visibility=Visibility(row["visibility"]))
                 for row in about]  # fmt: skip
        for row, channel in zip(about, found, strict=True):
            if not await posts.count(archive, channel.chat_id):
                options = ImportOptions(channel.username, visibility=channel.visibility)
                await import_export(archive, _SAMPLES / row["folder"], options)
        lexical = Lexical.load(settings.data.dir / "lexical") or Lexical()
        await caught_up(settings, archive, lexical)
        await _people(sandbox, archive, found)
    finally:
        await archive.close()


async def _people(sandbox: Sandbox, archive: Archive, found: list[Channel]) -> None:
    world = sandbox.world
    world.add_person(_ADMIN, "Вера", lang="ru")
    world.add_person(_READER, "Alex", lang="en")
    world.add_group(_GROUP, "Соседи", members=[_ADMIN, _READER], bot="member")
    history: dict[int, list[Post]] = {channel.chat_id: [] for channel in found}
    for change in await posts.changes(archive, 0, limit=100_000):
        if change.post and change.key.chat_id in history:
            history[change.key.chat_id].append(change.post)
    for channel in found:
        members = [_ADMIN] if channel.username is None else [_ADMIN, _READER]
        world.add_channel(channel.chat_id, channel.title, channel.username, members=members, bot=True)
        told: list[Post] = sorted(history[channel.chat_id], key=lambda post: post.key)
        world.add_history(channel.chat_id, told)
    for channel in found:
        if channel.username:
            await channels.bind(archive, _GROUP, channel.chat_id)


@asynccontextmanager
async def _running(settings: Settings) -> AsyncIterator[asyncio.Task[None]]:
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(run_bot(settings, stop=stop, ready=ready))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    try:
        yield task
    finally:
        stop.set()
        await task


async def _ask_once(sandbox: Sandbox, settings: Settings, question: str) -> int:
    async with _running(settings):
        await sandbox.say(_READER, question)
        for message in await sandbox.replies(_READER, 1, timeout=_PATIENCE_S):
            print(_with_links(message))
    return 0


def _with_links(message: dict[str, Any]) -> str:
    """The text of a message with the address after each link that is more than a number."""
    units: bytes = message["text"].encode("utf-16-le")
    for entity in sorted(message.get("entities", ()), key=lambda e: -e["offset"]):
        start, end = 2 * entity["offset"], 2 * (entity["offset"] + entity["length"])
        label = units[start:end].decode("utf-16-le")
        if entity["type"] == "text_link" and not label.strip("[]").isdigit():
            units = units[:end] + f" <{entity['url']}>".encode("utf-16-le") + units[end:]
    return units.decode("utf-16-le")
