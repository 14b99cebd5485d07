"""Handlers of /unanswered: questions asked in vain, and answers pinned for them.

/unanswered groups refused questions by their terms. It names nobody, and shows the words of a question only where two
readers asked alike: one reader's own words could tell who asked. Of the others it shows their number, and topics: words
that posts have too.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from aiogram import F, Router
from aiogram.types import CallbackQuery, Message
from aiogram.utils.formatting import BlockQuote, Text, as_list

from bot import access
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.middlewares import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.stored_answer import parse_stored_answer
from bot.telegram.recheck import ShownContent, View, collect_content_of_posts, recheck_before_sending
from bot.views import keyboards
from bot.views.answer import format_channel_title, format_reference
from bot.views.format import neutralize_links
from bot.views.keyboards import Press, build_keyboard, make_row, on_press, redraw_message, split_rows
from bot.views.text import RenderContext, join_lines
from bot.worker.known_answers import extract_question_terms, hash_question
from rag_core.conversation.followups import extract_content_words
from rag_core.engine import Engine
from rag_core.storage import Archive, channels, questions, visible_posts
from rag_core.text.post_text import find_post_links, resolve_post_link
from rag_core.text.tokens import detect_language, read_word, tokenize
from rag_core.types import PostKey

router = Router()

_MAX_QUESTIONS, _MAX_GROUPS, _MAX_TEXT_LENGTH = 5000, 10, 150
_MIN_READERS = 2  # who asked alike, before the words are shown
_MAX_TOPIC_TEXTS, _MAX_TOPICS, _MAX_TOPIC_LENGTH = 500, 7, 25
_BUTTONS_PER_ROW = 5


@dataclass(frozen=True, slots=True)
class UnansweredGroup:
    """Questions alike: the shortest text, how many readers asked it, and the nearest post of the newest one."""

    text: str
    readers: int
    nearest: PostKey | None


def _group_unanswered(asked: Iterable[questions.AnsweredQuestion]) -> tuple[list[UnansweredGroup], list[str]]:
    """Group refused questions, newest first, by their terms: groups of two and more readers, most readers first.

    With them a text of each other group, whose words are not shown.
    """
    alike: dict[frozenset[str], list[questions.AnsweredQuestion]] = {}
    for one in asked:
        alike.setdefault(extract_question_terms(one.text), []).append(one)
    groups, others = [], []
    for rows in alike.values():
        readers = len({row.user_id for row in rows})
        if readers >= _MIN_READERS:
            nearest = next((key for row in rows for key in parse_stored_answer(row.answer).others), None)
            groups.append(UnansweredGroup(min((row.text for row in rows), key=len), readers, nearest))
        else:
            others.append(rows[0].text)
    return sorted(groups, key=lambda group: -group.readers), others


def _find_topics(texts: Iterable[str], readable: frozenset[int], rag: Engine) -> list[str]:
    """Find the topics of questions, the most frequent first: of each its rarest word that posts of the channels have.

    Nouns are preferred, in the form of the dictionary.
    """
    statistics, topics = rag.lexical.statistics(readable), Counter[str]()
    for text in texts:
        known = []
        for word in extract_content_words(text):
            terms, reading = tokenize(word), read_word(word)[0]
            if not word.isdigit() and all(map(statistics.frequency, terms)):
                russian = detect_language(word) == "ru"
                rank = russian and reading.part != "NOUN", -max(map(statistics.weight, terms))
                known.append((rank, reading.lemma if russian else word))
        if known:
            topics[min(known)[1]] += 1
    return [topic for topic, _ in topics.most_common(_MAX_TOPICS) if len(topic) <= _MAX_TOPIC_LENGTH]


@router.message(ChatCommand("unanswered", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_unanswered(message: Message, context: AppContext, words: Translator) -> None:
    groups, others = _group_unanswered(await questions.list_refused_questions(context.archive, _MAX_QUESTIONS))
    shown, more = groups[:_MAX_GROUPS], len(others) + len(groups[_MAX_GROUPS:])
    reader = access.get_reader(message)
    readable = frozenset(await access.get_readable_channels(context.admins, reader))
    topics = await asyncio.to_thread(_find_topics, others[:_MAX_TOPIC_TEXTS], readable, context.rag)
    blocks = [Text(words("unanswered-title"))] if shown else []
    buttons, content, several = [], ShownContent(counted=readable), len(shown) > 1
    for number, group in enumerate(shown, 1):
        view = await _render_group(group, reader, context, words, f"{number}. " if several else "")
        blocks.append(view.text)
        content |= view.content
        label = words("button-pin-number", number=number) if several else words("button-pin")
        buttons.append((label, Press(to="pin-ask", token=hash_question(group.text, context.archive))))
    if more:
        told = [words("unanswered-more" if shown else "unanswered-count", count=more)]
        told += [words("unanswered-topics", topics=", ".join(topics))] if topics else []
        blocks.append(Text(" ".join([*told, words("unanswered-words")])))
    blocks = blocks or [Text(words("unanswered-none"))]
    view = View(as_list(*blocks, sep="\n\n"), content, build_keyboard(*split_rows(buttons, _BUTTONS_PER_ROW)))
    await view.send(message.answer, reader, context.admins)


async def _render_group(
    group: UnansweredGroup, reader: access.Reader, context: AppContext, words: Translator, number: str = ""
) -> View:
    """Render a group with the post that is pinned for it, else the nearest, if this admin may read that here."""
    text = join_lines(group.text)[:_MAX_TEXT_LENGTH]
    line = Text(number, words.rich("unanswered-group", question=neutralize_links(text), count=group.readers))
    readable = await access.get_readable_channels(context.admins, reader)
    pinned = await channels.find_pinned_post(context.archive, hash_question(group.text, context.archive), readable)
    key = pinned or group.nearest
    post = (await visible_posts.fetch_posts(context.archive, [key])).get(key) if key else None
    if post is None or post.key.chat_id not in readable:
        return View(line)
    shown = RenderContext(words, context.settings.bot.zone)
    reference = format_reference(post.key, post.date, post, readable[post.key.chat_id], shown)
    return View(as_list(line, BlockQuote("📌 " if pinned else "", reference)), collect_content_of_posts([post]))


async def _find_group(asked: str, archive: Archive) -> UnansweredGroup | None:
    groups, _ = _group_unanswered(await questions.list_refused_questions(archive, _MAX_QUESTIONS))
    return next((group for group in groups if hash_question(group.text, archive) == asked), None)


@router.callback_query(on_press("pin-ask", "pin-nearest", "pin-off", "pin-keep"), flags=ADMINS_ONLY)
async def _press_pin(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    """Ask which post to pin for a question (`token` is its hash), pin the nearest, take a pin off, or keep all."""
    message, archive, asked = pressed.message, context.archive, callback_data.token
    group = await _find_group(asked, archive)
    if group is None or not isinstance(message, Message):
        raise access.Refusal(words("pin-gone"))
    reader = access.Reader(pressed.from_user.id, message.chat.id, private=True)
    if callback_data.to == "pin-ask":
        pinned = await channels.find_pinned_post(archive, asked, await channels.load_channels(archive))
        actions = ["off" if pinned else "nearest"] if pinned or group.nearest else []
        rows = [make_row(words("button-pin-answer", action=one), f"pin-{one}", asked) for one in (*actions, "keep")]
        view = await _render_group(group, reader, context, words)
        text = as_list(view.text, words("pin-which"), sep="\n\n")
        await replace(view, text=text, buttons=build_keyboard(*rows)).send(message.answer, reader, context.admins)
        await pressed.answer()
        return
    done = View(Text(words("pin-kept")))
    if callback_data.to == "pin-nearest" and group.nearest:
        done = await _pin(asked, group.nearest, reader, context, words)
    elif callback_data.to == "pin-off":
        await channels.unpin_answer(archive, asked, await channels.load_channels(archive))
        done = View(Text(words("pin-off")))
    with recheck_before_sending(done.content, reader, context.admins):
        await redraw_message(pressed, done)


async def _pin(asked: str, key: PostKey, reader: access.Reader, context: AppContext, words: Translator) -> View:
    readable = await access.get_readable_channels(context.admins, reader)
    post = (await visible_posts.fetch_posts(context.archive, [key])).get(key)
    if post is None or key.chat_id not in readable:
        return View(Text(words("pin-unknown")))
    await channels.pin_answer(context.archive, asked, key, reader.user_id)
    title = neutralize_links(format_channel_title(readable[key.chat_id], words))
    return View(words.rich("pin-done", title=title), collect_content_of_posts([post]))


def _find_pin_question(message: Message) -> dict[str, str] | bool:
    """Filter: a reply to the bot's question which post to pin; `asked` for the handler."""
    buttons = keyboards.list_buttons(message.reply_to_message.reply_markup) if message.reply_to_message else []
    data = next((one.callback_data for one in buttons if keyboards.get_action(one) == "pin-keep"), None)
    return {"asked": Press.unpack(data).token} if data else False


@router.message(F.chat.type == "private", _find_pin_question, flags=ADMINS_ONLY)
async def _on_pin_link(message: Message, asked: str, context: AppContext, words: Translator) -> None:
    reader, known = access.get_reader(message), await channels.load_channels(context.archive)
    keys = [resolve_post_link(link, known) for link in find_post_links(message.text or "")]
    if len(keys) == 1 and keys[0] and await _find_group(asked, context.archive):
        view = await _pin(asked, keys[0], reader, context, words)
    else:
        view = View(Text(words("pin-unknown")))
    await view.send(message.answer, reader, context.admins)
