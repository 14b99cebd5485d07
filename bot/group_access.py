"""Group access filter: where a group wants only its admins to ask, questions by anybody else are refused."""

from __future__ import annotations

import re

from aiogram import Bot, F, Router
from aiogram.types import Message

from bot.access import get_reader_id
from bot.context import AppContext
from bot.handlers.questions import extract_addressed_question
from bot.i18n import Translator
from rag_core.storage.channels import load_group_rules

__all__ = ["is_group_admin", "routes"]

_GROUP = F.chat.type.in_({"group", "supergroup"})
# Commands that search posts; the others concern the bot or check permissions themselves.
_QUESTION_COMMAND_PATTERN = re.compile(r"/(ask|search|verify|why|sources)(@\w+)?\b", re.IGNORECASE)


async def is_group_admin(user_id: int, group_id: int, desk: AppContext) -> bool:
    """Check whether a user may change the group's settings: its owner, an administrator, or an admin of the bot."""
    return user_id in desk.admins or await desk.admins.members.leads(user_id, group_id)


async def is_blocked_question(message: Message, bot: Bot, desk: AppContext) -> bool:
    """Filter: a question by a non-admin, or by an anonymous sender, in a group where only admins may ask."""
    if not (await load_group_rules(desk.archive, message.chat.id)).admins_ask:
        return False
    text = message.text or message.caption or ""
    name = (await bot.me()).username or ""
    command = _QUESTION_COMMAND_PATTERN.match(text)
    addressed = command and (command[2] or f"@{name}").casefold() == f"@{name}".casefold()
    if not addressed and not await extract_addressed_question(message, bot):
        return False
    return not await is_group_admin(get_reader_id(message), message.chat.id, desk)


async def _on_blocked_question(message: Message, words: Translator) -> None:
    await message.reply(words("group-admins-ask"), allow_sending_without_reply=True)


def routes() -> Router:
    """Router that stands before all handlers that answer in groups."""
    router = Router(name="gate")
    router.message.register(_on_blocked_question, _GROUP, is_blocked_question)
    return router
