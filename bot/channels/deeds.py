"""What the buttons of a channel do: open its card, say who may read it, pause it, let guarded posts in."""

from __future__ import annotations

import asyncio

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramForbiddenError
from aiogram.types import CallbackQuery

from bot.channels.buttons import Act, Press, meant, redraw, refused
from bot.channels.card import card, view_of, waits
from bot.desk import Desk
from bot.titles import title_of
from bot.words import Words
from rag_core.doors.archive import Archive, channels, gaps
from rag_core.types import Channel, Visibility

__all__ = ["came_in", "on_card", "on_switch", "there"]

_PATIENCE_S = 3.0  # for what Telegram knows of a channel; the card is shown without it then
_READS = {"administrator", "creator"}
_VISIBILITY = {Act.PUBLIC: Visibility.PUBLIC, Act.MEMBERS: Visibility.MEMBERS, Act.ADMINS: Visibility.ADMINS}


async def there(pressed: CallbackQuery, data: Press, desk: Desk, words: Words) -> Channel | None:
    """The channel of a button that an admin pressed; None where something else has been said."""
    if await refused(pressed, desk, words):
        return None
    channel = meant(desk.archive, data.mark, await channels.known(desk.archive))
    if channel is None:
        await pressed.answer(words("channel-gone"), show_alert=True)
    return channel


async def on_card(pressed: CallbackQuery, callback_data: Press, bot: Bot, desk: Desk, words: Words) -> None:
    """Show the channel, with the name it has now and whether the bot is in it now."""
    if channel := await there(pressed, callback_data, desk, words):
        await _looked_up(bot, desk, channel)
        await _shown(pressed, channel.chat_id, desk, words)


async def on_switch(pressed: CallbackQuery, callback_data: Press, desk: Desk, words: Words) -> None:
    """Change the channel and show it."""
    channel = await there(pressed, callback_data, desk, words)
    if channel is None:
        return
    done = await _done(callback_data.act, channel, desk, words)
    await _shown(pressed, channel.chat_id, desk, words, done)


async def _done(act: Act, channel: Channel, desk: Desk, words: Words) -> str:
    """Do what the button says; what to say of it."""
    title, archive, chat_id = title_of(channel, words, 60), desk.archive, channel.chat_id
    if visibility := _VISIBILITY.get(act):
        await channels.set_visibility(archive, chat_id, visibility)
        if waits(channel):
            await channels.set_state(archive, chat_id, "active")
        said = words("channel-visibility", visibility=visibility.value)
        return words("channel-set", title=title, visibility=said)
    if act in (Act.GUARDED_IN, Act.GUARDED_OUT):
        await channels.set_guarded_too(archive, chat_id, act is Act.GUARDED_IN)
        desk.indexing.wake()
        return words("channel-set-guarded", title=title, shown="yes" if act is Act.GUARDED_IN else "no")
    if act in (Act.BINDABLE, Act.UNBINDABLE):
        await channels.set_bindable(archive, chat_id, act is Act.BINDABLE)
        return words("channel-set-bindable", title=title, may="yes" if act is Act.BINDABLE else "no")
    if waits(channel):  # a button of an earlier day: pausing is no approval, and resuming would be one
        return words("channel-not-approved", title=title)
    await channels.set_state(archive, chat_id, "paused" if act is Act.PAUSE else "active")
    return words("channel-paused" if act is Act.PAUSE else "channel-resumed", title=title)


async def _shown(pressed: CallbackQuery, chat_id: int, desk: Desk, words: Words, done: str = "") -> None:
    channel = (await channels.known(desk.archive)).get(chat_id)
    if channel is None:  # removed by another admin meanwhile
        await pressed.answer(words("channel-gone"), show_alert=True)
        return
    (view,) = await view_of(desk, [channel])
    said, buttons = card(view, desk, words)
    await redraw(pressed, said, buttons, done)


async def came_in(archive: Archive, chat_id: int) -> None:
    """The bot is in a known channel from now on; what was posted before may be missing."""
    await channels.joined(archive, chat_id)
    await gaps.before_joining(archive, chat_id)


async def _looked_up(bot: Bot, desk: Desk, channel: Channel) -> None:
    """Ask Telegram for the channel's name and the bot's place in it: no update tells of a new username,
    and none of what happened while the bot was off for more than a day."""
    if channel.kind != "channel":
        return
    try:
        async with asyncio.timeout(_PATIENCE_S):
            member = await bot.get_chat_member(channel.chat_id, bot.id)
            inside = member.status in _READS
            if inside:
                chat = await bot.get_chat(channel.chat_id)
                named = Channel(channel.chat_id, chat.title or channel.title, chat.username, channel.kind)
                await channels.put(desk.archive, named)
    except TelegramForbiddenError:
        inside = False
    except (TelegramAPIError, ClientDecodeError, TimeoutError):
        return  # not known now: the card shows what was known before
    if inside and not channel.inside:
        await came_in(desk.archive, channel.chat_id)
    elif channel.inside and not inside:
        await channels.left(desk.archive, channel.chat_id)
