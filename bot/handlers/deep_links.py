"""Deep links that ask a question: t.me/bot?start=... with the question itself, or with the key of a stored question.

A text is stored only when its own asker makes a link to it: nobody finds another's question by guessing.
Source: https://core.telegram.org/bots/features#deep-linking (64 characters out of A-Z, a-z, 0-9, _ and -).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from secrets import token_urlsafe

from aiogram import Bot, Router
from aiogram.dispatcher.event.bases import SkipHandler
from aiogram.filters import CommandObject, CommandStart
from aiogram.types import Message, Update
from aiogram.utils.formatting import Text, as_list

from bot.context import AppContext
from bot.filters import IN_PRIVATE, ChatCommand, find_asked_answer
from bot.handlers.questions import MAX_QUESTION_LENGTH, submit_question
from bot.i18n import Translator
from bot.views.answer import make_link
from bot.views.message_text import neutralize_links
from bot.views.post_phrases import strip_control_characters
from rag_core.storage import Archive, questions

_MAX_PAYLOAD_LENGTH = 64
# First character of a payload: the question itself follows, or the key it is stored under.
_TEXT_PREFIX, _STORED_PREFIX = "q", "s"
_PAYLOAD_PATTERN = re.compile(rf"[{_TEXT_PREFIX}{_STORED_PREFIX}][A-Za-z0-9_-]{{1,{_MAX_PAYLOAD_LENGTH - 1}}}")


def encode_payload(text: str) -> str | None:
    """Encode a question as a payload; None where it is too long."""
    payload = _TEXT_PREFIX + urlsafe_b64encode(text.encode()).decode().rstrip("=")
    return payload if len(payload) <= _MAX_PAYLOAD_LENGTH else None


async def decode_payload(payload: str, archive: Archive) -> str | None:
    """Decode a payload to its question; None where it is invalid or unknown."""
    if not _PAYLOAD_PATTERN.fullmatch(payload):
        return None
    if payload[0] == _STORED_PREFIX:
        return await questions.get_linked_question(archive, payload[1:])
    try:
        text = urlsafe_b64decode(payload[1:] + "=" * (-len(payload[1:]) % 4)).decode()
    except ValueError:  # invalid base64 or UTF-8
        return None
    return text if text and text == strip_control_characters(text) and encode_payload(text) == payload else None


async def create_question_link(text: str, user_id: int, bot: Bot, archive: Archive, words: Translator) -> Text:
    """Create a link to a question, and a sentence with the link and who can read what."""
    payload = encode_payload(text)
    if payload is None:
        payload = _STORED_PREFIX + await questions.save_linked_question(archive, user_id, text, token_urlsafe(16))
    url = f"https://t.me/{(await bot.me()).username}?start={payload}"
    reply = "link-kept" if payload[0] == _STORED_PREFIX else "link-whole"
    return as_list(words(reply), make_link(url, url), sep="\n\n")


async def _on_start_link(
    message: Message, command: CommandObject, event_update: Update, context: AppContext, words: Translator
) -> None:
    text = await decode_payload(command.args or "", context.archive)
    if text is None or len(text) > MAX_QUESTION_LENGTH:
        raise SkipHandler  # handled as a plain /start
    await message.answer(**words.rich("link-asks", question=neutralize_links(text)).as_kwargs())
    await submit_question(message, text, event_update.update_id, context, words)


async def _on_link(message: Message, addressed: bool, bot: Bot, context: AppContext, words: Translator) -> None:
    asked = await find_asked_answer(message, bot, context.archive)
    if isinstance(asked, str):
        if addressed:
            await message.reply(words(asked, why="/link"), allow_sending_without_reply=True)
        return
    text = await create_question_link(asked.text, asked.user_id, bot, context.archive, words)
    await message.reply(**text.as_kwargs(), allow_sending_without_reply=True)


def routes() -> Router:
    """Router of /link and of /start with a payload."""
    router = Router(name="deep_links")
    router.message.register(_on_start_link, CommandStart(deep_link=True, ignore_case=True), IN_PRIVATE)
    router.message.register(_on_link, ChatCommand("link"))
    return router
