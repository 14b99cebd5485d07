"""Handler of /sets: named sets of channels of a chat, in private chats and, for a group's admins, in groups."""

from __future__ import annotations

import re
from collections.abc import Mapping

from aiogram import Router
from aiogram.filters import CommandObject
from aiogram.types import Message
from aiogram.utils.formatting import Code, Text, as_list

from bot import access
from bot.access import MAX_SET_NAME_LENGTH
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.middlewares import ChatCommand
from bot.telegram.recheck import ShownContent, recheck_before_sending
from bot.views.answer import format_channel_title
from bot.views.message_formatting import neutralize_links
from rag_core.storage.chat_and_admin_settings import load_channel_sets, save_channel_sets
from rag_core.text.tokens import tokenize
from rag_core.types import Channel

router = Router()

_MAX_SETS = 20  # per chat
_REMOVED = re.compile(r"[-−–]\s*(.+)")


@router.message(ChatCommand("sets", addressed_only=True))
async def _on_sets(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    """List the sets, save one ("work = @first, Second channel"), or after a minus remove one."""
    reader = access.get_reader(message)
    given = " ".join((command.args or "").split())
    await access.check_may_change_settings(context.admins, message.chat, reader.user_id, words("group-admins-only"))
    readable = await access.get_readable_channels(context.admins, reader)
    sets = await load_channel_sets(context.archive, message.chat.id)
    before = dict(sets)
    how = words.rich("sets-how", example=Code(f"/sets {words('sets-example')}"), asked=Code(words("sets-asked")))
    if not given:
        lines = []
        for name, chosen in sorted(sets.items()):
            titles = ", ".join(format_channel_title(readable[one], words) for one in sorted(chosen) if one in readable)
            lines.append(Text("• ", neutralize_links(f"{name}: {titles or words('sets-closed')}")))
        text = as_list(words("sets-title", count=len(lines)), *lines, "", how)
    elif removed := _REMOVED.fullmatch(given):
        known = sets.pop(removed[1].casefold(), None) is not None
        text = words.rich("sets-removed" if known else "sets-unknown", name=neutralize_links(removed[1]))
    else:
        text = _add_set(given, sets, readable, words) or how
    if sets != before:
        await save_channel_sets(context.archive, message.chat.id, sets)
    content = ShownContent(counted=frozenset(readable))
    with recheck_before_sending(content, reader, context.admins):
        await message.reply(**text.as_kwargs())


def _add_set(
    given: str, sets: dict[str, frozenset[int]], readable: Mapping[int, Channel], words: Translator
) -> Text | None:
    """Add a set ("work = @first, Second channel") and say so, or why not; None where it is written in another way."""
    name, _, listed = (part.strip() for part in given.partition("="))
    if not listed or not tokenize(name) or len(name) > MAX_SET_NAME_LENGTH or ":" in name:
        return None
    if name.casefold() not in sets and len(sets) >= _MAX_SETS:
        return Text(words("sets-full", count=_MAX_SETS))
    chosen = set[int]()
    for one in filter(None, (part.strip() for part in listed.split(","))):
        found = [chat for chat, channel in readable.items() if one.casefold() in _name_channel(channel)]
        if not found:
            return words.rich("sets-no-channel", name=neutralize_links(one))
        chosen.update(found)
    sets[name.casefold()] = frozenset(chosen)
    titles = ", ".join(format_channel_title(readable[one], words) for one in sorted(chosen))
    asked = Code(words("sets-asked-in", name=name))
    return words.rich("sets-saved", name=neutralize_links(name), titles=neutralize_links(titles), asked=asked)


def _name_channel(channel: Channel) -> frozenset[str]:
    username = (channel.username or "").casefold()
    return frozenset(filter(None, (channel.title.casefold(), username and f"@{username}")))
