"""Who has a say in a group: its own admins, and where they want that, nobody else may ask there."""

from __future__ import annotations

import re

from aiogram import Bot, F, Router
from aiogram.types import Message

from bot.access import reader_of
from bot.desk import Desk
from bot.questions import addressed
from bot.words import Words
from rag_core.doors.archive.group_rules import rules_of

__all__ = ["leads", "routes"]

_GROUP = F.chat.type.in_({"group", "supergroup"})
# Commands that ask for posts; the others are about the bot, or check for themselves who may.
_ASKING = re.compile(r"/(ask|search|verify|why|sources)(@\w+)?\b", re.IGNORECASE)


async def leads(user_id: int, group_id: int, desk: Desk) -> bool:
    """Whether this person may say how the bot behaves in a group: its owner, an administrator, an admin of the bot."""
    return user_id in desk.admins or await desk.admins.members.leads(user_id, group_id)


async def unwanted(message: Message, bot: Bot, desk: Desk) -> bool:
    """A filter: a question in a group where only admins ask, by somebody who is none under their own name."""
    if not (await rules_of(desk.archive, message.chat.id)).admins_ask:
        return False
    said = message.text or message.caption or ""
    name = (await bot.me()).username or ""
    command = _ASKING.match(said)
    meant = command and (command[2] or f"@{name}").casefold() == f"@{name}".casefold()
    if not meant and not await addressed(message, bot):
        return False
    return not await leads(reader_of(message), message.chat.id, desk)


async def _on_unwanted(message: Message, words: Words) -> None:
    await message.reply(words("group-admins-ask"), allow_sending_without_reply=True)


def routes() -> Router:
    """The handler that stands before all that answer in groups."""
    router = Router(name="gate")
    router.message.register(_on_unwanted, _GROUP, unwanted)
    return router
