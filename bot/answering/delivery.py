"""An answer reaches its reader: kept before it is sent, tried until it arrives, and not sent twice if it can be helped.

A message whose fate nobody knows (the line broke) is not simply sent again: a short one is, and the text is put into
that one. Putting a text into a message can be repeated, so that a reader sees an answer twice at most.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from aiogram import Bot
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramBadRequest,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNetworkError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramServerError,
)
from aiogram.types import InlineKeyboardMarkup, MessageEntity, ReplyParameters
from aiohttp import ClientConnectorError

from bot.pages import Page
from bot.session import SendOnce, patience
from bot.words import words_for
from rag_core.doors.archive import Archive, deliveries
from rag_core.doors.archive.deliveries import Parcel
from rag_core.doors.archive.questions import Asked
from rag_core.errors import RagError

__all__ = ["Delivery", "hopeless", "packed"]

# What may be over in a moment.
_FLAKY = (TelegramRetryAfter, TelegramServerError, TelegramNetworkError, ClientDecodeError)
_HOPELESS = (
    TelegramForbiddenError,
    TelegramBadRequest,
    TelegramNotFound,
    TelegramMigrateToChat,
    TelegramEntityTooLarge,
)
_TRIES = 6
_PAUSE_S = 0.5  # doubled with each try

log = logging.getLogger(__name__)


def hopeless(exc: Exception) -> bool:
    """True where sending it later would fail as well: the reader blocked the bot, the group is gone."""
    return isinstance(exc, _HOPELESS)


def packed(pages: Sequence[Page], markup: InlineKeyboardMarkup | None = None, first: int | None = None) -> list[Parcel]:
    """The messages of an answer as they are kept: the buttons under the last, `first` the message to begin in."""
    last = len(pages) - 1
    buttons = markup.model_dump_json(exclude_none=True) if markup else None
    return [
        Parcel(n, page.text, _json(page.entities), None if n < last else buttons, message_id=None if n else first)
        for n, page in enumerate(pages)
    ]


def _json(entities: Sequence[MessageEntity]) -> str:
    return json.dumps([entity.model_dump(mode="json", exclude_none=True) for entity in entities], ensure_ascii=False)


class Delivery:
    """The way of one answer. `send` may be called again; what has arrived is not sent again.

    Where the archive cannot be written the answer is sent all the same: only a restart would not know how far it was.
    """

    def __init__(self, bot: Bot, archive: Archive, asked: Asked, waiting: Sequence[Parcel]) -> None:
        self.asked = asked
        self._bot = bot
        self._archive = archive
        self._parcels = list(waiting)
        self.whole: str | None = None  # what is kept of the answer itself

    async def keep(self, whole: str | None) -> None:
        """Keep the messages until they have arrived, and `whole`, which is kept of the answer itself."""
        self.whole = whole
        with self._as_well_as_it_goes():
            await deliveries.keep(self._archive, self.asked.id, self._parcels, whole)

    async def replace(self, said: str) -> None:
        """Put one sentence in place of all that was not sent, and keep nothing more of the answer."""
        sent = [parcel for parcel in self._parcels if parcel.sent]
        # In a group, or after a try of which nobody knows, there is a message already that is to become the sentence.
        begun = next((parcel.message_id for parcel in self._parcels if not parcel.sent), None)
        self._parcels = [*sent, Parcel(len(sent), said, "[]", message_id=begun)]
        self.whole = None
        with self._as_well_as_it_goes():
            await deliveries.replace(self._archive, self.asked.id, self._parcels)

    async def send(self) -> list[int]:
        """Send what has not been sent; the ids of all messages. Raises what Telegram refused, or was out of reach."""
        sent = []
        for parcel in [*self._parcels]:
            message_id = parcel.message_id if parcel.sent else await self._arrived(parcel)
            assert message_id is not None
            sent.append(message_id)
            if not parcel.sent and len(self._parcels) > 1:
                await self._note(replace(parcel, message_id=message_id, sent=True))
        return sent

    async def _arrived(self, parcel: Parcel) -> int:
        """The id of the message in which the text stands now."""
        if parcel.message_id is not None and await self._put(parcel, parcel.message_id):
            return parcel.message_id
        if not parcel.tried:
            parcel = await self._note(replace(parcel, tried=True, message_id=None))
            try:
                return await self._sent(parcel)
            except Exception as exc:
                if not _unsure(exc):
                    await self._note(replace(parcel, tried=False))
                    raise
                log.warning("question %d: nobody knows whether message %d arrived", self.asked.id, parcel.page + 1)
        return await self._again(parcel)

    async def _again(self, parcel: Parcel) -> int:
        """A short message, and the text into it: it may then stand there twice, which is counted."""
        with self._as_well_as_it_goes():
            await deliveries.repeated(self._archive, self.asked.id)
        said = words_for(self.asked.lang)("delivery-again")
        short = await self._bot.send_message(self.asked.chat_id, said, **self._where(parcel))
        await self._note(replace(parcel, message_id=short.message_id))
        await self._put(parcel, short.message_id)
        return short.message_id

    async def _sent(self, parcel: Parcel) -> int:
        call = SendOnce(chat_id=self.asked.chat_id, **_content(parcel), **self._where(parcel))
        for attempt in range(_TRIES):
            try:
                return (await self._bot(call)).message_id
            except _FLAKY as exc:
                wait = patience(exc, _PAUSE_S * 2**attempt)
                if wait is None or _unsure(exc) or attempt == _TRIES - 1:
                    raise
                log.warning("question %d: %s; again in %.1f s", self.asked.id, type(exc).__name__, wait)
            await asyncio.sleep(wait)
        raise AssertionError("the last try returns or raises")

    async def _put(self, parcel: Parcel, message_id: int) -> bool:
        """Put the text into a message; False where it is no longer there."""
        try:
            await self._bot.edit_message_text(chat_id=self.asked.chat_id, message_id=message_id, **_content(parcel))
        except TelegramBadRequest as exc:
            return "not modified" in exc.message
        return True

    def _where(self, parcel: Parcel) -> dict[str, Any]:
        reply = ReplyParameters(message_id=self.asked.message_id, allow_sending_without_reply=True)
        return {"message_thread_id": self.asked.thread, "reply_parameters": None if parcel.page else reply}

    async def _note(self, parcel: Parcel) -> Parcel:
        self._parcels[parcel.page] = parcel
        with self._as_well_as_it_goes():
            await deliveries.note(self._archive, self.asked.id, parcel)
        return parcel

    @contextmanager
    def _as_well_as_it_goes(self) -> Iterator[None]:
        try:
            yield
        except RagError as exc:
            log.warning("question %d: its delivery is not kept: %s", self.asked.id, exc)


def _content(parcel: Parcel) -> dict[str, Any]:
    markup = InlineKeyboardMarkup.model_validate_json(parcel.markup) if parcel.markup else None
    entities = [MessageEntity.model_validate(entity) for entity in json.loads(parcel.entities)]
    return {"text": parcel.text, "entities": entities, "reply_markup": markup}


def _unsure(exc: Exception) -> bool:
    """True where Telegram may have taken the message all the same."""
    if isinstance(exc, ClientDecodeError):
        return not isinstance(exc.data, str)  # a proxy's page instead of Telegram's answer
    reached = not isinstance(exc.__cause__, ClientConnectorError)
    return isinstance(exc, TelegramNetworkError) and not isinstance(exc, TelegramEntityTooLarge) and reached
