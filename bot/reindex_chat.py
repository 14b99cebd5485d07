"""/reindex: an admin has the search index built anew, of all channels or of one, and watches it in one message."""

from __future__ import annotations

from enum import StrEnum

from aiogram import F, Router
from aiogram.filters import Command, CommandObject
from aiogram.filters.callback_data import CallbackData
from aiogram.types import (
    CallbackQuery,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    MaybeInaccessibleMessageUnion,
    Message,
)
from aiogram.utils.formatting import Text

from bot.access import is_admin
from bot.channels.buttons import mark_of, meant, redraw, refused
from bot.desk import Desk
from bot.reindexing import named
from bot.titles import title_of
from bot.words import Words
from rag_core.doors.archive import channels
from rag_core.doors.archive.rebuilds import Tell
from rag_core.errors import RebuildRefused
from rag_core.types import Channel

__all__ = ["routes", "stop_button"]

_ON_A_LEAF = 8  # a phone shows about so many buttons without scrolling
_LONGEST_LABEL = 60  # characters; a longer one is cut by the phone


class _Do(StrEnum):
    """What a button does. Short: Telegram gives a button 64 bytes."""

    ALL = "a"
    CHOOSE = "c"
    ONE = "o"
    NOTHING = "n"
    STOP = "s"


class _Press(CallbackData, prefix="ri"):
    """A button: what it does, the mark of its channel, and a part of the list or the number of a rebuild."""

    do: _Do
    mark: str = ""
    number: int = 0


def stop_button(rebuild: int, words: Words) -> InlineKeyboardMarkup:
    """The button that cancels this rebuild, and no later one."""
    return _keyboard([(words("reindex-stop"), _Press(do=_Do.STOP, number=rebuild))])


async def _on_reindex(message: Message, command: CommandObject, desk: Desk, words: Words) -> None:
    if not is_admin(message, desk.admins):
        await message.answer(words("admins-only", start="/start"))
        return
    if not command.args:
        await message.answer(words("reindex-ask"), reply_markup=_question(words))
        return
    channel = named(command.args.strip(), await _choice(desk))
    if channel is None:
        await message.answer(words("reindex-unknown", name=command.args.strip()[:_LONGEST_LABEL], channels="/channels"))
        return
    shown = await message.answer(words("reindex-begins"))
    if refusal := await _begun(desk, channel.chat_id, shown, words):
        await shown.edit_text(words("reindex-busy"), reply_markup=refusal)


async def _on_press(pressed: CallbackQuery, callback_data: _Press, desk: Desk, words: Words) -> None:
    if await refused(pressed, desk, words):
        return
    do, known = callback_data.do, await _choice(desk)
    channel = meant(desk.archive, callback_data.mark, known)
    if do is _Do.STOP:
        stopped = await desk.reindexing.cancel(callback_data.number)
        await pressed.answer(None if stopped else words("reindex-over"))
    elif do is _Do.NOTHING:
        await redraw(pressed, Text(words("reindex-nothing")), None)
    elif do is _Do.CHOOSE:
        await redraw(pressed, Text(words("reindex-which")), _leaf(desk, known, callback_data.number, words))
    elif do is _Do.ONE and channel is None:
        await redraw(pressed, Text(words("channel-gone")), None)
    else:
        await _on_choice(pressed, channel if do is _Do.ONE else None, desk, words)


async def _on_choice(pressed: CallbackQuery, channel: Channel | None, desk: Desk, words: Words) -> None:
    shown = pressed.message
    refusal = await _begun(desk, channel.chat_id if channel else None, shown, words)
    if refusal:
        await redraw(pressed, Text(words("reindex-busy")), refusal)
    else:
        await pressed.answer()


async def _begun(
    desk: Desk, chat_id: int | None, shown: MaybeInaccessibleMessageUnion | None, words: Words
) -> InlineKeyboardMarkup | None:
    """Begin; from now on the message is kept up to date by reindex_told.py. Else the button that stops the other."""
    tell = Tell(shown.chat.id, shown.message_id, words.lang) if shown else None
    try:
        await desk.reindexing.start(chat_id, tell)
    except RebuildRefused:
        running = desk.reindexing.current
        return stop_button(running.id if running else 0, words)
    return None


async def _choice(desk: Desk) -> dict[int, Channel]:
    return {key: c for key, c in (await channels.known(desk.archive)).items() if c.state != "removed"}


def _question(words: Words) -> InlineKeyboardMarkup:
    return _keyboard(
        [(words("reindex-all"), _Press(do=_Do.ALL))],
        [(words("reindex-one"), _Press(do=_Do.CHOOSE))],
        [(words("reindex-no"), _Press(do=_Do.NOTHING))],
    )


def _leaf(desk: Desk, known: dict[int, Channel], number: int, words: Words) -> InlineKeyboardMarkup:
    """One part of the list of channels; the nearest there is."""
    listed = sorted(known.values(), key=lambda c: (c.title.casefold(), c.chat_id))
    number = max(0, min(number, (len(listed) - 1) // _ON_A_LEAF))
    shown = listed[number * _ON_A_LEAF : (number + 1) * _ON_A_LEAF]
    earlier = [(words("button-earlier"), _Press(do=_Do.CHOOSE, number=number - 1))] if number else []
    more = (number + 1) * _ON_A_LEAF < len(listed)
    later = [(words("button-later"), _Press(do=_Do.CHOOSE, number=number + 1))] if more else []
    rows = [
        [(title_of(c, words, _LONGEST_LABEL), _Press(do=_Do.ONE, mark=mark_of(desk.archive, c.chat_id)))] for c in shown
    ]
    return _keyboard(*rows, earlier + later, [(words("reindex-no"), _Press(do=_Do.NOTHING))])


def _keyboard(*rows: list[tuple[str, _Press]]) -> InlineKeyboardMarkup:
    shown = [[InlineKeyboardButton(text=label, callback_data=press.pack()) for label, press in row] for row in rows]
    return InlineKeyboardMarkup(inline_keyboard=[row for row in shown if row])


def routes() -> Router:
    """Handlers of /reindex and its buttons."""
    router = Router(name="reindex")
    router.message.register(_on_reindex, Command("reindex", ignore_case=True), F.chat.type == "private")
    router.callback_query.register(_on_press, _Press.filter())
    return router
