"""A pressed receipt: the bot replies with the cited words, as a native quote of the post wherever Telegram takes one.

Telegram refuses a quote whose words are not in the post. Then, and where the post cannot be replied to at all, the
words come as text with the link to the post, and what is the matter is said.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from aiogram import Bot, Router
from aiogram.exceptions import TelegramBadRequest, TelegramForbiddenError
from aiogram.types import CallbackQuery, Message, ReplyParameters
from aiogram.utils.formatting import ExpandableBlockQuote, Italic, Text, as_list

from bot import access, kept
from bot.desk import Desk
from bot.inert import inert
from bot.kept import Cited
from bot.plain import Shown, dated, plain
from bot.receipts import cited
from bot.receipts.buttons import Receipt, meant
from bot.receipts.cited import Place
from bot.recheck import Basis, Reader, rechecked, take_basis
from bot.render import titled
from bot.words import Words, words_for
from rag_core.doors.archive import questions
from rag_core.types import Channel, Viewer, post_link

__all__ = ["Receipts", "routes"]

# Who presses again so soon has it on the screen: seconds.
_AGAIN = 60.0
# Characters of words that come as text: with the lines around them they fit one message.
_MOST_SHOWN = 1500
# What Telegram says of a post that is not there, and of a chat that is closed to the bot.
_GONE = ("message to be replied not found", "message_id_invalid")
_OUTSIDE = ("chat not found", "channel_private", "not a member", "was kicked")


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a receipt is to show, and where: `number` is the post's in the answer at `message_id`."""

    found: cited.Words | None
    basis: Basis
    reader: Reader
    cited: Cited
    number: int
    channel: Channel
    shown: Shown
    chat_id: int
    message_id: int
    thread: int | None

    def head(self) -> Text:
        """Whose words they are, as the link that opens the post, and of when."""
        post = self.found.post if self.found else None
        url = post_link(self.cited.key, self.channel.username)
        who = titled(self.channel, post.origin if post else None, url, self.shown.words)
        date = dated(post.date if post else self.cited.date, post.edited if post else None, self.shown)
        return Text(f"[{self.number}] ", who, " · ", date)

    def told(self, said: str, *, with_words: bool = True) -> Text:
        """The receipt as text: the words where they may be shown, and what is the matter."""
        text = plain(self.found.text) if self.found and with_words else ""
        if len(text) > _MOST_SHOWN:
            text = f"{text[:_MOST_SHOWN].rstrip()}…"
        blocks = [self.head(), *([ExpandableBlockQuote(inert(text))] if text else []), Italic(self.shown.words(said))]
        return as_list(*blocks)


class Receipts:
    """The handler, and what was pressed lately: the same twice in a row is shown once."""

    def __init__(self) -> None:
        self._lately: dict[tuple[int, int, str], float] = {}

    async def on_press(
        self, pressed: CallbackQuery, callback_data: Receipt, bot: Bot, desk: Desk, words: Words
    ) -> None:
        """A button. In a group every member may press it, for channels that are open there."""
        wanted = await _wanted(pressed, callback_data, bot, desk)
        if isinstance(wanted, str):
            await _answer(pressed, words(wanted))
            return
        now, key = asyncio.get_running_loop().time(), (wanted.chat_id, wanted.message_id, callback_data.mark)
        self._lately = {one: then for one, then in self._lately.items() if now - then < _AGAIN}
        if key in self._lately:
            await _answer(pressed, words("receipt-shown"))
            return
        self._lately[key] = now
        try:
            await _answer(pressed)
            with rechecked(wanted.basis, wanted.reader, desk.archive, desk.admins):
                await _show(wanted, bot, desk)
        except BaseException:
            del self._lately[key]  # it did not come: the next press is the first
            raise


async def _answer(pressed: CallbackQuery, said: str = "") -> None:
    with suppress(TelegramBadRequest):  # pressed long ago, while the bot was away
        await pressed.answer(said[:200] or None, show_alert=bool(said))


async def _wanted(pressed: CallbackQuery, button: Receipt, bot: Bot, desk: Desk) -> _Asked | str:
    """What the button stands for; else the id of the sentence that says why it shows nothing."""
    if pressed.message is None:
        return "receipt-unknown"
    chat, message_id = pressed.message.chat, pressed.message.message_id
    asked = await questions.behind(desk.archive, bot.id, chat.id, message_id)
    given = kept.read(asked.answer) if asked else None
    quoted = meant(given, desk.archive, button.mark) if given else None
    if asked is None or given is None or quoted is None:
        return "receipt-unknown"
    private, reader = chat.type == "private", pressed.from_user.id
    where = {"user_id": reader, "chat_id": chat.id}
    if not private and not await access.inside(desk.admins, **where):
        return "answer-not-member"
    readable = await access.readable(desk.archive, desk.admins, **where, private=private)
    if quoted.key.chat_id not in readable:
        return "receipt-closed"
    basis = await take_basis([quoted.key], Viewer(reader, frozenset(readable)), desk.archive)
    number, one = next((n, one) for n, one in enumerate(given.cited, 1) if one.key == quoted.key)
    shown = Shown(words_for(asked.lang), desk.settings.bot.zone, group=not private)
    found = await cited.words(desk.archive, quoted, one)
    channel = readable[quoted.key.chat_id]
    here = Reader(**where, private=private)
    return _Asked(found, basis, here, one, number, channel, shown, chat.id, message_id, asked.thread)


async def _show(wanted: _Asked, bot: Bot, desk: Desk) -> None:
    place = await cited.stand(desk.archive, wanted.found) if wanted.found else None
    if place is None:
        await _send_told(wanted, _matter(wanted), bot)
        return
    try:
        sent = await _send_quote(wanted, place, bot)
    except (TelegramBadRequest, TelegramForbiddenError) as exc:
        await _send_told(wanted, _refusal(exc), bot)
        return
    if sent.quote is None:  # Telegram drops the reply in silence where the channel protects what it posts
        said = wanted.told("receipt-protected")
        await bot.edit_message_text(chat_id=wanted.chat_id, message_id=sent.message_id, **said.as_kwargs())


def _matter(wanted: _Asked) -> str:
    """Why there is no native quote to try."""
    found = wanted.found
    if found is None:
        return "receipt-gone"
    if not found.text:
        return "receipt-changed-unknown"
    if found.at is None:
        return "receipt-changed"
    return "receipt-protected" if found.post.guarded else "receipt-refused"


def _refusal(exc: TelegramBadRequest | TelegramForbiddenError) -> str:
    said = exc.message.lower()
    if any(sign in said for sign in _GONE):
        return "receipt-gone-there"
    return "receipt-outside" if any(sign in said for sign in _OUTSIDE) else "receipt-refused"


async def _send_quote(wanted: _Asked, place: Place, bot: Bot) -> Message:
    """The reply to the post, in the topic of the answer. A public channel answers to its name without the bot."""
    channel, quote = wanted.channel, place.quote
    by_name = channel.username and not channel.inside
    source = ReplyParameters(
        chat_id=f"@{channel.username}" if by_name else place.key.chat_id,
        message_id=place.key.message_id,
        quote=quote.text,
        quote_parse_mode=None,  # the words are no markup
        quote_entities=list(quote.entities),
        quote_position=quote.position,
    )
    said = wanted.head().as_kwargs()
    return await bot.send_message(wanted.chat_id, **said, message_thread_id=wanted.thread, reply_parameters=source)


async def _send_told(wanted: _Asked, matter: str, bot: Bot) -> None:
    """The words as text, under the answer. What is deleted is not shown, here as little as there."""
    said = wanted.told(matter, with_words=matter != "receipt-gone-there").as_kwargs()
    under = ReplyParameters(message_id=wanted.message_id, allow_sending_without_reply=True)
    await bot.send_message(wanted.chat_id, **said, message_thread_id=wanted.thread, reply_parameters=under)


def routes() -> Router:
    """Handlers of the buttons under answers."""
    router, receipts = Router(name="receipts"), Receipts()
    router.callback_query.register(receipts.on_press, Receipt.filter())
    return router
