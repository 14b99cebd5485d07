"""Handlers of /verify: check a text, the message that the command replies to, or a message forwarded in private.

A handler only queues a row and wakes the workers, so that the request survives a restart; bot/views/verdict.py
renders the result.
"""

from __future__ import annotations

import re

from aiogram import F, Router
from aiogram.filters import CommandObject
from aiogram.types import Message, Update
from aiogram.utils.formatting import Code

from bot.context import AppContext
from bot.filters import IN_PRIVATE, ChatCommand
from bot.handlers.questions import queue_message_text
from bot.i18n import Translator, detect_question_language

_QUOTE_TYPES = {"blockquote", "expandable_blockquote"}  # the bot's answers list their sources in one
_CITATION_NUMBER_PATTERN = re.compile(r" ?\[\d+\]")


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
        await message.reply(**refusal.as_kwargs(), allow_sending_without_reply=True)


async def _on_forwarded_message(message: Message, event_update: Update, context: AppContext, words: Translator) -> None:
    text = (message.text or message.caption or "").strip()
    if text:
        await queue_message_text(message, text, event_update.update_id, context, words, lang=words.lang, kind="verify")
    # other pictures of an album: only the one with the caption counts
    elif not message.media_group_id:
        await message.reply(words("verify-not-text"), allow_sending_without_reply=True)


def _extract_replied_text(message: Message) -> str:
    """Text of the replied message: the selected part, else all of it."""
    if message.quote and message.quote.is_manual:
        return message.quote.text.strip()
    parent = message.reply_to_message
    if parent is None or parent.forum_topic_created:  # in a topic every message "replies" to its opening
        return ""
    text = parent.text or parent.caption or ""
    ours = message.bot and parent.from_user and parent.from_user.id == message.bot.id
    return _strip_sources(parent, text) if ours else text.strip()


def _strip_sources(message: Message, text: str) -> str:
    """Strip the sources and the notes below them from an answer of the bot."""
    lists = [e.offset for e in message.entities or () if e.type in _QUOTE_TYPES]
    if lists:
        before = text.encode("utf-16-le")[: 2 * min(lists)].decode("utf-16-le").rstrip()
        text = before.rpartition("\n")[0]  # the line above the list is its title
    return _CITATION_NUMBER_PATTERN.sub("", text).strip()


def routes() -> Router:
    """Router of /verify and of forwarded messages in private. Include it late: an export may be forwarded too."""
    router = Router(name="verify")
    router.message.register(_on_verify, ChatCommand("verify"))
    router.message.register(_on_forwarded_message, IN_PRIVATE, F.forward_origin)
    return router
