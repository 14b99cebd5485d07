"""Handlers of /models: an admin sees the models on this machine and which are in use, switches with a button, and
downloads the writer of the package index with another one.

A button carries a token that only this archive can make of a model's name; the presser is checked every time.
"""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

from aiogram import Router
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Text

from bot.access import Refusal
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.middlewares import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.views.keyboards import build_keyboard, edit_message, make_callback_token
from rag_core.errors import ModelUnavailable
from rag_core.models.active_models import (
    UNDECIDED_VALUES,
    find_embedder_offer,
    find_live_model,
    get_model_setting,
    get_models_folder,
    list_models_in_use,
    switch_model,
)
from rag_core.models.catalog import MODELS, ModelRole, ModelTier, find_models
from rag_core.models.download import pull_model
from rag_core.models.model_files import is_model_present
from rag_core.storage import Archive
from rag_core.storage.chat_and_admin_settings import load_choices

router = Router()

_NO_MODEL = "none"  # to work without a writer
_USE_LABELS = {
    "writer": "model-writer",
    "planner": "model-planner",
    "embedder": "model-embedder",
    "reranker": "model-reranker",
}


(_WRITER_TO_PULL,) = find_models(ModelTier.OFFLINE_WRITER)
_PROGRESS_SECONDS = 3.0  # between edits of a message; Telegram allows twenty a minute in a chat


class _ModelCallback(CallbackData, prefix="mo"):
    """Callback data of a model button: the model's token."""

    token: str


class _PullCallback(CallbackData, prefix="mp"):
    """Callback data of the button that downloads a writer: its token."""

    token: str


def _make_model_token(archive: Archive, name: str) -> str:
    return make_callback_token(f"model {name}", archive.identity)


@router.message(ChatCommand("models", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_models(message: Message, context: AppContext, words: Translator) -> None:
    text, buttons = await _render_models(context, words)
    await message.answer(text, reply_markup=buttons)


@router.callback_query(_ModelCallback.filter(), flags=ADMINS_ONLY)
async def _press_model(
    pressed: CallbackQuery, callback_data: _ModelCallback, context: AppContext, words: Translator
) -> None:
    found = {_make_model_token(context.archive, name): (name, use) for name, use in await _list_offered_models(context)}
    if callback_data.token not in found:
        raise Refusal(words("models-gone"))
    name, use = found[callback_data.token]
    await pressed.answer()  # before loading: a large model takes minutes, and a callback expires within seconds
    await edit_message(pressed, Text(words("models-loading", name=_format_model_name(name, words))), None)
    try:
        done = await asyncio.shield(switch_model(context.rag, name, use))
        result = words(
            "models-now" if done.now else "models-beside" if done.beside else "models-next",
            use=words(_USE_LABELS[use]),
            name=_format_model_name(name, words),
        )
    except ModelUnavailable as exc:
        result = words("models-refused", reason=words.error(exc))
    text, buttons = await _render_models(context, words)
    await edit_message(pressed, Text(f"{result}\n\n{text}"), buttons)


@router.callback_query(_PullCallback.filter(), flags=ADMINS_ONLY)
async def _press_pull(
    pressed: CallbackQuery, callback_data: _PullCallback, context: AppContext, words: Translator
) -> None:
    if callback_data.token != _make_model_token(context.archive, f"pull {_WRITER_TO_PULL.name}"):
        raise Refusal(words("models-gone"))
    if find_spec("llama_cpp") is None:
        raise Refusal(words("models-need-llama"))
    await pressed.answer()
    result = await _pull_and_switch(pressed, context, words)
    text, buttons = await _render_models(context, words)
    await edit_message(pressed, Text(f"{result}\n\n{text}"), buttons)


async def _pull_and_switch(pressed: CallbackQuery, context: AppContext, words: Translator) -> str:
    """Download the writer, with its progress in the message, and switch to it. Returns what came of it."""
    settings, name, percent = context.rag.settings, _WRITER_TO_PULL.name, 0

    def count_percent(done: int, total: int) -> None:
        nonlocal percent
        percent = 100 * done // max(total, 1)

    pull = pull_model(_WRITER_TO_PULL, get_models_folder(settings), hub=settings.models.hub, progress=count_percent)
    pulling = asyncio.create_task(pull)
    try:
        while not pulling.done():
            await edit_message(pressed, Text(words("models-pulling", name=name, percent=percent)), None)
            await asyncio.wait([pulling], timeout=_PROGRESS_SECONDS)
        await pulling
        await asyncio.shield(switch_model(context.rag, name, ModelRole.WRITER))
    except ModelUnavailable as exc:
        return words("models-refused", reason=words.error(exc))
    finally:
        pulling.cancel()
    return words("models-now", use=words(_USE_LABELS["writer"]), name=name)


async def _list_offered_models(context: AppContext) -> list[tuple[str, str]]:
    """List the downloaded models with their use, and the choice of no model."""
    folder = get_models_folder(context.rag.settings)
    rows = await asyncio.to_thread(lambda: [row for row in MODELS if is_model_present(row, folder / row.name)])
    nothing = [(_NO_MODEL, ModelRole.WRITER.value)] if any(row.role is ModelRole.WRITER for row in rows) else []
    return [*((row.name, row.role.value) for row in rows), *nothing]


async def _render_models(context: AppContext, words: Translator) -> tuple[str, InlineKeyboardMarkup]:
    offered = await _list_offered_models(context)
    live = await find_live_model(context.rag.settings, context.archive)
    used = list_models_in_use(context.rag.settings, await load_choices(context.archive), live)
    lines = [f"{words(_USE_LABELS[use])}: {name}" for use, name in used.items()]
    text = "\n".join([words("models-used") if lines else words("models-unused"), *lines])
    if offer := await find_embedder_offer(context.rag.settings, context.archive):
        kind = "models-embedding" if offer.asked else "models-better"
        costs = {"rate": round(offer.rate), "minutes": offer.minutes, "memory": offer.megabytes}
        about = words(kind, name=offer.name, live=offer.live, done=offer.done, total=offer.total, **costs)
        text = f"{text}\n\n{about}"
    rows: list[list[tuple[str, CallbackData]]] = []
    for name, use in offered:
        tick = "✓ " if used.get(use, _NO_MODEL) == name else ""
        label = f"{tick}{words(_USE_LABELS[use])}: {_format_model_name(name, words)}"
        rows.append([(label, _ModelCallback(token=_make_model_token(context.archive, name)))])
    settings, pull = context.rag.settings, _WRITER_TO_PULL
    chosen_here = get_model_setting(settings, "writer") in UNDECIDED_VALUES and not settings.llm.url
    if chosen_here and (pull.name, pull.role.value) not in offered:
        label = words("models-pull", name=pull.name, gigabytes=f"{pull.bytes / 1e9:.1f}")
        rows.append([(label, _PullCallback(token=_make_model_token(context.archive, f"pull {pull.name}")))])
    hint = words("models-press") if offered else words("models-none", pull="citegram models pull offline")
    return f"{text}\n\n{hint}", build_keyboard(*rows)


def _format_model_name(name: str, words: Translator) -> str:
    return words("models-nobody") if name == _NO_MODEL else name
