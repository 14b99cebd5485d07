"""Telegram checks: connection, token, webhook, rights in channels and groups; by the bot's own server and proxy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from aiogram import Bot, exceptions
from aiogram.enums import ChatMemberStatus
from aiogram.exceptions import AiogramError
from aiogram.types import ChatMemberRestricted
from aiogram.utils.token import TokenValidationError

from bot.doctor import CheckContext, Finding, bad, fine, note
from bot.jobs import open_history_client
from bot.settings import BotSettings
from bot.telegram.session import PROXY_ERROR, create_session
from bot.views.text import strip_control_characters
from rag_core.errors import RagError, SettingsWrong
from rag_core.storage import Archive, channel_history, channels, readers
from rag_core.types import Channel

CALL_TIMEOUT_SECONDS = 8.0  # for each call
_MAX_CONCURRENT_CALLS = 4
_MAX_CHATS = 500  # Telegram answers some thirty calls a second
_RECENT_ERROR_AGE = timedelta(hours=1)
_MANY_PENDING_UPDATES = 100
_ADMIN_STATUSES, _MEMBER_STATUSES = {"administrator", "creator"}, {"administrator", "creator", "member", "restricted"}


@asynccontextmanager
async def open_bot(settings: BotSettings) -> AsyncIterator[Bot]:
    """Open the bot without anything that stores updates. Raises SettingsWrong."""
    session = create_session(settings, CALL_TIMEOUT_SECONDS)
    try:
        bot = Bot(settings.token.get_secret_value(), session=session)
    except TokenValidationError:
        raise SettingsWrong("BOT__TOKEN is not a token: copy it from @BotFather again.") from None
    async with bot.context():
        yield bot


async def check_proxy(settings: BotSettings) -> str:
    """Check that the proxy accepts a connection, and return its address; "" without a proxy. Raises SettingsWrong."""
    proxy = settings.proxy.get_secret_value()
    if not proxy:
        return ""
    try:
        address = urlsplit(proxy)
        host, port = address.hostname, address.port
    except ValueError:
        raise SettingsWrong(PROXY_ERROR) from None
    if host is None or port is None:
        raise SettingsWrong(PROXY_ERROR)
    try:
        async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        raise SettingsWrong(f"The proxy {host}:{port} cannot be reached: start it, or correct BOT__PROXY.") from None
    writer.close()
    return f"{host}:{port}"


def explain_call_error(exc: AiogramError | TimeoutError, settings: BotSettings) -> str:
    """Explain a failed call and what to do. The error's own text is not used: it may contain the token."""
    api = settings.api
    if isinstance(
        exc, exceptions.TelegramUnauthorizedError | exceptions.TelegramNotFound | exceptions.TelegramForbiddenError
    ):
        return (
            f"Telegram does not know this token: copy BOT__TOKEN from @BotFather again, and look at BOT__API ({api})."
        )
    if isinstance(exc, exceptions.TelegramConflictError):
        return "Another program uses this bot's token: stop it, or have @BotFather make a new one (/revoke)."
    if isinstance(exc, exceptions.TelegramRetryAfter):
        return f"{api} asks to wait {exc.retry_after} s: look again then."
    if isinstance(exc, exceptions.TelegramNetworkError | TimeoutError):
        how = " through the proxy" if settings.proxy.get_secret_value() else ""
        return f"{api} cannot be reached{how}: look at the network, the name server and the firewall, and at BOT__API."
    return f"{api} answers with an error of its own: wait; what is written meanwhile is kept by Telegram for 24 hours."


async def check_rights(case: CheckContext, archive: Archive) -> AsyncIterator[Finding]:
    """Check the bot's rights: a finding for each chat that needs action, and one if all are in order."""
    if not case.settings.bot.token.get_secret_value():
        return
    known = (await channels.load_channels(archive)).values()
    live = [channel for channel in known if channel.inside and channel.state == "active"]
    groups = await readers.list_bound_groups(archive)
    async with open_bot(case.settings.bot) as bot:
        try:
            await bot.me()
        except (AiogramError, TimeoutError):
            return  # reported by the check of Telegram
        turns = asyncio.Semaphore(_MAX_CONCURRENT_CALLS)
        checks = [_check_channel(bot, channel, turns) for channel in live[:_MAX_CHATS]]
        checks += [_check_group(bot, group, turns) for group in groups[:_MAX_CHATS]]
        findings = [finding for finding in await asyncio.gather(*checks) if finding]
    for finding in findings:
        yield finding
    if checks and not findings:
        yield fine(f"the bot reads {len(live)} channels and may answer in {len(groups)} bound groups")


async def check_history(case: CheckContext, archive: Archive) -> AsyncIterator[Finding]:
    """Sign in for history and ask for a message of the first channel; nothing without HISTORY__API_ID."""
    live = [one for one in (await channels.load_channels(archive)).values() if one.inside]
    try:
        async with open_history_client(case.settings) as client:
            if client is None:
                return
            if not live:
                yield note("history: the bot is in no channel yet, so that nothing was asked")
                return
            await client.get_messages(live[0].chat_id, [1])
    except RagError as exc:
        yield bad(f"history: {exc.reason}")
        return
    yield fine(f"history: signed in, {len(await channel_history.list_backfills(archive))} channels begun")


async def _check_channel(bot: Bot, channel: Channel, turns: asyncio.Semaphore) -> Finding | None:
    title = strip_control_characters(channel.title)
    try:
        async with turns:
            status = (await bot.get_chat_member(channel.chat_id, bot.id)).status
    except (exceptions.TelegramForbiddenError, exceptions.TelegramBadRequest):
        status = ChatMemberStatus.LEFT
    except (AiogramError, TimeoutError):
        return _report_unknown_rights(title)
    if status in _ADMIN_STATUSES or (channel.kind != "channel" and status in _MEMBER_STATUSES):
        return None
    if status in _MEMBER_STATUSES:
        text = (
            f"The bot is no admin of {title}, so it gets no posts: make it an admin there, it needs no right besides."
        )
    else:
        text = f"The bot is not in {title} any more: add it as an admin again, or take the channel out with /channels."
    return bad(text)


async def _check_group(bot: Bot, group: int, turns: asyncio.Semaphore) -> Finding | None:
    title, me = str(group), None
    try:
        async with turns:
            title = strip_control_characters((await bot.get_chat(group)).title or title)
            me = await bot.get_chat_member(group, bot.id)
    except (exceptions.TelegramForbiddenError, exceptions.TelegramBadRequest):
        pass  # the bot is not in the group
    except (AiogramError, TimeoutError):
        return _report_unknown_rights(title)
    if me is None or me.status not in _MEMBER_STATUSES:
        return note(f"The bot is not in the group {title}: add it again; until then nobody can ask there.")
    muted = isinstance(me, ChatMemberRestricted) and not me.can_send_messages
    text = f"The bot may not write in the group {title}: let it send messages there."
    return bad(text) if muted else None


def _report_unknown_rights(title: str) -> Finding:
    return note(f"Telegram did not say what the bot may do in {title}: look again in a minute.")


async def check_telegram(case: CheckContext) -> AsyncIterator[Finding]:
    """Check the proxy, the token, which messages the bot gets in groups, and the webhook."""
    settings = case.settings.bot
    if not settings.token.get_secret_value():
        yield note("BOT__TOKEN is empty: run citegram init, or try citegram demo")
        return
    if place := await check_proxy(settings):
        yield fine(f"the proxy {place} takes connections")
    async with open_bot(settings) as bot:
        try:
            me = await bot.get_me()
            reads = "all messages of its groups" if me.can_read_all_group_messages else "commands and replies in groups"
            inline = "on" if me.supports_inline_queries else "off (to switch it on: /setinline at @BotFather)"
            yield fine(f"@{me.username} is known to {settings.api}; it gets {reads}; inline mode is {inline}")
            if settings.guest and not me.supports_guest_queries:
                yield note("BOT__GUEST is on, but the bot's guest mode is off: switch it on at @BotFather")
            info = await bot.get_webhook_info()
        except (AiogramError, TimeoutError) as exc:
            yield bad(explain_call_error(exc, settings))
            return
    # only the host of an address is shown: the rest may be secret
    wanted, host = case.settings.webhook.url, urlsplit(info.url).hostname or ""
    if info.url and not wanted:
        yield bad(
            f"A webhook at {host} takes the bot's updates away: restart the bot, which removes it, or set WEBHOOK__URL."
        )
    elif info.url != wanted:
        yield Finding(
            False if case.runs else None,
            f"Telegram brings the updates to {host or 'nobody'}, and WEBHOOK__URL says {urlsplit(wanted).hostname}: "
            "restart the bot, which sets it.",
        )
    elif info.url:
        yield fine(f"updates come by webhook to {host}")
    if info.url and (at := info.last_error_date) and datetime.now(UTC) - at < _RECENT_ERROR_AGE:
        yield bad(
            f"Telegram could not bring updates to {host} at {at:%H:%M} UTC ({info.last_error_message}): look at the "
            "proxy before the bot, its certificate and WEBHOOK__PORT."
        )
    if info.pending_update_count > _MANY_PENDING_UPDATES:
        yield note(f"{info.pending_update_count} updates wait at Telegram for the bot")
