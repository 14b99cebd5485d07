"""Handler of /plan: what a question is searched with, and what each leg finds; for admins, nothing is answered."""

from __future__ import annotations

from datetime import datetime

from aiogram import Router
from aiogram.filters import CommandObject
from aiogram.types import Message
from aiogram.utils.formatting import Text

from bot import access
from bot.context import AppContext
from bot.control.schemas import format_plan_lines, plan_as_json
from bot.filters import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.i18n import Translator, load_zone
from bot.telegram.access_recheck import Basis, recheck_before_sending
from bot.views.message_text import neutralize_links, split_pages
from rag_core.errors import RagError
from rag_core.text.tokens import detect_language
from rag_core.types import Question


async def _on_plan(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    text = (command.args or "").strip()
    if not text:
        await message.answer(words("plan-how", plan="/plan"))
        return
    reader = access.get_reader(message)
    viewer = await access.build_viewer(context.archive, context.admins, reader)
    zone = await load_zone(context.archive, message.chat.id, context.settings.bot.zone)
    question = Question(text, detect_language(text), datetime.now(zone), viewer)
    basis = Basis(counted=viewer.channels)
    try:
        lines = format_plan_lines(await plan_as_json(question, context.rag))
    except RagError as exc:
        await message.answer(words.error(exc))
        return
    with recheck_before_sending(basis, reader, context.archive, context.admins):
        for page in split_pages(Text(neutralize_links("\n".join(lines)))):
            await message.answer(page.text, entities=list(page.entities))


def routes() -> Router:
    """Router of /plan."""
    router = Router(name="plan")
    router.message.register(_on_plan, ChatCommand("plan", chats=PRIVATE), flags=ADMINS_ONLY)
    return router
