"""/delete takes posts out of all answers, /check looks whether they are still in their channel. For admins, in private.

Bots are not told of deletions: https://core.telegram.org/bots/api#update
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b

from aiogram import Bot, F, Router
from aiogram.enums import ButtonStyle, MessageEntityType
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest
from aiogram.filters import Command, CommandObject
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message, MessageOriginChannel
from aiogram.utils.formatting import Text, as_list
from aiogram.utils.keyboard import InlineKeyboardBuilder

from bot.access import is_admin
from bot.desk import Desk
from bot.inert import inert
from bot.links import PostLink, post_links, resolved
from bot.pages import pages
from bot.plain import Shown, dated, plain
from bot.render import link
from bot.whereabouts import Whereabouts, whereabouts
from bot.words import Words
from rag_core.doors.archive import Archive, channels, posts
from rag_core.doors.archive.pointing import pointed, with_albums
from rag_core.types import Channel, PostKey, post_link

__all__ = ["routes"]

# What is confirmed must fit one message with its first words.
_MOST = 10
_FIRST_WORDS = 100


class Delete(CallbackData, prefix="delete"):
    """The answer to "delete these?"; `which` tells whether the message still means the same posts."""

    sure: bool
    which: str


@dataclass(frozen=True, slots=True)
class _Item:
    """A link and what is meant by it: the post, or all of its album."""

    link: PostLink
    keys: tuple[PostKey, ...]
    channel: Channel
    date: datetime
    words: str

    def line(self, number: int, shown: Shown) -> Text:
        """The channel as a link to the post, the day, and the post's first words."""
        title = plain(self.channel.title).replace("\n", " ") or shown.words("unnamed-channel")
        url = post_link(PostKey(self.channel.chat_id, self.link.message_id), self.channel.username)
        head = Text(f"{number}. ", link(title, url + ("?single" if self.link.single else "")))
        said = Text(head, " · ", dated(self.date, None, shown))
        return Text(said, "\n", inert(self.words)) if self.words else said


async def _on_delete(message: Message, command: CommandObject, desk: Desk, words: Words) -> None:
    links = await _asked_for(message, command, desk, words)
    if not links:
        return
    items, others = await _found(desk.archive, links)
    blocks = [Text(words("delete-unknown", link=other.text)) for other in others]
    if items:
        shown = Shown(words, desk.settings.bot.zone)
        lines = [item.line(number, shown) for number, item in enumerate(items, 1)]
        blocks = [Text(words("delete-sure", count=len(items))), *lines, *blocks]
    buttons = _buttons(items, words) if items else None
    await message.answer(**as_list(*blocks, sep="\n\n").as_kwargs(), reply_markup=buttons)


async def _on_sure(pressed: CallbackQuery, callback_data: Delete, desk: Desk, words: Words) -> None:
    """The posts are read out of the message itself: it was written by us, and it outlives a restart."""
    message = pressed.message
    private = message is not None and message.chat.type == "private"
    if not (private and pressed.from_user.id in desk.admins):
        await pressed.answer(words("admins-only", start="/start"), show_alert=True)
        return
    if not isinstance(message, Message):  # too old to be read
        await pressed.answer(words("delete-again", delete="/delete"), show_alert=True)
        return
    said = words("delete-kept")
    if callback_data.sure:
        items, _ = await _found(desk.archive, post_links(_hidden_links(message)))
        if _mark(items) != callback_data.which:
            await pressed.answer(words("delete-again", delete="/delete"), show_alert=True)
            return
        await posts.erase(desk.archive, [key for item in items for key in item.keys], how="admin")
        desk.indexing.wake()
        said = words("delete-done", count=len(items))
    with suppress(TelegramBadRequest):  # pressed twice: "message is not modified"
        await message.edit_text(f"{message.text}\n\n{said}", entities=message.entities)
    await pressed.answer(said)


async def _on_check(message: Message, command: CommandObject, bot: Bot, desk: Desk, words: Words) -> None:
    links = await _asked_for(message, command, desk, words)
    if not links:
        return
    items, others = await _found(desk.archive, links)
    blocks = [Text(words("delete-unknown", link=other.text)) for other in others]
    shown = Shown(words, desk.settings.bot.zone)
    for number, item in enumerate(items, 1):
        said = await _checked(item, message.chat.id, bot, desk, words)
        blocks.append(as_list(item.line(number, shown), Text(said)))
    for page in pages(as_list(*blocks, sep="\n\n")):
        await message.answer(page.text, entities=list(page.entities))


async def _checked(item: _Item, chat_id: int, bot: Bot, desk: Desk, words: Words) -> str:
    """Copy each post to the admin's chat and draw the conclusion; what to tell of it."""
    told = {key: await _copied(key, chat_id, bot) for key in item.keys}
    gone = [key for key, where in told.items() if where is Whereabouts.GONE]
    there = [key for key, where in told.items() if where is Whereabouts.THERE]
    marked = await posts.suspect(desk.archive, gone)
    cleared = await posts.clear(desk.archive, there)
    if marked or cleared:
        desk.indexing.wake()
    # Of an album only some may be gone: it is there, without them.
    worst = Whereabouts.GONE if len(gone) == len(told) else next(w for w in told.values() if w is not Whereabouts.GONE)
    return words("check-back" if cleared and not gone else "check-told", where=worst.value)


async def _copied(key: PostKey, chat_id: int, bot: Bot) -> Whereabouts:
    try:
        copy = await bot.copy_message(chat_id, key.chat_id, key.message_id, disable_notification=True)
    except (TelegramAPIError, ClientDecodeError) as exc:
        return whereabouts(exc)
    with suppress(TelegramAPIError, ClientDecodeError):  # the copy is no harm where it stays
        await bot.delete_message(chat_id, copy.message_id)
    return Whereabouts.THERE


async def _asked_for(message: Message, command: CommandObject, desk: Desk, words: Words) -> list[PostLink]:
    """The links of a command, or the post that it replies to; none where the sender has been told why not."""
    if not is_admin(message, desk.admins):
        await message.answer(words("admins-only", start="/start"))
        return []
    links = post_links(f"{command.args or ''} {_hidden_links(message)}") or _forwarded(message.reply_to_message)
    if not links:
        await message.answer(words("delete-how", command=f"/{command.command.lower()}"))
    elif len(links) > _MOST:
        await message.answer(words("delete-most", most=_MOST))
        return []
    return links


def _hidden_links(message: Message) -> str:
    """The addresses behind the words of a message."""
    hidden = (e.url for e in message.entities or () if e.type == MessageEntityType.TEXT_LINK and e.url)
    return " ".join(hidden)


def _forwarded(message: Message | None) -> list[PostLink]:
    origin = message.forward_origin if message else None
    if not isinstance(origin, MessageOriginChannel):
        return []
    return [PostLink(origin.chat.id, origin.message_id, text=post_link(_key(origin), origin.chat.username))]


def _key(origin: MessageOriginChannel) -> PostKey:
    return PostKey(origin.chat.id, origin.message_id)


async def _found(archive: Archive, links: Iterable[PostLink]) -> tuple[list[_Item], list[PostLink]]:
    """What the links mean, and those that mean no post of the archive, or a deleted one."""
    known = await channels.known(archive)
    items: list[_Item] = []
    others = []
    for one in links:
        key = resolved(one, known)
        keys = (key,) if key and one.single else await with_albums(archive, key) if key else ()
        here = {k: post for k, post in (await pointed(archive, keys)).items() if not post.deleted}
        if key not in here:
            others.append(one)
        elif not any(set(here) & set(item.keys) for item in items):
            said = next((post.text for post in here.values() if post.text.strip()), "")
            items.append(_Item(one, tuple(here), known[key.chat_id], here[key].date, _first_words(said)))
    return items, others


def _first_words(text: str) -> str:
    said = " ".join(plain(text).split())
    if len(said) <= _FIRST_WORDS:
        return said
    return f"{said[:_FIRST_WORDS].rsplit(' ', 1)[0].rstrip(' ,.;:–—-')}…"


def _mark(items: Sequence[_Item]) -> str:
    keys = sorted(key for item in items for key in item.keys)
    return blake2b(repr([tuple(key) for key in keys]).encode(), digest_size=8).hexdigest()


def _buttons(items: Sequence[_Item], words: Words) -> InlineKeyboardMarkup:
    keys, which = InlineKeyboardBuilder(), _mark(items)
    keys.button(text=words("button-delete"), callback_data=Delete(sure=True, which=which), style=ButtonStyle.DANGER)
    keys.button(text=words("button-keep"), callback_data=Delete(sure=False, which=which))
    return keys.as_markup()


def routes() -> Router:
    """Handlers of /delete, its buttons, and /check."""
    router = Router(name="deletions")
    private = F.chat.type == "private"
    router.message.register(_on_delete, Command("delete", ignore_case=True), private)
    router.message.register(_on_check, Command("check", ignore_case=True), private)
    router.callback_query.register(_on_sure, Delete.filter())
    return router
