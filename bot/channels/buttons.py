"""Buttons about channels: what they carry, who may press them, how their message changes.

A button can be pressed by anybody who sees it, again and again, and with data that somebody made up. So it
names a channel by a mark that only this archive can make, and the presser is checked every time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum

from aiogram.exceptions import TelegramBadRequest
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, InlineKeyboardButton, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Text

from bot.desk import Desk
from bot.marks import marked
from bot.words import Words
from rag_core.doors.archive import Archive
from rag_core.types import Channel

__all__ = ["Act", "Press", "edit", "keyboard", "mark_of", "meant", "redraw", "refused"]


class Act(StrEnum):
    """What a button does. Short: Telegram gives a button 64 bytes."""

    LIST = "l"
    CARD = "c"
    PUBLIC = "p"
    MEMBERS = "m"
    ADMINS = "a"
    PAUSE = "z"
    RESUME = "r"
    GUARDED_IN = "g"
    GUARDED_OUT = "u"
    BINDABLE = "b"
    UNBINDABLE = "n"
    ASK_REMOVE = "k"
    REMOVE = "x"
    LEAVE = "v"


class Press(CallbackData, prefix="ch"):
    """A button: what it does, the mark of its channel, and one number more (a part of the list, a time, an id)."""

    act: Act
    mark: str = ""
    number: int = 0


def mark_of(archive: Archive, chat_id: int) -> str:
    """Eight signs that stand for a channel in this archive, also after a restart; nobody else can make them."""
    return marked(str(chat_id), archive.identity)


def meant(archive: Archive, mark: str, known: Mapping[int, Channel]) -> Channel | None:
    """The known channel that a mark stands for."""
    return next((channel for chat_id, channel in known.items() if mark_of(archive, chat_id) == mark), None)


async def refused(pressed: CallbackQuery, desk: Desk, words: Words) -> bool:
    """Tell whoever is no admin, or does not press in private, that this is not for them."""
    private = pressed.message is not None and pressed.message.chat.type == "private"
    if private and pressed.from_user.id in desk.admins:
        return False
    await pressed.answer(words("admins-only", start="/start"), show_alert=True)
    return True


async def redraw(pressed: CallbackQuery, said: Text, buttons: InlineKeyboardMarkup | None, done: str = "") -> None:
    """Change the message that the button is at, and let the button go."""
    await edit(pressed, said, buttons)
    await pressed.answer(done[:200] or None)


async def edit(pressed: CallbackQuery, said: Text, buttons: InlineKeyboardMarkup | None) -> None:
    """Change the message that the button is at."""
    if isinstance(pressed.message, Message):  # else it is too old to be edited
        with suppress(TelegramBadRequest):  # the same button twice: "message is not modified"
            await pressed.message.edit_text(**said.as_kwargs(), reply_markup=buttons)


def keyboard(*rows: Sequence[tuple[str, Press]]) -> InlineKeyboardMarkup:
    """Buttons by rows: label and what it carries."""
    shown = [[InlineKeyboardButton(text=label, callback_data=press.pack()) for label, press in row] for row in rows]
    return InlineKeyboardMarkup(inline_keyboard=[row for row in shown if row])
