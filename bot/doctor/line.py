"""A line to the Bot API as the bot has it: the same server, the same proxy, the same token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from aiogram import Bot
from aiogram.exceptions import (
    AiogramError,
    TelegramConflictError,
    TelegramForbiddenError,
    TelegramNetworkError,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramUnauthorizedError,
)
from aiogram.utils.token import TokenValidationError

from bot.session import PROXY_WRONG, session_for
from bot.settings import BotSettings
from rag_core.errors import SettingsWrong

__all__ = ["PATIENCE_S", "connected", "proxied", "told"]

PATIENCE_S = 8.0  # of one call

_PROXY_SILENT = "The proxy {place} cannot be reached: start it, or correct BOT__PROXY."
_NO_TOKEN = "BOT__TOKEN is not a token: copy it from @BotFather again."  # noqa: S105
_UNKNOWN = "Telegram does not know this token: copy BOT__TOKEN from @BotFather again, and look at BOT__API ({api})."
_CONFLICT = "Another program uses this bot's token: stop it, or have @BotFather make a new one (/revoke)."
_WAIT = "{api} asks to wait {seconds} s: look again then."
_GONE = "{api} cannot be reached{how}: look at the network, the name server and the firewall, and at BOT__API."
_ILL = "{api} answers with an error of its own: wait; what is written meanwhile is kept by Telegram for 24 hours."


@asynccontextmanager
async def connected(settings: BotSettings) -> AsyncIterator[Bot]:
    """The bot, without anything that keeps updates. Raises SettingsWrong."""
    session = session_for(settings, PATIENCE_S)
    try:
        bot = Bot(settings.token.get_secret_value(), session=session)
    except TokenValidationError:
        raise SettingsWrong(_NO_TOKEN) from None
    async with bot.context():
        yield bot


async def proxied(settings: BotSettings) -> str:
    """Where the proxy is, once it took a connection; "" without one. Raises SettingsWrong."""
    given = settings.proxy.get_secret_value()
    if not given:
        return ""
    try:
        address = urlsplit(given)
        host, port = address.hostname, address.port
    except ValueError:
        raise SettingsWrong(PROXY_WRONG) from None
    if host is None or port is None:
        raise SettingsWrong(PROXY_WRONG)
    try:
        async with asyncio.timeout(PATIENCE_S):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        raise SettingsWrong(_PROXY_SILENT.format(place=f"{host}:{port}")) from None
    writer.close()
    return f"{host}:{port}"


def told(exc: AiogramError | TimeoutError, settings: BotSettings) -> str:
    """What to do about a call that did not go through. The error's own text is not used: it may hold the token."""
    if isinstance(exc, TelegramUnauthorizedError | TelegramNotFound | TelegramForbiddenError):
        return _UNKNOWN.format(api=settings.api)
    if isinstance(exc, TelegramConflictError):
        return _CONFLICT
    if isinstance(exc, TelegramRetryAfter):
        return _WAIT.format(api=settings.api, seconds=exc.retry_after)
    if isinstance(exc, TelegramNetworkError | TimeoutError):
        how = " through the proxy" if settings.proxy.get_secret_value() else ""
        return _GONE.format(api=settings.api, how=how)
    return _ILL.format(api=settings.api)
