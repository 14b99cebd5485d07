"""Handlers of /verify: it checks a text, the replied message, or a message forwarded in private.

A handler only queues a row, as that of a question does; bot/views/verdict.py renders the result.
"""

from __future__ import annotations

from aiogram import F, Router
from aiogram.filters import CommandObject
from aiogram.types import Message, Update
from aiogram.utils.formatting import Code

from bot.app_context import AppContext
from bot.handlers.questions import queue_message_text
from bot.i18n import Translator, detect_question_language
from bot.middlewares import IN_PRIVATE, ChatCommand, get_replied_message
from bot.views.answer import strip_sources

router = Router()


@router.message(ChatCommand("verify"))
async def _on_verify(
    message: Message,
    command: CommandObject,
    addressed: bool,
    event_update: Update,
    context: AppContext,
    words: Translator,
) -> None:
    text, own = (command.args or "").strip(), True
    if not text:
        text, own = _extract_replied_text(message), False
    if text:
        lang = detect_question_language(text, words.lang) if own else words.lang
        await queue_message_text(message, text, event_update.update_id, context, words, lang=lang, kind="verify")
    elif addressed:
        refusal = words.rich("verify-empty", example=Code(f"/verify {words('verify-example')}"))
        await message.reply(**refusal.as_kwargs())


@router.message(IN_PRIVATE, F.forward_origin)
async def _on_forwarded_message(message: Message, event_update: Update, context: AppContext, words: Translator) -> None:
    text = (message.text or message.caption or "").strip()
    if text:
        await queue_message_text(message, text, event_update.update_id, context, words, lang=words.lang, kind="verify")
    # other pictures of an album: only the one with the caption counts
    elif not message.media_group_id:
        await message.reply(words("verify-not-text"))


def _extract_replied_text(message: Message) -> str:
    """Text of the replied message: the selected part, else all of it."""
    if message.quote and message.quote.is_manual:
        return message.quote.text.strip()
    parent = get_replied_message(message)
    if parent is None:
        return ""
    text = parent.text or parent.caption or ""
    ours = message.bot and parent.from_user and parent.from_user.id == message.bot.id
    return strip_sources(text, parent.entities or ()) if ours else text.strip()
