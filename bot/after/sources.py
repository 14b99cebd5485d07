"""The sources of an answer, page by page: who said it, when, and the very words, folded until somebody taps them.

Nothing of them is kept: the words are read from the archive with each press, for whoever pressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aiogram import Bot, F, Router
from aiogram.filters import Command, CommandObject
from aiogram.types import InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Bold, ExpandableBlockQuote, Text, as_list

from bot import kept
from bot.access import reader_of
from bot.after.behind import shown_to, viewer_here
from bot.desk import Desk
from bot.inert import inert
from bot.kept import Cited, Kept
from bot.keyboard import Deed, Row, button
from bot.plain import Shown, dated, plain
from bot.render import titled
from bot.why import meant
from bot.words import Words
from rag_core.doors.archive import Archive, channels, posts
from rag_core.doors.archive.given import Given, given
from rag_core.types import Channel, Post, PostKey, Viewer, link_of

__all__ = ["routes", "sources"]

ON_A_PAGE = 3
# Three sources with three quotes of so many characters, which may count twice, fit 4096.
_MOST_QUOTES, _LONGEST = 3, 200
_ALONE = 600  # of the only quote of a post


@dataclass(frozen=True, slots=True)
class _Shelf:
    """What a page is made of: `stored` are the posts that this reader may see now."""

    answer: Kept
    stored: Mapping[PostKey, Post]
    channels: Mapping[int, Channel]
    shown: Shown


async def sources(
    asked: Given, viewer: Viewer, archive: Archive, shown: Shown, page: int = 0
) -> tuple[Text, InlineKeyboardMarkup | None]:
    """One page of the sources that this viewer may read now, and the buttons to turn it."""
    answer, words = kept.read(asked.answer), shown.words
    cited = [(number, one) for number, one in enumerate(answer.cited, 1) if one.key.chat_id in viewer.channels]
    if not cited:
        return Text(words("why-closed" if answer.cited else "sources-none")), None
    last = (len(cited) - 1) // ON_A_PAGE
    page = max(0, min(page, last))
    here = cited[page * ON_A_PAGE : (page + 1) * ON_A_PAGE]
    stored = await posts.get(archive, [one.key for _, one in here])
    shelf = _Shelf(answer, stored, await channels.known(archive), shown)
    head: list[Text] = [Bold(words("sources", count=len(cited)))]
    head += [Text(words("search-page", page=page + 1, pages=last + 1))] if last else []
    blocks = [as_list(*head, sep=" · "), *(_source(number, one, shelf) for number, one in here)]
    return as_list(*blocks, sep="\n\n"), _turns(page, last, asked.handle)


def _source(number: int, one: Cited, shelf: _Shelf) -> Text:
    post, channel, shown = shelf.stored.get(one.key), shelf.channels.get(one.key.chat_id), shelf.shown
    words = shown.words
    if post is None:
        title = (plain(channel.title) if channel else "") or words("unnamed-channel")
        return Text(f"{number}. ", words("why-gone", title=title, date=words.date(one.date, shown.zone)))
    who = titled(channel, post.origin, link_of(one.key, channel), words)
    head = Text(f"{number}. ", who, " · ", dated(post.date, post.edited, shown))
    if kept.mark(post.text) != one.mark:
        return as_list(head, words("sources-changed"))
    if quotes := list(_quotes(one.key, post, shelf.answer)):
        return as_list(head, ExpandableBlockQuote(inert("\n\n".join(quotes))))
    return head


def _quotes(key: PostKey, post: Post, answer: Kept) -> Iterator[str]:
    """The words of a post that the answer stands on, in the order of the post."""
    places = {(start, end) for said in answer.sentences for cited, start, end in said.places if cited == key}
    found = [text for start, end in sorted(places) if (text := plain(post.text[start:end]))][:_MOST_QUOTES]
    longest = _ALONE if len(found) == 1 else _LONGEST
    for text in found:
        yield text if len(text) <= longest else f"{text[:longest].rstrip()}…"


def _turns(page: int, last: int, handle: str) -> InlineKeyboardMarkup | None:
    row: Row = [button("◀", Deed.PAGE, handle, page - 1)] if page > 0 else []
    row += [button("▶", Deed.PAGE, handle, page + 1)] if page < last else []
    return InlineKeyboardMarkup(inline_keyboard=[row]) if row else None


async def _on_sources(message: Message, command: CommandObject, bot: Bot, desk: Desk, words: Words) -> None:
    found = await meant(message, bot, desk.archive)
    asked = None if isinstance(found, str) else await given(desk.archive, found.handle)
    if asked is None:
        # In a group a bare command may be meant for another bot.
        if message.chat.type == "private" or command.mention:
            said = words(found, why="/sources") if isinstance(found, str) else words("answer-gone")
            await message.reply(said, allow_sending_without_reply=True)
        return
    viewer, checked = await viewer_here(asked, reader_of(message), desk)
    text, buttons = await sources(asked, viewer, desk.archive, shown_to(asked, desk))
    with checked:
        await message.reply(**text.as_kwargs(), reply_markup=buttons, allow_sending_without_reply=True)


def routes() -> Router:
    """The handler of /sources."""
    router = Router(name="sources")
    router.message.register(
        _on_sources, Command("sources", ignore_case=True), F.chat.type.in_({"private", "group", "supergroup"})
    )
    return router
