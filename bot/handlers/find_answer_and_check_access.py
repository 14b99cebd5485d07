"""Find the answer that a command or a button is about, and check who may use it; others are told why not."""

from __future__ import annotations

from aiogram import Bot
from aiogram.types import CallbackQuery, Message

from bot import access
from bot.access import Refusal, get_reader_id
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.middlewares import get_replied_message, get_thread
from bot.views.keyboards import AnswerAction, AnswerCallback
from rag_core.storage import Archive, questions
from rag_core.storage.questions import AnsweredQuestion, fetch_answered_question

_ASKER_ONLY_ACTIONS = {AnswerAction.WHY, AnswerAction.SHORTER, AnswerAction.DEEPER, AnswerAction.LINK}
_ASKER_ONLY_ACTIONS |= {AnswerAction.SEARCH, AnswerAction.REPHRASE}


async def find_asked_answer(
    message: Message, bot: Bot, archive: Archive, words: Translator, command: str, *, addressed: bool
) -> AnsweredQuestion:
    """Find the answer that a command asks about. Raises Refusal, with a sentence where the bot was addressed."""
    reader, parent = get_reader_id(message), get_replied_message(message)
    if parent is None:
        asked = await questions.fetch_last_answered(archive, bot.id, message.chat.id, reader, get_thread(message))
        refusal = "why-none"
    else:
        asked = await questions.find_question_of_message(archive, bot.id, message.chat.id, parent.message_id)
        refusal = "why-not-yours" if asked else "why-unknown"
    if asked is None or asked.user_id != reader:
        raise Refusal(words(refusal, why=command) if addressed else "")
    return asked


async def check_button_access(
    pressed: CallbackQuery, press: AnswerCallback, context: AppContext, words: Translator
) -> tuple[AnsweredQuestion, Message]:
    """Check that the presser may use the button; returns the answer and its message. Raises Refusal."""
    presser, message = pressed.from_user.id, pressed.message
    asked = await fetch_answered_question(context.archive, press.handle)
    # The message was deleted or is too old; or the callback data is forged, or from another chat.
    if asked is None or not isinstance(message, Message) or asked.chat_id != message.chat.id:
        raise Refusal(words("answer-gone"))
    if not asked.private and not await access.is_chat_member(context.admins, user_id=presser, chat_id=asked.chat_id):
        raise Refusal(words("answer-not-member"))
    if press.action in _ASKER_ONLY_ACTIONS and presser != asked.user_id:
        raise Refusal(words("answer-not-yours"))
    return asked, message
