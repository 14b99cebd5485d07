"""Admin notices about channels, with a rate limit: a token bucket for each actor and one for all, and a digest.

The owner of a channel can add and remove the bot without end. Events over the limit are merged by channel: an hour
later one message tells the current state of each, so that what matters arrives, once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.types import InlineKeyboardMarkup, User
from aiogram.utils.formatting import Text, as_list

from bot.context import AppContext
from bot.i18n import Translator, choose_interface_language, get_translator
from bot.views.answer import link_channel_title
from bot.views.channel_card import awaits_approval
from bot.worker.limits import TokenBuckets
from ingest.inbox import MAX_WAITING_CHANNELS
from rag_core.errors import RagError
from rag_core.storage import channels, monitoring_stats
from rag_core.types import Channel

# Per hour: for one actor, and in total.
_MAX_PER_ACTOR, _MAX_PER_HOUR = 5, 20
# From the first delayed notification to the digest: at most 24 messages a day.
_DIGEST_SECONDS = 3600.0
_STOP_SECONDS = 5.0  # for the last digest, where Telegram cannot be reached
_MAX_LINES = 10
# Channels in one digest: limits the memory that an attacker can fill; /channels lists all.
_MAX_MERGED = 500

log = logging.getLogger(__name__)


class ChannelNotificationLimiter:
    """Rate limit for channel notifications: those above it are sent as a digest. `stop` sends the rest."""

    def __init__(self) -> None:
        self._buckets = TokenBuckets()
        self._merged: dict[int, tuple[Channel, int]] = {}  # chat id -> channel before the change, and events
        self._refused = 0
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._target: tuple[Bot, AppContext] | None = None

    def allow(self, actor: int) -> bool:
        """Take a token for an event of this actor; False where the notification must wait for the digest."""
        wants = (((actor,), _MAX_PER_ACTOR), (None, _MAX_PER_HOUR))
        if any(self._buckets.wait(*one) for one in wants):
            return False
        for one in wants:
            self._buckets.take(*one)
        return True

    def merge(self, channel: Channel, bot: Bot, context: AppContext) -> None:
        """Add this channel to the next digest."""
        if channel.chat_id in self._merged or len(self._merged) < _MAX_MERGED:
            _, times = self._merged.get(channel.chat_id, (channel, 0))
            self._merged[channel.chat_id] = channel, times + 1
        self._schedule(bot, context)

    def count_refused(self, bot: Bot, context: AppContext) -> None:
        """Count a channel that was refused because too many wait; the digest shows the number."""
        self._refused += 1
        self._schedule(bot, context)

    def _schedule(self, bot: Bot, context: AppContext) -> None:
        self._target = bot, context
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send_later())

    async def _send_later(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_DIGEST_SECONDS):
                await self._stopping.wait()
        await self._send_digest()

    async def stop(self) -> None:
        """Send the digest now: it would be lost otherwise."""
        self._stopping.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_STOP_SECONDS)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _send_digest(self) -> None:
        if self._target is None:
            return
        (bot, context), merged, refused = self._target, self._merged, self._refused
        self._target, self._merged, self._refused = None, {}, 0
        try:
            known = await channels.load_channels(context.archive)
            async for words, admin in iterate_admin_translators(context):
                await send_channel_notice(bot, admin, _format_digest(merged, refused, known, words))
        except RagError as exc:
            log.error("admins could not be told of %d channels: %s", len(merged), exc.reason)


def _format_digest(
    merged: dict[int, tuple[Channel, int]], refused: int, known: dict[int, Channel], words: Translator
) -> Text:
    """Format the digest with the channels' current states; channels that readers can search come first."""
    now = [(known.get(chat_id), channel, times) for chat_id, (channel, times) in merged.items()]
    now.sort(key=lambda one: one[0] is None or awaits_approval(one[0]))
    lines = []
    for channel, before, times in now[:_MAX_LINES]:
        inside = channel is not None and channel.inside
        state = "out" if not inside else "pending" if channel and awaits_approval(channel) else "in"
        title = link_channel_title(channel or before, words)
        lines.append(words.rich("channels-digest-line", title=title, state=state, times=times))
    if (more := len(now) - len(lines)) > 0:
        lines.append(Text(words("titles-more", more=more)))
    blocks: list[Text | str] = [as_list(words("channels-digest"), *lines)] if lines else []
    if refused:
        blocks.append(words("channels-refused", count=refused, most=MAX_WAITING_CHANNELS))
    return as_list(*blocks, words("channels-digest-how", channels="/channels"), sep="\n\n")


async def iterate_admin_translators(
    context: AppContext, actor: User | None = None
) -> AsyncIterator[tuple[Translator, int]]:
    """Iterate over the admins with a translator each: the actor's own language, others by their questions."""
    spoken = context.settings.bot.language
    for admin in list(context.admins):
        if actor is not None and actor.id == admin:
            yield get_translator(choose_interface_language(actor.language_code, spoken)), admin
        else:
            yield get_translator(await monitoring_stats.get_user_language(context.archive, admin) or spoken), admin


async def send_channel_notice(bot: Bot, user_id: int, said: Text, buttons: InlineKeyboardMarkup | None = None) -> None:
    """Send a user a notification about a channel, if they can be reached."""
    try:
        await bot.send_message(user_id, **said.as_kwargs(), reply_markup=buttons)
    except (TelegramAPIError, ClientDecodeError) as exc:  # the user never wrote to the bot, or blocked it
        log.info("user %d could not be told about a channel: %s", user_id, exc)


async def leave_channel(bot: Bot, chat_id: int) -> None:
    """Leave a channel that is not accepted."""
    with suppress(TelegramAPIError, ClientDecodeError):
        await bot.leave_chat(chat_id)
