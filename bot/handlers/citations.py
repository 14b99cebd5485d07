"""Handlers of the citation buttons: the bot replies with the cited words, as a native quote of the post if possible.

Telegram refuses a quote whose words are not in the post, and cleans a bot's quote before it compares them: words with
characters that do not survive this are never quoted. Then, and where the post cannot be replied to at all, the words
are sent as text with the link to the post and the reason.
Rules: https://core.telegram.org/bots/api#replyparameters
"""

import asyncio
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiogram import Bot, Router
from aiogram.exceptions import TelegramBadRequest, TelegramForbiddenError
from aiogram.types import CallbackQuery, Message, MessageEntity, ReplyParameters, TextQuote
from aiogram.utils.formatting import ExpandableBlockQuote, Italic, Text, as_list

from bot import access
from bot.app_context import AppContext
from bot.i18n import Translator, get_translator
from bot.stored_answer import CitedPost, CitedSpan, load_cited_text, parse_stored_answer
from bot.telegram.ephemeral import identify_message
from bot.telegram.recheck import ShownContent, collect_content_of_posts, recheck_before_sending
from bot.views.answer import format_reference
from bot.views.format import STYLE_ENTITIES, list_utf16_offsets, neutralize_links
from bot.views.keyboards import Press, find_quote_by_token, on_press
from bot.views.text import RenderContext, shorten, strip_control_characters
from rag_core.storage import Archive, questions, visible_posts
from rag_core.storage.posts import fetch_stored_posts, list_album_keys
from rag_core.storage.questions import QuestionRow
from rag_core.types import Channel, Entity, Post, PostKey

router = Router()

MAX_QUOTE_LENGTH = 1024  # characters; counted here in UTF-16 units, which are never fewer

# Removed or replaced by the server (TDLib's clean_input_string): control characters, direction overrides, three
# combining lines and the ring; of direction marks those in a row.
_UNSAFE_PATTERN = re.compile(r"[\x00-\x09\x0b-\x1f\u2028\u2029\u202a-\u202e\u030a\u0333\u033f]|[\u200e\u200f]{2}")
# They must be repeated with their values, which the archive does not keep, and most bots may not send them.
_UNQUOTABLE_ENTITIES = frozenset({"custom_emoji", "date_time"})


def build_native_quote(text: str, start: int, end: int, entities: Iterable[Entity]) -> TextQuote | None:
    """Build a native quote of the words between two code points of a post's text; None where it would be refused."""
    words, offsets, styles = text[start:end], list_utf16_offsets(text), []
    first, last = end - len(words.lstrip()), start + len(words.rstrip())
    begin, length = offsets[first], offsets[last] - offsets[first]
    if not 0 < length <= MAX_QUOTE_LENGTH or _UNSAFE_PATTERN.search(text, first, last):
        return None
    for entity in entities:
        left, right = max(entity.offset - begin, 0), min(entity.offset + entity.length - begin, length)
        if right > left and entity.type in _UNQUOTABLE_ENTITIES:
            return None
        if right > left and entity.type in STYLE_ENTITIES:  # Telegram compares them
            styles.append(MessageEntity(type=entity.type, offset=left, length=right - left))
    return TextQuote(text=text[first:last], position=begin, entities=styles)


_CAPTION_SEPARATOR_LENGTH = 2  # characters between two captions of an album


@dataclass(frozen=True, slots=True)
class CitedWords:
    """Cited words, and the post as it is now; `text` is "" where the cited version is not stored.

    `at` is their position in the current text, None where they are no longer in it.
    """

    post: Post
    text: str
    at: int | None


async def load_cited_words(archive: Archive, quoted: CitedSpan, cited: CitedPost) -> CitedWords | None:
    """Load the words of a citation; None where the post is deleted or closed. Raises ArchiveUnavailable."""
    post = (await visible_posts.fetch_posts(archive, [quoted.key])).get(quoted.key)
    if post is None:
        return None
    text = await load_cited_text(post, cited.mark, archive)
    if text is None:
        return CitedWords(post, "", None)
    words, wanted = text[quoted.start : quoted.end], quoted.start
    if post.text.startswith(words, wanted):
        return CitedWords(post, words, wanted)
    before, after = post.text.rfind(words, 0, wanted + len(words)), post.text.find(words, wanted)
    places = [place for place in (before, after) if place >= 0 and words]
    return CitedWords(post, words, min(places, key=lambda place: abs(place - wanted), default=None))


async def locate_quote(archive: Archive, found: CitedWords) -> tuple[PostKey, TextQuote] | None:
    """Locate a native quote of the words: the message to reply to, and the quote; None where Telegram would refuse it.

    The captions of an album are one text in the archive, and several messages in Telegram.
    """
    if found.at is None or found.post.guarded:
        return None
    quote = build_native_quote(found.post.text, found.at, found.at + len(found.text), found.post.entities)
    if quote is None:
        return None
    if not found.post.album:
        return found.post.key, quote
    before = 0
    for key, member in (await fetch_stored_posts(archive, await list_album_keys(archive, found.post.key))).items():
        caption = member.post.text
        if member.deleted or member.suspected or not caption.strip():
            continue
        end = before + list_utf16_offsets(caption)[-1]
        quote_end = quote.position + list_utf16_offsets(quote.text)[-1]
        if before <= quote.position and quote_end <= end and quote.text in caption:
            return key, quote.model_copy(update={"position": quote.position - before})
        before = end + _CAPTION_SEPARATOR_LENGTH
    return None


_REPEAT_SECONDS = 60.0  # seconds within which the same quote is still on the presser's screen
_MAX_SHOWN_LENGTH = 1500  # characters of a quote sent as text: with the lines around it, it fits into one message
# Telegram's errors for a missing post, and for a chat that is closed to the bot.
_POST_GONE_ERRORS = ("message to be replied not found", "message_id_invalid")
_CHAT_CLOSED_ERRORS = ("chat not found", "channel_private", "not a member", "was kicked")


@router.callback_query(on_press("quote"))
async def _press_quote(
    pressed: CallbackQuery,
    callback_data: Press,
    bot: Bot,
    context: AppContext,
    words: Translator,
    recent_quotes: dict[tuple[int, int, int, str], float],
) -> None:
    """Show a quote; a repeated press shows it once. In a group every member may press, for channels open there."""
    if pressed.message is None:
        raise access.Refusal(words("answer-gone"))
    chat, message_id, receiver = pressed.message.chat, pressed.message.message_id, None
    if isinstance(pressed.message, Message):
        message_id, receiver = identify_message(pressed.message, pressed.from_user.id)
    asked = await questions.find_question_of_message(context.archive, bot.id, chat.id, message_id, receiver)
    given = parse_stored_answer(asked.answer) if asked else None
    quoted = find_quote_by_token(given, context.archive, callback_data.token) if given else None
    if asked is None or given is None or quoted is None:
        raise access.Refusal(words("answer-gone"))
    reader = access.Reader(pressed.from_user.id, chat.id, chat.type == "private", alone=receiver is not None)
    if not reader.private and not await access.is_chat_member(context.admins, user_id=reader.user_id, chat_id=chat.id):
        raise access.Refusal(words("answer-not-member"))
    readable = await access.get_readable_channels(context.admins, reader)
    if quoted.key.chat_id not in readable:
        raise access.Refusal(words("receipt-closed"))
    now, key = asyncio.get_running_loop().time(), (chat.id, receiver or 0, message_id, callback_data.token)
    for old in [one for one, then in recent_quotes.items() if now - then >= _REPEAT_SECONDS]:
        del recent_quotes[old]
    if key in recent_quotes:
        raise access.Refusal(words("receipt-shown"))
    recent_quotes[key] = now
    try:
        with suppress(TelegramBadRequest):  # pressed long ago, while the bot was off
            await pressed.answer()
        number, cited = next((n, one) for n, one in enumerate(given.cited, 1) if one.key == quoted.key)
        found = await load_cited_words(context.archive, quoted, cited)
        shown = RenderContext(get_translator(asked.lang), await context.load_zone(chat.id), group=not reader.private)
        post, channel = found.post if found else None, readable[quoted.key.chat_id]
        head = format_reference(quoted.key, post.date if post else cited.date, post, channel, shown)
        content = ShownContent(channels=frozenset({channel.chat_id})) | collect_content_of_posts([post] if post else ())
        with recheck_before_sending(content, reader, context.admins):
            await _show_quote(found, Text(f"[{number}] ", head), channel, asked, message_id, bot, context.archive)
    except BaseException:
        recent_quotes.pop(key, None)  # sending failed: the next press counts as the first
        raise


async def _show_quote(
    found: CitedWords | None, head: Text, channel: Channel, asked: QuestionRow, under: int, bot: Bot, archive: Archive
) -> None:
    """Reply to the post with the quote, in the topic of the answer, or show the words as text `under` the answer."""
    place = await locate_quote(archive, found) if found and not asked.asker_only else None

    def render(matter: str) -> dict[str, Any]:
        # deleted words are not shown here either
        text = strip_control_characters(found.text) if found and matter != "receipt-gone-there" else ""
        quote = [ExpandableBlockQuote(neutralize_links(shorten(text, _MAX_SHOWN_LENGTH)))] if text else []
        note = [Italic(get_translator(asked.lang)(matter))] if matter else []
        return as_list(head, *quote, *note).as_kwargs()

    if place:
        key, quote = place
        by_name = channel.username and not channel.inside  # a public channel without the bot
        source = ReplyParameters(
            chat_id=f"@{channel.username}" if by_name else key.chat_id,
            message_id=key.message_id,
            quote=quote.text,
            quote_parse_mode=None,  # the words contain no markup
            quote_entities=quote.entities,
            quote_position=quote.position,
        )
        try:
            sent = await bot.send_message(
                asked.chat_id, **head.as_kwargs(), message_thread_id=asked.thread, reply_parameters=source
            )
        except (TelegramBadRequest, TelegramForbiddenError) as exc:
            refusal = exc.message.lower()
            gone = any(pattern in refusal for pattern in _POST_GONE_ERRORS)
            closed = any(pattern in refusal for pattern in _CHAT_CLOSED_ERRORS)
            matter = "receipt-gone-there" if gone else "receipt-outside" if closed else "receipt-refused"
        else:
            if sent.quote is None:  # Telegram drops the quote silently where the channel protects its content
                text = render("receipt-protected")
                await bot.edit_message_text(chat_id=asked.chat_id, message_id=sent.message_id, **text)
            return
    elif found is None:
        matter = "receipt-gone"
    elif not found.text:
        matter = "receipt-changed-unknown"
    elif found.at is None:
        matter = "receipt-changed"
    elif asked.asker_only:  # Telegram has no native quotes for one member
        matter = ""
    else:
        matter = "receipt-protected" if found.post.guarded else "receipt-refused"
    reply = ReplyParameters(message_id=under)
    await bot.send_message(asked.chat_id, **render(matter), message_thread_id=asked.thread, reply_parameters=reply)
