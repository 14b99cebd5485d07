"""Handlers of questions: /ask, plain text in private chats, and mentions of the bot or replies to it in groups.

A handler only queues a row and wakes the workers (bot/worker/question_worker.py); the same update twice is one row.
"""

from __future__ import annotations

from aiogram import F, Router
from aiogram.enums import ContentType
from aiogram.filters import CommandObject
from aiogram.types import Message, Update
from aiogram.utils.formatting import Code

from bot import logs
from bot.access import get_reader_id
from bot.context import AppContext
from bot.filters import IN_GROUP, IN_PRIVATE, ChatCommand, extract_addressed_question
from bot.handlers.small_talk import reply_to_talk
from bot.i18n import Translator, detect_question_language
from bot.worker.streaming import acknowledge_question
from rag_core.conversation.talk import detect_talk
from rag_core.storage import questions
from rag_core.storage.questions import QuestionRow

# Long enough for a paragraph of context, short enough for a small model.
MAX_QUESTION_LENGTH = 1000

# Content that people send; everything else in a private chat is a service message.
_USER_CONTENT_TYPES = {
    ContentType.ANIMATION, ContentType.AUDIO, ContentType.CONTACT, ContentType.DOCUMENT,
    ContentType.LOCATION, ContentType.PHOTO, ContentType.POLL, ContentType.STICKER,
    ContentType.VIDEO, ContentType.VIDEO_NOTE, ContentType.VOICE,
}  # fmt: skip


async def _on_ask(
    message: Message, command: CommandObject, event_update: Update, context: AppContext, words: Translator
) -> None:
    await submit_question(message, (command.args or "").strip(), event_update.update_id, context, words)


async def _on_text(message: Message, event_update: Update, context: AppContext, words: Translator) -> None:
    text = (message.text or message.caption or "").strip()
    await submit_question(message, text, event_update.update_id, context, words)


async def _on_addressed_question(
    message: Message, question: str, event_update: Update, context: AppContext, words: Translator
) -> None:
    await submit_question(message, question, event_update.update_id, context, words)


async def _on_unknown_command(message: Message, words: Translator) -> None:
    await message.answer(words("unknown-command", help="/help"))


async def _on_no_text(message: Message, words: Translator) -> None:
    await message.answer(words("not-text"))


async def submit_question(message: Message, text: str, update_id: int, context: AppContext, words: Translator) -> None:
    """Queue the question of a message, reply to small talk, or tell the sender why it cannot be answered."""
    if not text:
        refusal = words.rich("ask-empty", example=Code(f"/ask {words('ask-example')}"))
        await message.reply(**refusal.as_kwargs(), allow_sending_without_reply=True)
        return
    if len(text) > MAX_QUESTION_LENGTH:
        too_long = words("ask-too-long", limit=MAX_QUESTION_LENGTH, length=len(text))
        await message.reply(too_long, allow_sending_without_reply=True)
        return
    if talk := detect_talk(text):
        await reply_to_talk(message, talk, context, words)
        return
    await queue_message_text(message, text, update_id, context, words, lang=detect_question_language(text, words.lang))


async def queue_message_text(  # noqa: PLR0913 - a parameter for each column of the row
    message: Message, text: str, update_id: int, context: AppContext, words: Translator, *, lang: str, kind: str = "ask"
) -> None:
    """Queue a text to be answered or verified in `lang`, unless this reader is over the rate limit."""
    assert message.bot is not None
    limits, reader = context.worker.limits, get_reader_id(message)
    async with limits.hold_count(reader, message.chat.id) as wait:
        if wait is None:
            asked = QuestionRow(
                bot_id=message.bot.id,
                update_id=update_id,
                chat_id=message.chat.id,
                message_id=message.message_id,
                thread=message.message_thread_id if message.is_topic_message else None,
                user_id=reader,
                text=text,
                lang=lang,
                asked_at=message.date,
                private=message.chat.type == "private",
                kind=kind,
            )
            number = await questions.queue_question(context.archive, asked)
    if wait is not None:
        if notice := limits.build_notice(wait, reader, words):
            await message.reply(notice, allow_sending_without_reply=True)
        return
    if number is not None:
        logs.log_question(number, text)
        context.worker.wake()
        if message.chat.type != "private":
            await acknowledge_question(message.bot, message.chat.id, message.message_id)


def routes() -> Router:
    """Router of questions. Include it last: it takes all remaining text in private chats."""
    router = Router(name="questions")
    router.message.register(_on_ask, ChatCommand("ask"))
    router.message.register(_on_unknown_command, IN_PRIVATE, F.text.startswith("/"))
    router.message.register(_on_text, IN_PRIVATE, F.text | F.caption)
    router.message.register(_on_no_text, IN_PRIVATE, F.content_type.in_(_USER_CONTENT_TYPES))
    router.message.register(_on_addressed_question, IN_GROUP, extract_addressed_question)
    return router
