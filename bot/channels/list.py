"""/channels: all channels in parts of a screen each, those that wait for approval first."""

from __future__ import annotations

from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Bold, Text, as_list

from bot.access import is_admin
from bot.channels.buttons import Act, Press, keyboard, mark_of, redraw, refused
from bot.channels.card import line, view_of, waits
from bot.desk import Desk
from bot.titles import title_of
from bot.words import Words
from rag_core.doors.archive import channels, posts
from rag_core.types import Channel

__all__ = ["leaf", "on_channels", "on_list"]

_ON_A_LEAF = 8  # a phone shows about so many buttons without scrolling
_LONGEST_LABEL = 60  # characters; a longer one is cut by the phone


async def on_channels(message: Message, desk: Desk, words: Words) -> None:
    """The command."""
    if not is_admin(message, desk.admins):
        await message.answer(words("admins-only", start="/start"))
        return
    said, buttons = await leaf(desk, 0, words)
    await message.answer(**said.as_kwargs(), reply_markup=buttons)


async def on_list(pressed: CallbackQuery, callback_data: Press, desk: Desk, words: Words) -> None:
    """A button that turns to another part."""
    if not await refused(pressed, desk, words):
        await redraw(pressed, *await leaf(desk, callback_data.number, words))


async def leaf(desk: Desk, number: int, words: Words) -> tuple[Text, InlineKeyboardMarkup | None]:
    """One part of the list; the nearest there is."""
    listed = await _listed(desk)
    if not listed:
        return Text(words("channels-none")), None
    last = (len(listed) - 1) // _ON_A_LEAF
    number = max(0, min(number, last))
    shown = listed[number * _ON_A_LEAF : (number + 1) * _ON_A_LEAF]
    lines = [line(view, desk, words) for view in await view_of(desk, shown)]
    head = Bold(words("channels-title", count=len(listed)))
    rows = [
        [(title_of(c, words, _LONGEST_LABEL), Press(act=Act.CARD, mark=mark_of(desk.archive, c.chat_id)))]
        for c in shown
    ]
    turns = [(words("button-earlier"), Press(act=Act.LIST, number=number - 1))] if number > 0 else []
    turns += [(words("button-later"), Press(act=Act.LIST, number=number + 1))] if number < last else []
    return as_list(head, *lines, words("channels-choose"), sep="\n\n"), keyboard(*rows, turns)


async def _listed(desk: Desk) -> list[Channel]:
    """All channels but those that are being removed; what they post after that has to be approved."""
    known = (await channels.known(desk.archive)).values()
    there = [c for c in known if c.state != "removed" or await posts.count(desk.archive, c.chat_id)]
    return sorted(there, key=lambda c: (not waits(c), c.title.casefold(), c.chat_id))
