"""Handlers of /mode: how a chat's questions are answered, chosen in groups by their admins.

Readers choose quick (the recipe `direct`) or thorough (`agent`). Bot admins choose the other recipes by name, where a
model is there to run them, and switch recipes on and off for everyone. What a chat has pinned stays until changed.
Anybody who sees a button can press it: every press is checked.
"""

from __future__ import annotations

from aiogram import Router
from aiogram.filters import CommandObject
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Text

from bot.access import Refusal, get_reader_id, may_change_chat_settings
from bot.app_context import AppContext
from bot.filters import ChatCommand
from bot.i18n import Translator
from bot.views.keyboards import LabelledPress, build_keyboard, edit_message
from rag_core.recipe_choice import load_recipe_switches, set_recipe_enabled, set_recipe_share
from rag_core.recipes import RECIPES
from rag_core.storage.user_data import (
    AGENT_RECIPE,
    AUTO_RECIPE,
    DIRECT_RECIPE,
    AnswerMode,
    load_answer_mode,
    save_answer_mode,
)

_CAREFUL_MODE = "careful"
_READER_MODES = {"auto": AUTO_RECIPE, "quick": DIRECT_RECIPE, "thorough": AGENT_RECIPE}
_AGENT_SHARES = (0, 10, 50, 100)  # percent of the chats


class _ModeCallback(CallbackData, prefix="md"):
    """Callback data of a mode button: `use` a recipe here; for admins `on` and `off` (everywhere), `share` (`auto`)."""

    action: str
    name: str
    number: int = 0


async def _on_mode(
    message: Message, command: CommandObject, addressed: bool, context: AppContext, words: Translator
) -> None:
    wanted, reader = (command.args or "").strip().casefold(), get_reader_id(message)
    typed = {
        words(sentence, recipe=recipe).casefold(): recipe
        for sentence in ("mode-name", "mode-word")
        for recipe in _READER_MODES.values()
    }
    wanted = (typed | _READER_MODES).get(wanted, wanted)
    offered = _list_offered_modes(context, admin=reader in context.admins)
    if not (addressed or wanted in offered):
        return
    if wanted and wanted not in offered:
        names = ", ".join(words("mode-word", recipe=name) for name in offered)
        raise Refusal(words("mode-unknown", names=names))
    if wanted and not await may_change_chat_settings(context.admins, message.chat, reader):
        raise Refusal(words("mode-not-yours"))
    if wanted:
        await _set_chat_mode(context, message.chat.id, wanted)
    text, buttons = await _render_mode(context, message, words, reader)
    await message.answer(text, reply_markup=buttons)


async def _press_mode(
    pressed: CallbackQuery, callback_data: _ModeCallback, context: AppContext, words: Translator
) -> None:
    message, reader = pressed.message, pressed.from_user.id
    if not isinstance(message, Message):
        await pressed.answer()
        return
    admin, action, name = reader in context.admins, callback_data.action, callback_data.name
    if action == "use":
        allowed = name in _list_offered_modes(context, admin=admin)
        allowed = allowed and await may_change_chat_settings(context.admins, message.chat, reader)
    else:
        allowed = admin and message.chat.type == "private"
    if not allowed:
        raise Refusal(words("mode-not-yours"))
    if action == "use":
        await _set_chat_mode(context, message.chat.id, name)
    elif action in {"on", "off"} and name in RECIPES:
        await set_recipe_enabled(context.rag, name, on=action == "on")
    elif action == "share" and name == AGENT_RECIPE and callback_data.number in _AGENT_SHARES:
        await set_recipe_enabled(context.rag, AGENT_RECIPE, on=True)
        await set_recipe_share(context.rag, AGENT_RECIPE, callback_data.number / 100)
    await pressed.answer()
    text, buttons = await _render_mode(context, message, words, reader)
    await edit_message(pressed, Text(text), buttons)


def _list_offered_modes(context: AppContext, *, admin: bool) -> tuple[str, ...]:
    """List the modes that may be chosen: the other recipes and the review need a model that writes."""
    by_name = (
        [name for name in RECIPES if name not in (DIRECT_RECIPE, AGENT_RECIPE)] if admin and context.rag.writer else []
    )
    return (*_READER_MODES.values(), *by_name, *([_CAREFUL_MODE] if by_name else []))


async def _set_chat_mode(context: AppContext, chat_id: int, wanted: str) -> None:
    now = await load_answer_mode(context.archive, chat_id)
    chosen = AnswerMode(now.recipe, not now.careful) if wanted == _CAREFUL_MODE else AnswerMode(wanted, now.careful)
    await save_answer_mode(context.archive, chat_id, chosen)


async def _render_mode(
    context: AppContext, message: Message, words: Translator, reader: int
) -> tuple[str, InlineKeyboardMarkup]:
    """Render the mode of a chat with its buttons; for an admin in private also the switches for everyone."""
    now, state = await load_answer_mode(context.archive, message.chat.id), await load_recipe_switches(context.rag)
    admin = reader in context.admins
    pinned = {now.recipe, *([_CAREFUL_MODE] if now.careful else [])}
    offered = _list_offered_modes(context, admin=admin)
    usable = [name for name in offered if name not in state or state[name][0]]
    shown = [*usable, *sorted(pinned - set(usable))]
    lines = [words("mode-now", mode=words("mode-name", recipe=now.recipe)), words("mode-about", recipe=now.recipe)]
    if now.careful:
        lines.append(words("mode-careful-on"))
    if now.recipe in state and not state[now.recipe][0]:
        lines.append(words("mode-off-now"))
    rows = [
        [_make_button(f"{'✓ ' if name in pinned else ''}{words('mode-name', recipe=name)}", "use", name)]
        for name in shown
    ]
    if admin and message.chat.type == "private":
        rows += _build_recipe_switches({name: state[name] for name in offered if name in state}, words)
    return "\n".join(lines), build_keyboard(*rows)


def _build_recipe_switches(state: dict[str, tuple[bool, float]], words: Translator) -> list[list[LabelledPress]]:
    rows = []
    for name, (on, _) in state.items():
        label = words("mode-switch-off" if on else "mode-switch-on", mode=words("mode-name", recipe=name))
        rows.append([_make_button(label, "off" if on else "on", name)])
    on, share = state[AGENT_RECIPE]
    if on:
        percents = [(n, "✓ " if round(100 * share) == n else "") for n in _AGENT_SHARES]
        rows.append(
            [_make_button(f"{tick}{words('mode-share', percent=n)}", "share", AGENT_RECIPE, n) for n, tick in percents]
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
