"""/mode: how a chat wants its questions answered; in groups its admins say so. Admins of the bot switch recipes here.

A button can be pressed by anybody who sees it: who presses is checked every time.
"""

from __future__ import annotations

from aiogram import F, Router
from aiogram.filters import Command, CommandObject
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, Chat, InlineKeyboardButton, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Text

from bot.access import is_admin, reader_of
from bot.channels.buttons import edit
from bot.desk import Desk
from bot.gate import leads
from bot.words import Words
from rag_core.choice import AGENT, set_share, switch, switched
from rag_core.doors.archive.modes import AUTO, Mode, mode_of, set_mode
from rag_core.recipes import RECIPES

__all__ = ["may_choose", "routes"]

_CAREFUL = "careful"
_SHARES = (0, 10, 50, 100)  # percent of the chats


class _Press(CallbackData, prefix="md"):
    """A button: `use` a recipe here, or, by admins, `on` or `off` for everyone, `share` for `auto`."""

    do: str
    name: str
    number: int = 0


async def may_choose(chat: Chat, user_id: int, desk: Desk) -> bool:
    """Whether somebody may choose for a chat: for their own, and for a group its admins under their own names."""
    return chat.type == "private" or await leads(user_id, chat.id, desk)


async def _on_mode(message: Message, command: CommandObject, desk: Desk, words: Words) -> None:
    private = message.chat.type == "private"
    wanted = (command.args or "").strip().casefold()
    known = wanted in (*_offered(), _CAREFUL)
    if not (private or command.mention or known):
        return  # a command in a group may be meant for another bot
    if wanted and not known:
        await message.reply(words("mode-unknown", names=", ".join((*_offered(), _CAREFUL))))
        return
    if wanted and not await may_choose(message.chat, reader_of(message), desk):
        await message.reply(words("mode-not-yours"))
        return
    if wanted:
        await _choose(desk, message.chat.id, wanted)
    admin = private and is_admin(message, desk.admins)
    said, buttons = await _shown(desk, message.chat.id, words, admin=admin)
    await message.answer(said, reply_markup=buttons)


async def _on_press(pressed: CallbackQuery, callback_data: _Press, desk: Desk, words: Words) -> None:
    message = pressed.message
    if message is None:
        await pressed.answer()
        return
    admin = message.chat.type == "private" and pressed.from_user.id in desk.admins
    do, name = callback_data.do, callback_data.name
    if do == "use" and name in (*_offered(), _CAREFUL):
        if not await may_choose(message.chat, pressed.from_user.id, desk):
            await pressed.answer(words("mode-not-yours"), show_alert=True)
            return
        await _choose(desk, message.chat.id, name)
    elif not admin:
        await pressed.answer(words("mode-not-yours"), show_alert=True)
        return
    elif do in {"on", "off"} and name in RECIPES:
        await switch(desk.rag, name, on=do == "on")
    elif do == "share" and name == AGENT and callback_data.number in _SHARES:
        await switch(desk.rag, AGENT, on=True)
        await set_share(desk.rag, AGENT, callback_data.number / 100)
    await pressed.answer()
    said, buttons = await _shown(desk, message.chat.id, words, admin=admin)
    await edit(pressed, Text(said), buttons)


def _offered() -> tuple[str, ...]:
    return (AUTO, *RECIPES)


async def _choose(desk: Desk, chat_id: int, wanted: str) -> None:
    now = await mode_of(desk.archive, chat_id)
    chosen = Mode(now.recipe, not now.careful) if wanted == _CAREFUL else Mode(wanted, now.careful)
    await set_mode(desk.archive, chat_id, chosen)


async def _shown(desk: Desk, chat_id: int, words: Words, *, admin: bool) -> tuple[str, InlineKeyboardMarkup]:
    """The mode of a chat and its buttons; for an admin the switches below."""
    now, state = await mode_of(desk.archive, chat_id), await switched(desk.rag)
    lines = [words("mode-now", recipe=now.recipe), words("mode-about", recipe=now.recipe)]
    if now.careful:
        lines.append(words("mode-careful-on"))
    if now.recipe in state and not state[now.recipe][0]:
        lines.append(words("mode-off-now"))
    offered = [name for name in _offered() if name not in state or state[name][0] or name == now.recipe]
    rows = [[_button(name, now, words)] for name in offered]
    rows.append([_pressing(f"{'✓ ' if now.careful else ''}{words('mode-careful')}", "use", _CAREFUL)])
    if admin:
        rows += _switches(state, words)
    return "\n".join(lines), InlineKeyboardMarkup(inline_keyboard=rows)


def _button(name: str, now: Mode, words: Words) -> InlineKeyboardButton:
    return _pressing(f"{'✓ ' if name == now.recipe else ''}{words('mode-name', recipe=name)}", "use", name)


def _switches(state: dict[str, tuple[bool, float]], words: Words) -> list[list[InlineKeyboardButton]]:
    rows = []
    for name, (on, _) in state.items():
        label = words("mode-switch-off", recipe=name) if on else words("mode-switch-on", recipe=name)
        rows.append([_pressing(label, "off" if on else "on", name)])
    on, share = state[AGENT]
    if on:
        percents = [(n, "✓ " if round(100 * share) == n else "") for n in _SHARES]
        rows.append([_pressing(f"{mark}{words('mode-share', percent=n)}", "share", AGENT, n) for n, mark in percents])
    return rows


def _pressing(label: str, do: str, name: str, number: int = 0) -> InlineKeyboardButton:
    return InlineKeyboardButton(text=label, callback_data=_Press(do=do, name=name, number=number).pack())


def routes() -> Router:
    """Handlers of /mode and its buttons."""
    router = Router(name="mode")
    router.message.register(
        _on_mode, Command("mode", ignore_case=True), F.chat.type.in_({"private", "group", "supergroup"})
    )
    router.callback_query.register(_on_press, _Press.filter())
    return router
