"""/models: an admin sees the models on this machine and which are in use, and changes over with a button.

A button carries a mark that only this archive can make of a model's name; the presser is checked every time.
"""

from __future__ import annotations

import asyncio

from aiogram import F, Router
from aiogram.filters import Command
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, InlineKeyboardButton, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Text

from bot.access import is_admin
from bot.channels.buttons import edit, refused
from bot.desk import Desk
from bot.marks import marked
from bot.words import Words
from rag_core.dense import models_folder
from rag_core.doors.archive import Archive, choices
from rag_core.doors.model_folder import here
from rag_core.errors import ModelUnavailable
from rag_core.models import MODELS, Role
from rag_core.using import exchange, in_use

__all__ = ["routes"]

_NONE = "none"  # to do without a writer
_USES = {
    "writer": "model-writer",
    "planner": "model-planner",
    "embedder": "model-embedder",
    "reranker": "model-reranker",
}


class _Press(CallbackData, prefix="mo"):
    """A button: the mark of a model."""

    mark: str


def _mark(archive: Archive, name: str) -> str:
    return marked(f"model {name}", archive.identity)


async def _on_models(message: Message, desk: Desk, words: Words) -> None:
    if not is_admin(message, desk.admins):
        await message.answer(words("admins-only", start="/start"))
        return
    said, buttons = await _shown(desk, words)
    await message.answer(said, reply_markup=buttons)


async def _on_press(pressed: CallbackQuery, callback_data: _Press, desk: Desk, words: Words) -> None:
    if await refused(pressed, desk, words):
        return
    found = {_mark(desk.archive, name): (name, use) for name, use in await _offered(desk)}
    if callback_data.mark not in found:
        await pressed.answer(words("models-gone"), show_alert=True)
        return
    name, use = found[callback_data.mark]
    await pressed.answer()  # a large model takes minutes to load, and a button waits for seconds
    await edit(pressed, Text(words("models-loading", name=_called(name, words))), None)
    try:
        done = await asyncio.shield(exchange(desk.rag, name, use))
        told = words("models-now" if done.now else "models-next", use=words(_USES[use]), name=_called(name, words))
    except ModelUnavailable as exc:
        told = words("models-refused", reason=exc.reason)
    said, buttons = await _shown(desk, words)
    await edit(pressed, Text(f"{told}\n\n{said}"), buttons)


async def _offered(desk: Desk) -> list[tuple[str, str]]:
    """The models that are here, each with what it is for; and none, to do without a writer."""
    folder = models_folder(desk.rag.settings)

    def look() -> list[tuple[str, str]]:
        return [(row.name, row.role.value) for row in MODELS if here(row, folder / row.name)]

    found = await asyncio.to_thread(look)
    return [*found, (_NONE, Role.WRITER.value)] if (Role.WRITER in {use for _, use in found}) else found


async def _shown(desk: Desk, words: Words) -> tuple[str, InlineKeyboardMarkup | None]:
    offered = await _offered(desk)
    used = in_use(desk.rag.settings, await choices.remembered(desk.archive))
    lines = [f"{words(_USES[use])}: {name}" for use, name in used.items()]
    said = "\n".join([words("models-used") if lines else words("models-unused"), *lines])
    if not offered:
        return f"{said}\n\n{words('models-none', pull='citegram models pull default')}", None
    rows = [[_button(desk.archive, name, use, used, words)] for name, use in offered]
    return f"{said}\n\n{words('models-press')}", InlineKeyboardMarkup(inline_keyboard=rows)


def _button(archive: Archive, name: str, use: str, used: dict[str, str], words: Words) -> InlineKeyboardButton:
    on = used.get(use, _NONE) == name
    label = f"{'✓ ' if on else ''}{words(_USES[use])}: {_called(name, words)}"
    return InlineKeyboardButton(text=label, callback_data=_Press(mark=_mark(archive, name)).pack())


def _called(name: str, words: Words) -> str:
    return words("models-nobody") if name == _NONE else name


def routes() -> Router:
    """Handlers of /models and its buttons."""
    router = Router(name="models")
    router.message.register(_on_models, Command("models", ignore_case=True), F.chat.type == "private")
    router.callback_query.register(_on_press, _Press.filter())
    return router
