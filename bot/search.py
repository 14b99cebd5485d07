"""/search: posts by words, days and channels, page by page. Never an answer: the posts themselves.

Nothing of a search is kept. What was searched for is read again from the message that a page replies to, so
that its buttons work after a restart; each press searches anew, with what the presser may read at that moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiogram import F, Router
from aiogram.filters import Command, CommandObject
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, InlineKeyboardButton, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Code, Text

from bot import access, trouble
from bot.access import reader_of
from bot.channels.buttons import redraw
from bot.desk import Desk
from bot.kept import mark
from bot.marks import marked
from bot.plain import Shown
from bot.questions import LONGEST
from bot.recheck import Basis, Reader, ShownPost, rechecked
from bot.search_page import entries_of, last_page, page
from bot.words import Words, question_language
from rag_core.doors.archive import Archive
from rag_core.errors import RagError
from rag_core.listing import Listing, listing
from rag_core.types import Question

__all__ = ["Turn", "routes"]

_AT_ONCE = 2  # searches, of all readers: they share the machine with answers
_MOST_WAITING = 3  # of one reader, the one that runs included

_PRIVATE = F.chat.type == "private"
_GROUP = F.chat.type.in_({"group", "supergroup"})


class Turn(CallbackData, prefix="s"):
    """A button: the page it turns to, which search it belongs to, and which posts that had found."""

    number: int
    search: str
    found: str


@dataclass(slots=True)
class _Line:
    """The searches of one reader, which run one after the other."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class Searches:
    """The handlers, with the line that they keep: no search waits for answers, and few run at once."""

    def __init__(self) -> None:
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._lines: dict[int, _Line] = {}

    async def on_search(self, message: Message, command: CommandObject, desk: Desk, words: Words) -> None:
        """The command."""
        asked = _asked(message)
        private = message.chat.type == "private"
        if not asked and not private and not command.mention:
            return  # in a group a bare command may be meant for another bot
        if not asked or len(asked) > LONGEST:
            said = _unfit(asked, words)
            await message.reply(**said.as_kwargs(), allow_sending_without_reply=True)
            return
        reader = reader_of(message)
        async with self._in_line(reader) as free:
            if not free:
                await message.reply(words("search-busy"), allow_sending_without_reply=True)
                return
            said, buttons, _, basis = await self._shown(message, reader, 0, desk, words)
            with rechecked(basis, Reader(reader, message.chat.id, private), desk.archive, desk.admins):
                await message.reply(**said.as_kwargs(), reply_markup=buttons, allow_sending_without_reply=True)

    async def on_turn(self, pressed: CallbackQuery, callback_data: Turn, desk: Desk, words: Words) -> None:
        """A button. In a group only whoever searched may press it; who wrote as a chat cannot be told from others."""
        asked = _behind(pressed, callback_data, desk.archive)
        if asked is None:
            await pressed.answer(words("search-stale", search="/search"), show_alert=True)
            return
        if not asked.sender_chat and reader_of(asked) != pressed.from_user.id:
            await pressed.answer(words("search-not-yours", search="/search"), show_alert=True)
            return
        async with self._in_line(pressed.from_user.id) as free:
            if not free:
                await pressed.answer(words("search-busy"))
                return
            try:
                said, buttons, found, basis = await self._shown(
                    asked, pressed.from_user.id, callback_data.number, desk, words
                )
                moved = found not in ("", callback_data.found)
                here = Reader(pressed.from_user.id, asked.chat.id, asked.chat.type == "private")
                with rechecked(basis, here, desk.archive, desk.admins):
                    await redraw(pressed, said, buttons, words("search-changed") if moved else "")
            except RagError as exc:
                await pressed.answer(trouble.sentence(exc, words, admin=False)[:200], show_alert=True)

    @asynccontextmanager
    async def _in_line(self, reader: int) -> AsyncIterator[bool]:
        """Wait for the reader's turn; False where too many wait already."""
        line = self._lines.setdefault(reader, _Line())
        if line.waiting >= _MOST_WAITING:
            yield False
            return
        line.waiting += 1
        try:
            async with line.turn:
                yield True
        finally:
            line.waiting -= 1
            if not line.waiting:
                del self._lines[reader]

    async def _shown(
        self, asked: Message, reader: int, number: int, desk: Desk, words: Words
    ) -> tuple[Text, InlineKeyboardMarkup | None, str, Basis]:
        """A page, its buttons, the mark of what was found, and what the page stands on.

        A sentence and no mark where nothing can be searched.
        """
        where = {"user_id": reader, "chat_id": asked.chat.id}
        private = asked.chat.type == "private"
        viewer = await access.viewer_for(desk.archive, desk.admins, **where, private=private)
        if not viewer.channels:
            admin = reader in desk.admins
            return Text(await access.closed(desk.archive, words, admin=admin, private=private)), None, "", Basis()
        text, zone = _asked(asked), desk.settings.bot.zone
        # days are those of the reader, counted from when the search was asked for
        question = Question(text, question_language(text, words.lang), asked.date.astimezone(zone), viewer)
        async with self._at_once:
            found = await listing(question, desk.rag)
            if not (found.sought.words or found.sought.filters):
                return Text(words("search-common")), None, "", Basis()
            number = max(0, min(number, last_page(found)))
            # long posts take a while to be looked through
            said = await asyncio.to_thread(page, found, number, Shown(words, zone, group=not private))
        entries = entries_of(found, number)
        copies = frozenset(key.chat_id for entry in entries for key in entry.copies)
        shown = tuple(ShownPost(entry.post.key, mark(entry.post.text)) for entry in entries)
        sign = _mark_of(found)
        buttons = _buttons(number, last_page(found), _mark(asked, desk.archive), sign)
        return said, buttons, sign, Basis(shown, copies, viewer.channels)  # how many there are was counted over all


def _asked(message: Message) -> str:
    """What stands behind the command."""
    return "".join((message.text or message.caption or "").split(maxsplit=1)[1:]).strip()


def _unfit(asked: str, words: Words) -> Text:
    if asked:
        return Text(words("search-too-long", limit=LONGEST, length=len(asked)))
    return words.rich("search-empty", example=Code(f"/search {words('search-example')}"))


def _behind(pressed: CallbackQuery, turn: Turn, archive: Archive) -> Message | None:
    """The message that was searched with; None where it is gone or edited, or the button is made up."""
    shown = pressed.message
    asked = shown.reply_to_message if isinstance(shown, Message) else None
    return asked if asked and _mark(asked, archive) == turn.search else None


def _mark(asked: Message, archive: Archive) -> str:
    """Eight signs that stand for this search; nobody else can make them."""
    said = repr((asked.chat.id, asked.message_id, _asked(asked)))
    return marked(said, archive.identity)


def _mark_of(found: Listing) -> str:
    """Four signs that stand for the posts that were found, in their order."""
    return marked(repr([tuple(one.post.key) for one in found.found]), size=3)


def _buttons(number: int, last: int, search: str, found: str) -> InlineKeyboardMarkup | None:
    turns = [("◀", number - 1)] if number > 0 else []
    turns += [("▶", number + 1)] if number < last else []
    row = [
        InlineKeyboardButton(text=label, callback_data=Turn(number=to, search=search, found=found).pack())
        for label, to in turns
    ]
    return InlineKeyboardMarkup(inline_keyboard=[row]) if row else None


def routes() -> Router:
    """Handlers of /search and its buttons."""
    router, searches = Router(name="search"), Searches()
    router.message.register(searches.on_search, Command("search", ignore_case=True), _PRIVATE | _GROUP)
    router.callback_query.register(searches.on_turn, Turn.filter())
    return router
