"""`citegram mcp`: an MCP server on stdin and stdout, for an assistant on the owner's machine.

It lives as long as its assistant, for days. So it holds the data folder only while it answers and a little longer: a
bot that starts meanwhile gets the folder, and is asked from then on.
"""

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from bot.api import JsonObject, RequestRefused, present_answer, present_channels, present_search, present_verdicts
from bot.cli.ask import open_answerer
from bot.control import RunningBot
from bot.control.answers import TerminalAnswerer
from bot.data_folder import choose_folder_with_channels
from bot.i18n import get_translator
from bot.settings import Settings
from rag_core.errors import RagError
from rag_core.processes import format_install_command
from rag_core.text.tokens import detect_language

# After the last answer: an assistant asks several times, and to open the indexes takes two seconds. A bot or a command
# that starts meanwhile waits for longer (bot/control).
_HELD_SECONDS = 6.0

T = TypeVar("T")


def declare(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the arguments to the parser of `mcp`."""
    parser.add_argument("--as-reader", action="store_true", help="answer from the channels that everybody may read")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Serve until stdin ends; to a person on a terminal print what goes into an assistant's settings instead."""
    settings = await choose_folder_with_channels(settings)
    if sys.stdin is None or sys.stdin.isatty():
        words = ["--data", str(settings.data.dir.resolve()), "mcp", *["--as-reader"] * args.as_reader]
        entry = {"command": str(Path(sys.executable).with_name("citegram")), "args": words}
        print("An assistant starts this program. Put this into its settings:", file=sys.stderr)
        print(json.dumps({"mcpServers": {"citegram": entry}}, ensure_ascii=False, indent=2))
        return 0
    try:
        from bot.api.mcp_server import build_mcp_server
    except ModuleNotFoundError as exc:
        raise RagError(f"The packages for MCP are missing: {format_install_command('citegram[mcp]')}") from exc
    logging.getLogger("mcp").setLevel(logging.WARNING)  # it tells of each request
    owner = OwnerApplication(settings, as_reader=args.as_reader)
    try:
        await build_mcp_server(lambda _: owner).run_stdio_async()
    finally:
        await owner.close()
    return 0


class OwnerApplication:
    """Application of the owner: asks the bot that runs, or answers in this process where none does."""

    def __init__(self, settings: Settings, *, as_reader: bool) -> None:
        self._settings, self._as_reader = settings, as_reader
        self._session: asyncio.Task[None] | None = None
        self._sessions = set[asyncio.Task[None]]()  # with those that are closing
        self._answerer: asyncio.Future[RunningBot | TerminalAnswerer]
        self._running, self._used, self._closing = 0, asyncio.Event(), False

    async def ask(self, question: str) -> JsonObject:
        """Answer a question, or reply to small talk."""
        lang = detect_language(question)
        return present_answer(await self._call(lambda one: one.ask(question, trace=False), lang), lang)

    async def verify(self, text: str) -> JsonObject:
        """Check what a text claims."""
        lang = detect_language(text)
        return present_verdicts(await self._call(lambda one: one.verify(text, trace=False), lang), lang)

    async def search(self, query: str, page: int) -> JsonObject:
        """Find posts."""
        lang = detect_language(query)
        return present_search(await self._call(lambda one: one.search(query, page), lang), lang)

    async def list_channels(self) -> JsonObject:
        """List the channels."""
        lang = self._settings.bot.language
        return present_channels(await self._call(lambda one: one.list_channels(), lang))

    async def close(self) -> None:
        """Give the data folder back, whose indexes are closed properly."""
        self._closing = True
        self._used.set()
        await asyncio.gather(*self._sessions, return_exceptions=True)

    async def _call(self, call: Callable[[RunningBot | TerminalAnswerer], Awaitable[T | None]], lang: str) -> T:
        """Call the answerer of the session, which is begun where there is none. Raises RagError."""
        if self._session is None or self._session.done():
            self._answerer = asyncio.get_running_loop().create_future()
            self._session = asyncio.create_task(self._hold_answerer(self._answerer))
            self._sessions.add(self._session)
            self._session.add_done_callback(self._sessions.discard)
        self._running += 1
        try:
            found = await call(await asyncio.shield(self._answerer))
        except RagError as exc:
            raise RequestRefused(get_translator(lang).error(exc)) from exc
        finally:
            self._running -= 1
            self._used.set()
        if found is None:
            refusal = "none-visible-reader" if self._as_reader else "none-visible-admin"
            raise RequestRefused(get_translator(lang)(refusal))
        return found

    async def _hold_answerer(self, answerer: asyncio.Future[RunningBot | TerminalAnswerer]) -> None:
        """Hold the data folder with its indexes open until they are unused for a while; a bot that runs is not held."""
        try:
            async with open_answerer(self._settings, as_reader=self._as_reader) as opened:
                answerer.set_result(opened)
                if isinstance(opened, TerminalAnswerer):
                    await self._wait_until_unused()
                self._session = None  # the next call begins another one, which waits until this one has ended
        except Exception as exc:
            if answerer.done():
                raise
            answerer.set_exception(exc)

    async def _wait_until_unused(self) -> None:
        while not self._closing:
            self._used.clear()
            try:
                await asyncio.wait_for(self._used.wait(), _HELD_SECONDS)
            except TimeoutError:
                if not self._running:
                    return
