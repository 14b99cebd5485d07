"""Handlers of /delete and /check: admins take posts out of all answers, or check whether they still exist.

Bots are not told of deletions (https://core.telegram.org/bots/api#update). /check copies the post to the admin's
chat and judges by the error: only a clear "not found" makes a post suspected, only a successful copy clears it.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from aiogram import Bot, Router
from aiogram.enums import MessageEntityType
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest, TelegramForbiddenError
from aiogram.filters import CommandObject
from aiogram.types import CallbackQuery, Message, MessageOriginChannel
from aiogram.utils.formatting import Text, as_list

from bot.access import Refusal
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.middlewares import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.views.answer import make_link
from bot.views.format import neutralize_links, split_pages
from bot.views.keyboards import Press, build_keyboard, make_callback_token, on_press
from bot.views.text import RenderContext, format_author, format_day_and_edit, join_lines, shorten_at_word
from rag_core.storage import Archive, channels, posts
from rag_core.text.post_text import PostLink, find_post_links, resolve_post_link
from rag_core.types import Channel, PostKey, format_channel_post_link

router = Router()


class PostPresence(StrEnum):
    """Result of probing a post. Only GONE marks a post as suspected, only THERE clears the mark."""

    THERE = "there"
    GONE = "gone"
    UNCOPIED = "uncopied"
    CLOSED = "closed"
    UNSURE = "unsure"


# Messages of https://github.com/tdlib/telegram-bot-api. MESSAGE_ID_INVALID is not among them: Telegram also
# returns it for existing posts where the requested operation is impossible.
_ERROR_PATTERNS = {
    PostPresence.UNCOPIED: r"protected content|forwards_restricted|message can't be (copied|forwarded)",
    PostPresence.GONE: r"message to (copy|forward|be replied|react) not found|(replied|reply) message not found",
    PostPresence.CLOSED: r"bot (is not a member|was kicked)|chat not found|channel_private|chat_admin_required"
    r"|not enough rights|need administrator rights|have no rights",
}


def classify_copy_result(failure: Exception) -> PostPresence:
    """Classify the failure to copy a post; not explicit are network errors, limits, messages introduced later."""
    if not isinstance(failure, TelegramBadRequest | TelegramForbiddenError):
        return PostPresence.UNSURE
    message = failure.message.lower().replace("’", "'")
    found = (where for where, pattern in _ERROR_PATTERNS.items() if re.search(pattern, message))
    return next(found, PostPresence.UNSURE)


# The confirmation must fit into one message with the posts' first words.
_MAX_POSTS = 10
_MAX_FIRST_WORDS_LENGTH = 100


@dataclass(frozen=True, slots=True)
class _LinkedPost:
    """Link and the posts it means: one post, or its whole album."""

    link: PostLink
    keys: tuple[PostKey, ...]
    channel: Channel
    date: datetime
    words: str

    def line(self, number: int, shown: RenderContext) -> Text:
        """Line with the channel as a link to the post, the day, and the post's first words."""
        title = format_author(self.channel, None, shown.words)
        url = format_channel_post_link(PostKey(self.channel.chat_id, self.link.message_id), self.channel)
        head = Text(f"{number}. ", make_link(title, url + ("?single" if self.link.single else "")))
        line = Text(head, " · ", format_day_and_edit(self.date, None, shown))
        return Text(line, "\n", neutralize_links(self.words)) if self.words else line


@router.message(ChatCommand("delete", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_delete(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    items, blocks = await _load_requested_posts(message, command, context, words)
    buttons = None
    if items:
        shown = RenderContext(words, context.settings.bot.zone)
        lines = [item.line(number, shown) for number, item in enumerate(items, 1)]
        blocks = [Text(words("delete-sure", count=len(items))), *lines, *blocks]
        yes, no = (Press(to=to, token=_make_posts_token(items)) for to in ("delete", "delete-not"))
        buttons = build_keyboard([(words("button-delete"), yes, "danger"), (words("button-keep"), no)])
    if blocks:
        await message.answer(**as_list(*blocks, sep="\n\n").as_kwargs(), reply_markup=buttons)


@router.callback_query(on_press("delete", "delete-not"), flags=ADMINS_ONLY)
async def _press_delete(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    """Handle the confirmation. The posts are read from the bot's own message, which survives a restart."""
    message = pressed.message
    if not isinstance(message, Message):  # too old to be read
        raise Refusal(words("delete-again"))
    reply = words("delete-kept")
    if callback_data.to == "delete":
        items, _ = await _resolve_links(context.archive, find_post_links(_extract_hidden_links(message)))
        if _make_posts_token(items) != callback_data.token:
            raise Refusal(words("delete-again"))
        await posts.mark_posts_deleted(context.archive, [key for item in items for key in item.keys], how="admin")
        context.indexing.wake()
        reply = words("delete-done", count=len(items))
    with suppress(TelegramBadRequest):  # pressed twice: "message is not modified"
        await message.edit_text(f"{message.text}\n\n{reply}", entities=message.entities)
    await pressed.answer(reply)


@router.message(ChatCommand("check", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_check(message: Message, command: CommandObject, bot: Bot, context: AppContext, words: Translator) -> None:
    items, blocks = await _load_requested_posts(message, command, context, words)
    shown = RenderContext(words, context.settings.bot.zone)
    for number, item in enumerate(items, 1):
        # A post is there if it can be copied to the admin's chat.
        results = dict[PostKey, PostPresence]()
        for key in item.keys:
            try:
                copy = await bot.copy_message(message.chat.id, *key, disable_notification=True)
            except (TelegramAPIError, ClientDecodeError) as exc:
                results[key] = classify_copy_result(exc)
            else:
                results[key] = PostPresence.THERE
                with suppress(TelegramAPIError, ClientDecodeError):  # a copy that stays does no harm
                    await bot.delete_message(message.chat.id, copy.message_id)
        gone = [key for key, presence in results.items() if presence is PostPresence.GONE]
        there = [key for key, presence in results.items() if presence is PostPresence.THERE]
        marked = await posts.mark_posts_suspected(context.archive, gone)
        cleared = await posts.mark_posts_suspected(context.archive, there, suspected=False)
        if marked or cleared:
            context.indexing.wake()
        # If only some posts of an album are gone, it is there without them.
        worst = next((found for found in results.values() if found is not PostPresence.GONE), PostPresence.GONE)
        result = words("check-back" if cleared and not gone else "check-told", where=worst.value)
        blocks.append(as_list(item.line(number, shown), Text(result)))
    for page in split_pages(as_list(*blocks, sep="\n\n")) if blocks else ():
        await message.answer(**page.as_kwargs())


async def _load_requested_posts(
    message: Message, command: CommandObject, context: AppContext, words: Translator
) -> tuple[list[_LinkedPost], list[Text]]:
    """Load the posts of a command's links, or the one that it replies to, with a line for each link to no post.

    Nothing of both where the sender was told what to write.
    """
    links = find_post_links(f"{command.args or ''} {_extract_hidden_links(message)}")
    origin = message.reply_to_message.forward_origin if message.reply_to_message else None
    if not links and isinstance(origin, MessageOriginChannel):
        key = PostKey(origin.chat.id, origin.message_id)
        channel = Channel(origin.chat.id, origin.chat.title or "", origin.chat.username)
        links = [PostLink(*key, text=format_channel_post_link(key, channel))]
    if not links or len(links) > _MAX_POSTS:
        how = words("delete-how", command=f"/{command.command.lower()}")
        await message.answer(words("delete-most", most=_MAX_POSTS) if links else how)
        return [], []
    items, others = await _resolve_links(context.archive, links)
    return items, [Text(words("delete-unknown", link=other.text)) for other in others]


def _extract_hidden_links(message: Message) -> str:
    return " ".join(e.url for e in message.entities or () if e.type == MessageEntityType.TEXT_LINK and e.url)


async def _resolve_links(archive: Archive, links: Iterable[PostLink]) -> tuple[list[_LinkedPost], list[PostLink]]:
    """Resolve links to posts; returns also those that lead to no post of the archive, or to a deleted one."""
    known = await channels.load_channels(archive)
    items, others = list[_LinkedPost](), list[PostLink]()
    for link in links:
        key = resolve_post_link(link, known)
        keys = (key,) if key and link.single else await posts.list_album_keys(archive, key) if key else ()
        found = await posts.fetch_stored_posts(archive, keys)
        stored = {k: one.post for k, one in found.items() if not one.deleted}
        if key not in stored:
            others.append(link)
        elif not any(set(stored) & set(item.keys) for item in items):
            text = next((post.text for post in stored.values() if post.text.strip()), "")
            first_words = shorten_at_word(join_lines(text), _MAX_FIRST_WORDS_LENGTH)
            items.append(_LinkedPost(link, tuple(stored), known[key.chat_id], stored[key].date, first_words))
    return items, others


def _make_posts_token(items: Sequence[_LinkedPost]) -> str:
    return make_callback_token(repr(sorted(tuple(key) for item in items for key in item.keys)))
