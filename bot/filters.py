"""Filters: which messages a handler takes, by kind of chat, command, mention of the bot, and rules of a group."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from aiogram import Bot, F
from aiogram.filters import Command
from aiogram.types import Message

from bot.access import get_reader_id, is_group_admin
from bot.app_context import AppContext
from rag_core.storage.group_rules_and_bindings import load_group_rules

PRIVATE, GROUPS = frozenset({"private"}), frozenset({"group", "supergroup"})
IN_PRIVATE, IN_GROUP = F.chat.type == "private", F.chat.type.in_(GROUPS)
# Flags of handlers that run for admins of the bot only (`AdminsOnlyMiddleware`).
ADMINS_ONLY: dict[str, Any] = {"admins_only": True}
# Commands that tell what posts say; the others concern the bot or check permissions themselves.
_QUESTION_COMMAND_PATTERN = re.compile(r"/(ask|search|verify|why|sources|about|digest)(@\w+)?\b", re.IGNORECASE)


class ChatCommand(Command):
    """Command filter: these commands, in either case, in private chats and groups or only in some `chats`.

    Handlers get `addressed`: the chat is private, or the command names the bot (/help@bot). A bare command in a group
    may be meant for another bot; with `addressed_only` it is left alone.
    """

    def __init__(self, *names: str, chats: Collection[str] = PRIVATE | GROUPS, addressed_only: bool = False) -> None:
        super().__init__(*names, ignore_case=True)
        self._chats = chats
        self._addressed_only = addressed_only

    async def __call__(self, message: Message, bot: Bot) -> bool | dict[str, Any]:
        """Return `command` and `addressed` for the handler; False where the message is not for it."""
        found = message.chat.type in self._chats and await super().__call__(message, bot)
        if not isinstance(found, dict):
            return False
        addressed = message.chat.type in PRIVATE or bool(found["command"].mention)
        return {**found, "addressed": addressed} if addressed or not self._addressed_only else False


async def extract_addressed_question(message: Message, bot: Bot) -> dict[str, str] | bool:
    """Filter for groups: the question in a mention of the bot or a reply to it; False without either."""
    text = message.text or message.caption or ""
    from_bot = bool(message.from_user and message.from_user.is_bot and not message.sender_chat)
    if from_bot or message.is_automatic_forward or not text or text.startswith("/"):
        return False
    name = (await bot.me()).username or ""
    mention = re.compile(rf"@{re.escape(name)}(?!\w)", re.IGNORECASE)
    parent = get_replied_message(message)
    replies = parent and parent.from_user and parent.from_user.id == bot.id
    if not (replies or _mentions_bot(message, bot.id, mention)):
        return False
    return {"question": mention.sub(" ", text).strip(" \t\n,:;—–-")}


def get_replied_message(message: Message) -> Message | None:
    """Message that this one replies to; in a topic every message "replies" to its opening, which counts as none."""
    parent = message.reply_to_message
    return None if parent is None or parent.forum_topic_created else parent


def get_thread(message: Message) -> int | None:
    """Topic of a forum that a message is in."""
    return message.message_thread_id if message.is_topic_message else None


def _mentions_bot(message: Message, bot_id: int, mention: re.Pattern[str]) -> bool:
    text = message.text or message.caption or ""
    for entity in message.entities or message.caption_entities or ():
        if entity.type == "text_mention" and entity.user and entity.user.id == bot_id:
            return True
        # Detected by Telegram, so that an e-mail address or a link with the name does not count.
        if entity.type == "mention" and mention.fullmatch(entity.extract_from(text)):
            return True
    return False


async def is_blocked_question(message: Message, bot: Bot, context: AppContext) -> bool:
    """Filter: a question by a non-admin, or by an anonymous sender, in a group where only admins may ask."""
    if not (await load_group_rules(context.archive, message.chat.id)).admins_ask:
        return False
    text = message.text or message.caption or ""
    name = (await bot.me()).username or ""
    command = _QUESTION_COMMAND_PATTERN.match(text)
    addressed = command and (command[2] or f"@{name}").casefold() == f"@{name}".casefold()
    if not addressed and not await extract_addressed_question(message, bot):
        return False
    return not await is_group_admin(context.admins, get_reader_id(message), message.chat.id)
