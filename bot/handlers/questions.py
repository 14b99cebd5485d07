"""Handlers of questions: /ask, plain text, mentions and replies.

A handler only queues a row and wakes the workers (bot/worker/question_worker.py); the same update twice is one row.
"""

from __future__ import annotations

from dataclasses import replace

from aiogram import F, Router
from aiogram.enums import ContentType
from aiogram.filters import CommandObject
from aiogram.types import Message, ReactionTypeEmoji, Update
from aiogram.utils.formatting import Code

from bot import access, logs
from bot.access import Refusal, get_reader, get_reader_id
from bot.app_context import AppContext
from bot.handlers.small_talk import reply_to_talk
from bot.i18n import Translator, detect_question_language
from bot.middlewares import (
    IN_GROUP,
    IN_PRIVATE,
    MAX_QUESTION_LENGTH,
    ChatCommand,
    extract_addressed_question,
    get_thread,
)
from bot.views.keyboards import DEEP_MODE
from bot.worker.streaming import call_best_effort
from rag_core.conversation.small_talk import TalkKind, detect_talk
from rag_core.retrieval.channel_answers import is_introduced
from rag_core.storage import questions
from rag_core.storage.questions import AnsweredQuestion, QuestionRow

router = Router()

# Content that people send; everything else in a private chat is a service message.
_USER_CONTENT_TYPES = {
    ContentType.ANIMATION, ContentType.AUDIO, ContentType.CONTACT, ContentType.DOCUMENT,
    ContentType.LOCATION, ContentType.PHOTO, ContentType.POLL, ContentType.STICKER,
    ContentType.VIDEO, ContentType.VIDEO_NOTE, ContentType.VOICE,
}  # fmt: skip


@router.message(ChatCommand("ask"))
async def _on_ask(
    message: Message, command: CommandObject, event_update: Update, context: AppContext, words: Translator
) -> None:
    await submit_question(message, (command.args or "").strip(), event_update.update_id, context, words)


@router.message(IN_PRIVATE, F.text.startswith("/"))
async def _on_unknown_command(message: Message, words: Translator) -> None:
    await message.answer(words("unknown-command"))


@router.message(IN_GROUP, extract_addressed_question)
@router.message(IN_PRIVATE, F.text | F.caption)
async def _on_text(
    message: Message, event_update: Update, context: AppContext, words: Translator, question: str | None = None
) -> None:
    """Take a text in private, or in a group the `question` that was found in it."""
    text = (message.text or message.caption or "").strip() if question is None else question
    await submit_question(message, text, event_update.update_id, context, words)


@router.message(IN_PRIVATE, F.content_type.in_(_USER_CONTENT_TYPES))
async def _on_no_text(message: Message, words: Translator) -> None:
    await message.answer(words("not-text"))


async def submit_question(message: Message, text: str, update_id: int, context: AppContext, words: Translator) -> None:
    """Queue the question of a message, reply to small talk, or tell the sender why it cannot be answered."""
    if not text:
        refusal = words.rich("ask-empty", example=Code(f"/ask {words('ask-example')}"))
        await message.reply(**refusal.as_kwargs())
        return
    if len(text) > MAX_QUESTION_LENGTH:
        raise Refusal(words("ask-too-long", limit=MAX_QUESTION_LENGTH, length=len(text)))
    if (talk := detect_talk(text)) and not (
        talk.kind is TalkKind.ABOUT_CHANNEL
        and await is_introduced(text, await access.build_viewer(context.admins, get_reader(message)), context.archive)
    ):
        await reply_to_talk(message, talk, context, words)
        return
    await queue_message_text(message, text, update_id, context, words, lang=detect_question_language(text, words.lang))


async def queue_message_text(
    message: Message, text: str, update_id: int, context: AppContext, words: Translator, *, lang: str, kind: str = "ask"
) -> None:
    """Queue a text to be answered or verified in `lang`, unless this reader is over the rate limit."""
    assert message.bot is not None
    reader = get_reader_id(message)
    asked = QuestionRow(
        bot_id=message.bot.id,
        update_id=update_id,
        chat_id=message.chat.id,
        message_id=message.message_id,
        thread=get_thread(message),
        user_id=reader,
        text=text,
        lang=lang,
        asked_at=message.date,
        private=message.chat.type == "private",
        kind=kind,
    )
    async with context.queue.limits.hold_count(reader, message.chat.id, words):
        number = await questions.queue_question(context.archive, asked)
    if number is not None:
        logs.log_question(number, text)
        context.queue.wake()
        if not asked.private:
            await call_best_effort(message.react([ReactionTypeEmoji(emoji="👀")]))


async def queue_deeper_question(
    asked: AnsweredQuestion, update_id: int, context: AppContext, words: Translator, *, pressed: bool = False
) -> None:
    """Queue a question again, within the limits. Relative dates keep their meaning from the first time."""
    again = replace(asked, update_id=update_id, mode=DEEP_MODE)
    async with context.queue.limits.hold_count(asked.user_id, asked.chat_id, words, pressed=pressed):
        await questions.queue_question(context.archive, again)
    context.queue.wake()
