"""The buttons under answers at work: votes, sources, why, shorter, deeper, link."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from aiogram import Router
from aiogram.exceptions import TelegramBadRequest
from aiogram.types import CallbackQuery, InlineKeyboardMarkup, Message, Update
from aiogram.utils.formatting import Text

from bot.after.behind import behind, shown_to, viewer_here
from bot.after.deep_links import link_said
from bot.after.shorter import shortened
from bot.after.sources import sources
from bot.answering.limits import too_much
from bot.channels.buttons import redraw
from bot.deeper import SENTENCES
from bot.desk import Desk
from bot.keyboard import DEEP, REASONS, Deed, Press, deed_of, with_reasons, with_votes, without
from bot.pages import pages
from bot.why import explained
from bot.words import Words
from rag_core.doors.archive import feedback, questions
from rag_core.doors.archive.given import Given

__all__ = ["routes"]


@dataclass(frozen=True, slots=True)
class _Pressed:
    """A press by somebody who may: what of, at which message, and what handlers need."""

    query: CallbackQuery
    press: Press
    asked: Given
    message: Message
    desk: Desk
    words: Words
    update_id: int

    @property
    def user_id(self) -> int:
        """Who pressed."""
        return self.query.from_user.id


class Presses:
    """The handler, with the presses that are at work: a button that sends something sends it once."""

    def __init__(self) -> None:
        self._busy: set[tuple[str, Deed]] = set()

    async def on_press(
        self, query: CallbackQuery, callback_data: Press, event_update: Update, desk: Desk, words: Words
    ) -> None:
        """Any button under an answer."""
        found = await behind(query, callback_data, desk, words)
        if found is None:
            return
        pressed = _Pressed(query, callback_data, *found, desk, words, event_update.update_id)
        deed = callback_data.deed
        if deed in _VOTING:
            await _vote(pressed)
        elif deed is Deed.PAGE:
            await _turn(pressed)
        else:
            async with self._once(pressed) as first:
                if first:
                    await _SENDING[deed](pressed)
                else:
                    await query.answer(words("answer-already"))

    @asynccontextmanager
    async def _once(self, pressed: _Pressed) -> AsyncIterator[bool]:
        """False for a button that is at work, or has done its work: it is not there any more."""
        key, shown = (pressed.press.handle, pressed.press.deed), pressed.message.reply_markup
        there = shown is not None and any(deed_of(one) is key[1] for row in shown.inline_keyboard for one in row)
        if key in self._busy or not there:
            yield False
            return
        self._busy.add(key)
        try:
            yield True
        finally:
            self._busy.discard(key)


async def _vote(pressed: _Pressed) -> None:
    """Keep the vote; after a bad one ask why. The last vote of a reader counts."""
    deed, words = pressed.press.deed, pressed.words
    archive, asked = pressed.desk.archive, pressed.asked
    good, reason = deed is Deed.GOOD, REASONS.get(deed)
    new = await feedback.vote(archive, asked.id, pressed.user_id, good=good, reason=reason)
    shown = without(pressed.message.reply_markup, *REASONS)
    shown = with_votes(shown, await feedback.votes_on(archive, asked.id))
    if deed is Deed.BAD:
        shown = with_reasons(shown, asked.handle, words)
    await _relabel(pressed.message, shown)
    said = "vote-good" if good else "vote-reason" if reason else "vote-bad"
    await pressed.query.answer(words(said if new else "vote-same"))


async def _turn(pressed: _Pressed) -> None:
    viewer, checked = await viewer_here(pressed.asked, pressed.user_id, pressed.desk)
    shown = shown_to(pressed.asked, pressed.desk)
    said, buttons = await sources(pressed.asked, viewer, pressed.desk.archive, shown, pressed.press.page)
    with checked:
        await redraw(pressed.query, said, buttons)


async def _sources(pressed: _Pressed) -> None:
    viewer, checked = await viewer_here(pressed.asked, pressed.user_id, pressed.desk)
    shown = shown_to(pressed.asked, pressed.desk)
    said, buttons = await sources(pressed.asked, viewer, pressed.desk.archive, shown)
    with checked:
        await _reply(pressed, said, buttons)


async def _why(pressed: _Pressed) -> None:
    viewer, checked = await viewer_here(pressed.asked, pressed.user_id, pressed.desk)
    shown = shown_to(pressed.asked, pressed.desk)
    said = await explained(pressed.asked.answered, viewer, pressed.desk.archive, shown)
    with checked:
        await _reply(pressed, said)


async def _shorter(pressed: _Pressed) -> None:
    viewer, checked = await viewer_here(pressed.asked, pressed.user_id, pressed.desk)
    said = await shortened(pressed.asked, viewer, pressed.desk.archive, shown_to(pressed.asked, pressed.desk))
    if said is None:
        await pressed.query.answer(pressed.words("answer-changed"), show_alert=True)
        return
    with checked:
        await _reply(pressed, said)


async def _deeper(pressed: _Pressed) -> None:
    """Queue the question once more, within the limits. The days it names are those of when it was asked."""
    asked = pressed.asked
    async with pressed.desk.turns.limits.counted(asked.user_id, asked.chat_id) as wait:
        if wait is None:
            await questions.queue(
                pressed.desk.archive,
                bot_id=asked.bot_id,
                update_id=pressed.update_id,
                chat_id=asked.chat_id,
                message_id=asked.message_id,
                thread=asked.thread,
                user_id=asked.user_id,
                text=asked.text,
                lang=asked.lang,
                asked_at=asked.asked_at,
                private=asked.private,
                mode=DEEP,
            )
    if wait is not None:
        await pressed.query.answer(too_much(wait, pressed.words)[:200], show_alert=True)
        return
    pressed.desk.turns.wake()
    await _done(pressed, pressed.words("deeper-begins", count=SENTENCES))


async def _link(pressed: _Pressed) -> None:
    bot = pressed.query.bot
    assert bot is not None
    said = await link_said(pressed.asked.text, pressed.user_id, bot, pressed.desk.archive, pressed.words)
    await _reply(pressed, said)


async def _reply(pressed: _Pressed, said: Text, buttons: InlineKeyboardMarkup | None = None) -> None:
    """Answer below, in as many messages as it takes; `buttons` under the last."""
    cut = pages(said)
    for page in cut:
        await pressed.message.reply(
            page.text,
            entities=list(page.entities),
            reply_markup=buttons if page is cut[-1] else None,
            allow_sending_without_reply=True,
        )
    await _done(pressed)


async def _done(pressed: _Pressed, said: str = "") -> None:
    await _relabel(pressed.message, without(pressed.message.reply_markup, pressed.press.deed))
    await pressed.query.answer(said[:200] or None)


async def _relabel(message: Message, shown: InlineKeyboardMarkup) -> None:
    with suppress(TelegramBadRequest):  # "message is not modified", or it is gone meanwhile
        await message.edit_reply_markup(reply_markup=shown)


_VOTING = {Deed.GOOD, Deed.BAD, *REASONS}
_SENDING: dict[Deed, Callable[[_Pressed], Awaitable[None]]] = {
    Deed.SOURCES: _sources,
    Deed.WHY: _why,
    Deed.SHORTER: _shorter,
    Deed.DEEPER: _deeper,
    Deed.LINK: _link,
}


def routes() -> Router:
    """The handler of all buttons under answers."""
    router, presses = Router(name="presses"), Presses()
    router.callback_query.register(presses.on_press, Press.filter())
    return router
