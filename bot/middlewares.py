"""Middlewares and filters: each update once, the reader's language, rate limits, commands for admins only.

An update is claimed after it has been handled, so that one that a crash interrupts is handled again. Channel posts
are not claimed: they are settled by the transaction that saves them.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any

from aiogram import BaseMiddleware, Bot, F
from aiogram.dispatcher.flags import get_flag
from aiogram.filters import Command
from aiogram.types import CallbackQuery, Chat, Message, TelegramObject, Update, User
from aiogram.types.update import UpdateTypeLookupError

from bot.access import Refusal, get_reader_id, is_admin, is_group_admin
from bot.app_context import AppContext
from bot.background import spawn
from bot.i18n import choose_interface_language, get_translator
from bot.telegram.ephemeral import get_asker_address, send_to_asker
from bot.views.format import BOT_COMMANDS
from rag_core.conversation.small_talk import detect_talk
from rag_core.errors import ArchiveUnavailable
from rag_core.storage import Archive, raw_updates
from rag_core.storage.readers import load_group_rules

MAX_QUESTION_LENGTH = 1000  # long enough for a paragraph of context, short enough for a small model
PRIVATE, GROUPS = frozenset({"private"}), frozenset({"group", "supergroup"})
IN_PRIVATE, IN_GROUP = F.chat.type == "private", F.chat.type.in_(GROUPS)
# Flags of handlers that run for admins of the bot only (`admit_admins`).
ADMINS_ONLY: dict[str, Any] = {"admins_only": True}
# Flag of handlers whose replies in a group concern the asker alone (`keep_to_asker`).
TO_ASKER: dict[str, Any] = {"to_asker": True}
# Commands that tell what posts say; the others concern the bot or check permissions themselves.
_QUESTION_COMMAND_PATTERN = re.compile(r"/(ask|search|verify|why|sources|about|digest)(@\w+)?\b", re.IGNORECASE)


class ChatCommand(Command):
    """Command filter: these commands, in either case, in private chats and groups or only in some `chats`.

    A forwarded command is somebody else's: it is not done in the name of who forwards it.
    Handlers get what is `given` after the command, and `addressed`: the chat is private, or the command names the bot
    (/help@bot). A bare command in a group may be meant for another bot; with `addressed_only` it is left alone.
    """

    def __init__(self, *names: str, chats: Collection[str] = PRIVATE | GROUPS, addressed_only: bool = False) -> None:
        super().__init__(*names, ignore_case=True)
        self._chats = chats
        self._addressed_only = addressed_only

    async def __call__(self, message: Message, bot: Bot) -> bool | dict[str, Any]:
        """Return `command`, `given` and `addressed` for the handler; False where the message is not for it."""
        possible = message.chat.type in self._chats and message.forward_origin is None
        found = possible and await super().__call__(message, bot)
        if not isinstance(found, dict):
            return False
        alone = message.ephemeral_message_id is not None  # only the bot sees it
        addressed = message.chat.type in PRIVATE or alone or bool(found["command"].mention)
        if self._addressed_only and not addressed:
            return False
        return {**found, "given": (found["command"].args or "").strip(), "addressed": addressed}


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
    entities = message.entities or message.caption_entities or ()
    # "mention" is detected by Telegram, so that an e-mail address or a link with the name does not count
    mentions = any(
        (entity.type == "text_mention" and entity.user and entity.user.id == bot.id)
        or (entity.type == "mention" and mention.fullmatch(entity.extract_from(text)))
        for entity in entities
    )
    if not (replies or mentions or message.ephemeral_message_id is not None):
        return False
    return {"question": mention.sub(" ", text).strip(" \t\n,:;—–-")}


def get_replied_message(message: Message) -> Message | None:
    """Message that this one replies to; in a topic every message "replies" to its opening, which counts as none."""
    parent = message.reply_to_message
    return None if parent is None or parent.forum_topic_created else parent


def get_thread(message: Message) -> int | None:
    """Topic of a forum that a message is in."""
    return message.message_thread_id if message.is_topic_message else None


async def is_blocked_question(message: Message, bot: Bot, context: AppContext) -> bool:
    """Filter: a question by a non-admin, or by an anonymous sender, in a group where only admins may ask."""
    if not (await load_group_rules(context.archive, message.chat.id)).admins_ask:
        return False
    text = message.text or message.caption or ""
    name = (await bot.me()).username or ""
    command = _QUESTION_COMMAND_PATTERN.match(text)
    alone = message.ephemeral_message_id is not None
    addressed = command and (alone or (command[2] or f"@{name}").casefold() == f"@{name}".casefold())
    if not addressed and not await extract_addressed_question(message, bot):
        return False
    return not await is_group_admin(context.admins, get_reader_id(message), message.chat.id)


# A command with words after it is a question: queued, and counted there. Without them it is answered at once.
_COMMAND_PATTERN = re.compile(r"/(\w*)(?:@(\w+))?(\s+\S)?")
_QUEUED_COMMANDS = {"ask", "verify"}
# Settled with their post, or not stored.
_UNCLAIMED_UPDATES = {"channel_post", "edited_channel_post", "inline_query", "guest_message"}
_CLAIM_RETRY_SECONDS = 1.0  # after a failed write to the archive

_Handler = Callable[[TelegramObject, dict[str, Any]], Awaitable[Any]]

log = logging.getLogger(__name__)


class DeduplicationMiddleware(BaseMiddleware):
    """Deduplication middleware: each update passes once, also when Telegram repeats it after a restart."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._running: dict[int, asyncio.Future[None]] = {}
        self._late_claims: set[asyncio.Task[None]] = set()

    async def __call__(self, handler: _Handler, event: TelegramObject, data: dict[str, Any]) -> Any:
        """Call the handler, unless the update is a duplicate or the placeholder of a quarantined one."""
        assert isinstance(event, Update)
        bot_id, update_id = data["bot"].id, event.update_id
        try:
            if event.event_type in _UNCLAIMED_UPDATES:
                return await handler(event, data)
        except UpdateTypeLookupError:
            return None
        if update_id in self._running:
            return None
        finished = self._running[update_id] = asyncio.get_running_loop().create_future()
        try:
            if not await raw_updates.is_update_claimed(self._archive, bot_id, update_id):
                try:
                    return await handler(event, data)
                finally:
                    task = asyncio.current_task()
                    if task is None or not task.cancelling():
                        await self._claim(bot_id, update_id)
        finally:
            del self._running[update_id]
            finished.set_result(None)
        return None

    async def _claim(self, bot_id: int, update_id: int) -> None:
        """Claim the update, retrying while the archive is unavailable: the next start would handle it again."""

        async def claim_later() -> None:
            while True:
                await asyncio.sleep(_CLAIM_RETRY_SECONDS)
                with suppress(ArchiveUnavailable):
                    await raw_updates.claim_update(self._archive, bot_id, update_id)
                    return

        try:
            await raw_updates.claim_update(self._archive, bot_id, update_id)
        except ArchiveUnavailable as exc:
            log.warning("update %d is claimed later: %s", update_id, exc)
            spawn(self._late_claims, claim_later())

    async def idle(self) -> None:
        """Wait until no update is being handled; what could not be claimed is left to the next start."""
        try:
            while self._running:
                await asyncio.wait(list(self._running.values()))
        finally:
            for task in self._late_claims:
                task.cancel()


async def add_translator(handler: _Handler, event: TelegramObject, data: dict[str, Any]) -> Any:
    """Middleware: give handlers `words`, the sentences in the language of the user or of the group."""
    context: AppContext = data["context"]
    user: User | None = data.get("event_from_user")
    code = user.language_code if user else None
    chat: Chat | None = data.get("event_chat")
    chosen = (await load_group_rules(context.archive, chat.id)).lang if chat and chat.type in GROUPS else ""
    data["words"] = get_translator(chosen or choose_interface_language(code, context.settings.bot.language))
    return await handler(event, data)


async def limit_rate(handler: _Handler, event: TelegramObject, data: dict[str, Any]) -> Any:
    """Middleware: limit commands and presses by reader and chat (questions: worker/rate_limits.py).

    A reader over the limit is told so once a minute and gets no other reply.
    """
    limits = data["context"].worker.limits
    if isinstance(event, CallbackQuery):
        reader = event.from_user.id
        wait = limits.count_command(reader, event.message.chat.id if event.message else reader, press=True)
    else:
        assert isinstance(event, Message)
        reader, counts = get_reader_id(event), await _counts_as_command(event, data["bot"])
        wait = limits.count_command(reader, event.chat.id) if counts else None
    if not wait:
        return await handler(event, data)
    notice = limits.build_notice(wait, reader, data["words"])
    if not isinstance(event, CallbackQuery):
        raise Refusal(notice)
    return await event.answer(notice) if notice else None


async def keep_to_asker(handler: _Handler, event: TelegramObject, data: dict[str, Any]) -> Any:
    """Middleware of ephemeral messages and presses on them, and of handlers with the flag `to_asker` in groups:
    whatever the handler sends to the group only the asker sees.
    """
    assert isinstance(event, Message | CallbackQuery)
    always = bool(get_flag(data, "to_asker"))
    with send_to_asker(get_asker_address(event, data["words"].lang, always=always)):
        return await handler(event, data)


async def admit_admins(handler: _Handler, event: TelegramObject, data: dict[str, Any]) -> Any:
    """Middleware: handlers with the flag `admins_only` run for admins; everybody else is told so.

    An admin writes under their own name; buttons of admins work in private chats only.
    """
    if not get_flag(data, "admins_only"):
        return await handler(event, data)
    admins, refusal = data["admins"], data["words"]("admins-only", admins=len(data["admins"]))
    if isinstance(event, CallbackQuery):
        private = event.message is not None and event.message.chat.type == "private"
        if private and event.from_user.id in admins:
            return await handler(event, data)
        return await event.answer(refusal, show_alert=True)
    assert isinstance(event, Message)
    if is_admin(event, admins):
        return await handler(event, data)
    raise Refusal(refusal)


async def _counts_as_command(message: Message, bot: Bot) -> bool:
    """Check that the bot answers this message at once: a command, or text in a private chat that is no question.

    Questions are counted where they are queued; small talk, and what is too long or too short, is counted here.
    """
    text, private = message.text or message.caption or "", message.chat.type == "private"
    command = _COMMAND_PATTERN.match(text)
    if command is None:
        return private and (not 0 < len(text) <= MAX_QUESTION_LENGTH or detect_talk(text) is not None)
    if not private:
        ours = (await bot.me()).username or ""
        if (command[2] or ours).casefold() != ours.casefold() or not (command[2] or command[1].lower() in BOT_COMMANDS):
            return False  # addressed to another bot
    if command[1].lower() == "ask" and command[3] and detect_talk(text[command.end() - 1 :]):
        return True
    return not (command[1].lower() in _QUEUED_COMMANDS and command[3] and len(text) <= MAX_QUESTION_LENGTH)
