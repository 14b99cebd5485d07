"""Handlers of /new: start a new conversation; /new off and /new on switch the memory of a whole chat."""

from __future__ import annotations

from aiogram import Router
from aiogram.filters import CommandObject
from aiogram.types import Message

from bot.access import get_reader_id, may_change_chat_settings
from bot.context import AppContext
from bot.filters import ChatCommand
from bot.i18n import Translator
from rag_core.conversation import is_memory_enabled, set_memory_enabled, start_new_conversation
from rag_core.storage.conversations import ConversationKey

__all__ = ["routes"]

_MEMORY_SWITCHES = {"on": True, "off": False}


async def _on_new(message: Message, command: CommandObject, desk: AppContext, words: Translator) -> None:
    wanted = (command.args or "").strip().casefold()
    if wanted and wanted not in _MEMORY_SWITCHES:
        await message.reply(words("talk-unknown", new="/new"))
        return
    if wanted and not await may_change_chat_settings(desk.admins, message.chat, get_reader_id(message)):
        await message.reply(words("talk-not-yours"))
        return
    if wanted:
        await set_memory_enabled(message.chat.id, desk.rag, to=_MEMORY_SWITCHES[wanted])
    thread = message.message_thread_id if message.is_topic_message else None
    await start_new_conversation(ConversationKey(message.chat.id, get_reader_id(message), thread or 0), desk.rag)
    remembers = await is_memory_enabled(message.chat.id, desk.rag)
    await message.reply(words("talk-new" if remembers else "talk-off"), allow_sending_without_reply=True)


def routes() -> Router:
    """Router of /new."""
    router = Router(name="talks")
    router.message.register(_on_new, ChatCommand("new", addressed_only=True))
    return router
