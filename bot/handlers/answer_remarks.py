"""Handlers of remarks about an answer: "source?", "are you sure?", "how old is this", "the whole post", "more".

A remark is no question: only "more" asks that of the answer again. Access is worked out anew.
"""

from __future__ import annotations

from typing import Any

from aiogram import Bot, F, Router
from aiogram.types import Message, ReactionTypeEmoji, Update
from aiogram.utils.formatting import ExpandableBlockQuote, Text, as_list

from bot.access import Refusal, get_reader_id
from bot.app_context import AppContext
from bot.handlers.questions import queue_deeper_question
from bot.handlers.suggested_question_buttons import send_rephrase_hint
from bot.handlers.why_and_plan import prepare_to_show, reply_in_pages
from bot.i18n import Translator, get_translator
from bot.middlewares import PRIVATE, extract_addressed_question, get_replied_message, get_thread
from bot.stored_answer import StoredAnswer, hash_text_version, parse_stored_answer
from bot.telegram.recheck import ShownContent, View, collect_content_of_posts, recheck_before_sending
from bot.views.answer import format_reference, shorten_answer
from bot.views.clean_and_shorten_text import strip_control_characters
from bot.views.keyboards import DEEP_MODE
from bot.views.message_formatting import neutralize_links
from bot.views.post_formatting import RenderContext
from bot.views.sources_pages import render_sources_page
from bot.worker.streaming import call_best_effort
from rag_core.conversation.small_talk import AnswerRemark, detect_answer_remark
from rag_core.storage import Archive, channels, questions, visible_posts
from rag_core.storage.questions import AnsweredQuestion
from rag_core.types import Certainty, Viewer

router = Router()

# As the buttons: what asks or shows anew is for who asked.
_ASKER_ONLY_REMARKS = frozenset({AnswerRemark.MORE, AnswerRemark.SHORTER})
_MAX_WHOLE_POSTS = 3


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


@router.message(F.text | F.caption, find_remark)
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
    reader, viewer, shown = await prepare_to_show(asked, get_reader_id(message), context)
    archive, given = context.archive, parse_stored_answer(asked.answer)
    if remark is AnswerRemark.WHOLE:
        view = await _render_whole_posts(given, viewer, archive, shown)
    elif remark is AnswerRemark.SHORTER and given.sentences:
        shortened = await shorten_answer(asked, viewer, archive, shown)
        if shortened is None:
            raise Refusal(shown.words("answer-changed"))
        view = shortened
    else:
        view = await render_sources_page(asked, viewer, archive, shown)
        if heading := await _head_sources(remark, asked, given, viewer, archive, shown):
            text = as_list(heading.text, view.text, sep="\n\n")
            view = View(text, heading.content | view.content, view.buttons)
    with recheck_before_sending(view.content, reader, context.admins):
        await reply_in_pages(message, view)


async def _render_whole_posts(given: StoredAnswer, viewer: Viewer, archive: Archive, shown: RenderContext) -> View:
    """Render the posts of an answer in full, as they are now; those that come nearest where it cites none."""
    cited = [(number, one.key) for number, one in enumerate(given.cited, 1) if one.key.chat_id in viewer.channels]
    nearest = enumerate((key for key in given.others if key.chat_id in viewer.channels), 1)
    chosen = (cited if given.cited else list(nearest))[:_MAX_WHOLE_POSTS]
    stored = await visible_posts.fetch_posts(archive, [key for _, key in chosen])
    known, blocks = await channels.load_channels(archive), list[Text]()
    for number, key in chosen:
        if post := stored.get(key):
            head = Text(f"{number}. ", format_reference(key, post.date, post, known.get(key.chat_id), shown))
            quote = ExpandableBlockQuote(neutralize_links(strip_control_characters(post.text)))
            blocks.append(as_list(head, quote) if post.text.strip() else head)
    if not blocks:
        return View(Text(shown.words("why-closed" if given.cited or given.others else "sources-none")))
    unsure = given.certainty is Certainty.PROBABLE or not given.sentences
    note = [Text(shown.words("remark-unsure"))] if unsure else []
    return View(as_list(*note, *blocks, sep="\n\n"), collect_content_of_posts(stored.values()))


async def _head_sources(
    remark: AnswerRemark,
    asked: AnsweredQuestion,
    given: StoredAnswer,
    viewer: Viewer,
    archive: Archive,
    shown: RenderContext,
) -> View | None:
    """Line above the sources: whether the answer was sure and still is, or the day of its first sentence's post."""
    readable = {one.key: one for one in given.cited if one.key.chat_id in viewer.channels}
    if remark is AnswerRemark.WHEN and given.sentences and given.sentences[0].places:
        first = readable.get(given.sentences[0].places[0].key)
        if first is None:
            return None
        date = shown.words.date(first.date, shown.zone)
        content = ShownContent(channels=frozenset({first.key.chat_id}))
        return View(Text(shown.words("remark-when", count=len(given.cited), date=date)), content)
    if remark is not AnswerRemark.SURE or not readable or asked.kind != "ask":
        return None
    stored = await visible_posts.fetch_posts(archive, readable)
    stands = len(readable) == len(given.cited) and all(
        key in stored and hash_text_version(stored[key].text) == one.mark for key, one in readable.items()
    )
    sure = given.certainty is Certainty.SURE
    said = shown.words("remark-unsure" if not sure else "remark-sure" if stands else "remark-changed")
    return View(Text(said), collect_content_of_posts(stored.values()))


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
