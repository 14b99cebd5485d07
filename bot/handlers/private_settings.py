"""Handlers of the time zone of a chat, in which "yesterday" is understood and dates and times are shown.

/settings offers zones in private and, from the group's settings, in a group; any zone can be typed after the command.
"""

from __future__ import annotations

from datetime import datetime, tzinfo

from aiogram import Router
from aiogram.filters import CommandObject
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Code, Text

from bot.access import Refusal, get_reader_id, may_change_chat_settings
from bot.context import AppContext
from bot.filters import PRIVATE, ChatCommand
from bot.i18n import Translator, find_zone
from bot.views.keyboards import LabelledPress, build_keyboard, redraw_message
from rag_core.storage.users import save_chat_zone

# From west to east; others can be typed.
_OFFERED = (
    "America/Los_Angeles", "America/New_York", "UTC", "Europe/London", "Europe/Berlin", "Europe/Kyiv",
    "Europe/Kaliningrad", "Europe/Moscow", "Europe/Samara", "Asia/Tbilisi", "Asia/Almaty", "Asia/Yekaterinburg",
    "Asia/Omsk", "Asia/Novosibirsk", "Asia/Irkutsk", "Asia/Yakutsk", "Asia/Vladivostok", "Asia/Kamchatka",
)  # fmt: skip
_EXAMPLE = "/settings Europe/Madrid"


class ZoneCallback(CallbackData, prefix="tz"):
    """Callback data of a time zone button: its name; "" shows the zones."""

    name: str = ""


def format_zone(zone: tzinfo, words: Translator) -> str:
    """Format a time zone: its place."""
    return words("zone-name", zone=str(zone).rpartition("/")[2])


def _format_clock(zone: tzinfo, words: Translator) -> str:
    return f"{format_zone(zone, words)}, {datetime.now(zone):%H:%M}"


async def _render_zones(chat_id: int, context: AppContext, words: Translator) -> tuple[Text, InlineKeyboardMarkup]:
    now = await context.load_zone(chat_id)
    offered = {name: zone for name in _OFFERED if (zone := find_zone(name))}
    buttons: list[LabelledPress] = [
        (f"{'✓ ' if str(zone) == str(now) else ''}{_format_clock(zone, words)}", ZoneCallback(name=name))
        for name, zone in offered.items()
    ]
    rows = [buttons[at : at + 2] for at in range(0, len(buttons), 2)]
    text = words.rich("zone-now", zone=_format_clock(now, words), example=Code(_EXAMPLE))
    return text, build_keyboard(*rows)


async def _on_settings(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    await show_zones(message, (command.args or "").strip(), context, words)


async def show_zones(message: Message, typed: str, context: AppContext, words: Translator) -> None:
    """Set the zone that was typed, and show the zones."""
    zone = find_zone(typed)
    if typed and zone is None:
        refusal = words.rich("zone-unknown", example=Code(_EXAMPLE))
        await message.reply(**refusal.as_kwargs())
        return
    if zone is not None and await may_change_chat_settings(context.admins, message.chat, get_reader_id(message)):
        await save_chat_zone(context.archive, message.chat.id, typed)
    text, buttons = await _render_zones(message.chat.id, context, words)
    await message.answer(**text.as_kwargs(), reply_markup=buttons)


async def _press_zone(
    pressed: CallbackQuery, callback_data: ZoneCallback, context: AppContext, words: Translator
) -> None:
    message, name = pressed.message, callback_data.name
    if not isinstance(message, Message) or not await may_change_chat_settings(
        context.admins, message.chat, pressed.from_user.id
    ):
        raise Refusal(words("group-admins-only"))
    if name in _OFFERED:
        await save_chat_zone(context.archive, message.chat.id, name)
    text, buttons = await _render_zones(message.chat.id, context, words)
    await redraw_message(pressed, text, buttons, words("settings-kept") if name else "")


def routes() -> Router:
    """Router of /settings in private, and of the buttons with time zones."""
    router = Router(name="time zone")
    router.message.register(_on_settings, ChatCommand("settings", chats=PRIVATE))
    router.callback_query.register(_press_zone, ZoneCallback.filter())
    return router
