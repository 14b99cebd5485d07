"""The bot comes into a channel and goes out of it; who may say what becomes of the channel is told.

A channel waits until an admin says who may read it; whoever added the bot is told so, when reachable. What was
read stays readable when the bot is thrown out. Anybody may add a bot to any number of channels, and take it out:
admins are told of the first such changes one by one, of more of them together (notices.py), and where too many
channels wait for approval, the bot leaves those that strangers add.
"""

from __future__ import annotations

import asyncio
import logging

from aiogram import Bot
from aiogram.types import ChatMemberUpdated, Message, Update
from aiogram.utils.formatting import as_list

from bot.channels.card import approval, waits
from bot.channels.deeds import came_in
from bot.channels.notices import Notices, leave, send, words_of_admins
from bot.desk import Desk
from bot.titles import one_line, titled
from bot.words import interface_language, words_for
from ingest.unapproved import MOST_WAITING
from rag_core.doors.archive import channels, unapproved
from rag_core.types import Channel

__all__ = ["Membership", "on_others", "on_title"]

# In a channel a bot that is no administrator gets no posts.
_READS = {"administrator", "creator"}
# Channels whose last update is remembered, because updates are handled side by side.
_MOST_LATEST = 10_000

log = logging.getLogger(__name__)


class Membership:
    """Handles the bot's own coming and going, in the order it happened: updates are handled side by side."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._turn = asyncio.Lock()
        self._latest: dict[int, int] = {}

    async def on_change(self, event: ChatMemberUpdated, event_update: Update, bot: Bot, desk: Desk) -> None:
        """The bot became an administrator of a channel, or is none any more."""
        chat_id, number = event.chat.id, event_update.update_id
        before, after = event.old_chat_member.status in _READS, event.new_chat_member.status in _READS
        if before == after:
            return
        async with self._turn:
            if number < self._latest.get(chat_id, 0):
                return
            if len(self._latest) >= _MOST_LATEST:
                self._latest.clear()  # of channels that came and went: their updates were handled long ago
            self._latest[chat_id] = number
            known = (await channels.known(desk.archive)).get(chat_id)
            refused = after and known is None and await self._refused(event, desk)
            if after and not refused:
                await _taken_in(event, desk, known)
            elif known:
                await channels.left(desk.archive, chat_id)
        if refused:
            await self._leave(event, bot, desk)
        elif after:
            await self._tell_of_coming(event, bot, desk, known)
        elif known:
            await self._tell_of_going(event, bot, desk, known)

    async def _refused(self, event: ChatMemberUpdated, desk: Desk) -> bool:
        """Whether a stranger adds one more channel where as many wait as may."""
        return event.from_user.id not in desk.admins and await unapproved.full(desk.archive, MOST_WAITING)

    async def _leave(self, event: ChatMemberUpdated, bot: Bot, desk: Desk) -> None:
        chat, adder = event.chat, event.from_user
        log.warning("%d channels wait for approval: channel %d of user %d is left", MOST_WAITING, chat.id, adder.id)
        self._notices.count_refused(bot, desk)
        if not adder.is_bot and self._notices.allow(adder.id):
            words = words_for(interface_language(adder.language_code, desk.settings.bot.language))
            title = titled(Channel(chat.id, chat.title or "", chat.username), words)
            await send(bot, adder.id, words.rich("channel-adder-refused", title=title))
        await leave(bot, chat.id)

    async def _tell_of_coming(self, event: ChatMemberUpdated, bot: Bot, desk: Desk, known: Channel | None) -> None:
        chat, adder = event.chat, event.from_user
        pending = known is None or waits(known)
        found = Channel(chat.id, chat.title or "", chat.username)
        if not desk.admins:
            log.warning("added to channel %d, and there is no admin to approve it: set BOT__ADMINS", chat.id)
        if not self._notices.allow(adder.id):
            log.warning("user %d adds the bot often: channel %d is told of later", adder.id, chat.id)
            self._notices.merge(found, bot, desk)
            return
        state = known.state if known and not pending else "pending"
        async for words, admin in words_of_admins(desk, adder):
            said = words.rich("channel-added", state=state, title=titled(found, words))
            by = words.rich("added-by", name=one_line(adder.full_name), id=str(adder.id))
            buttons = approval(desk.archive, chat.id, words) if pending else None
            await send(bot, admin, as_list(said, by, sep="\n\n"), buttons)
        if pending and adder.id not in desk.admins and not adder.is_bot:
            words = words_for(interface_language(adder.language_code, desk.settings.bot.language))
            await send(bot, adder.id, words.rich("channel-adder-told", title=titled(found, words)))

    async def _tell_of_going(self, event: ChatMemberUpdated, bot: Bot, desk: Desk, known: Channel) -> None:
        actor = event.from_user
        # What an admin told it to leave, or never approved, is no news.
        if actor.id == bot.id or waits(known):
            return
        if not self._notices.allow(actor.id):
            log.warning("user %d removes the bot often: channel %d is told of later", actor.id, known.chat_id)
            self._notices.merge(known, bot, desk)
            return
        async for words, admin in words_of_admins(desk, actor):
            said = words.rich("channel-thrown-out", title=titled(known, words), channels="/channels")
            by = words.rich("removed-by", name=one_line(actor.full_name), id=str(actor.id))
            await send(bot, admin, as_list(said, by, sep="\n\n"))


async def _taken_in(event: ChatMemberUpdated, desk: Desk, known: Channel | None) -> None:
    chat = event.chat
    # For a channel that is known, `put` takes over the title and the username only.
    await channels.put(desk.archive, Channel(chat.id, chat.title or "", chat.username, state="pending"))
    if known and known.state == "removed":
        await channels.set_state(desk.archive, chat.id, "pending")
    await came_in(desk.archive, chat.id)


async def on_title(message: Message, desk: Desk) -> None:
    """A group that was imported has another title. Channels bring theirs with every post."""
    known = (await channels.known(desk.archive)).get(message.chat.id)
    if known and message.chat.title:
        await channels.put(desk.archive, Channel(known.chat_id, message.chat.title, message.chat.username, known.kind))


async def on_others(event: ChatMemberUpdated, desk: Desk) -> None:
    """Somebody came, went or changed, in a chat where the bot is an administrator: Telegram is asked anew."""
    desk.admins.members.forget(event.chat.id, event.new_chat_member.user.id)
