"""A group and the channels bound to it: /bind and /unbind by the bot's admins, and the move to a supergroup."""

from __future__ import annotations

import re

from aiogram import F, Router
from aiogram.filters import Command, CommandObject
from aiogram.types import Message
from aiogram.utils.formatting import Bold, Code, Text, as_list

from bot.access import is_admin
from bot.desk import Desk
from bot.inert import styled
from bot.titles import one_line, title_of
from bot.welcome import titles
from bot.words import Words
from rag_core.doors.archive import channels
from rag_core.doors.archive.group_rules import move
from rag_core.doors.archive.modes import mode_of, set_mode
from rag_core.memory import moved
from rag_core.types import Channel

__all__ = ["routes"]

_GROUP = F.chat.type.in_({"group", "supergroup"})
_LINK = re.compile(r"^(https?://)?t\.me/(?P<name>\w+)/?$|^@(?P<at>\w+)$")


def find(said: str, known: dict[int, Channel]) -> Channel | None:
    """The channel that somebody means: @username, t.me link, numeric id, or its exact title."""
    match = _LINK.match(said)
    if match:
        name = (match["name"] or match["at"]).casefold()
        return next((c for c in known.values() if (c.username or "").casefold() == name), None)
    if re.fullmatch(r"-?\d{1,20}", said):
        return known.get(int(said)) or known.get(int(f"-100{said.lstrip('-')}"))
    named = [c for c in known.values() if c.title.casefold() == said.casefold()]
    return named[0] if len(named) == 1 else None


async def _on_bind(message: Message, command: CommandObject, desk: Desk, words: Words) -> None:
    if not is_admin(message, desk.admins):
        await message.reply(words("admins-only", start="/start"), allow_sending_without_reply=True)
        return
    said = await _bound(message, command, desk, words)
    await message.reply(**said.as_kwargs(), allow_sending_without_reply=True)


async def _bound(message: Message, command: CommandObject, desk: Desk, words: Words) -> Text:
    asked, group = (command.args or "").strip(), message.chat.id
    known = await channels.known(desk.archive)
    if not asked:
        return await _listed(group, known, desk, words)
    channel = find(asked, known)
    if channel is None:
        return words.rich("bind-unknown", name=one_line(asked), channels="/channels")
    title = styled(Bold, title_of(channel, words))
    if command.command.lower() == "unbind":
        await channels.unbind(desk.archive, group, channel.chat_id)
        return words.rich("bind-undone", title=title)
    if channel.state == "pending":
        return words.rich("bind-pending", title=title, channels="/channels")
    await channels.bind(desk.archive, group, channel.chat_id)
    return words.rich("bind-done", title=title)


async def _listed(group: int, known: dict[int, Channel], desk: Desk, words: Words) -> Text:
    ids = await channels.bound(desk.archive, group)
    listed = [channel for key, channel in known.items() if key in ids]
    how = words.rich("bind-how", example=Code("/bind @channel"))
    if not listed:
        return as_list(words("bind-none"), how)
    return as_list(words("bind-list", count=len(listed)), titles(listed, words), "", how)


async def _on_private(message: Message, desk: Desk, words: Words) -> None:
    admin = is_admin(message, desk.admins)
    await message.answer(words("bind-in-group") if admin else words("admins-only", start="/start"))


async def _on_migration(message: Message, desk: Desk) -> None:
    """A group that becomes a supergroup gets a new id; what is bound to it and chosen there moves along."""
    old, new = message.chat.id, message.migrate_to_chat_id
    assert new is not None
    await move(desk.archive, old, new)
    await set_mode(desk.archive, new, await mode_of(desk.archive, old))
    await moved(old, new, desk.rag)


def routes() -> Router:
    """Handlers of /bind, /unbind and the move."""
    router = Router(name="groups")
    router.message.register(_on_migration, F.migrate_to_chat_id)
    router.message.register(_on_bind, Command("bind", "unbind", ignore_case=True), _GROUP)
    router.message.register(_on_private, Command("bind", "unbind", ignore_case=True), F.chat.type == "private")
    return router
