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
from bot.recheck import Basis, CouldNotCheck, Reader, Withdrawn, read_basis, recheck_basis, rechecked
from bot.rights import Rights
from bot.words import words_for
from ingest.ledger import Ledger
from rag_core.doors.archive import Archive, questions, talks
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
    """Sends answers and closes their questions; `closed` is called when one that was late has been closed.

    What an answer stands on is checked before each attempt to send it, whoever makes the attempt (bot/recheck.py);
    one that does not hold any more becomes a sentence that says so.
    """

    def __init__(self, bot: Bot, archive: Archive, rights: Rights, ledger: Ledger, closed: Callable[[], None]) -> None:
        self._bot = bot
        self._archive = archive
        self._rights = rights
        self._ledger = ledger
        self._closed = closed
        self._late: set[asyncio.Task[None]] = set()

    async def send(self, asked: Asked, parcels: Sequence[Parcel], whole: str | None) -> None:
        """Keep an answer, send it, close its question; `whole` is what is kept of it, None of an apology."""
        delivery = Delivery(self._bot, self._archive, asked, parcels)
        await delivery.keep(whole)
        if not await self._arrived(delivery):
            task = asyncio.create_task(self._later(delivery))
            self._late.add(task)
            task.add_done_callback(self._late.discard)

    async def recheck_kept(self, asked: Asked, whole: str | None) -> None:
        """Check an answer that an earlier life of the bot left. Raises Withdrawn, or CouldNotCheck."""
        await recheck_basis(_basis_of(whole), _reader_of(asked), self._archive, self._rights)

    async def stop(self) -> None:
        """Leave what has not arrived to the next start."""
        late = [*self._late]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _arrived(self, delivery: Delivery) -> bool:
        """Send an answer and close its question; False where it is to be tried again later."""
        asked, sent = delivery.asked, list[int]()
        try:
            try:
                with rechecked(_basis_of(delivery.whole), _reader_of(asked), self._archive, self._rights):
                    sent = await delivery.send()
            except Withdrawn:
                log.info("question %d: the answer does not hold any more and is not sent", asked.id)
                await self._withdraw(delivery)
                sent = await delivery.send()
        except (TelegramAPIError, ClientDecodeError, CouldNotCheck) as exc:
            log.warning("question %d: the answer was not delivered: %s", asked.id, exc)
            if not hopeless(exc) and datetime.now(UTC) - asked.asked_at < _TOO_LATE:
                return False
        whole = delivery.whole
        told = kept.with_messages(json.loads(whole), sent) if sent and whole is not None else None
        await self._finish(asked, "answered" if told else "failed", told, sent[0] if sent else None)
        return True

    async def _withdraw(self, delivery: Delivery) -> None:
        """Put a sentence in the answer's place; the names in it, which a follow-up would repeat, are forgotten too."""
        asked = delivery.asked
        await delivery.replace(words_for(asked.lang)("answer-withdrawn"))
        try:
            await talks.forget(self._archive, user=asked.user_id, chat=asked.chat_id, thread=asked.thread or 0)
        except RagError as exc:
            log.warning("question %d: its talk is not forgotten: %s", asked.id, exc)

    async def _later(self, delivery: Delivery) -> None:
        """Try until it arrives. Meanwhile the question stays open, and its reader's next one waits."""
        pause = _AGAIN_S
        while True:
            await asyncio.sleep(pause)
            if await self._arrived(delivery):
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


def _reader_of(asked: Asked) -> Reader:
    return Reader(asked.user_id, asked.chat_id, asked.private)


def _basis_of(whole: str | None) -> Basis:
    """What an answer stands on, out of what is kept of it. Raises Withdrawn where an earlier version kept nothing."""
    given = json.loads(whole) if whole else None
    if not given:
        return Basis()  # only a sentence of ours
    if "basis" not in given:
        raise Withdrawn
    return read_basis(given["basis"])
