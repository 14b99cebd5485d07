"""Whether the bot can do its work now, and what of it cannot: in words of our own, as reasons may name files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from bot.desk import Desk
from bot.metrics.wire import Wire
from rag_core.doors.archive import census
from rag_core.errors import RagError

__all__ = ["FINE", "Readiness"]

OK, OFF = "ok", "off"
FINE = {OK, OFF}
# A question for updates is held for 30 s, and is asked again after a pause where it failed. With a webhook it is
# looked every minute whether Telegram still knows it.
_SILENCE_S, _SILENCE_BY_WEBHOOK_S = 90.0, 200.0
_PATIENCE_S = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Looks at what the bot stands on. `desk` gives its tray, None while it is not laid yet."""

    desk: Callable[[], Desk | None]
    wire: Wire

    async def look(self) -> dict[str, str]:
        """Each thing and "ok", or what is wrong with it. "off" is fine too: the bot was started without."""
        desk = self.desk()
        if desk is None:
            starting = "starting"
            return {"archive": starting, "words": starting, "vectors": starting, "telegram": self._telegram()}
        archive, vectors = await asyncio.gather(_archive(desk), _vectors(desk))
        return {"archive": archive, "words": _words(desk), "vectors": vectors, "telegram": self._telegram()}

    def _telegram(self) -> str:
        silence, most = self.wire.silence, _SILENCE_BY_WEBHOOK_S if self.wire.by_webhook else _SILENCE_S
        if silence is None:
            return "not reached yet"
        return OK if silence < most else f"silent for {silence:.0f} s"


async def _archive(desk: Desk) -> str:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await census.writable(desk.archive)
    except TimeoutError:
        return "busy"
    except RagError as exc:
        log.warning("not ready: %s", exc)
        return "cannot be written"
    return OK


def _words(desk: Desk) -> str:
    jobs = desk.indexing.ledger.jobs
    return "cannot be brought up to date" if "lexical" in jobs and jobs["lexical"].failing else OK


async def _vectors(desk: Desk) -> str:
    if desk.rag.dense is None:  # without a model they are not wanted; what was wanted and not opened is a shortfall
        return "not opened" if any(short.stage == "dense" for short in desk.rag.without) else OFF
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await desk.rag.dense.vectors.count()
    except TimeoutError:
        return "busy"
    except RagError as exc:
        log.warning("not ready: %s", exc)
        return "cannot be searched"
    return OK
