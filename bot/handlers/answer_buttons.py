"""Handlers of the buttons under answers, of /sources, and of remarks about an answer that do the same in words.

Buttons: votes, sources, "more" with explanation, shorter, deeper, link. Every press is checked for whether this person
may use the button; otherwise they are told why not. Sources are shown page by page, with the quoted words read from the
archive at each press. The shorter answer is the first sentence, put together from the stored answer and the post as it
is now.

Remarks: "source?", "are you sure?", "how old is this", "the whole post", "more". A remark is no question: only "more"
asks that of the answer again. Access is worked out anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiogram import Bot, F, Router
from aiogram.exceptions import TelegramBadRequest
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message, ReactionTypeEmoji, Update
from aiogram.utils.formatting import Text, as_list

from bot.access import Refusal, get_reader_id
from bot.app_context import AppContext
from bot.deep_links import create_question_link
from bot.filters import (
    PRIVATE,
    ChatCommand,
    check_button_access,
    extract_addressed_question,
    find_asked_answer,
    get_replied_message,
    get_thread,
)
from bot.handlers.questions import queue_deeper_question
from bot.handlers.small_talk import send_rephrase_hint
from bot.handlers.why_and_plan import explain_answer, prepare_to_show, reply_in_pages
from bot.i18n import Translator, get_translator
from bot.views.answer import StoredAnswer, hash_text_version, parse_stored_answer
from bot.views.answer_sources import render_sources_page, render_whole_posts, shorten_answer
from bot.views.keyboards import (
    DEEP_MODE,
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
from bot.views.post_formatting import RenderContext
from bot.worker.streaming import call_best_effort
from rag_core.conversation.answer_remark_detection import AnswerRemark, detect_answer_remark
from rag_core.storage import Archive, questions, visible_posts
from rag_core.storage.questions import AnsweredQuestion
from rag_core.types import Certainty, Viewer


async def _on_sources(message: Message, addressed: bool, bot: Bot, context: AppContext, words: Translator) -> None:
    asked = await find_asked_answer(message, bot, context.archive, words, "/sources", addressed=addressed)
    viewer, shown, checked = await prepare_to_show(asked, asked.user_id, context)
    text, buttons = await render_sources_page(asked, viewer, context.archive, shown)
    with checked:
        await reply_in_pages(message, text, buttons)


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


class AnswerButtonHandlers:
    """Handler of answer buttons. It tracks running presses: a button that sends a message sends it once."""

    def __init__(self) -> None:
        self._busy: set[tuple[str, AnswerAction]] = set()

    async def on_press(
        self,
        query: CallbackQuery,
        callback_data: AnswerCallback,
        event_update: Update,
        context: AppContext,
        words: Translator,
    ) -> None:
        """Handle a press of any button under an answer."""
        asked, message = await check_button_access(query, callback_data, context, words)
        pressed = _ButtonPress(query, callback_data, asked, message, context, words, event_update.update_id)
        handle, action = _ACTION_HANDLERS[callback_data.action], callback_data.action
        if action not in _ONCE_ACTIONS:
            await handle(pressed)
            return
        key, rows = (callback_data.handle, action), message.reply_markup.inline_keyboard if message.reply_markup else []
        # used buttons are removed from the message
        if key in self._busy or not any(get_button_action(one) is action for row in rows for one in row):
            await query.answer(words("answer-already"))
            return
        self._busy.add(key)
        try:
            await handle(pressed)
        finally:
            self._busy.discard(key)


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
    viewer, shown, checked = await prepare_to_show(asked, pressed.query.from_user.id, pressed.context)
    text, buttons = None, None
    if action is AnswerAction.WHY:
        text = await explain_answer(asked, viewer, archive, shown, pressed.context.rag)
    elif action is AnswerAction.SHORTER:
        text = await shorten_answer(asked, viewer, archive, shown)
    else:
        text, buttons = await render_sources_page(asked, viewer, archive, shown, pressed.press.page)
    if text is None:
        raise Refusal(pressed.words("answer-changed"))
    with checked:
        if action is AnswerAction.PAGE:
            await redraw_message(pressed.query, text, buttons)
        else:
            await _reply_with_text(pressed, text, buttons)


async def _press_deeper(pressed: _ButtonPress) -> None:
    await queue_deeper_question(pressed.asked, pressed.update_id, pressed.context, pressed.words, pressed=True)
    await _finish_press(pressed, pressed.words("deeper-begins", count=DEEP_SENTENCES))


async def _press_link(pressed: _ButtonPress) -> None:
    bot = pressed.query.bot
    assert bot is not None
    text = await create_question_link(
        pressed.asked.text, pressed.query.from_user.id, bot, pressed.context.archive, pressed.words
    )
    await _reply_with_text(pressed, text)


async def _press_rephrase(pressed: _ButtonPress) -> None:
    await send_rephrase_hint(pressed.message, pressed.asked, pressed.context)
    await _finish_press(pressed)


async def _reply_with_text(pressed: _ButtonPress, text: Text, buttons: InlineKeyboardMarkup | None = None) -> None:
    await reply_in_pages(pressed.message, text, buttons)
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


# As the buttons: what asks or shows anew is for who asked.
_ASKER_ONLY_REMARKS = frozenset({AnswerRemark.MORE, AnswerRemark.SHORTER})


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
    if asked is None:
        return False
    # a verdict can be neither deepened nor shortened, and one that found nothing has nothing to show
    if asked.kind != "ask" and (remark in _ASKER_ONLY_REMARKS or not parse_stored_answer(asked.answer).cited):
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
    if remark in _ASKER_ONLY_REMARKS and asked.user_id != reader:
        raise Refusal(words("answer-not-yours"))
    if wait := limits.count_command(reader, message.chat.id):
        raise Refusal(limits.build_notice(wait, reader, words))
    if remark is AnswerRemark.MORE:
        await _look_deeper(message, asked, event_update.update_id, context, words)
    else:
        await _reply_to_remark(message, remark, asked, context)


async def _reply_to_remark(
    message: Message, remark: AnswerRemark, asked: AnsweredQuestion, context: AppContext
) -> None:
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
        if heading := await _head_sources(remark, asked, given, viewer, archive, shown):
            text = as_list(Text(heading), text, sep="\n\n")
    with checked:
        await reply_in_pages(message, text, buttons)


async def _head_sources(
    remark: AnswerRemark,
    asked: AnsweredQuestion,
    given: StoredAnswer,
    viewer: Viewer,
    archive: Archive,
    shown: RenderContext,
) -> str:
    """Line above the sources: whether the answer was sure and still is, or the day of its first sentence's post."""
    readable = {one.key: one for one in given.cited if one.key.chat_id in viewer.channels}
    if remark is AnswerRemark.WHEN and given.sentences and given.sentences[0].places:
        first = readable.get(given.sentences[0].places[0].key)
        date = first and shown.words.date(first.date, shown.zone)
        return shown.words("remark-when", count=len(given.cited), date=date) if date else ""
    if remark is not AnswerRemark.SURE or not readable or asked.kind != "ask":
        return ""
    stored = await visible_posts.fetch_posts(archive, readable)
    stands = len(readable) == len(given.cited) and all(
        key in stored and hash_text_version(stored[key].text) == one.mark for key, one in readable.items()
    )
    sure = given.certainty is Certainty.SURE
    return shown.words("remark-unsure" if not sure else "remark-sure" if stands else "remark-changed")


async def _look_deeper(
    message: Message, asked: AnsweredQuestion, update_id: int, context: AppContext, limit_words: Translator
) -> None:
    """Queue the question again with a wider search; say so where that was done, and how to ask after a refusal."""
    if not parse_stored_answer(asked.answer).sentences:
        await send_rephrase_hint(message, asked, context)
        return
    latest = await questions.find_question_of_message(context.archive, asked.bot_id, asked.chat_id, asked.message_id)
    if DEEP_MODE in {asked.mode, latest and latest.mode}:
        await message.reply(get_translator(asked.lang)("remark-no-more"))
        return
    await queue_deeper_question(asked, update_id, context, limit_words)
    if not asked.private:
        await call_best_effort(message.react([ReactionTypeEmoji(emoji="👀")]))


def register(router: Router) -> None:
    """Register the handlers of answer buttons and /sources."""
    here = AnswerCallback.filter(F.action != AnswerAction.SEARCH)  # that one is in bot/handlers/search.py
    router.callback_query.register(AnswerButtonHandlers().on_press, here)
    router.message.register(_on_sources, ChatCommand("sources"))


def register_remarks(router: Router) -> None:
    """Register the handler of remarks. Call it before that of questions."""
    router.message.register(_on_remark, F.text | F.caption, find_remark)
