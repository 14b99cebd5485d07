"""What people ask of an answer: its buttons, /sources, /why, and remarks ("are you sure?", "more"); and /plan.

Every press is checked for whether this person may use the button; others are told why not. A remark is no question:
only "more" asks that of the answer again. What is shown is read anew from the archive, as far as this reader may now.
Admins also see the stages of the answer by its trace, which holds no texts, and what a model wrote and was not shown,
while the process remembers it. /plan shows how a question is searched, and answers nothing.
"""

import sys
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from aiogram import Bot, F, Router
from aiogram.exceptions import TelegramAPIError, TelegramBadRequest
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message, ReactionTypeEmoji, Update
from aiogram.utils.formatting import Bold, Code, ExpandableBlockQuote, Italic, Text, as_list

from bot import access, middlewares
from bot.app_context import AppContext
from bot.handlers.questions import create_question_link, queue_again, send_rephrase_hint
from bot.i18n import Translator, get_translator
from bot.stored_answer import StoredAnswer, compare_with_posts, is_text_version, parse_stored_answer
from bot.telegram.ephemeral import get_asker_address, identify_message, send_to_asker
from bot.telegram.recheck import SendingRefused, ShownContent, View, collect_content_of_posts, recheck_before_sending
from bot.telegram.session import SendWithoutRetry, respond
from bot.views import answer, keyboards
from bot.views.format import neutralize_links
from bot.views.results import describe_plan, explain_answer
from bot.views.text import RenderContext, format_stages, join_lines, shorten_at_word, strip_control_characters
from bot.worker.streaming import call_best_effort
from rag_core.conversation.small_talk import AnswerRemark, detect_answer_remark
from rag_core.errors import RagError
from rag_core.storage import Archive, channels, questions, visible_posts
from rag_core.storage.questions import VOTE_REASONS, AnsweredQuestion, fetch_answered_question, fetch_trace
from rag_core.text.tokens import detect_language
from rag_core.types import Certainty, Question, Viewer, format_channel_post_link

router = Router()

_ASKER_ONLY_ACTIONS = frozenset({"why", "shorter", "deeper", "link", "search", "rephrase", "show-all"})
_REPLY_ACTIONS = frozenset({"sources", "why", "shorter", "link", "rephrase"})
_ONCE_ACTIONS = _REPLY_ACTIONS | {"deeper", "show-all"}  # send a message, once


async def find_asked_answer(
    message: Message, bot: Bot, archive: Archive, words: Translator, command: str, *, addressed: bool
) -> AnsweredQuestion:
    """Find the answer that a command asks about. Raises Refusal, with a sentence where the bot was addressed."""
    asked = await _find_meant_answer(message, bot, archive)
    if asked is None or asked.user_id != access.get_reader_id(message):
        replies = middlewares.get_replied_message(message) is not None
        refusal = "why-not-yours" if asked else "why-unknown" if replies else "why-none"
        raise access.Refusal(words(refusal, why=command) if addressed else "")
    return asked


async def _find_meant_answer(message: Message, bot: Bot, archive: Archive) -> AnsweredQuestion | None:
    """Find the answer that a message replies to, else the sender's last one in this chat."""
    chat, reader = message.chat.id, access.get_reader_id(message)
    if parent := middlewares.get_replied_message(message):
        return await questions.find_question_of_message(archive, bot.id, chat, *identify_message(parent, reader))
    return await questions.fetch_last_answered(archive, bot.id, chat, reader, middlewares.get_thread(message))


async def check_button_access(
    pressed: CallbackQuery, press: keyboards.Press, context: AppContext, words: Translator
) -> tuple[AnsweredQuestion, Message]:
    """Check that the presser may use the button; returns the answer and its message. Raises Refusal."""
    presser, message = pressed.from_user.id, pressed.message
    asked = await fetch_answered_question(context.archive, press.token)
    # The message was deleted or is too old; or the callback data is forged, or from another chat.
    if asked is None or not isinstance(message, Message) or asked.chat_id != message.chat.id:
        raise access.Refusal(words("answer-gone"))
    if not asked.private and not await access.is_chat_member(context.admins, user_id=presser, chat_id=asked.chat_id):
        raise access.Refusal(words("answer-not-member"))
    if (asked.asker_only or press.to in _ASKER_ONLY_ACTIONS) and presser != asked.user_id:
        raise access.Refusal(words("answer-not-yours"))
    return asked, message


async def prepare_to_show(
    asked: AnsweredQuestion, user_id: int, context: AppContext
) -> tuple[access.Reader, Viewer, RenderContext]:
    """Prepare to show a view of an answer: who reads it, what they may read, and in which language and zone."""
    reader = access.Reader(user_id, asked.chat_id, asked.private, asked.asker_only)
    viewer = await access.build_viewer(context.admins, reader)
    zone = await context.load_zone(asked.chat_id)
    return reader, viewer, RenderContext(get_translator(asked.lang), zone, group=not asked.private)


async def reply_in_pages(
    event: Message | CallbackQuery, view: View, reader: access.Reader, context: AppContext, lang: str
) -> None:
    """Reply in as many messages as needed, which in a group only who wrote or pressed sees."""
    message = event.message if isinstance(event, CallbackQuery) else event
    assert isinstance(message, Message)
    with send_to_asker(get_asker_address(event, lang, always=True)):
        await view.send(partial(respond, message), reader, context.admins)


@router.message(middlewares.ChatCommand("sources"))
async def _on_sources(message: Message, addressed: bool, bot: Bot, context: AppContext, words: Translator) -> None:
    asked = await find_asked_answer(message, bot, context.archive, words, "/sources", addressed=addressed)
    reader, viewer, shown = await prepare_to_show(asked, asked.user_id, context)
    view = await answer.render_sources_page(asked, viewer, context.archive, shown)
    await reply_in_pages(message, view, reader, context, asked.lang)


@router.callback_query(keyboards.on_press(*keyboards.ANSWER_ACTIONS))  # "search" is in search.py
async def _press_answer_button(
    query: CallbackQuery,
    callback_data: keyboards.Press,
    event_update: Update,
    context: AppContext,
    words: Translator,
    running_presses: set[tuple[str, str]],
) -> None:
    """Handle a press of any button under an answer; a button that sends a message sends it once."""
    asked, message = await check_button_access(query, callback_data, context, words)
    action, key = callback_data.to, (f"{callback_data.token} {query.from_user.id}", callback_data.to)
    if action == "page":
        view, reader = await _render_reply(asked, callback_data, query, context, words)
        with recheck_before_sending(view.content, reader, context.admins):
            await keyboards.redraw_message(query, view)
        return
    if action not in _ONCE_ACTIONS:
        await query.answer(await _change_keyboard(query, message, asked, action, context, words))
        return
    # used buttons are removed from the message; in a group each member may have their own reply
    for_each = not (asked.private or asked.asker_only) and action in _REPLY_ACTIONS
    left = map(keyboards.get_action, keyboards.list_buttons(message.reply_markup))
    if key in running_presses or not (for_each or action in left):
        await query.answer(words("answer-already"))
        return
    running_presses.add(key)
    try:
        notice = None
        if action == "deeper":
            again = replace(asked, update_id=event_update.update_id, mode=keyboards.DEEP_MODE)
            await queue_again(again, context, words, pressed=True)
            notice = words("deeper-begins", count=keyboards.DEEP_SENTENCES)[:200]
        elif action == "rephrase":
            with send_to_asker(get_asker_address(query, words.lang, always=True)):
                await send_rephrase_hint(message, asked, context)
        elif action == "show-all":
            await share_with_group(asked, event_update.update_id, context, words)
            notice = words("show-all-begins")
        else:
            view, reader = await _render_reply(asked, callback_data, query, context, words)
            await reply_in_pages(query, view, reader, context, asked.lang)
        if not for_each:
            await _replace_keyboard(message, keyboards.update_buttons(message.reply_markup, {action}))
        await query.answer(notice)
    finally:
        running_presses.discard(key)


async def share_with_group(asked: AnsweredQuestion, update_id: int, context: AppContext, words: Translator) -> None:
    """Ask a question of one member again for the group, of what everybody there may read now. Raises Refusal."""
    group = access.Reader(asked.user_id, asked.chat_id, private=False)
    readable = await access.get_readable_channels(context.admins, group)
    cited = {one.key.chat_id for one in parse_stored_answer(asked.answer).cited}
    if not cited & readable.keys():
        raise access.Refusal(words("show-all-closed"))
    if asked.mode == "fuller" and not cited <= readable.keys():
        raise access.Refusal(words("show-all-known"))
    again = replace(asked, update_id=update_id, mode="shared", asker_only=False)
    await queue_again(again, context, words, pressed=True)


async def _change_keyboard(
    query: CallbackQuery, message: Message, asked: AnsweredQuestion, action: str, context: AppContext, words: Translator
) -> str | None:
    """Show more or fewer buttons, or save a vote, of which a reader's last counts, and ask for a bad one's reason."""
    archive, notice, shown = context.archive, None, message.reply_markup
    rows = shown.inline_keyboard if shown else ()
    suggested = [row for row in rows if keyboards.get_action(row[0]) == "suggestion"]
    if action == "more":
        await _show_details(message, asked, query.from_user.id, context, suggested)
        return None
    if action == "back":
        given, own = parse_stored_answer(asked.answer), get_translator(asked.lang)
        shown = keyboards.build_answer_keyboard(asked, given, own, *suggested)
    else:
        reason = action if action in VOTE_REASONS else None
        new = await questions.save_vote(archive, asked.id, query.from_user.id, good=action == "good", reason=reason)
        said = "vote-good" if action == "good" else "vote-reason" if reason else "vote-bad"
        notice = words(said if new else "vote-same")
    votes = await questions.count_votes(archive, question_id=asked.id)
    shown = keyboards.update_buttons(shown, VOTE_REASONS, votes)
    if action == "bad" and not await _ask_for_reason(query, message, asked, words):
        shown = keyboards.add_reason_buttons(shown, asked.handle, words)
    await _replace_keyboard(message, shown)
    return notice


async def _ask_for_reason(query: CallbackQuery, message: Message, asked: AnsweredQuestion, words: Translator) -> bool:
    """Ask a member of a group alone for the reason of a bad vote; False where that is asked below the answer."""
    if asked.private or asked.asker_only:
        return False
    reasons = keyboards.add_reason_buttons(InlineKeyboardMarkup(inline_keyboard=[]), asked.handle, words)
    call = SendWithoutRetry(chat_id=message.chat.id, text=words("vote-bad"), reply_markup=reasons)
    with send_to_asker(get_asker_address(query, words.lang, always=True)), suppress(TelegramAPIError):
        await call.as_(message.bot)
        return True
    return False


async def _show_details(
    message: Message, asked: AnsweredQuestion, presser: int, context: AppContext, suggested: list[keyboards.ButtonRow]
) -> None:
    """Show the buttons behind "more"; those that carry words of a post only where it may be read and says so now."""
    given, archive, own = parse_stored_answer(asked.answer), context.archive, get_translator(asked.lang)
    reader = access.Reader(presser, asked.chat_id, asked.private, asked.asker_only)
    now = await compare_with_posts(given, await access.build_viewer(context.admins, reader), archive)
    place = next(iter(given.quotes), None)
    if place and now.holds(place) and not now.stored[place.key].guarded:
        post, known, bot = now.stored[place.key], await channels.load_channels(archive), message.bot
        text = join_lines(now.texts[place.key][place.start : place.end])
        quote = text, format_channel_post_link(post.key, known.get(post.key.chat_id))
        inline = bot is not None and (await bot.me()).supports_inline_queries  # else Telegram refuses the button
        shared = bool(inline) and post.key.chat_id in await access.list_public_channels(context.admins)
        shown = keyboards.build_details_keyboard(asked, given, archive, own, quote, *suggested, public=shared)
        with suppress(SendingRefused), recheck_before_sending(collect_content_of_posts([post]), reader, context.admins):
            await _replace_keyboard(message, shown)
            return
    shown = keyboards.build_details_keyboard(asked, given, archive, own, None, *suggested, public=False)
    await _replace_keyboard(message, shown)


async def _render_reply(
    asked: AnsweredQuestion, press: keyboards.Press, query: CallbackQuery, context: AppContext, words: Translator
) -> tuple[View, access.Reader]:
    """Render what a button shows, as far as the presser may read it now. Raises Refusal."""
    reader, viewer, shown = await prepare_to_show(asked, query.from_user.id, context)
    view: View | None
    match press.to:
        case "link":
            assert query.bot is not None
            view = View(await create_question_link(asked.text, reader.user_id, query.bot, context.archive, words))
        case "why":
            view = await explain_answer(asked, viewer, context.archive, shown, context.rag)
        case "shorter":
            view = await answer.shorten_answer(asked, viewer, context.archive, shown)
        case _:
            view = await answer.render_sources_page(asked, viewer, context.archive, shown, press.number)
    if view is None:
        raise access.Refusal(words("answer-changed"))
    return view, reader


async def _replace_keyboard(message: Message, shown: InlineKeyboardMarkup) -> None:
    with suppress(TelegramBadRequest):  # "message is not modified", or it was deleted meanwhile
        await message.edit_reply_markup(reply_markup=shown)


# As the buttons: what asks or shows anew is for who asked.
_LANGUAGE_REMARKS = {AnswerRemark.ENGLISH: "en", AnswerRemark.RUSSIAN: "ru"}
_ASKER_ONLY_REMARKS = frozenset({AnswerRemark.MORE, AnswerRemark.SHORTER, AnswerRemark.OTHER, *_LANGUAGE_REMARKS})
_MAX_WHOLE_POSTS, _MAX_NAMED_LENGTH = 3, 120


async def find_remark(message: Message, bot: Bot, context: AppContext) -> dict[str, Any] | bool:
    """Filter: the `remark` that a message to the bot is, and the `asked` answer that it is about, or False."""
    text = message.text or message.caption or ""
    if message.chat.type not in middlewares.PRIVATE:
        addressed = await middlewares.extract_addressed_question(message, bot)
        text = addressed["question"] if isinstance(addressed, dict) else ""
    remark = None if text.startswith("/") else detect_answer_remark(text)
    if remark is None:
        return False
    asked = await _find_meant_answer(message, bot, context.archive)
    if remark is not AnswerRemark.COMPLAINT:
        if asked is None:
            return False
        # a verdict can be neither deepened nor shortened, and one that found nothing has nothing to show
        if asked.kind != "ask" and (remark in _ASKER_ONLY_REMARKS or not parse_stored_answer(asked.answer).cited):
            return False
    return {"remark": remark, "asked": asked}


# a message forwarded in private is verified
@router.message(F.text | F.caption, middlewares.IN_GROUP | ~F.forward_origin, find_remark)
async def _on_remark(
    message: Message,
    remark: AnswerRemark,
    asked: AnsweredQuestion | None,
    event_update: Update,
    context: AppContext,
    words: Translator,
) -> None:
    user_id, limits, archive = access.get_reader_id(message), context.worker.limits, context.archive
    if remark in _ASKER_ONLY_REMARKS and asked and asked.user_id != user_id:
        raise access.Refusal(words("answer-not-yours"))
    if wait := limits.count_command(user_id, message.chat.id):
        raise access.Refusal(limits.build_notice(wait, user_id, words))
    if asked is None or remark is AnswerRemark.COMPLAINT:
        await _reply_to_complaint(message, asked, context, words)
        return
    given = parse_stored_answer(asked.answer)
    if remark in {AnswerRemark.MORE, AnswerRemark.OTHER}:  # asked again: wider, or without the posts that were shown
        latest = await questions.fetch_previous_answer(archive, replace(asked, id=sys.maxsize))  # the newest one
        if not given.sentences:
            await send_rephrase_hint(message, asked, context)
        elif remark is AnswerRemark.MORE and keyboards.DEEP_MODE in {asked.mode, latest and latest.mode}:
            await respond(message, get_translator(asked.lang)("remark-no-more"))
        else:
            mode = keyboards.DEEP_MODE if remark is AnswerRemark.MORE else keyboards.OTHER_MODE
            again = replace(asked, update_id=event_update.update_id, mode=mode)
            await queue_again(again, context, words, pressed=False)
            if not asked.private:
                await call_best_effort(message.react([ReactionTypeEmoji(emoji="👀")]))
        return
    reader, viewer, shown = await prepare_to_show(asked, user_id, context)
    if lang := _LANGUAGE_REMARKS.get(remark):
        shown = replace(shown, words=get_translator(lang))
    if not given.sentences and (lang or remark is AnswerRemark.SHORTER):
        view = View(Text(shown.words("rephrase-hint")))
    elif remark is AnswerRemark.WHOLE:
        view = await _render_whole_posts(given, viewer, archive, shown)
    elif remark is AnswerRemark.SHORTER and len(given.sentences) == 1:
        view = View(Text(shown.words("shorter-none")))
    elif remark is AnswerRemark.SHORTER:
        view = await answer.shorten_answer(asked, viewer, archive, shown) or View(Text(shown.words("answer-changed")))
    elif lang:
        view = await answer.render_in_language(given, viewer, archive, shown)
    else:
        view = await answer.render_sources_page(asked, viewer, archive, shown)
        headed = asked.kind == "ask" or remark is not AnswerRemark.SURE
        if headed and (heading := await _head_sources(remark, given, viewer, archive, shown)):
            text = as_list(heading.text, view.text, sep="\n\n")
            view = View(text, heading.content | view.content, view.buttons)
    await reply_in_pages(message, view, reader, context, asked.lang)


async def _reply_to_complaint(
    message: Message, asked: AnsweredQuestion | None, context: AppContext, words: Translator
) -> None:
    """Apologise, ask what is wrong with which answer, and say how to reach people: as the owner gave it, else not."""
    contact, reader = context.settings.bot.contact, access.get_reader(message)
    blocks, content, buttons = [Text(words("complaint"))], ShownContent(), None
    if asked and asked.user_id == reader.user_id:
        question = neutralize_links(shorten_at_word(join_lines(asked.text), _MAX_NAMED_LENGTH).rstrip(" ?!."))
        blocks.append(words.rich("complaint-which", question=question))
        buttons = InlineKeyboardMarkup(inline_keyboard=[*keyboards.build_reason_rows(asked.handle, words)])
        viewer, known = await access.build_viewer(context.admins, reader), await channels.load_channels(context.archive)
        named = {one.key.chat_id for one in parse_stored_answer(asked.answer).cited} & viewer.channels
        if named:
            content = ShownContent(channels=frozenset(named))
            titles = as_list(*(answer.link_channel_title(known[chat], words) for chat in sorted(named)), sep=", ")
            blocks.append(words.rich("complaint-channels", channels=titles))
    blocks.append(words.rich("complaint-contact", contact=contact) if contact else Text(words("complaint-nobody")))
    await reply_in_pages(message, View(as_list(*blocks, sep="\n\n"), content, buttons), reader, context, words.lang)


async def _render_whole_posts(given: StoredAnswer, viewer: Viewer, archive: Archive, shown: RenderContext) -> View:
    """Render the posts of an answer in full, as they are now; those that come nearest where it cites none."""
    cited = [(number, one.key) for number, one in enumerate(given.cited, 1) if one.key.chat_id in viewer.channels]
    nearest = enumerate((key for key in given.others if key.chat_id in viewer.channels), 1)
    chosen = (cited if given.cited else list(nearest))[:_MAX_WHOLE_POSTS]
    stored = await visible_posts.fetch_posts(archive, [key for _, key in chosen])
    known, blocks = await channels.load_channels(archive), list[Text]()
    for number, key in chosen:
        if post := stored.get(key):
            head = Text(f"{number}. ", answer.format_reference(key, post.date, post, known.get(key.chat_id), shown))
            quote = ExpandableBlockQuote(neutralize_links(strip_control_characters(post.text)))
            blocks.append(as_list(head, quote) if post.text.strip() else head)
    if not blocks:
        return View(Text(shown.words("why-closed" if given.cited or given.others else "sources-none")))
    unsure = given.certainty is Certainty.PROBABLE or not given.sentences
    note = [Text(shown.words("remark-unsure"))] if unsure else []
    return View(as_list(*note, *blocks, sep="\n\n"), collect_content_of_posts(stored.values()))


async def _head_sources(
    remark: AnswerRemark, given: StoredAnswer, viewer: Viewer, archive: Archive, shown: RenderContext
) -> View | None:
    """Line above the sources: whether the answer was sure and still is, or the day of its first sentence's post."""
    readable = {one.key: one for one in given.cited if one.key.chat_id in viewer.channels}
    places = given.sentences[0].citations if given.sentences else ()
    first = readable.get(places[0].key) if places else None
    if remark is AnswerRemark.WHEN and first:
        date = shown.words.date(first.date, shown.zone)
        content = ShownContent(channels=frozenset({first.key.chat_id}))
        return View(Text(shown.words("remark-when", count=len(given.cited), date=date)), content)
    if remark is not AnswerRemark.SURE or not readable:
        return None
    stored = await visible_posts.fetch_posts(archive, readable)
    stands = len(readable) == len(given.cited) and all(
        key in stored and is_text_version(stored[key], one.mark) for key, one in readable.items()
    )
    sure = given.certainty is Certainty.SURE
    said = shown.words("remark-unsure" if not sure else "remark-sure" if stands else "remark-changed")
    return View(Text(said), collect_content_of_posts(stored.values()))


async def _render_trace(trace_id: str, archive: Archive, words: Translator) -> Text | None:
    """Render the trace of an answer; None where it is unknown or expired. Raises ArchiveUnavailable."""
    found = await fetch_trace(archive, trace_id)
    if found is None:
        return None
    stages = ExpandableBlockQuote("\n".join(format_stages(found.spans)))
    return Text(Bold(words("why-trace", recipe=found.recipe)), " ", Code(found.trace_id), "\n", stages)


async def _render_dropped_sentences(trace_id: str, viewer: Viewer, context: AppContext, words: Translator) -> View:
    """Render what the model wrote and was not shown, with the reasons, as far as this viewer may read its posts now."""
    dropped = context.rag.caches.dropped.get(trace_id, ())
    stored = await visible_posts.fetch_posts(context.archive, [key for one in dropped for key in one.posts])
    readable = {key: post for key, post in stored.items() if key.chat_id in viewer.channels}
    lines = [
        Text("• ", neutralize_links(one.text), " — ", Italic(words("why-dropped-reason", reason=str(one.reason))))
        for one in dropped
        if one.text and readable.keys() >= set(one.posts)
    ]
    text = Text(Bold(words("why-dropped")), "\n", ExpandableBlockQuote(as_list(*lines))) if lines else Text()
    return View(text, collect_content_of_posts(readable.values() if lines else ()))


@router.message(middlewares.ChatCommand("why"))
async def _on_why(
    message: Message, given: str, addressed: bool, bot: Bot, context: AppContext, words: Translator
) -> None:
    admin = message.chat.type == "private" and access.is_admin(message, context.admins)
    if admin and given:
        stages = await _render_trace(given, context.archive, words)
        await respond(message, **(stages or Text(words("why-trace-unknown"))).as_kwargs())
        return
    asked = await find_asked_answer(message, bot, context.archive, words, "/why", addressed=addressed)
    reader, viewer, shown = await prepare_to_show(asked, asked.user_id, context)
    view = await explain_answer(asked, viewer, context.archive, shown, context.rag)
    if admin:
        trace_id = parse_stored_answer(asked.answer).trace_id
        dropped = await _render_dropped_sentences(trace_id, viewer, context, words)
        stages = await _render_trace(trace_id, context.archive, words)
        text = as_list(*filter(None, (view.text, dropped.text, stages)), sep="\n\n")
        view = View(text, view.content | dropped.content)
    await reply_in_pages(message, view, reader, context, asked.lang)


@router.message(middlewares.ChatCommand("plan", chats=middlewares.PRIVATE), flags=middlewares.ADMINS_ONLY)
async def _on_plan(message: Message, given: str, context: AppContext, words: Translator) -> None:
    if not given:
        await message.answer(words("plan-how"))
        return
    reader = access.get_reader(message)
    viewer = await access.build_viewer(context.admins, reader)
    now = datetime.now(await context.load_zone(message.chat.id))
    question = Question(given, detect_language(given), now, viewer)
    try:
        lines = await describe_plan(question, context.rag)
    except RagError as exc:
        await message.answer(words.error(exc))
        return
    view = View(neutralize_links("\n".join(lines)), ShownContent(counted=viewer.channels))
    await view.send(message.answer, reader, context.admins)
