"""/forget: erases what is kept of whoever asks, after they confirm it; in a group what is kept from there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress

from aiogram import F, Router
from aiogram.filters import Command, CommandObject
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, InlineKeyboardButton, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Text

from bot.channels.buttons import redraw
from bot.desk import Desk
from bot.words import Words
from rag_core.doors.archive.mine import Mine, chats_waiting, erase_mine, mine

__all__ = ["routes"]

# How long an answer that was stopped may take to be closed.
_PATIENCE_S = 5.0
_LASTS_S = 600  # a confirmation that lies about for longer was not meant any more


class Confirm(CallbackData, prefix="fg"):
    """A button: whether to erase, whose data, and when it was asked (Unix seconds)."""

    erase: bool
    user_id: int
    asked: int


async def _on_forget(message: Message, command: CommandObject, desk: Desk, words: Words) -> None:
    private = message.chat.type == "private"
    if not private and not command.mention:
        return  # in a group a bare command may be meant for another bot
    if message.sender_chat or message.from_user is None:
        await message.reply(words("forget-masked"), allow_sending_without_reply=True)
        return
    user_id = message.from_user.id
    found = await mine(desk.archive, user_id, None if private else message.chat.id)
    if found.nothing:
        said = words("forget-nothing" if private else "forget-nothing-here")
        await message.reply(said, allow_sending_without_reply=True)
        return
    asks = words("forget-ask") if private else words("forget-ask-here", forget="/forget")
    said = "\n".join([asks, *_listed(found, words)])
    await message.reply(said, reply_markup=_buttons(user_id, words), allow_sending_without_reply=True)


async def _on_confirm(pressed: CallbackQuery, callback_data: Confirm, desk: Desk, words: Words) -> None:
    """Anybody who sees the button may press it, and data can be made up: only what is the presser's own is erased."""
    if callback_data.user_id != pressed.from_user.id:
        await pressed.answer(words("forget-not-yours", forget="/forget"), show_alert=True)
        return
    message, now = pressed.message, time.time()
    if not isinstance(message, Message) or not now - _LASTS_S <= callback_data.asked <= now + 1:
        await pressed.answer(words("forget-late", forget="/forget"), show_alert=True)
        return
    if not message.reply_markup:  # pressed twice: it is done
        await pressed.answer(words("forget-late", forget="/forget"), show_alert=True)
        return
    said = words("forget-kept")
    if callback_data.erase:
        said = await _erased(pressed.from_user.id, message, desk, words)
    await redraw(pressed, Text(said), None)


async def _erased(user_id: int, message: Message, desk: Desk, words: Words) -> str:
    """Erase, and say what."""
    private = message.chat.type == "private"
    where = None if private else message.chat.id
    await _halted(user_id, where, desk)
    found = await erase_mine(desk.archive, user_id, where)
    desk.rag.caches.forget()
    desk.turns.forget()
    if found.nothing:
        return words("forget-nothing" if private else "forget-nothing-here")
    rest = words("forget-rest", backups=desk.settings.data.backups)
    return "\n".join([words("forget-done"), *_listed(found, words), "", rest])


async def _halted(user_id: int, where: int | None, desk: Desk) -> None:
    """Stop what is being answered, and wait until that is said: an answer on its way would be kept again."""
    for chat_id in await chats_waiting(desk.archive, user_id, where):
        await desk.turns.halt(chat_id, user_id)
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_S):
            while await chats_waiting(desk.archive, user_id, where):  # noqa: ASYNC110 - the archive rings no bell
                await asyncio.sleep(0.05)


def _listed(found: Mine, words: Words) -> Iterator[str]:
    for name, count in (
        ("forget-questions", found.questions),
        ("forget-pending", found.pending),
        ("forget-votes", found.votes),
        ("forget-links", found.links),
        ("forget-unread", found.unread),
        ("forget-talks", found.talks),
    ):
        if count:
            yield f"• {words(name, count=count)}"


def _buttons(user_id: int, words: Words) -> InlineKeyboardMarkup:
    now = int(time.time())
    row = [
        InlineKeyboardButton(
            text=words(label), callback_data=Confirm(erase=erase, user_id=user_id, asked=now).pack(), style=style
        )
        for label, erase, style in (("forget-yes", True, "danger"), ("forget-no", False, None))
    ]
    return InlineKeyboardMarkup(inline_keyboard=[row])


def routes() -> Router:
    """Handlers of /forget and its buttons."""
    router = Router(name="forgetting")
    chats = F.chat.type.in_({"private", "group", "supergroup"})
    router.message.register(_on_forget, Command("forget", ignore_case=True), chats)
    router.callback_query.register(_on_confirm, Confirm.filter())
    return router
