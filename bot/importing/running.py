"""One import at a time: fetched, read by a confined child, told of in one message, stopped, or cut short.

What belongs to it lies in data/incoming and goes with it: the document, what was in it, and a note of whom to
tell if the bot dies before it is done.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.types import Document, Message
from aiogram.utils.formatting import Text

from bot import trouble
from bot.importing.fetching import fetched
from bot.importing.process import child_lines
from bot.importing.refusal import Refusal
from bot.importing.sentences import refusal
from bot.importing.telling import Progress, ask_who_reads, report
from bot.settings import Settings
from bot.titles import one_line
from bot.words import Words, words_for
from rag_core.doors.archive import Archive, channels
from rag_core.errors import RagError
from rag_core.types import Channel, Visibility

__all__ = ["Imports", "Order"]

_FOLDER, _NOTE, _DOCUMENT = "incoming", "note.json", "document"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Order:
    """What an admin wants: the document, and which channel it is of (`chat`), if they said so.

    `username` is the channel's, without @: exports do not hold it. `message` is what is replied to.
    """

    document: Document
    message: Message
    words: Words
    chat: str | None = None
    username: str | None = None

    @property
    def file(self) -> str:
        """What the reader calls the document."""
        return one_line(self.document.file_name or "") or self.words("import-file")


@dataclass(frozen=True, slots=True)
class _End:
    """What to say at the end; `closed` are channels that only admins read until somebody says otherwise."""

    said: Text
    closed: Sequence[Channel] = ()
    cut_short: bool = False


class Imports:
    """The import that runs, if any. `wake` lets the indexes look at the archive."""

    def __init__(self, bot: Bot, settings: Settings, archive: Archive, wake: Callable[[], None]) -> None:
        self._bot = bot
        self._settings = settings
        self._archive = archive
        self._wake = wake
        self._folder = settings.data.dir / _FOLDER
        self._task: asyncio.Task[None] | None = None
        self._run = ""
        self._stopped = False
        self._left = _note(self._folder)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def tell_left(self) -> None:
        """Say that an import of an earlier life was cut short."""
        if self._left is None:
            return
        words = words_for(self._left["lang"])
        said = words("import-interrupted", file=self._left["file"])
        try:
            await self._bot.edit_message_text(said, chat_id=self._left["chat"], message_id=self._left["message"])
        except (TelegramAPIError, ClientDecodeError) as exc:
            log.warning("an interrupted import could not be told of: %s", exc)

    def begin(self, order: Order) -> bool:
        """Begin in the background; False where an import runs already."""
        if self._task and not self._task.done():
            return False
        self._run, self._stopped = token_urlsafe(9), False
        self._task = asyncio.create_task(self._begun(order))
        return True

    def cancel(self, run: str) -> bool:
        """Stop the import with this button; False where it is over."""
        if run != self._run or self._task is None or self._task.done() or self._stopped:
            return False
        self._stopped = True
        self._task.cancel()
        return True

    async def stop(self) -> None:
        """The bot ends: so does the import, and says so."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _begun(self, order: Order) -> None:
        try:
            progress = await Progress.begun(order.message, order.file, self._run, order.words)
        except (TelegramAPIError, ClientDecodeError) as exc:
            log.error("an import was not begun, as its admin cannot be told: %s", exc)
            return
        end = await self._ended(order, progress)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        if not await progress.end(end.said) and end.cut_short:  # then the next start says it
            await asyncio.to_thread(self._prepared, order, progress)
        await ask_who_reads(order.message, self._archive, end.closed, order.words)

    async def _ended(self, order: Order, progress: Progress) -> _End:
        """Do it; what to say of it, whatever happened."""
        words = order.words
        try:
            return await self._done(order, progress)
        except asyncio.CancelledError:
            if self._stopped:
                return _End(Text(words("import-stopped", file=order.file)))
            return _End(Text(words("import-interrupted", file=order.file)), cut_short=True)
        except Refusal as exc:
            return _End(Text(words(exc.sentence, **({"file": order.file} | exc.values))))
        except RagError as exc:
            return _End(Text(trouble.sentence(exc, words, admin=True)))
        except OSError as exc:
            log.error("an import failed: %s", exc.strerror)
            return _End(Text(words("import-disk")))
        except Exception:
            log.exception("an import failed")
            return _End(Text(words("trouble-general")))

    async def _done(self, order: Order, progress: Progress) -> _End:
        before = await channels.known(self._archive)
        document = await asyncio.to_thread(self._prepared, order, progress)
        await fetched(self._bot, order.document, document)
        end = await self._read(order, progress)
        found = await self._settled(order, end["channels"])
        self._wake()
        closed = [c for c in found if c.chat_id not in before and c.visibility is Visibility.ADMINS]
        return _End(report(order.file, found, end, order.words), closed)

    def _prepared(self, order: Order, progress: Progress) -> Path:
        """An empty folder for what comes, with the note."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700, parents=True)
        place = {"chat": progress.message.chat.id, "message": progress.message.message_id}
        note = json.dumps(place | {"lang": order.words.lang, "file": order.file})
        (self._folder / _NOTE).write_text(note, encoding="utf-8")
        return self._folder / _DOCUMENT

    async def _read(self, order: Order, progress: Progress) -> dict[str, Any]:
        """Let the child read it; what it says at the end. Raises `Refusal`."""
        data = self._settings.data.dir.resolve()
        told: dict[str, object] = {
            "folder": str(data / _FOLDER),
            "document": _DOCUMENT,
            "data": str(data),
            "chat": order.chat,
        }
        told |= {"zone": self._settings.bot.timezone}
        async with aclosing(child_lines(told)) as lines:
            async for line in lines:
                if "at" in line:
                    await progress.at(*line["at"])
                elif "refused" in line:
                    raise Refusal(line["refused"][0], **line["refused"][1])
                elif "error" in line:
                    raise refusal(line["error"])
                elif "end" in line:
                    return dict(line["end"])
        raise RuntimeError("the child that imports ended without a word")  # its traceback is on stderr

    async def _settled(self, order: Order, chat_ids: list[int]) -> list[Channel]:
        """The imported channels: with the username the admin gave, and no longer removed."""
        if order.username and len(chat_ids) == 1:
            channel = (await channels.known(self._archive))[chat_ids[0]]
            if not channel.username:
                await channels.put(self._archive, replace(channel, username=order.username))
        known = await channels.known(self._archive)
        for channel in (known[chat_id] for chat_id in chat_ids if known[chat_id].state == "removed"):
            await channels.set_visibility(self._archive, channel.chat_id, Visibility.ADMINS)
            await channels.set_state(self._archive, channel.chat_id, "active")
        known = await channels.known(self._archive)
        return [known[chat_id] for chat_id in chat_ids]


def _note(folder: Path) -> dict[str, Any] | None:
    """The note of an import that was cut short."""
    try:
        return dict(json.loads((folder / _NOTE).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None
