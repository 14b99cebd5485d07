"""Handlers of a channel's history, opened from its card: estimate, begin, pause, cancel, progress, undo.

The progress is one message, which is edited while the backfill runs; after a restart its button brings it up to date.
A group's history is read only if an admin asks for it here, and the group is told before.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from aiogram import Bot, F, Router
from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Text

from bot.access import Refusal
from bot.app_context import AppContext
from bot.i18n import Translator, get_translator
from bot.jobs import HistoryService
from bot.middlewares import ADMINS_ONLY
from bot.views.answer import link_channel_title
from bot.views.channel_card import (
    ChannelAction,
    ChannelCallback,
    awaits_approval,
    find_pressed_channel,
    make_channel_token,
)
from bot.views.keyboards import build_keyboard, edit_message, redraw_message
from ingest.history import estimate_minutes, estimate_size
from rag_core.errors import ArchiveUnavailable, HistoryUnavailable
from rag_core.storage import channel_history
from rag_core.types import Channel

router = Router()

_UPDATE_SECONDS = 5.0
_STATE_BY_ACTION = {
    ChannelAction.HISTORY_PAUSE: ("paused", ("running",)),
    ChannelAction.HISTORY_RESUME: ("running", ("paused", "failed")),
    ChannelAction.HISTORY_CANCEL: ("cancelled", ("running", "paused", "failed")),
}
_CHANGES = {ChannelAction.HISTORY_BEGIN, ChannelAction.HISTORY_UNDO, *_STATE_BY_ACTION}


@router.callback_query(ChannelCallback.filter(F.action == ChannelAction.HISTORY), flags=ADMINS_ONLY)
async def _press_history(
    pressed: CallbackQuery, callback_data: ChannelCallback, context: AppContext, words: Translator
) -> None:
    """Show a running or paused backfill; otherwise estimate one, and offer to begin it."""
    channel, service = await _find_channel(callback_data, context, words)
    job = (await channel_history.list_backfills(context.archive)).get(channel.chat_id)
    if job and job.state in ("running", "paused", "failed") and callback_data.number == 0:
        await redraw_message(pressed, *await _render_progress(context, channel, words))
        return
    title = link_channel_title(channel, words)
    await redraw_message(pressed, words.rich("history-counting", title=title), None)
    try:
        count = await estimate_size(context.archive, service.source, channel.chat_id)
    except HistoryUnavailable as exc:
        text = words.rich("history-failed", title=title, reason=words.error(exc))
        await edit_message(pressed, text, await _build_buttons(context, channel, words, ""))
        return
    text = words.rich("history-estimate", title=title, count=count, minutes=estimate_minutes(count))
    await edit_message(pressed, text, await _build_buttons(context, channel, words, "" if count else "none"))


@router.callback_query(ChannelCallback.filter(F.action.in_(_CHANGES)), flags=ADMINS_ONLY)
async def _press_change(
    pressed: CallbackQuery, callback_data: ChannelCallback, bot: Bot, context: AppContext, words: Translator
) -> None:
    """Begin, pause, resume or cancel a backfill, or put back the posts that looks took out within a week."""
    channel, service = await _find_channel(callback_data, context, words)
    archive, action, done = context.archive, callback_data.action, ""
    if action is ChannelAction.HISTORY_BEGIN:
        if channel.kind != "channel":  # a group is told before
            try:
                await bot.send_message(channel.chat_id, get_translator(context.settings.bot.language)("history-group"))
            except (TelegramAPIError, ClientDecodeError) as exc:
                raise Refusal(words("history-group-unreached")) from exc
        days = max(0, callback_data.number)  # 0: all posts
        since = datetime.now(UTC) - timedelta(days=min(days, 3650)) if days else None
        await channel_history.begin_backfill(archive, channel.chat_id, since)
    elif action is ChannelAction.HISTORY_UNDO:
        count = await channel_history.undo_deletions(archive, channel.chat_id, datetime.now(UTC))
        service.wake()
        done = words("history-restored", count=count)
    else:
        state, among = _STATE_BY_ACTION[action]
        await channel_history.set_backfill_state(archive, channel.chat_id, state, among=among)
    await redraw_message(pressed, *await _render_progress(context, channel, words), done=done)
    if action in (ChannelAction.HISTORY_BEGIN, ChannelAction.HISTORY_RESUME):
        service.spawn(_follow_progress(pressed, channel, context, words))


async def _find_channel(
    data: ChannelCallback, context: AppContext, words: Translator
) -> tuple[Channel, HistoryService]:
    channel = await find_pressed_channel(data, context, words)
    if context.history is None or awaits_approval(channel):  # an outdated button
        raise Refusal(words("button-stale"))
    return channel, context.history


async def _follow_progress(pressed: CallbackQuery, channel: Channel, context: AppContext, words: Translator) -> None:
    shown, before, state = pressed.message, "", "running"
    while isinstance(shown, Message) and state == "running":
        await asyncio.sleep(_UPDATE_SECONDS)
        with suppress(TelegramAPIError, ClientDecodeError, ArchiveUnavailable):
            job = (await channel_history.list_backfills(context.archive)).get(channel.chat_id)
            state = job.state if job else ""
            text, buttons = await _render_progress(context, channel, words)
            said, _ = text.render()
            if said != before:
                before = said
                await shown.edit_text(**text.as_kwargs(), reply_markup=buttons)


async def _render_progress(
    context: AppContext, channel: Channel, words: Translator
) -> tuple[Text, InlineKeyboardMarkup]:
    job = (await channel_history.list_backfills(context.archive)).get(channel.chat_id)
    title, state = link_channel_title(channel, words), job.state if job else ""
    if job is None:
        text = Text(title)
    elif state == "failed":
        text = words.rich("history-failed", title=title, reason=job.problem)
    else:
        percent = int(100 * job.share)
        text = words.rich("history-progress", title=title, state=state, percent=percent, count=job.saved)
    return text, await _build_buttons(context, channel, words, state)


async def _build_buttons(context: AppContext, channel: Channel, words: Translator, state: str) -> InlineKeyboardMarkup:
    token = make_channel_token(context.archive, channel.chat_id)

    def make_row(label: str, action: ChannelAction, number: int = 0) -> list[tuple[str, ChannelCallback]]:
        return [(label, ChannelCallback(action=action, token=token, number=number))]

    rows = []
    if state == "running":
        rows.append(make_row(words("button-history-refresh"), ChannelAction.HISTORY))
        rows.append(make_row(words("button-pause"), ChannelAction.HISTORY_PAUSE))
    elif state in ("paused", "failed"):
        rows.append(make_row(words("button-resume"), ChannelAction.HISTORY_RESUME))
    elif state != "none":
        rows.append(make_row(words("button-history-all"), ChannelAction.HISTORY_BEGIN))
        rows += [
            make_row(words("button-history-days", days=days), ChannelAction.HISTORY_BEGIN, days) for days in (365, 30)
        ]
    if state in ("running", "paused", "failed"):
        rows.append(make_row(words("button-history-cancel"), ChannelAction.HISTORY_CANCEL))
    counts = (await channel_history.count_history(context.archive, datetime.now(UTC))).get(channel.chat_id)
    if counts and counts.deleted:
        label = words("button-history-undo", count=counts.deleted)
        rows.append(make_row(label, ChannelAction.HISTORY_UNDO))
    rows.append(make_row(words("button-back"), ChannelAction.CARD))
    return build_keyboard(*rows)
