"""What the bot may do in its channels and groups, asked of Telegram chat by chat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from aiogram import Bot
from aiogram.exceptions import AiogramError, TelegramBadRequest, TelegramForbiddenError
from aiogram.types import ChatMemberRestricted, ResultChatMemberUnion

from bot.doctor.findings import Case, Finding
from bot.doctor.line import connected
from bot.plain import plain
from rag_core.doors.archive import channels
from rag_core.types import Channel

__all__ = ["rights"]

_AT_ONCE = 4
_MOST = 500  # chats: Telegram answers some thirty calls a second
_LEADS, _INSIDE = {"administrator", "creator"}, {"administrator", "creator", "member", "restricted"}

_NO_ADMIN = "The bot is no admin of {title}, so it gets no posts: make it an admin there, it needs no right besides."
_NOT_IN = "The bot is not in {title} any more: add it as an admin again, or take the channel out with /channels."
_GROUP_GONE = "The bot is not in the group {title}: add it again; until then nobody can ask there."
_MUTE = "The bot may not write in the group {title}: let it send messages there."
_UNSURE = "Telegram did not say what the bot may do in {title}: look again in a minute."


async def rights(case: Case) -> AsyncIterator[Finding]:
    """A finding for each chat where something must be done, and one for all that are well."""
    token = case.settings.bot.token.get_secret_value()
    if case.archive is None or not token:
        return
    live = [one for one in (await channels.known(case.archive)).values() if one.inside and one.state == "active"]
    groups = await channels.binding(case.archive)
    async with connected(case.settings.bot) as bot:
        try:
            await bot.me()
        except (AiogramError, TimeoutError):
            return  # the check of Telegram says so
        turns = asyncio.Semaphore(_AT_ONCE)
        asked = [_channel(bot, one, turns) for one in live[:_MOST]] + [
            _group(bot, one, turns) for one in groups[:_MOST]
        ]
        said = [finding for finding in await asyncio.gather(*asked) if finding]
    for finding in said:
        yield finding
    if asked and not said:
        yield Finding(True, f"the bot reads {len(live)} channels and may answer in {len(groups)} bound groups")


async def _channel(bot: Bot, channel: Channel, turns: asyncio.Semaphore) -> Finding | None:
    title = plain(channel.title)
    try:
        async with turns:
            me = await bot.get_chat_member(channel.chat_id, bot.id)
    except (TelegramForbiddenError, TelegramBadRequest):
        return Finding(False, _NOT_IN.format(title=title))
    except (AiogramError, TimeoutError):
        return Finding(None, _UNSURE.format(title=title))
    if me.status in _LEADS or (channel.kind != "channel" and me.status in _INSIDE):
        return None
    return Finding(False, (_NO_ADMIN if me.status in _INSIDE else _NOT_IN).format(title=title))


async def _group(bot: Bot, group: int, turns: asyncio.Semaphore) -> Finding | None:
    title = str(group)
    try:
        async with turns:
            title = plain((await bot.get_chat(group)).title or title)
            me = await bot.get_chat_member(group, bot.id)
    except (TelegramForbiddenError, TelegramBadRequest):
        return Finding(None, _GROUP_GONE.format(title=title))
    except (AiogramError, TimeoutError):
        return Finding(None, _UNSURE.format(title=title))
    if me.status not in _INSIDE:
        return Finding(None, _GROUP_GONE.format(title=title))
    return Finding(False, _MUTE.format(title=title)) if _mute(me) else None


def _mute(me: ResultChatMemberUnion) -> bool:
    return isinstance(me, ChatMemberRestricted) and not me.can_send_messages
