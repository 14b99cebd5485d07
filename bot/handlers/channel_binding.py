"""Handlers of /bind and /unbind: bot admins choose the channels that a group asks.

Bindings and settings follow a group that becomes a supergroup.
"""

from __future__ import annotations

from aiogram import F, Router
from aiogram.filters import CommandObject
from aiogram.types import Message
from aiogram.utils.formatting import Bold, Code, Text, as_list

from bot.app_context import AppContext
from bot.filters import ADMINS_ONLY, GROUPS, PRIVATE, ChatCommand
from bot.handlers.start import list_channel_titles
from bot.i18n import Translator
from bot.views.answer import format_channel_title, format_one_line
from bot.views.message_formatting import style_text
from rag_core.conversation.memory import migrate_memory_setting
from rag_core.storage import channels
from rag_core.storage.channels import move_group
from rag_core.storage.user_data import load_answer_mode, load_chat_zone, save_answer_mode, save_chat_zone


async def _on_bind(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    text = await _bind_or_unbind(message.chat.id, command, context, words)
    await message.reply(**text.as_kwargs())


async def _bind_or_unbind(group: int, command: CommandObject, context: AppContext, words: Translator) -> Text:
    asked = (command.args or "").strip()
    known = await channels.load_channels(context.archive)
    if not asked:
        ids = await channels.list_bound_channels(context.archive, group)
        listed = [channel for key, channel in known.items() if key in ids]
        how = words.rich("bind-how", example=Code("/bind @channel"))
        if not listed:
            return as_list(words("bind-none"), how)
        return as_list(words("bind-list", count=len(listed)), list_channel_titles(listed, words), "", how)
    channel = channels.find_channel(asked, known)
    if channel is None:
        return words.rich("bind-unknown", name=format_one_line(asked), channels="/channels")
    title = style_text(Bold, format_channel_title(channel, words))
    if command.command.lower() == "unbind":
        await channels.unbind_channel(context.archive, group, channel.chat_id)
        return words.rich("bind-undone", title=title)
    if channel.state == "pending":
        return words.rich("bind-pending", title=title, channels="/channels")
    await channels.bind_channel(context.archive, group, channel.chat_id)
    return words.rich("bind-done", title=title)


async def _on_bind_in_private(message: Message, words: Translator) -> None:
    await message.answer(words("bind-in-group"))


async def _on_supergroup_migration(message: Message, context: AppContext) -> None:
    """Migrate the bindings and settings of a group that becomes a supergroup, as its id changes."""
    old, new = message.chat.id, message.migrate_to_chat_id
    assert new is not None
    await move_group(context.archive, old, new)
    await save_chat_zone(context.archive, new, await load_chat_zone(context.archive, old))
    await save_answer_mode(context.archive, new, await load_answer_mode(context.archive, old))
    await migrate_memory_setting(old, new, context.rag)


def routes() -> Router:
    """Router of /bind and /unbind, and of a group that becomes a supergroup."""
    router = Router(name="channel binding")
    router.message.register(_on_supergroup_migration, F.migrate_to_chat_id)
    router.message.register(_on_bind, ChatCommand("bind", "unbind", chats=GROUPS), flags=ADMINS_ONLY)
    router.message.register(_on_bind_in_private, ChatCommand("bind", "unbind", chats=PRIVATE), flags=ADMINS_ONLY)
    return router
