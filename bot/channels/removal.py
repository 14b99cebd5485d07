"""Taking a channel away with all its data: asked once more, done, and then the bot may leave it.

Where it stays, the next post makes the channel wait for approval again. What nobody approves is not kept
forever: ingest/unapproved.py.
"""

from __future__ import annotations

import logging
import time

from aiogram import Bot
from aiogram.exceptions import TelegramBadRequest, TelegramForbiddenError
from aiogram.types import CallbackQuery, Message
from aiogram.utils.formatting import Text, as_list

from bot.channels.buttons import Act, Press, edit, keyboard, mark_of, redraw, refused
from bot.channels.card import waits
from bot.channels.deeds import there
from bot.desk import Desk
from bot.titles import title_of, titled
from bot.words import Words
from rag_core.doors.archive import channels, posts

__all__ = ["on_ask_remove", "on_leave", "on_remove"]

# An older "yes" is somebody scrolling back.
_ASKED_FOR_S = 600

log = logging.getLogger(__name__)


async def on_ask_remove(pressed: CallbackQuery, callback_data: Press, desk: Desk, words: Words) -> None:
    """The first press: say what goes."""
    channel = await there(pressed, callback_data, desk, words)
    if channel is None:
        return
    count, mark = await posts.count(desk.archive, channel.chat_id), callback_data.mark
    asked = words.rich("channel-remove-ask", title=titled(channel, words), count=count)
    yes = Press(act=Act.REMOVE, mark=mark, number=int(time.time()))
    buttons = keyboard([(words("button-remove-yes"), yes)], [(words("button-back"), Press(act=Act.CARD, mark=mark))])
    await redraw(pressed, asked, buttons)


async def on_remove(pressed: CallbackQuery, callback_data: Press, desk: Desk, words: Words) -> None:
    """The second press: do it."""
    channel = await there(pressed, callback_data, desk, words)
    if channel is None:
        return
    if not 0 <= time.time() - callback_data.number <= _ASKED_FOR_S:
        await pressed.answer(words("channel-remove-late", channels="/channels"), show_alert=True)
        return
    # Half a minute for a million posts: longer than Telegram waits for the answer to a button.
    toast = words("channel-removing", title=title_of(channel, words, 60))
    await redraw(pressed, Text(toast), None, toast)
    count = await posts.remove_channel(desk.archive, channel.chat_id)
    desk.indexing.wake()
    log.info("admin %d removed channel %d with %d posts", pressed.from_user.id, channel.chat_id, count)
    blocks = [words.rich("channel-removed", title=titled(channel, words), count=count)]
    rows = []
    if channel.inside:
        blocks.append(Text(words("channel-removed-inside")))
        leave = Press(act=Act.LEAVE, mark=callback_data.mark, number=channel.chat_id)
        rows.append([(words("button-leave"), leave)])
    rows.append([(words("button-back"), Press(act=Act.LIST))])
    await edit(pressed, as_list(*blocks, sep="\n\n"), keyboard(*rows))


async def on_leave(pressed: CallbackQuery, callback_data: Press, bot: Bot, desk: Desk, words: Words) -> None:
    """Go out of a channel that has been removed, and forget what it posted since."""
    if await refused(pressed, desk, words):
        return
    chat_id = callback_data.number  # the channel may be forgotten by now; the mark says that the number is ours
    if callback_data.mark != mark_of(desk.archive, chat_id):
        await pressed.answer(words("channel-gone"), show_alert=True)
        return
    try:
        await bot.leave_chat(chat_id)
    except (TelegramBadRequest, TelegramForbiddenError) as exc:  # thrown out meanwhile, or the channel is gone
        log.info("channel %d was left before: %s", chat_id, exc)
    channel = (await channels.known(desk.archive)).get(chat_id)
    if channel and waits(channel):
        await posts.remove_channel(desk.archive, chat_id)
        desk.indexing.wake()
    before = (pressed.message.text if isinstance(pressed.message, Message) else None) or ""
    left = words("channel-left-now")
    said = before if before.endswith(left) else f"{before}\n\n{left}".strip()
    await redraw(pressed, Text(said), keyboard([(words("button-back"), Press(act=Act.LIST))]), left)
