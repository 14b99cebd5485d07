"""Handlers of channels: posts wake the indexer, /channels approves channels and manages them.

Handlers never commit posts: those were saved with their raw batch (bot/telegram/updates.py).

Removing a channel erases all its data after a confirmation; where the bot stays in it, the next post makes the
channel wait for approval again.
"""

from __future__ import annotations

import logging
import time

from aiogram import Bot, F, Router
from aiogram.exceptions import TelegramBadRequest, TelegramForbiddenError
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Bold, Text, as_list

from bot.access import Refusal
from bot.app_context import AppContext
from bot.handlers.membership_changes import refresh_channel
from bot.i18n import Translator
from bot.middlewares import ADMINS_ONLY, IN_GROUP, PRIVATE, ChatCommand
from bot.views.answer import format_channel_title, link_channel_title
from bot.views.channel_card import (
    ChannelAction,
    ChannelCallback,
    awaits_approval,
    build_channel_rows,
    find_pressed_channel,
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
from ingest.message_kinds import MAX_TITLE_LENGTH
from rag_core.storage import channel_removal, channels, group_rules_and_bindings, post_lookup
from rag_core.storage.topics import save_topic_titles
from rag_core.types import Channel, Visibility

router = Router()

_VISIBILITY_BY_ACTION = {
    ChannelAction.PUBLIC: Visibility.PUBLIC,
    ChannelAction.MEMBERS: Visibility.MEMBERS,
    ChannelAction.ADMINS: Visibility.ADMINS,
}


_CARD_ACTIONS = {
    ChannelAction.CARD, *_VISIBILITY_BY_ACTION, ChannelAction.PAUSE, ChannelAction.RESUME, ChannelAction.GUARDED_IN,
    ChannelAction.GUARDED_OUT, ChannelAction.BINDABLE, ChannelAction.UNBINDABLE,
}  # fmt: skip


@router.callback_query(ChannelCallback.filter(F.action.in_(_CARD_ACTIONS)), flags=ADMINS_ONLY)
async def _press_card(
    pressed: CallbackQuery, callback_data: ChannelCallback, bot: Bot, context: AppContext, words: Translator
) -> None:
    """Show the card of a channel, after the change that a switch of it makes."""
    channel, done = await find_pressed_channel(callback_data, context, words), ""
    if callback_data.action is ChannelAction.CARD:
        await refresh_channel(bot, context, channel)
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
        await group_rules_and_bindings.set_channel_bindable(archive, chat_id, on)
        return words("channel-set-bindable", title=title, may="yes" if on else "no")
    if awaits_approval(channel):  # an outdated button: pausing is no approval, and resuming would be one
        return words("channel-not-approved", title=title)
    await channels.set_channel_state(archive, chat_id, "active" if on else "paused")
    return words("channel-resumed" if on else "channel-paused", title=title)


@router.message(ChatCommand("channels", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_channels(message: Message, context: AppContext, words: Translator) -> None:
    text, buttons = await _render_channel_list(context, 0, words)
    await message.answer(**text.as_kwargs(), reply_markup=buttons)


@router.callback_query(ChannelCallback.filter(F.action == ChannelAction.LIST), flags=ADMINS_ONLY)
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


log = logging.getLogger(__name__)


@router.message(F.new_chat_title, IN_GROUP)
async def _on_group_title(message: Message, context: AppContext) -> None:
    """Update the title of an imported group. Channels send theirs with every post."""
    known = (await channels.load_channels(context.archive)).get(message.chat.id)
    if known and message.chat.title:
        named = Channel(known.chat_id, message.chat.title, message.chat.username, known.kind)
        await channels.save_channel(context.archive, named)


@router.message(F.forum_topic_created | F.forum_topic_edited, IN_GROUP)
async def _on_topic_title(message: Message, context: AppContext) -> None:
    """Update the title of a topic of an imported forum."""
    renamed = message.forum_topic_created or message.forum_topic_edited
    topic, title = message.message_thread_id or message.message_id, (renamed.name if renamed else None) or ""
    if title and message.chat.id in await channels.load_channels(context.archive):
        async with context.archive.writing() as connection:
            named = {topic: (title[:MAX_TITLE_LENGTH], int(message.date.timestamp()))}
            await save_topic_titles(connection, message.chat.id, named)
        context.indexing.wake()


_CONFIRMATION_SECONDS = 600  # an older button was probably pressed by mistake


@router.callback_query(ChannelCallback.filter(F.action == ChannelAction.ASK_REMOVE), flags=ADMINS_ONLY)
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


@router.callback_query(ChannelCallback.filter(F.action == ChannelAction.REMOVE), flags=ADMINS_ONLY)
async def _press_confirm_remove(
    pressed: CallbackQuery, callback_data: ChannelCallback, context: AppContext, words: Translator
) -> None:
    channel = await find_pressed_channel(callback_data, context, words)
    if not 0 <= time.time() - callback_data.number <= _CONFIRMATION_SECONDS:
        raise Refusal(words("channel-remove-late"))
    # Half a minute for a million posts: longer than Telegram waits for a callback's answer.
    toast = words("channel-removing", title=format_channel_title(channel, words, 60))
    await redraw_message(pressed, Text(toast), None, toast)
    count = await channel_removal.remove_channel(context.archive, channel.chat_id)
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


@router.callback_query(ChannelCallback.filter(F.action == ChannelAction.LEAVE), flags=ADMINS_ONLY)
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
        await channel_removal.remove_channel(context.archive, chat_id)
        context.indexing.wake()
    before = (pressed.message.text if isinstance(pressed.message, Message) else None) or ""
    left = words("channel-left-now")
    text = before if before.endswith(left) else f"{before}\n\n{left}".strip()
    back = build_keyboard([(words("button-back"), ChannelCallback(action=ChannelAction.LIST))])
    await redraw_message(pressed, Text(text), back, left)


@router.edited_channel_post()
@router.channel_post()
async def _on_channel_post(_: Message, context: AppContext) -> None:
    context.indexing.wake()
