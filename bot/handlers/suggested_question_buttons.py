"""Buttons with suggested questions: lines with such buttons, after small talk, /start and a refusal, and their presses.

A press of a suggested question asks it, within the limits of any question.
"""

from __future__ import annotations

from datetime import UTC, datetime

from aiogram import Bot, Router
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message, Update
from aiogram.utils.formatting import Text

from bot import access, logs
from bot.access import Reader, Refusal
from bot.app_context import AppContext
from bot.i18n import Translator, get_translator
from bot.telegram.recheck import ContentWithdrawn, ShownContent, ShownPost, recheck_before_sending
from bot.views.keyboards import SuggestionCallback, build_suggestion_rows
from bot.views.message_formatting import neutralize_links
from rag_core.storage import questions
from rag_core.storage.questions import QuestionRow
from rag_core.types import Viewer

router = Router()


async def send_with_suggestions(
    message: Message, text: Text, viewer: Viewer, context: AppContext, lang: str | None, content: ShownContent
) -> None:
    """Send a line in private with suggested questions in `lang`; without them where a post of one has just changed."""
    here = Reader(viewer.user_id, message.chat.id, private=True)
    suggested = await context.suggestions.suggest(viewer, lang) if lang else []
    while True:
        offered = ShownContent(tuple(ShownPost(one.post, one.mark) for one in suggested))
        rows = build_suggestion_rows((one.text, context.suggestions.make_token(one)) for one in suggested)
        buttons = InlineKeyboardMarkup(inline_keyboard=rows) if rows else None
        try:
            with recheck_before_sending(content | offered, here, context.admins):
                await message.answer(**text.as_kwargs(), reply_markup=buttons)
                return
        except ContentWithdrawn:
            if not suggested:
                raise
            suggested = []


async def send_rephrase_hint(message: Message, asked: QuestionRow, context: AppContext) -> None:
    """Say how to ask another way after a refusal; in private with questions that the posts answer."""
    hint = Text(get_translator(asked.lang)("rephrase-hint"))
    if not asked.private:
        await message.reply(**hint.as_kwargs())
        return
    viewer = await access.build_viewer(context.admins, access.get_question_reader(asked))
    await send_with_suggestions(message, hint, viewer, context, asked.lang, ShownContent())


@router.callback_query(SuggestionCallback.filter())
async def _on_suggestion(
    pressed: CallbackQuery,
    callback_data: SuggestionCallback,
    event_update: Update,
    bot: Bot,
    context: AppContext,
    words: Translator,
) -> None:
    """Ask a suggested question in the name of who presses it, if this reader may and its post still says so."""
    message, reader = pressed.message, pressed.from_user.id
    if not isinstance(message, Message) or message.chat.id != reader:
        raise Refusal(words("suggestion-gone"))
    here = Reader(reader, reader, private=True)
    viewer = await access.build_viewer(context.admins, here)
    suggested = await context.suggestions.find(callback_data.token, viewer)
    if suggested is None:
        raise Refusal(words("suggestion-gone"))
    async with context.queue.limits.hold_count(reader, reader, words, pressed=True):
        content = ShownContent((ShownPost(suggested.post, suggested.mark),))
        with recheck_before_sending(content, here, context.admins):
            asked = await message.answer(**neutralize_links(suggested.text).as_kwargs())
        row = QuestionRow(
            bot_id=bot.id,
            update_id=event_update.update_id,
            chat_id=reader,
            message_id=asked.message_id,
            user_id=reader,
            text=suggested.text,
            lang=suggested.lang,
            asked_at=datetime.now(UTC),
            private=True,
        )
        number = await questions.queue_question(context.archive, row)
    await pressed.answer()
    if number is not None:
        logs.log_question(number, suggested.text)
        context.queue.wake()
