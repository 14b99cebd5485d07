"""Handlers of /reindex: rebuild the search index of all channels or of one, with progress in one message.

The message is edited every three seconds at most, and goes on being edited after a restart.
"""

from __future__ import annotations

import logging
import time
from enum import StrEnum

from aiogram import Bot, Router
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest
from aiogram.filters import CommandObject
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, MaybeInaccessibleMessageUnion, Message
from aiogram.utils.formatting import Text

from bot.app_context import AppContext
from bot.i18n import Translator, get_translator
from bot.indexing import RebuildRunner
from bot.middlewares import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.views.answer import format_channel_title
from bot.views.channel_card import build_channel_rows, find_channel_by_token
from bot.views.keyboards import CHANNELS_PER_PAGE, build_keyboard, build_page_row, cut_page, redraw_message
from rag_core.errors import RagError, RebuildRefused
from rag_core.storage import Archive, channels, post_lookup
from rag_core.storage.channels import find_channel
from rag_core.storage.index_state import ProgressMessage, Rebuild
from rag_core.types import Channel

router = Router()

_MAX_NAME_LENGTH = 60  # characters of a channel's name that is repeated


class _RebuildAction(StrEnum):
    """Action of a rebuild button. Values are short: Telegram gives a button 64 bytes."""

    ALL = "a"
    CHOOSE = "c"
    ONE = "o"
    NOTHING = "n"
    STOP = "s"


class _RebuildCallback(CallbackData, prefix="ri"):
    """Callback data of a rebuild button: action, channel token, and a page or the number of a rebuild."""

    action: _RebuildAction
    token: str = ""
    number: int = 0


def _build_stop_keyboard(rebuild: int, words: Translator) -> InlineKeyboardMarkup:
    """Keyboard that cancels this rebuild, and no later one."""
    return build_keyboard([(words("reindex-stop"), _RebuildCallback(action=_RebuildAction.STOP, number=rebuild))])


@router.message(ChatCommand("reindex", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_reindex(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    if not command.args:
        buttons = build_keyboard(
            [(words("reindex-all"), _RebuildCallback(action=_RebuildAction.ALL))],
            [(words("reindex-one"), _RebuildCallback(action=_RebuildAction.CHOOSE))],
            [(words("reindex-no"), _RebuildCallback(action=_RebuildAction.NOTHING))],
        )
        await message.answer(words("reindex-ask"), reply_markup=buttons)
        return
    channel = find_channel(command.args.strip(), await _list_rebuildable_channels(context))
    if channel is None:
        await message.answer(words("reindex-unknown", name=command.args.strip()[:_MAX_NAME_LENGTH]))
        return
    shown = await message.answer(words("reindex-begins"))
    if refusal := await _start_rebuild(context, channel.chat_id, shown, words):
        await shown.edit_text(words("reindex-busy"), reply_markup=refusal)


@router.callback_query(_RebuildCallback.filter(), flags=ADMINS_ONLY)
async def _press_reindex(
    pressed: CallbackQuery, callback_data: _RebuildCallback, context: AppContext, words: Translator
) -> None:
    action, known = callback_data.action, await _list_rebuildable_channels(context)
    channel = find_channel_by_token(context.archive, callback_data.token, known)
    if action is _RebuildAction.STOP:
        stopped = await context.reindexing.cancel(callback_data.number)
        await pressed.answer(None if stopped else words("reindex-over"))
    elif action is _RebuildAction.NOTHING:
        await redraw_message(pressed, Text(words("reindex-nothing")), None)
    elif action is _RebuildAction.CHOOSE:
        listed = sorted(known.values(), key=lambda c: (c.title.casefold(), c.chat_id))
        shown, number, last = cut_page(listed, callback_data.number, CHANNELS_PER_PAGE)
        rows = build_channel_rows(
            shown, lambda token: _RebuildCallback(action=_RebuildAction.ONE, token=token), context, words
        )
        turns = build_page_row(number, last, lambda n: _RebuildCallback(action=_RebuildAction.CHOOSE, number=n), words)
        no = [(words("reindex-no"), _RebuildCallback(action=_RebuildAction.NOTHING))]
        await redraw_message(pressed, Text(words("reindex-which")), build_keyboard(*rows, turns, no))
    elif action is _RebuildAction.ONE and channel is None:
        await redraw_message(pressed, Text(words("channel-gone")), None)
    else:
        chat_id = channel.chat_id if channel and action is _RebuildAction.ONE else None
        if refusal := await _start_rebuild(context, chat_id, pressed.message, words):
            await redraw_message(pressed, Text(words("reindex-busy")), refusal)
        else:
            await pressed.answer()


async def _start_rebuild(
    context: AppContext, chat_id: int | None, shown: MaybeInaccessibleMessageUnion | None, words: Translator
) -> InlineKeyboardMarkup | None:
    """Start a rebuild, shown by `report_rebuilds`; where another one runs, show the button that stops it."""
    tell = ProgressMessage(shown.chat.id, shown.message_id, words.lang) if shown else None
    try:
        await context.reindexing.start(chat_id, tell)
    except RebuildRefused:
        running = context.reindexing.current
        return _build_stop_keyboard(running.id if running else 0, words)
    return None


async def _list_rebuildable_channels(context: AppContext) -> dict[int, Channel]:
    return {key: c for key, c in (await channels.load_channels(context.archive)).items() if c.state != "removed"}


_UPDATE_INTERVAL_SECONDS = 3.0  # Telegram slows down more frequent edits

log = logging.getLogger(__name__)


async def report_rebuilds(bot: Bot, reindexing: RebuildRunner, archive: Archive) -> None:
    """Report the progress of every rebuild that has a message, one after the other. Never ends."""
    last = 0
    while True:
        last = (await reindexing.wait_until_begun(last)).id
        try:
            shown = -_UPDATE_INTERVAL_SECONDS
            async for rebuild in reindexing.states():
                over = rebuild.state != "running"
                if rebuild.tell and (over or time.monotonic() - shown >= _UPDATE_INTERVAL_SECONDS):
                    words = get_translator(rebuild.tell.lang)
                    text = await _format_rebuild(rebuild, reindexing.failure, archive, words)
                    await _edit_progress(bot, rebuild, rebuild.tell, text, words)
                    shown = time.monotonic()
        except RagError as exc:  # archive error: the rebuild goes on without being reported
            log.warning("the progress of rebuild %d is not told: %s", last, exc.reason)


async def _edit_progress(bot: Bot, rebuild: Rebuild, tell: ProgressMessage, text: str, words: Translator) -> None:
    """Edit the progress message; where it is gone or too old, the end is sent in a new one."""
    over = rebuild.state != "running"
    buttons = None if over else _build_stop_keyboard(rebuild.id, words)
    try:
        try:
            await bot.edit_message_text(text, chat_id=tell.chat_id, message_id=tell.message_id, reply_markup=buttons)
        except TelegramBadRequest as exc:
            if over and "not modified" not in exc.message:
                await bot.send_message(tell.chat_id, text)
    except (TelegramAPIError, ClientDecodeError) as exc:  # blocked, or unreachable for longer than the session retries
        log.warning("the progress of rebuild %d was not told: %s", rebuild.id, exc)


async def _format_rebuild(rebuild: Rebuild, failure: RagError | None, archive: Archive, words: Translator) -> str:
    what = words("reindex-what-all")
    if rebuild.chat_id is not None:
        channel = (await channels.load_channels(archive)).get(rebuild.chat_id)
        what = format_channel_title(channel, words) if channel else words("unnamed-channel")
    if rebuild.state == "running":
        return "\n".join([words("reindex-running", what=what), *_format_progress(rebuild, words)])
    if rebuild.state == "cancelled":
        return words("reindex-cancelled")
    if rebuild.state == "failed":
        return words("reindex-failed", reason=words.error(failure) if failure else rebuild.reason)
    count = await post_lookup.count_posts(archive, rebuild.chat_id)
    renewed = [words("reindex-renewed", count=rebuild.renewed)] if rebuild.renewed else []
    return "\n".join([words("reindex-done", what=what, count=count), *renewed])


def _format_progress(rebuild: Rebuild, words: Translator) -> list[str]:
    if not rebuild.total:
        return [words("reindex-preparing")]
    percent = 100 * rebuild.done // rebuild.total
    lines = [words("reindex-progress", done=rebuild.done, total=rebuild.total, percent=percent)]
    if rebuild.left_s is not None and rebuild.done < rebuild.total:
        lines.append(words("reindex-left", minutes=round(rebuild.left_s / 60)))
    return lines
