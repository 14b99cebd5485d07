"""Links that ask a question: t.me/bot?start=… with the question itself in it, or with the word it is kept under.

A text is kept only when its own asker makes a link to it: nobody finds another's question by guessing.
Source: https://core.telegram.org/bots/features#deep-linking (64 signs out of A-Z, a-z, 0-9, _ and -).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from secrets import token_urlsafe

from aiogram import Bot, F, Router
from aiogram.dispatcher.event.bases import SkipHandler
from aiogram.filters import Command, CommandObject, CommandStart
from aiogram.types import Message, Update
from aiogram.utils.formatting import Text, as_list

from bot.desk import Desk
from bot.inert import inert
from bot.plain import plain
from bot.questions import LONGEST, asked_for
from bot.render import link
from bot.why import meant
from bot.words import Words
from rag_core.doors.archive import Archive, linked

__all__ = ["link_said", "payload_of", "routes", "text_in"]

_MOST = 64
# The first sign of a payload: the question stands in it, or it is kept under the rest.
_WHOLE, _KEPT = "q", "s"
_PAYLOAD = re.compile(rf"[{_WHOLE}{_KEPT}][A-Za-z0-9_-]{{1,{_MOST - 1}}}")


def payload_of(text: str) -> str | None:
    """The payload that holds a question; None for one that is too long for it."""
    payload = _WHOLE + urlsafe_b64encode(text.encode()).decode().rstrip("=")
    return payload if len(payload) <= _MOST else None


async def text_in(payload: str, archive: Archive) -> str | None:
    """The question that a payload stands for; None for one that stands for none."""
    if not _PAYLOAD.fullmatch(payload):
        return None
    if payload[0] == _KEPT:
        return await linked.linked_text(archive, payload[1:])
    try:
        text = urlsafe_b64decode(payload[1:] + "=" * (-len(payload[1:]) % 4)).decode()
    except ValueError:  # no base64, or no UTF-8
        return None
    return text if text and text == plain(text) and payload_of(text) == payload else None


async def link_said(text: str, user_id: int, bot: Bot, archive: Archive, words: Words) -> Text:
    """What to tell whoever wants a link to their question: the link, and who can read what."""
    payload = payload_of(text)
    if payload is None:
        payload = _KEPT + await linked.link_to(archive, user_id, text, token_urlsafe(16))
    url = f"https://t.me/{(await bot.me()).username}?start={payload}"
    said = "link-kept" if payload[0] == _KEPT else "link-whole"
    return as_list(words(said), link(url, url), sep="\n\n")


async def _on_start(message: Message, command: CommandObject, event_update: Update, desk: Desk, words: Words) -> None:
    text = await text_in(command.args or "", desk.archive)
    if text is None or len(text) > LONGEST:
        raise SkipHandler  # the plain greeting
    await message.answer(**words.rich("link-asks", question=inert(text)).as_kwargs())
    await asked_for(message, text, event_update.update_id, desk, words)


async def _on_link(message: Message, command: CommandObject, bot: Bot, desk: Desk, words: Words) -> None:
    asked = await meant(message, bot, desk.archive)
    if isinstance(asked, str):
        if message.chat.type == "private" or command.mention:
            await message.reply(words(asked, why="/link"), allow_sending_without_reply=True)
        return
    said = await link_said(asked.text, asked.user_id, bot, desk.archive, words)
    await message.reply(**said.as_kwargs(), allow_sending_without_reply=True)


def routes() -> Router:
    """Handlers of /link and of /start with a payload."""
    router = Router(name="deep_links")
    router.message.register(_on_start, CommandStart(deep_link=True, ignore_case=True), F.chat.type == "private")
    router.message.register(
        _on_link, Command("link", ignore_case=True), F.chat.type.in_({"private", "group", "supergroup"})
    )
    return router
