"""What other commands may ask of the running bot: `ask`, `verify`, `wake`, `reindex`, `use`, `doctor`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from datetime import UTC, tzinfo
from typing import Protocol

from bot.beside.facts import facts
from bot.beside.server import Handler, Request, Say
from bot.beside.told import told
from bot.beside.verified import verified
from rag_core.doors.archive import posts
from rag_core.doors.archive.modes import AUTO
from rag_core.errors import IndexUnavailable, RagError
from rag_core.rag import Rag
from rag_core.recipes import RECIPES
from rag_core.using import exchange

__all__ = ["Rebuilding", "Requests", "Waking"]

# Readers in chats have workers of their own; a script that asks a hundred questions waits here.
_QUESTIONS_AT_ONCE = 2
_LOOK_EVERY_S = 0.1
# An index takes in two thousand posts a second, and writing a large one to disk takes some seconds.
_STANDS_STILL_S = 60.0

_STUCK = "The posts are kept, but the bot's index does not take them in: its log says why."
_MISSHAPEN = "The request {do!r} needs {what}: ask with the citegram command."


class Waking(Protocol):
    """Who brings the indexes up to the archive."""

    def wake(self) -> None:
        """Look at the archive now."""


class Rebuilding(Protocol):
    """Who rebuilds the indexes."""

    async def start(self, chat_id: int | None) -> object:
        """Begin: everything, or one channel. Raises RagError."""

    def progress(self) -> AsyncIterator[tuple[int, int]]:
        """Posts done and to do, until the end. Raises RagError where it failed or was cancelled."""


class Requests:
    """The handlers, by name in `all()`; `zone` is that of whoever asks on the terminal."""

    def __init__(self, rag: Rag, waking: Waking, rebuilding: Rebuilding, zone: tzinfo = UTC) -> None:
        self._rag = rag
        self._zone = zone
        self._waking = waking
        self._rebuilding = rebuilding
        self._questions = asyncio.Semaphore(_QUESTIONS_AT_ONCE)
        self._since = time.monotonic()

    def all(self) -> Mapping[str, Handler]:
        """Name -> handler."""
        return {
            "ask": self._ask,
            "verify": self._verify,
            "wake": self._wake,
            "reindex": self._reindex,
            "use": self._use,
            "doctor": self._doctor,
        }

    async def _ask(self, request: Request, say: Say) -> Mapping[str, object]:
        """{"question", "trace", "recipe"} -> {"told"}; null where there are no channels."""
        question, recipe = request.get("question"), request.get("recipe", AUTO)
        if not isinstance(question, str):
            raise RagError(_MISSHAPEN.format(do="ask", what="a question"))
        if recipe != AUTO and recipe not in RECIPES:
            raise RagError(_MISSHAPEN.format(do="ask", what="a recipe that is known"))
        async with self._questions:
            trace = request.get("trace") is True
            return {"told": await told(self._rag, question, self._zone, trace=trace, recipe=str(recipe))}

    async def _verify(self, request: Request, say: Say) -> Mapping[str, object]:
        """{"text", "trace"} -> {"verified"}; null where there are no channels."""
        text = request.get("text")
        if not isinstance(text, str):
            raise RagError(_MISSHAPEN.format(do="verify", what="a text"))
        async with self._questions:
            return {"verified": await verified(self._rag, text, self._zone, trace=request.get("trace") is True)}

    async def _wake(self, request: Request, say: Say) -> Mapping[str, object]:
        """Take in what is in the archive now; {} when the lexical leg has it."""
        lexical = self._rag.lexical
        start, until = lexical.watermark, await posts.last_seq(self._rag.archive)
        seen, moved = start, time.monotonic()
        self._waking.wake()
        while await self._behind(until):
            if lexical.watermark != seen:
                seen, moved = lexical.watermark, time.monotonic()
                say(max(0, min(seen, until) - start), until - start)
            elif time.monotonic() - moved > _STANDS_STILL_S:
                raise IndexUnavailable(_STUCK)
            await asyncio.sleep(_LOOK_EVERY_S)
        return {}

    async def _behind(self, until: int) -> bool:
        # not by the numbers alone: the last of them may belong to a post that is gone for good
        waiting = await posts.changes(self._rag.archive, self._rag.lexical.watermark, 1)
        return bool(waiting) and waiting[0].seq <= until

    async def _reindex(self, request: Request, say: Say) -> Mapping[str, object]:
        """{"channel": chat id or null} -> {} when it is done. It goes on when the caller leaves."""
        channel = request.get("channel")
        if not (channel is None or (isinstance(channel, int) and not isinstance(channel, bool))):
            raise RagError(_MISSHAPEN.format(do="reindex", what="a channel's id, or null for all"))
        await self._rebuilding.start(channel)
        async for done, total in self._rebuilding.progress():
            say(done, total)
        return {}

    async def _use(self, request: Request, say: Say) -> Mapping[str, object]:
        """{"model", "wanted"} -> {"use", "name", "now"}. It is carried out when the caller leaves, too."""
        given, wanted = request.get("model"), request.get("wanted")
        if not isinstance(given, str) or not isinstance(wanted, str):
            raise RagError(_MISSHAPEN.format(do="use", what="a model and what it is for"))
        return asdict(await asyncio.shield(exchange(self._rag, given, wanted)))

    async def _doctor(self, request: Request, say: Say) -> Mapping[str, object]:
        """{"facts", "uptime_s"}."""
        return {"facts": await facts(self._rag), "uptime_s": round(time.monotonic() - self._since)}
