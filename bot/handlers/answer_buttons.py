"""Handlers of the buttons under answers, and of /sources; bot/handlers/answer_remarks.py does the same in words.

Buttons: votes, sources, "more" with explanation, shorter, deeper, link. Every press is checked for whether this person
may use the button; otherwise they are told why not. Sources are shown page by page, with the quoted words read from the
archive at each press. The shorter answer is the first sentence, put together from the stored answer and the post as it
is now.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from aiogram import Bot, F, Router
from aiogram.exceptions import TelegramBadRequest
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message, Update

from bot.access import Refusal
from bot.app_context import AppContext
from bot.deep_links import create_question_link
from bot.handlers.find_answer_and_check_access import check_button_access, find_asked_answer
from bot.handlers.questions import queue_deeper_question
from bot.handlers.suggested_question_buttons import send_rephrase_hint
from bot.handlers.why_and_plan import explain_answer, prepare_to_show, reply_in_pages
from bot.i18n import Translator, get_translator
from bot.middlewares import ChatCommand
from bot.stored_answer import parse_stored_answer
from bot.telegram.recheck import View, recheck_before_sending
from bot.views.answer import shorten_answer
from bot.views.keyboards import (
    DEEP_SENTENCES,
    REASONS_BY_ACTION,
    AnswerAction,
    AnswerCallback,
    add_reason_buttons,
    build_answer_keyboard,
    build_details_keyboard,
    get_button_action,
    list_suggestion_rows,
    redraw_message,
    remove_buttons,
    update_vote_counts,
)
from bot.views.sources_pages import render_sources_page
from rag_core.storage import questions
from rag_core.storage.questions import AnsweredQuestion

router = Router()


@router.message(ChatCommand("sources"))
async def _on_sources(message: Message, addressed: bool, bot: Bot, context: AppContext, words: Translator) -> None:
    asked = await find_asked_answer(message, bot, context.archive, words, "/sources", addressed=addressed)
    reader, viewer, shown = await prepare_to_show(asked, asked.user_id, context)
    view = await render_sources_page(asked, viewer, context.archive, shown)
    with recheck_before_sending(view.content, reader, context.admins):
        await reply_in_pages(message, view)


@dataclass(frozen=True, slots=True)
class _ButtonPress:
    """Permitted press of an answer button, with what its handler needs."""

    query: CallbackQuery
    press: AnswerCallback
    asked: AnsweredQuestion
    message: Message
    context: AppContext
    words: Translator
    update_id: int


@router.callback_query(AnswerCallback.filter(F.action != AnswerAction.SEARCH))  # that one is in search.py
async def _press_answer_button(
    query: CallbackQuery,
    callback_data: AnswerCallback,
    event_update: Update,
    context: AppContext,
    words: Translator,
    running_presses: set[tuple[str, AnswerAction]],
) -> None:
    """Handle a press of any button under an answer; a button that sends a message sends it once."""
    asked, message = await check_button_access(query, callback_data, context, words)
    pressed = _ButtonPress(query, callback_data, asked, message, context, words, event_update.update_id)
    handle, action = _ACTION_HANDLERS[callback_data.action], callback_data.action
    if action not in _ONCE_ACTIONS:
        await handle(pressed)
        return
    key, rows = (callback_data.handle, action), message.reply_markup.inline_keyboard if message.reply_markup else []
    # used buttons are removed from the message
    if key in running_presses or not any(get_button_action(one) is action for row in rows for one in row):
        await query.answer(words("answer-already"))
        return
    running_presses.add(key)
    try:
        await handle(pressed)
    finally:
        running_presses.discard(key)


async def _press_vote(pressed: _ButtonPress) -> None:
    """Save the vote; after a bad one ask for the reason. A reader's last vote counts."""
    action, words = pressed.press.action, pressed.words
    archive, asked = pressed.context.archive, pressed.asked
    good, reason = action is AnswerAction.GOOD, REASONS_BY_ACTION.get(action)
    new = await questions.save_vote(archive, asked.id, pressed.query.from_user.id, good=good, reason=reason)
    shown = remove_buttons(pressed.message.reply_markup, *REASONS_BY_ACTION)
    shown = update_vote_counts(shown, await questions.count_votes_on_answer(archive, asked.id))
    if action is AnswerAction.BAD:
        shown = add_reason_buttons(shown, asked.handle, words)
    await _replace_keyboard(pressed.message, shown)
    sentence = "vote-good" if good else "vote-reason" if reason else "vote-bad"
    await pressed.query.answer(words(sentence if new else "vote-same"))


async def _press_more(pressed: _ButtonPress) -> None:
    asked, archive = pressed.asked, pressed.context.archive
    given, words = parse_stored_answer(asked.answer), get_translator(asked.lang)
    suggested = list_suggestion_rows(pressed.message.reply_markup)
    if pressed.press.action is AnswerAction.MORE:
        buttons = build_details_keyboard(asked, given, archive, words, *suggested)
    else:
        votes = await questions.count_votes_on_answer(archive, asked.id)
        buttons = update_vote_counts(build_answer_keyboard(asked, given, words, *suggested), votes)
    await _replace_keyboard(pressed.message, buttons)
    await pressed.query.answer()


async def _press_text(pressed: _ButtonPress) -> None:
    """Show what is made of the answer's posts, as far as the presser may read them now."""
    asked, archive, action = pressed.asked, pressed.context.archive, pressed.press.action
    reader, viewer, shown = await prepare_to_show(asked, pressed.query.from_user.id, pressed.context)
    view: View | None
    if action is AnswerAction.WHY:
        view = await explain_answer(asked, viewer, archive, shown, pressed.context.rag)
    elif action is AnswerAction.SHORTER:
        view = await shorten_answer(asked, viewer, archive, shown)
    else:
        view = await render_sources_page(asked, viewer, archive, shown, pressed.press.page)
    if view is None:
        raise Refusal(pressed.words("answer-changed"))
    with recheck_before_sending(view.content, reader, pressed.context.admins):
        if action is AnswerAction.PAGE:
            await redraw_message(pressed.query, view.text, view.buttons)
        else:
            await _reply_with_view(pressed, view)


async def _press_deeper(pressed: _ButtonPress) -> None:
    await queue_deeper_question(pressed.asked, pressed.update_id, pressed.context, pressed.words, pressed=True)
    await _finish_press(pressed, pressed.words("deeper-begins", count=DEEP_SENTENCES))


async def _press_link(pressed: _ButtonPress) -> None:
    bot = pressed.query.bot
    assert bot is not None
    text = await create_question_link(
        pressed.asked.text, pressed.query.from_user.id, bot, pressed.context.archive, pressed.words
    )
    await _reply_with_view(pressed, View(text))


async def _press_rephrase(pressed: _ButtonPress) -> None:
    await send_rephrase_hint(pressed.message, pressed.asked, pressed.context)
    await _finish_press(pressed)


async def _reply_with_view(pressed: _ButtonPress, view: View) -> None:
    await reply_in_pages(pressed.message, view)
    await _finish_press(pressed)


async def _finish_press(pressed: _ButtonPress, notice: str = "") -> None:
    await _replace_keyboard(pressed.message, remove_buttons(pressed.message.reply_markup, pressed.press.action))
    await pressed.query.answer(notice[:200] or None)


async def _replace_keyboard(message: Message, shown: InlineKeyboardMarkup) -> None:
    with suppress(TelegramBadRequest):  # "message is not modified", or it was deleted meanwhile
        await message.edit_reply_markup(reply_markup=shown)


# Buttons that send a message, which is sent once.
_ONCE_ACTIONS = {AnswerAction.SOURCES, AnswerAction.WHY, AnswerAction.SHORTER}
_ONCE_ACTIONS |= {AnswerAction.DEEPER, AnswerAction.LINK, AnswerAction.REPHRASE}
_ACTION_HANDLERS: dict[AnswerAction, Callable[[_ButtonPress], Awaitable[None]]] = {
    **dict.fromkeys((AnswerAction.GOOD, AnswerAction.BAD, *REASONS_BY_ACTION), _press_vote),
    AnswerAction.MORE: _press_more,
    AnswerAction.BACK: _press_more,
    AnswerAction.PAGE: _press_text,
    AnswerAction.SOURCES: _press_text,
    AnswerAction.WHY: _press_text,
    AnswerAction.SHORTER: _press_text,
    AnswerAction.DEEPER: _press_deeper,
    AnswerAction.LINK: _press_link,
    AnswerAction.REPHRASE: _press_rephrase,
}
