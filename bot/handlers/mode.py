"""Handlers of /mode: the recipe of a chat, chosen in groups by their admins; bot admins switch recipes on and off.

Anybody who sees a button can press it: every press is checked.
"""

from __future__ import annotations

from aiogram import Router
from aiogram.filters import CommandObject
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Text

from bot.access import get_reader_id, is_admin, may_change_chat_settings
from bot.context import AppContext
from bot.i18n import Translator
from bot.message_filters import ChatCommand
from bot.views.keyboards import LabelledPress, build_keyboard, edit_message
from rag_core.answer import AGENT, load_recipe_switches, set_recipe_enabled, set_recipe_share
from rag_core.recipes import RECIPES
from rag_core.storage.users import AUTO_RECIPE, AnswerMode, load_answer_mode, save_answer_mode

__all__ = ["routes"]

_CAREFUL_MODE = "careful"
_AGENT_SHARES = (0, 10, 50, 100)  # percent of the chats


class _ModeCallback(CallbackData, prefix="md"):
    """Callback data of a mode button: `use` a recipe here; for admins `on` and `off` (everywhere), `share` (`auto`)."""

    action: str
    name: str
    number: int = 0


async def _on_mode(
    message: Message, command: CommandObject, addressed: bool, context: AppContext, words: Translator
) -> None:
    private = message.chat.type == "private"
    wanted = (command.args or "").strip().casefold()
    known = wanted in (*_list_offered_modes(), _CAREFUL_MODE)
    if not (addressed or known):
        return
    if wanted and not known:
        await message.reply(words("mode-unknown", names=", ".join((*_list_offered_modes(), _CAREFUL_MODE))))
        return
    if wanted and not await may_change_chat_settings(context.admins, message.chat, get_reader_id(message)):
        await message.reply(words("mode-not-yours"))
        return
    if wanted:
        await _set_chat_mode(context, message.chat.id, wanted)
    admin = private and is_admin(message, context.admins)
    text, buttons = await _render_mode(context, message.chat.id, words, admin=admin)
    await message.answer(text, reply_markup=buttons)


async def _press_mode(
    pressed: CallbackQuery, callback_data: _ModeCallback, context: AppContext, words: Translator
) -> None:
    message = pressed.message
    if message is None:
        await pressed.answer()
        return
    admin = message.chat.type == "private" and pressed.from_user.id in context.admins
    action, name = callback_data.action, callback_data.name
    if action == "use" and name in (*_list_offered_modes(), _CAREFUL_MODE):
        if not await may_change_chat_settings(context.admins, message.chat, pressed.from_user.id):
            await pressed.answer(words("mode-not-yours"), show_alert=True)
            return
        await _set_chat_mode(context, message.chat.id, name)
    elif not admin:
        await pressed.answer(words("mode-not-yours"), show_alert=True)
        return
    elif action in {"on", "off"} and name in RECIPES:
        await set_recipe_enabled(context.rag, name, on=action == "on")
    elif action == "share" and name == AGENT and callback_data.number in _AGENT_SHARES:
        await set_recipe_enabled(context.rag, AGENT, on=True)
        await set_recipe_share(context.rag, AGENT, callback_data.number / 100)
    await pressed.answer()
    text, buttons = await _render_mode(context, message.chat.id, words, admin=admin)
    await edit_message(pressed, Text(text), buttons)


def _list_offered_modes() -> tuple[str, ...]:
    return (AUTO_RECIPE, *RECIPES)


async def _set_chat_mode(context: AppContext, chat_id: int, wanted: str) -> None:
    now = await load_answer_mode(context.archive, chat_id)
    chosen = AnswerMode(now.recipe, not now.careful) if wanted == _CAREFUL_MODE else AnswerMode(wanted, now.careful)
    await save_answer_mode(context.archive, chat_id, chosen)


async def _render_mode(
    context: AppContext, chat_id: int, words: Translator, *, admin: bool
) -> tuple[str, InlineKeyboardMarkup]:
    """Render the mode of a chat with its buttons; for an admin also the global switches."""
    now, state = await load_answer_mode(context.archive, chat_id), await load_recipe_switches(context.rag)
    lines = [words("mode-now", recipe=now.recipe), words("mode-about", recipe=now.recipe)]
    if now.careful:
        lines.append(words("mode-careful-on"))
    if now.recipe in state and not state[now.recipe][0]:
        lines.append(words("mode-off-now"))
    offered = [name for name in _list_offered_modes() if name not in state or state[name][0] or name == now.recipe]
    rows = [
        [_make_button(f"{'✓ ' if name == now.recipe else ''}{words('mode-name', recipe=name)}", "use", name)]
        for name in offered
    ]
    rows.append([_make_button(f"{'✓ ' if now.careful else ''}{words('mode-careful')}", "use", _CAREFUL_MODE)])
    if admin:
        rows += _build_recipe_switches(state, words)
    return "\n".join(lines), build_keyboard(*rows)


def _build_recipe_switches(state: dict[str, tuple[bool, float]], words: Translator) -> list[list[LabelledPress]]:
    rows = []
    for name, (on, _) in state.items():
        label = words("mode-switch-off", recipe=name) if on else words("mode-switch-on", recipe=name)
        rows.append([_make_button(label, "off" if on else "on", name)])
    on, share = state[AGENT]
    if on:
        percents = [(n, "✓ " if round(100 * share) == n else "") for n in _AGENT_SHARES]
        rows.append(
            [_make_button(f"{tick}{words('mode-share', percent=n)}", "share", AGENT, n) for n, tick in percents]
        )
    return rows


def _make_button(label: str, action: str, name: str, number: int = 0) -> LabelledPress:
    return label, _ModeCallback(action=action, name=name, number=number)


def routes() -> Router:
    """Router of /mode and its buttons."""
    router = Router(name="mode")
    router.message.register(_on_mode, ChatCommand("mode"))
    router.callback_query.register(_press_mode, _ModeCallback.filter())
    return router
