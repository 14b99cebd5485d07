"""Errors reach the admins once: what the log has as an error is gathered for a moment and told in one message."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from bot.logs import TextFilter
from bot.tokens import TokenFilter
from ingest.clock import elapsed
from ingest.notices import Errors, Tell

__all__ = ["alarmed"]

_GATHER_S = 30.0  # one cause often fails many things
_SAY_AGAIN_S = 6 * 3600.0  # the same
_AT_MOST_EVERY_S = 600.0  # whatever it is
_MOST_KINDS = 1000  # remembered
_LONGEST = 200  # characters of a line

_OURS = ("bot.", "ingest.", "rag_core.")
# Jobs that fail are told on their own (ingest/schedule.py), or stand in /stats.
_TOLD = "ingest.ledger"
_NUMBER = re.compile(r"\d+")


class _Gathered(logging.Handler):
    """Counts the errors that the log is given, from any thread. What differs in its numbers only is the same."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(logging.ERROR)
        self.addFilter(TextFilter())  # before the other: it looks at what the sentence is made of
        self.addFilter(TokenFilter())
        self.rung = asyncio.Event()
        self._loop = loop
        self._counts: Counter[str] = Counter()
        self._lines: dict[str, str] = {}
        self._said: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Take one in, unless it is not ours or was told lately."""
        if not record.name.startswith(_OURS) or record.name == _TOLD:
            return
        line = record.getMessage().split("\n", 1)[0][:_LONGEST]
        with suppress(RuntimeError):  # the loop has ended, and nobody can be told any more
            self._loop.call_soon_threadsafe(self._count, line)

    def _count(self, line: str) -> None:
        kind = _NUMBER.sub("#", line)
        if elapsed() - self._said.get(kind, float("-inf")) < _SAY_AGAIN_S:
            return
        if kind in self._lines or len(self._lines) < _MOST_KINDS:
            self._lines.setdefault(kind, line)
            self._counts[kind] += 1
            self.rung.set()

    def waiting(self) -> Errors:
        """What was gathered, most frequent first."""
        counted = self._counts.most_common()
        return Errors(tuple((self._lines[kind], times) for kind, times in counted))

    def told(self) -> None:
        """It reached somebody: the same is silent for some hours."""
        now = elapsed()
        self._said = {kind: at for kind, at in self._said.items() if now - at < _SAY_AGAIN_S}
        self._said |= dict.fromkeys(self._counts, now)
        self._counts.clear()
        self._lines.clear()
        self.rung.clear()


@asynccontextmanager
async def alarmed(tell: Tell) -> AsyncIterator[None]:
    """Inside, the admins are told of errors. Where none is reached, it is tried again later."""
    gathered, root = _Gathered(asyncio.get_running_loop()), logging.getLogger()
    root.addHandler(gathered)
    telling = asyncio.create_task(_tell_on(gathered, tell))
    try:
        yield
    finally:
        root.removeHandler(gathered)
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _tell_on(gathered: _Gathered, tell: Tell) -> None:
    while True:
        await gathered.rung.wait()
        await asyncio.sleep(_GATHER_S)
        try:
            if await tell(gathered.waiting()):
                gathered.told()
        except Exception as exc:  # it must go on, and must not ring for itself
            logging.getLogger(__name__).warning("admins could not be told of errors: %s", exc)
        await asyncio.sleep(_AT_MOST_EVERY_S)
