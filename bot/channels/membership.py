"""The bot comes into a channel and goes out of it; who may say what becomes of the channel is told.

A channel waits until an admin says who may read it; whoever added the bot is told so, when reachable. What was
read stays readable when the bot is thrown out. Anybody may add a bot to any number of channels: an adder who
does it often is no longer announced one by one, /channels has them all.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict, deque

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.types import ChatMemberUpdated, InlineKeyboardMarkup, Message, Update, User
from aiogram.utils.formatting import Text, as_list

from bot.channels.card import approval, waits
from bot.channels.deeds import came_in
from bot.desk import Desk
from bot.plain import plain
from bot.titles import titled
from bot.words import Words, interface_language, words_for
from rag_core.doors.archive import channels, figures
from rag_core.types import Channel

__all__ = ["Membership", "on_others", "on_title"]

# In a channel a bot that is no administrator gets no posts.
_READS = {"administrator", "creator"}
_MOST_ANNOUNCED, _WITHIN_S = 5, 3600.0

log = logging.getLogger(__name__)


class Membership:
    """Handles the bot's own coming and going, in the order it happened: updates are handled side by side."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._latest: dict[int, int] = {}
        self._announced: defaultdict[int, deque[float]] = defaultdict(deque)

    async def on_change(self, event: ChatMemberUpdated, event_update: Update, bot: Bot, desk: Desk) -> None:
        """The bot became an administrator of a channel, or is none any more."""
        chat_id, number = event.chat.id, event_update.update_id
        before, after = event.old_chat_member.status in _READS, event.new_chat_member.status in _READS
        if before == after:
            return
        async with self._turn:
            if number < self._latest.get(chat_id, 0):
                return
            self._latest[chat_id] = number
            known = (await channels.known(desk.archive)).get(chat_id)
            if after:
                await _taken_in(event, desk, known)
            elif known:
                await channels.left(desk.archive, chat_id)
        if after:
            await self._tell_of_coming(event, bot, desk, known)
        elif known:
            await _tell_of_going(event, bot, desk, known)

    async def _tell_of_coming(self, event: ChatMemberUpdated, bot: Bot, desk: Desk, known: Channel | None) -> None:
        chat, adder = event.chat, event.from_user
        pending = known is None or waits(known)
        if pending and not self._announce(adder.id):
            log.warning("user %d adds the bot to many channels: channel %d waits in /channels", adder.id, chat.id)
            return
        state = known.state if known and not pending else "pending"
        found = Channel(chat.id, chat.title or "", chat.username)
        for words, admin in await _admins(desk, adder):
            said = words.rich("channel-added", state=state, title=titled(found, words))
            by = words("added-by", name=plain(adder.full_name), id=str(adder.id))
            buttons = approval(desk.archive, chat.id, words) if pending else None
            await _tell(bot, admin, as_list(said, by, sep="\n\n"), buttons)
        if not desk.admins:
            log.warning("added to channel %d, and there is no admin to approve it: set BOT__ADMINS", chat.id)
        if pending and adder.id not in desk.admins and not adder.is_bot:
            words = words_for(interface_language(adder.language_code, desk.settings.bot.language))
            await _tell(bot, adder.id, words.rich("channel-adder-told", title=titled(found, words)))

    def _announce(self, adder: int) -> bool:
        """Whether one more channel of this adder is worth a message; counts it."""
        now, times = time.monotonic(), self._announced[adder]
        while times and times[0] < now - _WITHIN_S:
            times.popleft()
        if len(times) >= _MOST_ANNOUNCED:
            return False
        times.append(now)
        return True


async def _taken_in(event: ChatMemberUpdated, desk: Desk, known: Channel | None) -> None:
    chat = event.chat
    # For a channel that is known, `put` takes over the title and the username only.
    await channels.put(desk.archive, Channel(chat.id, chat.title or "", chat.username, state="pending"))
    if known and known.state == "removed":
        await channels.set_state(desk.archive, chat.id, "pending")
    await came_in(desk.archive, chat.id)


async def _tell_of_going(event: ChatMemberUpdated, bot: Bot, desk: Desk, known: Channel) -> None:
    # What an admin told it to leave, or never approved, is no news.
    if event.from_user.id == bot.id or waits(known):
        return
    for words, admin in await _admins(desk, event.from_user):
        said = words.rich("channel-thrown-out", title=titled(known, words), channels="/channels")
        by = words("removed-by", name=plain(event.from_user.full_name), id=str(event.from_user.id))
        await _tell(bot, admin, as_list(said, by, sep="\n\n"))


async def _admins(desk: Desk, actor: User) -> list[tuple[Words, int]]:
    """Each admin with words in their language: Telegram tells only that of who acts, others asked in theirs."""
    spoken = desk.settings.bot.language
    langs = {admin: await figures.language_of(desk.archive, admin) or spoken for admin in desk.admins}
    if actor.id in langs:
        langs[actor.id] = interface_language(actor.language_code, spoken)
    return [(words_for(lang), admin) for admin, lang in langs.items()]


async def _tell(bot: Bot, user_id: int, said: Text, buttons: InlineKeyboardMarkup | None = None) -> None:
    try:
        await bot.send_message(user_id, **said.as_kwargs(), reply_markup=buttons)
    except (TelegramAPIError, ClientDecodeError) as exc:  # has never written to the bot, or blocked it
        log.info("user %d could not be told about a channel: %s", user_id, exc)


async def on_title(message: Message, desk: Desk) -> None:
    """A group that was imported has another title. Channels bring theirs with every post."""
    known = (await channels.known(desk.archive)).get(message.chat.id)
    if known and message.chat.title:
        await channels.put(desk.archive, Channel(known.chat_id, message.chat.title, message.chat.username, known.kind))


async def on_others(event: ChatMemberUpdated, desk: Desk) -> None:
    """Somebody came, went or changed, in a chat where the bot is an administrator: Telegram is asked anew."""
    desk.admins.members.forget(event.chat.id, event.new_chat_member.user.id)
