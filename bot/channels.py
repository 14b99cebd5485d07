"""Channels: posts wake the indexer, a new channel waits for an admin, /channels says who may read what.

Handlers never commit posts: those were kept with their raw batch (session.py).
"""

from __future__ import annotations

import logging
from contextlib import suppress

from aiogram import Bot, F, Router
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest
from aiogram.filters import Command
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, ChatMemberUpdated, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Bold, Text, as_list
from aiogram.utils.keyboard import InlineKeyboardBuilder

from bot.access import is_admin
from bot.desk import Desk
from bot.render import link, plain
from bot.words import Words, interface_language, words_for
from rag_core.doors.archive import Archive, channels, posts
from rag_core.types import Channel, Visibility

__all__ = ["Open", "Turn", "routes"]

# A phone shows about so many buttons without scrolling.
_ON_A_LEAF = 8
_INSIDE = {"administrator", "member", "creator"}

log = logging.getLogger(__name__)


class Turn(CallbackData, prefix="channels"):
    """A button that turns to a part of the list."""

    leaf: int


class Open(CallbackData, prefix="channel"):
    """A button that shows a channel, or says who may read it."""

    chat_id: int
    visibility: str = ""


async def _on_post(_: Message, desk: Desk) -> None:
    desk.indexing.wake()


async def _on_membership(event: ChatMemberUpdated, bot: Bot, desk: Desk) -> None:
    """The bot became a member of a channel: the channel is pending until an admin says who may read it."""
    if event.old_chat_member.status in _INSIDE or event.new_chat_member.status not in _INSIDE:
        return
    chat = event.chat
    before = (await channels.known(desk.archive)).get(chat.id)
    title = chat.title or ""
    # For a channel that is known, `put` takes over the title and the username only.
    await channels.put(desk.archive, Channel(chat.id, title, chat.username, state="pending"))
    for admin in desk.admins:
        theirs = event.from_user.language_code if event.from_user.id == admin else None
        words = words_for(interface_language(theirs, desk.settings.bot.language))
        active = before is not None and before.state == "active"
        said = words.rich("channel-added-known" if active else "channel-added", title=Bold(plain(title)))
        by = words("added-by", name=plain(event.from_user.full_name), id=str(event.from_user.id))
        buttons = None if active else _choices(chat.id, words).as_markup()
        await _tell(bot, admin, as_list(said, by, sep="\n\n"), buttons)
    if not desk.admins:
        log.warning("added to channel %d, and there is no admin to approve it: set BOT__ADMINS", chat.id)


async def _tell(bot: Bot, admin: int, said: Text, buttons: InlineKeyboardMarkup | None) -> None:
    try:
        await bot.send_message(admin, **said.as_kwargs(), reply_markup=buttons)
    except (TelegramAPIError, ClientDecodeError) as exc:  # has never written to the bot, or blocked it
        log.warning("admin %d could not be told about a new channel: %s", admin, exc)


async def _on_channels(message: Message, desk: Desk, words: Words) -> None:
    if not is_admin(message, desk.admins):
        await message.answer(words("admins-only", start="/start"))
        return
    said, buttons = await _leaf(desk.archive, 0, words)
    await message.answer(**said.as_kwargs(), reply_markup=buttons)


async def _on_turn(pressed: CallbackQuery, callback_data: Turn, desk: Desk, words: Words) -> None:
    if await _refused(pressed, desk, words):
        return
    said, buttons = await _leaf(desk.archive, callback_data.leaf, words)
    await _redraw(pressed, said, buttons)


async def _on_open(pressed: CallbackQuery, callback_data: Open, desk: Desk, words: Words) -> None:
    if await _refused(pressed, desk, words):
        return
    chat_id, done = callback_data.chat_id, ""
    if callback_data.visibility in set(Visibility):
        await channels.set_visibility(desk.archive, chat_id, Visibility(callback_data.visibility))
        await channels.set_state(desk.archive, chat_id, "active")
        desk.indexing.wake()
    channel = (await channels.known(desk.archive)).get(chat_id)
    if channel is None:
        await pressed.answer(words("channel-gone"), show_alert=True)
        return
    if callback_data.visibility:
        visibility = words("channel-visibility", visibility=channel.visibility.value)
        done = words("channel-set", title=plain(channel.title)[:100], visibility=visibility)
    await _redraw(pressed, await _card(desk.archive, channel, words), _card_buttons(channel, words), done)


async def _refused(pressed: CallbackQuery, desk: Desk, words: Words) -> bool:
    """Buttons can be pressed by anybody who sees them, with any data: the presser is checked every time."""
    private = pressed.message is not None and pressed.message.chat.type == "private"
    if private and pressed.from_user.id in desk.admins:
        return False
    await pressed.answer(words("admins-only", start="/start"), show_alert=True)
    return True


async def _redraw(pressed: CallbackQuery, said: Text, buttons: InlineKeyboardMarkup | None, done: str = "") -> None:
    if isinstance(pressed.message, Message):  # else it is too old to be edited
        with suppress(TelegramBadRequest):  # the same button twice: "message is not modified"
            await pressed.message.edit_text(**said.as_kwargs(), reply_markup=buttons)
    await pressed.answer(done or None)


async def _leaf(archive: Archive, leaf: int, words: Words) -> tuple[Text, InlineKeyboardMarkup | None]:
    """One part of the list of channels, those that wait for approval first."""
    known = sorted((await channels.known(archive)).values(), key=lambda c: (c.state != "pending", c.title))
    if not known:
        return Text(words("channels-none")), None
    last = (len(known) - 1) // _ON_A_LEAF
    leaf = max(0, min(leaf, last))
    shown = known[leaf * _ON_A_LEAF : (leaf + 1) * _ON_A_LEAF]
    lines = [Text(_title(c, words), "\n", await _facts(archive, c, words)) for c in shown]
    head = Bold(words("channels-title", count=len(known)))
    keys = InlineKeyboardBuilder()
    for channel in shown:
        keys.button(text=plain(channel.title) or words("unnamed-channel"), callback_data=Open(chat_id=channel.chat_id))
    if leaf > 0:
        keys.button(text=words("button-earlier"), callback_data=Turn(leaf=leaf - 1))
    if leaf < last:
        keys.button(text=words("button-later"), callback_data=Turn(leaf=leaf + 1))
    keys.adjust(*[1] * len(shown), 2)
    return as_list(head, *lines, words("channels-choose"), sep="\n\n"), keys.as_markup()


def _title(channel: Channel, words: Words) -> Text:
    title = plain(channel.title) or words("unnamed-channel")
    return link(title, f"https://t.me/{channel.username}") if channel.username else Bold(title)


async def _facts(archive: Archive, channel: Channel, words: Words) -> str:
    facts = [words("channel-posts", count=await posts.count(archive, channel.chat_id))]
    facts.append(words("channel-state", state=channel.state))
    if channel.state != "pending":
        facts.append(words("channel-visibility", visibility=channel.visibility.value))
    return " · ".join(facts)


async def _card(archive: Archive, channel: Channel, words: Words) -> Text:
    title = Text(_title(channel, words), "\n", await _facts(archive, channel, words))
    ask, note = words("channel-ask-visibility"), words("channel-members-note")
    return as_list(title, Text(ask, "\n", note), sep="\n\n")


def _choices(chat_id: int, words: Words) -> InlineKeyboardBuilder:
    keys = InlineKeyboardBuilder()
    keys.button(text=words("button-public"), callback_data=Open(chat_id=chat_id, visibility="public"))
    keys.button(text=words("button-members"), callback_data=Open(chat_id=chat_id, visibility="members"))
    keys.button(text=words("button-admins"), callback_data=Open(chat_id=chat_id, visibility="admins"))
    return keys


def _card_buttons(channel: Channel, words: Words) -> InlineKeyboardMarkup:
    keys = _choices(channel.chat_id, words)
    keys.button(text=words("button-back"), callback_data=Turn(leaf=0))
    keys.adjust(3, 1)
    return keys.as_markup()


def routes() -> Router:
    """Handlers of posts, of the bot's own membership, of /channels and its buttons."""
    router = Router(name="channels")
    router.channel_post.register(_on_post)
    router.edited_channel_post.register(_on_post)
    router.my_chat_member.register(_on_membership, F.chat.type == "channel")
    router.message.register(_on_channels, Command("channels", ignore_case=True), F.chat.type == "private")
    router.callback_query.register(_on_turn, Turn.filter())
    router.callback_query.register(_on_open, Open.filter())
    return router
