"""What is to be sent: an answer goes out at once, or is tried again until it arrives or nobody waits any more."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError

from bot import kept
from bot.answering.delivery import Delivery, hopeless
from ingest.ledger import Ledger
from rag_core.doors.archive import Archive, questions
from rag_core.doors.archive.deliveries import Parcel
from rag_core.doors.archive.questions import Asked
from rag_core.errors import RagError

__all__ = ["JOB", "PAUSE_S", "Outbox"]

JOB = "answers"  # in the ledger
# After a failure that is not a question's: the archive is busy or broken.
PAUSE_S = 1.0
# An answer that does not arrive is tried again after so long, then after twice that ..., until nobody waits any more.
_AGAIN_S, _AGAIN_MOST_S = 5.0, 60.0
_TOO_LATE = timedelta(days=1)

log = logging.getLogger(__name__)


class Outbox:
    """Sends answers and closes their questions; `closed` is called when one that was late has been closed."""

    def __init__(self, bot: Bot, archive: Archive, ledger: Ledger, closed: Callable[[], None]) -> None:
        self._bot = bot
        self._archive = archive
        self._ledger = ledger
        self._closed = closed
        self._late: set[asyncio.Task[None]] = set()

    async def send(self, asked: Asked, parcels: Sequence[Parcel], whole: str | None) -> None:
        """Keep an answer, send it, close its question; `whole` is what is kept of it, None of an apology."""
        delivery = Delivery(self._bot, self._archive, asked, parcels)
        await delivery.keep(whole)
        if not await self._arrived(delivery, whole):
            task = asyncio.create_task(self._later(delivery, whole))
            self._late.add(task)
            task.add_done_callback(self._late.discard)

    async def stop(self) -> None:
        """Leave what has not arrived to the next start."""
        late = [*self._late]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _arrived(self, delivery: Delivery, whole: str | None) -> bool:
        """Send an answer and close its question; False where it is to be tried again later."""
        asked, sent = delivery.asked, list[int]()
        try:
            sent = await delivery.send()
        except (TelegramAPIError, ClientDecodeError) as exc:
            log.warning("question %d: the answer was not delivered: %s", asked.id, exc)
            if not hopeless(exc) and datetime.now(UTC) - asked.asked_at < _TOO_LATE:
                return False
        told = kept.with_messages(json.loads(whole), sent) if sent and whole is not None else None
        await self._finish(asked, "answered" if told else "failed", told, sent[0] if sent else None)
        return True

    async def _later(self, delivery: Delivery, whole: str | None) -> None:
        """Try until it arrives. Meanwhile the question stays open, and its reader's next one waits."""
        pause = _AGAIN_S
        while True:
            await asyncio.sleep(pause)
            if await self._arrived(delivery, whole):
                return self._closed()
            pause = min(2 * pause, _AGAIN_MOST_S)

    async def _finish(self, asked: Asked, state: str, whole: str | None, first: int | None) -> None:
        """Close the question. An open one keeps its reader from the next, so that this is tried until it works."""
        while True:
            try:
                return await questions.finish(self._archive, asked.id, state=state, answer=whole, message_id=first)
            except RagError as exc:
                self._ledger.failed(JOB, exc)
                await asyncio.sleep(PAUSE_S)
