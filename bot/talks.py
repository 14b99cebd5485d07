"""/new: a talk begins afresh, so that no earlier question is looked back at. /new off and /new on for a whole chat."""

from __future__ import annotations

from aiogram import F, Router
from aiogram.filters import Command, CommandObject
from aiogram.types import Message

from bot.access import reader_of
from bot.desk import Desk
from bot.mode import may_choose
from bot.words import Words
from rag_core.doors.archive.talks import Talk
from rag_core.memory import afresh, on, switched

__all__ = ["routes"]

_SWITCHES = {"on": True, "off": False}


async def _on_new(message: Message, command: CommandObject, desk: Desk, words: Words) -> None:
    if message.chat.type != "private" and not command.mention:
        return  # a command in a group may be meant for another bot
    wanted = (command.args or "").strip().casefold()
    if wanted and wanted not in _SWITCHES:
        await message.reply(words("talk-unknown", new="/new"))
        return
    if wanted and not await may_choose(message.chat, reader_of(message), desk):
        await message.reply(words("talk-not-yours"))
        return
    if wanted:
        await switched(message.chat.id, desk.rag, to=_SWITCHES[wanted])
    thread = message.message_thread_id if message.is_topic_message else None
    await afresh(Talk(message.chat.id, reader_of(message), thread or 0), desk.rag)
    remembers = await on(message.chat.id, desk.rag)
    await message.reply(words("talk-new" if remembers else "talk-off"), allow_sending_without_reply=True)


def routes() -> Router:
    """The handler of /new."""
    router = Router(name="talks")
    router.message.register(
        _on_new, Command("new", ignore_case=True), F.chat.type.in_({"private", "group", "supergroup"})
    )
    return router
