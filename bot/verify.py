"""/verify: what is said, in a text, in the message it replies to, or in one forwarded to the bot in private.

As with questions a handler only queues a row and wakes the workers (turns.py), so that it outlives a restart; what
is shown then is in verdict_page.py.
"""

from __future__ import annotations

import re

from aiogram import F, Router
from aiogram.filters import Command, CommandObject
from aiogram.types import Message, Update
from aiogram.utils.formatting import Code

from bot.desk import Desk
from bot.questions import queued
from bot.words import Words, question_language

__all__ = ["routes"]

_PRIVATE = F.chat.type == "private"
_GROUP = F.chat.type.in_({"group", "supergroup"})
_QUOTES = {"blockquote", "expandable_blockquote"}  # an answer of ours lists its posts in one
_NUMBERS = re.compile(r" ?\[\d+\]")


async def _on_verify(message: Message, command: CommandObject, event_update: Update, desk: Desk, words: Words) -> None:
    text, own = (command.args or "").strip(), True
    if not text:
        text, own = _replied(message), False
    if text:
        lang = question_language(text, words.lang) if own else words.lang
        await queued(message, text, event_update.update_id, desk, words, lang=lang, kind="verify")
    elif message.chat.type == "private" or command.mention:  # in a group a bare command may be meant for another bot
        said = words.rich("verify-empty", example=Code(f"/verify {words('verify-example')}"))
        await message.reply(**said.as_kwargs(), allow_sending_without_reply=True)


async def _on_forwarded(message: Message, event_update: Update, desk: Desk, words: Words) -> None:
    text = (message.text or message.caption or "").strip()
    if text:
        await queued(message, text, event_update.update_id, desk, words, lang=words.lang, kind="verify")
    # the other pictures of an album: the one with the caption speaks for all of them
    elif not message.media_group_id:
        await message.reply(words("verify-not-text"), allow_sending_without_reply=True)


def _replied(message: Message) -> str:
    """What is replied to: the part that was chosen, else all of it."""
    if message.quote and message.quote.is_manual:
        return message.quote.text.strip()
    parent = message.reply_to_message
    if parent is None or parent.forum_topic_created:  # in a topic every message "replies" to its opening
        return ""
    text = parent.text or parent.caption or ""
    ours = message.bot and parent.from_user and parent.from_user.id == message.bot.id
    return _answer_alone(parent, text) if ours else text.strip()


def _answer_alone(message: Message, text: str) -> str:
    """What an answer of ours says, without the list of its posts and what stands below."""
    lists = [e.offset for e in message.entities or () if e.type in _QUOTES]
    if lists:
        before = text.encode("utf-16-le")[: 2 * min(lists)].decode("utf-16-le").rstrip()
        text = before.rpartition("\n")[0]  # the line above the list is its title
    return _NUMBERS.sub("", text).strip()


def routes() -> Router:
    """Handlers of /verify and of what is forwarded in private. Included late: an export may be forwarded too."""
    router = Router(name="verify")
    router.message.register(_on_verify, Command("verify", ignore_case=True), _PRIVATE | _GROUP)
    router.message.register(_on_forwarded, _PRIVATE, F.forward_origin)
    return router
