"""Deep links that ask a question: t.me/bot?start=... with the question itself, or with the key of a stored question.

A text is stored only when its own asker makes a link to it: nobody finds another's question by guessing. Source:
https://core.telegram.org/bots/features#deep-linking (64 characters out of A-Z, a-z, 0-9, _ and -).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from secrets import token_urlsafe

from aiogram import Bot
from aiogram.utils.formatting import Text, as_list

from bot.i18n import Translator
from bot.views.answer import make_link
from bot.views.text import strip_control_characters
from rag_core.storage import Archive, questions

_MAX_PAYLOAD_LENGTH = 64
# First character of a payload: the question itself follows, or the handle it is stored under.
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
    payload, reply = encode_payload(text), "link-whole"
    if payload is None:
        payload = _STORED_PREFIX + await questions.save_linked_question(archive, user_id, text, token_urlsafe(16))
        reply = "link-kept"
    url = f"https://t.me/{(await bot.me()).username}?start={payload}"
    return as_list(words(reply), make_link(url, url), sep="\n\n")
