"""Where an answer is seen while it is made: a draft in private, one message that is edited in groups.

Drafts: https://core.telegram.org/bots/api#sendmessagedraft (private chats only, gone after 30 seconds).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramRetryAfter
from aiogram.filters.callback_data import CallbackData
from aiogram.types import InlineKeyboardButton, InlineKeyboardMarkup, ReactionTypeEmoji, ReplyParameters
from aiogram.utils.formatting import Text

from bot.pages import pages
from bot.session import EditPassing, SendOnce
from bot.words import words_for
from rag_core.doors.archive import Archive, line
from rag_core.doors.archive.questions import Asked
from rag_core.errors import RagError

__all__ = ["Draft", "Halt", "Message", "noticed", "passing", "screen_for"]

log = logging.getLogger(__name__)


class Halt(CallbackData, prefix="halt"):
    """The button that stops a question. Who presses it is checked: anybody in the group can."""

    question: int


class Draft:
    """The draft of an answer in a private chat. Nothing is lost with it: the answer comes as a message."""

    every, lasts = 1.0, 20.0

    def __init__(self, bot: Bot, asked: Asked) -> None:
        self._bot = bot
        self._asked = asked
        self.message_id: int | None = None
        self._closed = False

    async def put(self, text: Text) -> float:
        """Show it; see `Screen`."""
        if self._closed:
            return self.lasts
        page, asked = pages(text)[0], self._asked
        call = self._bot.send_message_draft(
            asked.chat_id,
            asked.id,
            asked.thread,
            text=page.text,
            entities=list(page.entities),
            parse_mode=None,
            can_stop=True,
        )
        return await passing(call)

    async def close(self) -> None:
        """Show nothing more: the answer comes now."""
        self._closed = True


class Message:
    """The message of a group that becomes the answer. It is there again after a restart."""

    # 20 messages a minute and group: https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this
    every, lasts = 3.0, 3600.0

    def __init__(self, bot: Bot, asked: Asked, archive: Archive) -> None:
        self._bot = bot
        self._asked = asked
        self._archive = archive
        self.message_id = asked.shown_in
        self._turn = asyncio.Lock()
        self._closed = False
        self._under_way: asyncio.Future[float] | None = None

    async def put(self, text: Text) -> float:
        """Show it; see `Screen`. One after the other: an older text must not come over a newer one."""
        self._under_way = asyncio.ensure_future(self._next(text))
        # Cut off in the middle nobody would know whether it is shown, and in which message.
        return await asyncio.shield(self._under_way)

    async def _next(self, text: Text) -> float:
        async with self._turn:
            return 0.0 if self._closed else await passing(self._put(text))

    async def _put(self, text: Text) -> None:
        page, asked = pages(text)[0], self._asked
        stop = InlineKeyboardButton(
            text=words_for(asked.lang)("button-halt"), callback_data=Halt(question=asked.id).pack()
        )
        buttons = InlineKeyboardMarkup(inline_keyboard=[[stop]])
        shown: dict[str, Any] = {"text": page.text, "entities": list(page.entities), "reply_markup": buttons}
        if self.message_id is not None:
            await self._bot(EditPassing(chat_id=asked.chat_id, message_id=self.message_id, **shown))
            return
        reply = ReplyParameters(message_id=asked.message_id, allow_sending_without_reply=True)
        call = SendOnce(chat_id=asked.chat_id, message_thread_id=asked.thread, reply_parameters=reply, **shown)
        self.message_id = (await self._bot(call)).message_id
        with suppress(RagError):  # then a restart shows another one
            await line.show_in(self._archive, asked.id, self.message_id)

    async def close(self) -> None:
        """Show nothing more: the answer comes now. An edit that is under way is waited for."""
        self._closed = True
        async with self._turn:
            pass


def screen_for(bot: Bot, asked: Asked, archive: Archive) -> Draft | Message:
    """Where this question is shown."""
    return Draft(bot, asked) if asked.private else Message(bot, asked, archive)


async def noticed(bot: Bot, chat_id: int, message_id: int) -> None:
    """Put 👀 under a question: somebody has seen it."""
    await passing(bot.set_message_reaction(chat_id, message_id, [ReactionTypeEmoji(emoji="👀")]))


async def passing(call: Awaitable[object]) -> float:
    """Do what only shows for a while. What goes wrong is not worth more than the seconds to leave Telegram alone."""
    try:
        await call
    except TelegramRetryAfter as exc:
        return float(exc.retry_after)
    except (TelegramAPIError, ClientDecodeError) as exc:
        log.debug("something that passes was not shown: %s", exc)
    return 0.0
