"""How an import is told: one message that says how far it is, can stop it, and at last says what came of it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.filters.callback_data import CallbackData
from aiogram.types import InlineKeyboardButton, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Text, as_list

from bot.channels.card import approval
from bot.importing.sentences import noted
from bot.pages import pages
from bot.titles import titled
from bot.words import Words
from rag_core.doors.archive import Archive
from rag_core.types import Channel

__all__ = ["Go", "Progress", "Stop", "ask_who_reads", "go_button", "report"]

# Telegram's limits for edits are not published; a person looks every few seconds.
_EDIT_EVERY_S = 3.0
_PATIENCE_S = 5.0
_MOST_TITLES = 5
_MOST_ASKED = 3

log = logging.getLogger(__name__)


class Go(CallbackData, prefix="import-go"):
    """A button that imports the document its message replies to."""


class Stop(CallbackData, prefix="import-stop"):
    """A button that stops the import that runs."""

    run: str


def go_button(words: Words) -> InlineKeyboardMarkup:
    """The offer's button."""
    return _one(words("button-import"), Go())


class Progress:
    """The message, edited now and then. Telling must not stop the work: what cannot be said is logged."""

    def __init__(self, message: Message, file: str, run: str, words: Words) -> None:
        self.message = message
        self._file = file
        self._words = words
        self._buttons = _one(words("button-stop"), Stop(run=run))
        self._edited = time.monotonic()

    @classmethod
    async def begun(cls, to: Message, file: str, run: str, words: Words) -> Progress:
        """Reply to the document, or to who asked for it."""
        buttons = _one(words("button-stop"), Stop(run=run))
        said = words("import-fetching", file=file)
        sent = await to.reply(said, reply_markup=buttons, allow_sending_without_reply=True)
        return cls(sent, file, run, words)

    async def at(self, done: int, total: int) -> None:
        """Say how much is done, unless it was said just now."""
        if time.monotonic() - self._edited < _EDIT_EVERY_S:
            return
        percent = min(99, 100 * done // max(total, 1))
        await self._edit(Text(self._words("import-at", file=self._file, percent=percent)), self._buttons)
        self._edited = time.monotonic()

    async def end(self, said: Text) -> bool:
        """Say what came of it; whether that arrived."""
        return await self._edit(said, None)

    async def _edit(self, said: Text, buttons: InlineKeyboardMarkup | None) -> bool:
        page = pages(said)[0]
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self.message.edit_text(page.text, entities=list(page.entities), reply_markup=buttons)
        except (TelegramAPIError, ClientDecodeError, TimeoutError) as exc:
            log.warning("an import could not be told of: %s", type(exc).__name__)
            return False
        return True


def report(file: str, channels: Sequence[Channel], end: Mapping[str, Any], words: Words) -> Text:
    """What was imported, in numbers, and what should be known of it."""
    names = [titled(channel, words) for channel in channels[:_MOST_TITLES]]
    if more := len(channels) - len(names):
        names.append(Text(words("titles-more", more=more)))
    n = end["tally"]
    counts = words("import-counts", new=n["new"], edited=n["edited"], unchanged=n["unchanged"],
                   skipped=n["skipped"], deleted=n["deleted"])  # fmt: skip
    notes = [Text(noted(note, words)) for note in end["notes"]]
    if end["more"]:
        notes.append(Text(words("import-notes-more", count=int(end["more"]))))
    return as_list(Text(words("import-done", file=file)), as_list(*names, counts), *notes, sep="\n\n")


async def ask_who_reads(to: Message, archive: Archive, closed: Sequence[Channel], words: Words) -> None:
    """Channels that are new here are read by admins only; offer to change it."""
    try:
        if len(closed) > _MOST_ASKED:
            await to.answer(words("import-who-many", count=len(closed), channels="/channels"))
            return
        for channel in closed:
            said = words.rich("import-who", title=titled(channel, words))
            await to.answer(**said.as_kwargs(), reply_markup=approval(archive, channel.chat_id, words))
    except (TelegramAPIError, ClientDecodeError) as exc:
        log.warning("an admin could not be asked who may read what was imported: %s", exc)


def _one(label: str, press: CallbackData) -> InlineKeyboardMarkup:
    return InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text=label, callback_data=press.pack())]])
