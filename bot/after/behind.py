"""Which answer a button belongs to, and whether this presser may use it; else they are told why not."""

from __future__ import annotations

from contextlib import AbstractContextManager

from aiogram.types import CallbackQuery, Message

from bot import access, kept
from bot.desk import Desk
from bot.keyboard import Deed, Press
from bot.plain import Shown
from bot.recheck import Reader, rechecked, take_basis
from bot.words import Words, words_for
from rag_core.doors.archive.given import Given, given
from rag_core.types import Viewer

__all__ = ["behind", "shown_to", "viewer_here"]

# They send something for the one who asked, or ask again in their name.
_OWN = {Deed.WHY, Deed.SHORTER, Deed.DEEPER, Deed.LINK}


async def behind(pressed: CallbackQuery, press: Press, desk: Desk, words: Words) -> tuple[Given, Message] | None:
    """The answer and the message that the button is at; None where the presser was told why there is none."""
    presser, message, asked = pressed.from_user.id, pressed.message, await given(desk.archive, press.handle)
    # A message that was deleted, or is too old for Telegram to show; a made-up button, or one of another chat.
    if asked is None or not isinstance(message, Message) or asked.chat_id != message.chat.id:
        said = "answer-gone"
    elif not asked.private and not await access.inside(desk.admins, user_id=presser, chat_id=asked.chat_id):
        said = "answer-not-member"
    elif press.deed in _OWN and presser != asked.user_id:
        said = "answer-not-yours"
    else:
        return asked, message
    await pressed.answer(words(said)[:200], show_alert=True)
    return None


async def viewer_here(asked: Given, user_id: int, desk: Desk) -> tuple[Viewer, AbstractContextManager[None]]:
    """What somebody may read now where the question was asked, and the context to send what is made of it in.

    To be worked out before the view is made: what changes after this is not sent.
    """
    here = Reader(user_id, asked.chat_id, asked.private)
    viewer = await access.viewer_for(
        desk.archive, desk.admins, user_id=user_id, chat_id=asked.chat_id, private=asked.private
    )
    basis = await take_basis(kept.read(asked.answer).posts, viewer, desk.archive)
    return viewer, rechecked(basis, here, desk.archive, desk.admins)


def shown_to(asked: Given, desk: Desk) -> Shown:
    """How things are said about this answer: in its language."""
    return Shown(words_for(asked.lang), desk.settings.bot.zone, group=not asked.private)
