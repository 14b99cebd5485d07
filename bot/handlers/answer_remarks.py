"""Replies to remarks about the answer before: "source?", "are you sure?", "how old is this", "the whole post", "more".

They are what /sources and the buttons under an answer show, for readers who write instead. A remark is neither searched
nor stored; "more" asks the question again with a wider search. Access is worked out anew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiogram import Bot, F, Router
from aiogram.types import Message, ReactionTypeEmoji, Update
from aiogram.utils.formatting import Text, as_list

from bot import access
from bot.access import Refusal, get_reader, get_reader_id
from bot.app_context import AppContext
from bot.filters import PRIVATE, extract_addressed_question, get_replied_message, get_thread
from bot.handlers.small_talk import send_with_suggestions
from bot.handlers.why_and_plan import prepare_to_show
from bot.i18n import Translator, get_translator
from bot.telegram.pre_send_check import ShownContent
from bot.views.answer import parse_stored_answer
from bot.views.answer_sources import render_sources_page, render_whole_posts, shorten_answer
from bot.views.keyboards import DEEP_MODE
from bot.views.message_formatting import split_pages
from bot.worker.streaming import call_best_effort
from rag_core.conversation.answer_remark_detection import AnswerRemark, detect_answer_remark
from rag_core.storage import questions
from rag_core.storage.questions import AnsweredQuestion
from rag_core.types import Certainty


async def find_remark(message: Message, bot: Bot, context: AppContext) -> dict[str, Any] | bool:
    """Filter: the `remark` that a message to the bot is, and the `asked` answer that it is about; False without both.

    It is about the answer that it replies to, else about the sender's last answer in this chat.
    """
    text = message.text or message.caption or ""
    if message.chat.type not in PRIVATE:
        addressed = await extract_addressed_question(message, bot)
        text = addressed["question"] if isinstance(addressed, dict) else ""
    remark = None if text.startswith("/") else detect_answer_remark(text)
    if remark is None:
        return False
    archive, chat, parent = context.archive, message.chat.id, get_replied_message(message)
    if parent is None:
        asked = await questions.fetch_last_answered(archive, bot.id, chat, get_reader_id(message), get_thread(message))
    else:
        asked = await questions.find_question_of_message(archive, bot.id, chat, parent.message_id)
    # a verdict can be neither deepened nor shortened
    if asked is None or (asked.kind != "ask" and remark in {AnswerRemark.MORE, AnswerRemark.SHORTER}):
        return False
    return {"remark": remark, "asked": asked}


async def _on_remark(
    message: Message,
    remark: AnswerRemark,
    asked: AnsweredQuestion,
    event_update: Update,
    context: AppContext,
    words: Translator,
) -> None:
    reader, limits = get_reader_id(message), context.queue.limits
    if wait := limits.count_command(reader, message.chat.id):
        raise Refusal(limits.build_notice(wait, reader, words))
    if remark is AnswerRemark.MORE:
        await _look_deeper(message, asked, event_update.update_id, context, words)
    else:
        await _show_text(message, remark, asked, context)


async def _show_text(message: Message, remark: AnswerRemark, asked: AnsweredQuestion, context: AppContext) -> None:
    viewer, shown, checked = await prepare_to_show(asked, get_reader_id(message), context)
    archive, given, buttons = context.archive, parse_stored_answer(asked.answer), None
    if remark is AnswerRemark.WHOLE:
        text = await render_whole_posts(given, viewer, archive, shown)
    elif remark is AnswerRemark.SHORTER and given.sentences:
        shortened = await shorten_answer(asked, viewer, archive, shown)
        if shortened is None:
            raise Refusal(shown.words("answer-changed"))
        text = shortened
    else:
        text, buttons = await render_sources_page(asked, viewer, archive, shown)
        readable = [one.date for one in given.cited if one.key.chat_id in viewer.channels]
        if readable and remark is AnswerRemark.WHEN:
            first = shown.words.date(readable[0], shown.zone)
            text = as_list(Text(shown.words("remark-when", count=len(readable), date=first)), text, sep="\n\n")
        elif readable and remark is AnswerRemark.SURE:
            sure = "remark-sure" if given.certainty is Certainty.SURE else "remark-unsure"
            text = as_list(Text(shown.words(sure)), text, sep="\n\n")
    cut = split_pages(text)
    with checked:
        for page in cut:
            await message.reply(**page.as_kwargs(), reply_markup=buttons if page is cut[-1] else None)


async def _look_deeper(
    message: Message, asked: AnsweredQuestion, update_id: int, context: AppContext, limit_words: Translator
) -> None:
    """Queue the question again with a wider search, in the name of who wants more; say so where there is no more."""
    reader, words = get_reader_id(message), get_translator(asked.lang)
    if not parse_stored_answer(asked.answer).sentences:
        hint = Text(words("rephrase-hint"))
        if not asked.private:
            await message.reply(**hint.as_kwargs())
            return
        viewer = await access.build_viewer(context.admins, get_reader(message))
        await send_with_suggestions(message, hint, viewer, context, asked.lang, ShownContent())
    elif asked.mode == DEEP_MODE:
        await message.reply(words("remark-no-more"))
    else:
        again = replace(asked, update_id=update_id, user_id=reader, mode=DEEP_MODE)
        async with context.queue.limits.hold_count(reader, message.chat.id, limit_words):
            await questions.queue_question(context.archive, again)
        context.queue.wake()
        if not asked.private:
            await call_best_effort(message.react([ReactionTypeEmoji(emoji="👀")]))


def routes() -> Router:
    """Router of remarks. Include it before that of questions."""
    router = Router(name="answer_remarks")
    router.message.register(_on_remark, F.text | F.caption, find_remark)
    return router
