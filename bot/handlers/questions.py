"""Handlers of questions: /ask, plain text, mentions and replies; /verify; /stop and /new for a conversation.

A handler only queues a row and wakes the workers (bot/worker/question_worker.py); the same update twice is one row.

/verify checks a text, the message that the command replies to, or a message forwarded in private; bot/views/verdict.py
renders the result.

/new off and /new on switch the memory of a whole chat. Readers stop their own questions, and nobody else's.
"""

from __future__ import annotations

from dataclasses import replace

from aiogram import F, Router
from aiogram.enums import ContentType
from aiogram.filters import CommandObject
from aiogram.types import CallbackQuery, Message, MessageGenerationStopped, ReactionTypeEmoji, Update
from aiogram.utils.formatting import Code

from bot import logs
from bot.access import Refusal, check_may_change_settings, get_reader_id
from bot.app_context import AppContext
from bot.filters import IN_GROUP, IN_PRIVATE, ChatCommand, extract_addressed_question, get_replied_message, get_thread
from bot.handlers.small_talk import reply_to_talk
from bot.i18n import Translator, detect_question_language
from bot.views.answer import strip_sources
from bot.views.keyboards import DEEP_MODE
from bot.worker.streaming import StopCallback, call_best_effort
from rag_core.conversation.memory import is_memory_enabled, set_memory_enabled, start_new_conversation
from rag_core.conversation.small_talk_detection import detect_talk
from rag_core.storage import questions
from rag_core.storage.questions import AnsweredQuestion, QuestionRow
from rag_core.storage.user_data import ConversationKey

MAX_QUESTION_LENGTH = 1000  # long enough for a paragraph of context, short enough for a small model

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


async def _on_text(
    message: Message, event_update: Update, context: AppContext, words: Translator, question: str | None = None
) -> None:
    """Take a text in private, or in a group the `question` that was found in it."""
    text = (message.text or message.caption or "").strip() if question is None else question
    await submit_question(message, text, event_update.update_id, context, words)


async def _on_unknown_command(message: Message, words: Translator) -> None:
    await message.answer(words("unknown-command"))


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
    if talk := detect_talk(text):
        await reply_to_talk(message, talk, context, words)
        return
    await queue_message_text(message, text, update_id, context, words, lang=detect_question_language(text, words.lang))


async def queue_message_text(  # noqa: PLR0913 - a parameter for each column of the row
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


_MEMORY_SWITCHES = {"on": True, "off": False}


async def _on_new(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    wanted = (command.args or "").strip().casefold()
    if wanted and wanted not in _MEMORY_SWITCHES:
        raise Refusal(words("talk-unknown"))
    if wanted:
        await check_may_change_settings(context.admins, message.chat, get_reader_id(message), words("talk-not-yours"))
        await set_memory_enabled(message.chat.id, context.rag, to=_MEMORY_SWITCHES[wanted])
    here = ConversationKey(message.chat.id, get_reader_id(message), get_thread(message) or 0)
    await start_new_conversation(here, context.rag)
    remembers = await is_memory_enabled(message.chat.id, context.rag)
    await message.reply(words("talk-new" if remembers else "talk-off"))


async def _on_stop(message: Message, addressed: bool, context: AppContext, words: Translator) -> None:
    running, waited = await context.queue.halt(message.chat.id, get_reader_id(message))
    if waited:
        await message.reply(words("stopped-waiting", count=waited))
    elif not running and addressed:  # a running question shows its own end
        await message.reply(words("stop-nothing"))


async def _on_draft_stopped(event: MessageGenerationStopped, context: AppContext, words: Translator) -> None:
    """Handle the client's own stop button: private chats only, where the chat id is the reader's."""
    _, waited = await context.queue.halt(event.chat.id, event.chat.id, event.draft_id)
    if waited:
        assert event.bot is not None
        text = words("stopped-waiting", count=waited)
        await event.bot.send_message(event.chat.id, text, message_thread_id=event.message_thread_id)


async def _press_stop(
    pressed: CallbackQuery, callback_data: StopCallback, context: AppContext, words: Translator
) -> None:
    message = pressed.message
    if message is None:
        await pressed.answer()
        return
    running, waited = await context.queue.halt(message.chat.id, pressed.from_user.id, callback_data.question)
    await pressed.answer() if running or waited else await pressed.answer(words("stop-not-yours"), show_alert=True)


def register_verify(router: Router) -> None:
    """Register the handlers of /new, /stop, /verify, and forwarded messages in private.

    Call it after that of /import: an export may be forwarded, too.
    """
    router.message.register(_on_new, ChatCommand("new", addressed_only=True))
    router.message.register(_on_stop, ChatCommand("stop"))
    router.message.register(_on_verify, ChatCommand("verify"))
    router.message.register(_on_forwarded_message, IN_PRIVATE, F.forward_origin)


def register(router: Router) -> None:
    """Register the handlers of questions and stop buttons. Call it late: it takes all remaining text in private."""
    router.message.register(_on_ask, ChatCommand("ask"))
    router.message.register(_on_unknown_command, IN_PRIVATE, F.text.startswith("/"))
    router.message.register(_on_text, IN_PRIVATE, F.text | F.caption)
    router.message.register(_on_no_text, IN_PRIVATE, F.content_type.in_(_USER_CONTENT_TYPES))
    router.message.register(_on_text, IN_GROUP, extract_addressed_question)
    router.stopped_message_generation.register(_on_draft_stopped)
    router.callback_query.register(_press_stop, StopCallback.filter())
