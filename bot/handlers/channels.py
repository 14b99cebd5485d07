"""Handlers of channels: posts wake the indexer, new channels wait for approval, /channels manages them.

Handlers never commit posts: those were saved with their raw batch (bot/telegram/session.py).

A channel waits until an admin says who may read it; whoever added the bot is told so, when reachable. Posts stay
readable when the bot is removed. Anybody may add a bot to any number of channels: admins are told of the first
changes one by one, of more of them in a digest, and where too many channels wait, the bot leaves those that
strangers add.

Removing a channel erases all its data after a confirmation; where the bot stays in it, the next post makes the
channel wait for approval again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress

from aiogram import Bot, F, Router
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest, TelegramForbiddenError
from aiogram.types import CallbackQuery, ChatMemberUpdated, InlineKeyboardMarkup, Message, Update
from aiogram.utils.formatting import Bold, Text, as_list

from bot.access import Refusal
from bot.admin_notifications import ChannelNotificationLimiter, iterate_admin_translators, send_notice
from bot.app_context import AppContext
from bot.filters import ADMINS_ONLY, IN_GROUP, PRIVATE, ChatCommand
from bot.i18n import Translator, choose_interface_language, get_translator
from bot.views.answer import format_channel_title, format_one_line, link_channel_title
from bot.views.channel_card import (
    ChannelAction,
    ChannelCallback,
    awaits_approval,
    build_approval_keyboard,
    build_channel_rows,
    find_channel_by_token,
    load_channel_views,
    make_channel_token,
    render_channel_card,
    render_channel_line,
)
from bot.views.keyboards import (
    CHANNELS_PER_PAGE,
    build_keyboard,
    build_page_row,
    cut_page,
    edit_message,
    redraw_message,
)
from ingest.inbox import MAX_WAITING_CHANNELS
from rag_core.storage import Archive, channels, history_gaps, post_lookup, posts
from rag_core.types import Channel, Visibility

_TIMEOUT_SECONDS = 3.0  # for asking Telegram about a channel; after it the card is shown with the stored data
_ADMIN_STATUSES = {"administrator", "creator"}
_VISIBILITY_BY_ACTION = {
    ChannelAction.PUBLIC: Visibility.PUBLIC,
    ChannelAction.MEMBERS: Visibility.MEMBERS,
    ChannelAction.ADMINS: Visibility.ADMINS,
}


async def find_pressed_channel(data: ChannelCallback, context: AppContext, words: Translator) -> Channel:
    """Channel of a button. Raises Refusal where it is gone."""
    channel = find_channel_by_token(context.archive, data.token, await channels.load_channels(context.archive))
    if channel is None:
        raise Refusal(words("channel-gone"))
    return channel


async def _press_card(
    pressed: CallbackQuery, callback_data: ChannelCallback, bot: Bot, context: AppContext, words: Translator
) -> None:
    """Show the card of a channel, after the change that a switch of it makes."""
    channel, done = await find_pressed_channel(callback_data, context, words), ""
    if callback_data.action is ChannelAction.CARD:
        await _refresh_channel(bot, context, channel)
    else:
        done = await _apply_action(callback_data.action, channel, context, words)
    # again, as it was changed, or removed by another admin meanwhile
    channel = await find_pressed_channel(callback_data, context, words)
    (view,) = await load_channel_views(context, [channel])
    await redraw_message(pressed, *render_channel_card(view, context, words), done)


async def _apply_action(action: ChannelAction, channel: Channel, context: AppContext, words: Translator) -> str:
    title, archive, chat_id = format_channel_title(channel, words, 60), context.archive, channel.chat_id
    if visibility := _VISIBILITY_BY_ACTION.get(action):
        await channels.set_channel_visibility(archive, chat_id, visibility)
        if awaits_approval(channel):
            await channels.set_channel_state(archive, chat_id, "active")
        reply = words("channel-visibility", visibility=visibility.value)
        return words("channel-set", title=title, visibility=reply)
    on = action in (ChannelAction.GUARDED_IN, ChannelAction.BINDABLE, ChannelAction.RESUME)
    if action in (ChannelAction.GUARDED_IN, ChannelAction.GUARDED_OUT):
        await channels.allow_guarded_posts(archive, chat_id, on)
        context.indexing.wake()
        return words("channel-set-guarded", title=title, shown="yes" if on else "no")
    if action in (ChannelAction.BINDABLE, ChannelAction.UNBINDABLE):
        await channels.set_channel_bindable(archive, chat_id, on)
        return words("channel-set-bindable", title=title, may="yes" if on else "no")
    if awaits_approval(channel):  # an outdated button: pausing is no approval, and resuming would be one
        return words("channel-not-approved", title=title)
    await channels.set_channel_state(archive, chat_id, "active" if on else "paused")
    return words("channel-resumed" if on else "channel-paused", title=title)


async def _mark_channel_joined(archive: Archive, chat_id: int) -> None:
    """Mark that the bot is now in a known channel; earlier posts may be missing."""
    await channels.record_bot_joined(archive, chat_id)
    await history_gaps.note_gap_before_joining(archive, chat_id)


async def _refresh_channel(bot: Bot, context: AppContext, channel: Channel) -> None:
    """Update the channel's name and the bot's membership from Telegram.

    No update reports a new username, nor what happened while the bot was off for more than a day.
    """
    if channel.kind != "channel":
        return
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            member = await bot.get_chat_member(channel.chat_id, bot.id)
            inside = member.status in _ADMIN_STATUSES
            if inside:
                chat = await bot.get_chat(channel.chat_id)
                named = Channel(channel.chat_id, chat.title or channel.title, chat.username, channel.kind)
                await channels.save_channel(context.archive, named)
    except TelegramForbiddenError:
        inside = False
    except (TelegramAPIError, ClientDecodeError, TimeoutError):
        return  # unknown now: the card shows the stored data
    if inside and not channel.inside:
        await _mark_channel_joined(context.archive, channel.chat_id)
    elif channel.inside and not inside:
        await channels.record_bot_left(context.archive, channel.chat_id)


async def _on_channels(message: Message, context: AppContext, words: Translator) -> None:
    text, buttons = await _render_channel_list(context, 0, words)
    await message.answer(**text.as_kwargs(), reply_markup=buttons)


async def _press_list(
    pressed: CallbackQuery, callback_data: ChannelCallback, context: AppContext, words: Translator
) -> None:
    await redraw_message(pressed, *await _render_channel_list(context, callback_data.number, words))


async def _render_channel_list(
    context: AppContext, number: int, words: Translator
) -> tuple[Text, InlineKeyboardMarkup | None]:
    # List all channels except those being removed; what these post afterwards has to be approved.
    known = (await channels.load_channels(context.archive)).values()
    there = [c for c in known if c.state != "removed" or await post_lookup.count_posts(context.archive, c.chat_id)]
    listed = sorted(there, key=lambda c: (not awaits_approval(c), c.title.casefold(), c.chat_id))
    if not listed:
        return Text(words("channels-none")), None
    shown, number, last = cut_page(listed, number, CHANNELS_PER_PAGE)
    lines = [render_channel_line(view, context, words) for view in await load_channel_views(context, shown)]
    head = Bold(words("channels-title", count=len(listed)))
    rows = build_channel_rows(
        shown, lambda token: ChannelCallback(action=ChannelAction.CARD, token=token), context, words
    )
    turns = build_page_row(number, last, lambda n: ChannelCallback(action=ChannelAction.LIST, number=n), words)
    return as_list(head, *lines, words("channels-choose"), sep="\n\n"), build_keyboard(*rows, turns)


_MAX_REMEMBERED_UPDATES = 10_000  # channels whose last update is remembered, because updates are handled concurrently

log = logging.getLogger(__name__)


class BotMembershipHandlers:
    """Handlers of the bot's own membership. Updates are handled concurrently: outdated ones are skipped."""

    def __init__(self, notices: ChannelNotificationLimiter) -> None:
        self._notices = notices
        self._lock = asyncio.Lock()
        self._latest_updates: dict[int, int] = {}

    async def on_change(self, event: ChatMemberUpdated, event_update: Update, bot: Bot, context: AppContext) -> None:
        """Handle that the bot became an administrator of a channel, or is none any more."""
        chat_id, number = event.chat.id, event_update.update_id
        before, after = event.old_chat_member.status in _ADMIN_STATUSES, event.new_chat_member.status in _ADMIN_STATUSES
        if before == after:
            return
        async with self._lock:
            if number < self._latest_updates.get(chat_id, 0):
                return
            if len(self._latest_updates) >= _MAX_REMEMBERED_UPDATES:
                self._latest_updates.clear()  # of channels that came and went: their updates were handled long ago
            self._latest_updates[chat_id] = number
            loaded = await channels.load_channels(context.archive)
            known = loaded.get(chat_id)
            # A channel that a stranger adds is refused while the maximum number waits for approval.
            stranger = after and known is None and event.from_user.id not in context.admins
            waiting = sum(channel.state in channels.UNAPPROVED_STATES for channel in loaded.values())
            refused = stranger and waiting >= MAX_WAITING_CHANNELS
            if after and not refused:
                chat = event.chat
                # For a known channel `save_channel` takes over only title and username.
                await channels.save_channel(
                    context.archive, Channel(chat.id, chat.title or "", chat.username, state="pending")
                )
                if known and known.state == "removed":
                    await channels.set_channel_state(context.archive, chat.id, "pending")
                await _mark_channel_joined(context.archive, chat.id)
            elif known:
                await channels.record_bot_left(context.archive, chat_id)
        if refused:
            await self._leave(event, bot, context)
        elif after:
            await self._notify_joined(event, bot, context, known)
        elif known:
            await self._notify_left(event, bot, context, known)

    async def _leave(self, event: ChatMemberUpdated, bot: Bot, context: AppContext) -> None:
        chat, adder = event.chat, event.from_user
        log.warning(
            "%d channels wait for approval: channel %d of user %d is left", MAX_WAITING_CHANNELS, chat.id, adder.id
        )
        self._notices.count_refused(bot, context)
        if not adder.is_bot and self._notices.allow(adder.id):
            words = get_translator(choose_interface_language(adder.language_code, context.settings.bot.language))
            title = link_channel_title(Channel(chat.id, chat.title or "", chat.username), words)
            await send_notice(bot, adder.id, words.rich("channel-adder-refused", title=title))
        with suppress(TelegramAPIError, ClientDecodeError):
            await bot.leave_chat(chat.id)

    async def _notify_joined(
        self, event: ChatMemberUpdated, bot: Bot, context: AppContext, known: Channel | None
    ) -> None:
        chat, adder = event.chat, event.from_user
        pending = known is None or awaits_approval(known)
        found = Channel(chat.id, chat.title or "", chat.username)
        if not context.admins:
            log.warning("added to channel %d, and there is no admin to approve it: set BOT__ADMINS", chat.id)
        if not self._notices.allow(adder.id):
            log.warning("user %d adds the bot often: channel %d is told of later", adder.id, chat.id)
            self._notices.merge(found, bot, context)
            return
        state = known.state if known and not pending else "pending"
        async for words, admin in iterate_admin_translators(context, adder):
            text = words.rich("channel-added", state=state, title=link_channel_title(found, words))
            by = words.rich("added-by", name=format_one_line(adder.full_name), id=str(adder.id))
            buttons = build_approval_keyboard(context.archive, chat.id, words) if pending else None
            await send_notice(bot, admin, as_list(text, by, sep="\n\n"), buttons)
        if pending and adder.id not in context.admins and not adder.is_bot:
            words = get_translator(choose_interface_language(adder.language_code, context.settings.bot.language))
            await send_notice(bot, adder.id, words.rich("channel-adder-told", title=link_channel_title(found, words)))

    async def _notify_left(self, event: ChatMemberUpdated, bot: Bot, context: AppContext, known: Channel) -> None:
        actor = event.from_user
        # Leaving on an admin's order, or an unapproved channel, needs no notification.
        if actor.id == bot.id or awaits_approval(known):
            return
        if not self._notices.allow(actor.id):
            log.warning("user %d removes the bot often: channel %d is told of later", actor.id, known.chat_id)
            self._notices.merge(known, bot, context)
            return
        async for words, admin in iterate_admin_translators(context, actor):
            text = words.rich("channel-thrown-out", title=link_channel_title(known, words))
            by = words.rich("removed-by", name=format_one_line(actor.full_name), id=str(actor.id))
            await send_notice(bot, admin, as_list(text, by, sep="\n\n"))


async def _on_group_title(message: Message, context: AppContext) -> None:
    """Update the title of an imported group. Channels send theirs with every post."""
    known = (await channels.load_channels(context.archive)).get(message.chat.id)
    if known and message.chat.title:
        named = Channel(known.chat_id, message.chat.title, message.chat.username, known.kind)
        await channels.save_channel(context.archive, named)


async def _on_chat_member(event: ChatMemberUpdated, context: AppContext) -> None:
    """Forget a cached membership after a change in a chat where the bot is an administrator."""
    context.admins.members.forget(event.chat.id, event.new_chat_member.user.id)


_CONFIRMATION_SECONDS = 600  # an older button was probably pressed by mistake


async def _press_remove(
    pressed: CallbackQuery, callback_data: ChannelCallback, context: AppContext, words: Translator
) -> None:
    """First press: say what will be deleted, and ask for confirmation."""
    channel = await find_pressed_channel(callback_data, context, words)
    count, token = await post_lookup.count_posts(context.archive, channel.chat_id), callback_data.token
    asked = words.rich("channel-remove-ask", title=link_channel_title(channel, words), count=count)
    yes = ChannelCallback(action=ChannelAction.REMOVE, token=token, number=int(time.time()))
    buttons = build_keyboard(
        [(words("button-remove-yes"), yes)],
        [(words("button-back"), ChannelCallback(action=ChannelAction.CARD, token=token))],
    )
    await redraw_message(pressed, asked, buttons)


async def _press_confirm_remove(
    pressed: CallbackQuery, callback_data: ChannelCallback, context: AppContext, words: Translator
) -> None:
    channel = await find_pressed_channel(callback_data, context, words)
    if not 0 <= time.time() - callback_data.number <= _CONFIRMATION_SECONDS:
        raise Refusal(words("channel-remove-late"))
    # Half a minute for a million posts: longer than Telegram waits for a callback's answer.
    toast = words("channel-removing", title=format_channel_title(channel, words, 60))
    await redraw_message(pressed, Text(toast), None, toast)
    count = await posts.remove_channel(context.archive, channel.chat_id)
    context.indexing.wake()
    log.info("admin %d removed channel %d with %d posts", pressed.from_user.id, channel.chat_id, count)
    blocks = [words.rich("channel-removed", title=link_channel_title(channel, words), count=count)]
    rows = []
    if channel.inside:
        blocks.append(Text(words("channel-removed-inside")))
        leave = ChannelCallback(action=ChannelAction.LEAVE, token=callback_data.token, number=channel.chat_id)
        rows.append([(words("button-leave"), leave)])
    rows.append([(words("button-back"), ChannelCallback(action=ChannelAction.LIST))])
    await edit_message(pressed, as_list(*blocks, sep="\n\n"), build_keyboard(*rows))


async def _press_leave(
    pressed: CallbackQuery, callback_data: ChannelCallback, bot: Bot, context: AppContext, words: Translator
) -> None:
    """Leave a removed channel, and delete what it posted since."""
    chat_id = callback_data.number  # the channel may be deleted by now; the token shows that the id is genuine
    if callback_data.token != make_channel_token(context.archive, chat_id):
        raise Refusal(words("channel-gone"))
    try:
        await bot.leave_chat(chat_id)
    except (TelegramBadRequest, TelegramForbiddenError) as exc:  # removed from the channel, or it is deleted
        log.info("channel %d was left before: %s", chat_id, exc)
    channel = (await channels.load_channels(context.archive)).get(chat_id)
    if channel and awaits_approval(channel):
        await posts.remove_channel(context.archive, chat_id)
        context.indexing.wake()
    before = (pressed.message.text if isinstance(pressed.message, Message) else None) or ""
    left = words("channel-left-now")
    text = before if before.endswith(left) else f"{before}\n\n{left}".strip()
    back = build_keyboard([(words("button-back"), ChannelCallback(action=ChannelAction.LIST))])
    await redraw_message(pressed, Text(text), back, left)


_CARD_ACTIONS = {ChannelAction.CARD, *_VISIBILITY_BY_ACTION, ChannelAction.PAUSE, ChannelAction.RESUME}
_CARD_ACTIONS |= {ChannelAction.GUARDED_IN, ChannelAction.GUARDED_OUT}
_CARD_ACTIONS |= {ChannelAction.BINDABLE, ChannelAction.UNBINDABLE}


async def _on_channel_post(_: Message, context: AppContext) -> None:
    context.indexing.wake()


def register(router: Router, notices: ChannelNotificationLimiter) -> None:
    """Register the handlers of posts, the bot's own membership, and /channels with its buttons."""
    router.channel_post.register(_on_channel_post)
    router.edited_channel_post.register(_on_channel_post)
    router.my_chat_member.register(BotMembershipHandlers(notices).on_change, F.chat.type == "channel")
    router.chat_member.register(_on_chat_member)
    router.message.register(_on_group_title, F.new_chat_title, IN_GROUP)
    router.message.register(_on_channels, ChatCommand("channels", chats=PRIVATE), flags=ADMINS_ONLY)
    pressed = router.callback_query
    pressed.register(_press_list, ChannelCallback.filter(F.action == ChannelAction.LIST), flags=ADMINS_ONLY)
    pressed.register(_press_card, ChannelCallback.filter(F.action.in_(_CARD_ACTIONS)), flags=ADMINS_ONLY)
    pressed.register(_press_remove, ChannelCallback.filter(F.action == ChannelAction.ASK_REMOVE), flags=ADMINS_ONLY)
    pressed.register(_press_confirm_remove, ChannelCallback.filter(F.action == ChannelAction.REMOVE), flags=ADMINS_ONLY)
    pressed.register(_press_leave, ChannelCallback.filter(F.action == ChannelAction.LEAVE), flags=ADMINS_ONLY)
