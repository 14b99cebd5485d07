"""Channels: posts wake the indexer, a new channel waits for an admin, /channels says what becomes of each.

Handlers never commit posts: those were kept with their raw batch (session.py).
"""

from __future__ import annotations

from aiogram import F, Router
from aiogram.filters import Command
from aiogram.types import Message

from bot.channels.buttons import Act, Press
from bot.channels.deeds import on_card, on_switch
from bot.channels.list import on_channels, on_list
from bot.channels.membership import Membership, on_others, on_title
from bot.channels.notices import Notices
from bot.channels.removal import on_ask_remove, on_leave, on_remove
from bot.desk import Desk

__all__ = ["routes"]

_SWITCHES = {Act.PUBLIC, Act.MEMBERS, Act.ADMINS, Act.PAUSE, Act.RESUME, Act.GUARDED_IN, Act.GUARDED_OUT}
_SWITCHES |= {Act.BINDABLE, Act.UNBINDABLE}
_GROUP = F.chat.type.in_({"group", "supergroup"})


async def _on_post(_: Message, desk: Desk) -> None:
    desk.indexing.wake()


def routes(notices: Notices) -> Router:
    """Handlers of posts, of the bot's own membership, of /channels and its buttons."""
    router = Router(name="channels")
    router.channel_post.register(_on_post)
    router.edited_channel_post.register(_on_post)
    router.my_chat_member.register(Membership(notices).on_change, F.chat.type == "channel")
    router.chat_member.register(on_others)
    router.message.register(on_title, F.new_chat_title, _GROUP)
    router.message.register(on_channels, Command("channels", ignore_case=True), F.chat.type == "private")
    pressed = router.callback_query
    pressed.register(on_list, Press.filter(F.act == Act.LIST))
    pressed.register(on_card, Press.filter(F.act == Act.CARD))
    pressed.register(on_switch, Press.filter(F.act.in_(_SWITCHES)))
    pressed.register(on_ask_remove, Press.filter(F.act == Act.ASK_REMOVE))
    pressed.register(on_remove, Press.filter(F.act == Act.REMOVE))
    pressed.register(on_leave, Press.filter(F.act == Act.LEAVE))
    return router
