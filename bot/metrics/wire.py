"""What came of calls to Telegram, and when it was last heard."""

from __future__ import annotations

import time

from aiogram import Bot
from aiogram.client.session.middlewares.base import BaseRequestMiddleware, NextRequestMiddlewareType
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramConflictError,
    TelegramNetworkError,
    TelegramRetryAfter,
    TelegramServerError,
)
from aiogram.methods import GetUpdates, GetWebhookInfo, Response, SetWebhook, TelegramMethod
from aiogram.methods.base import TelegramType

from bot.metrics.instruments import Instruments

__all__ = ["Wire"]

# The first that fits; a network's and a server's error are TelegramAPIErrors too.
_OUTCOMES: tuple[tuple[type[Exception], str], ...] = (
    (TelegramRetryAfter, "flood"),  # 429
    (TelegramConflictError, "conflict"),  # 409: somebody else reads the updates of this bot
    (TelegramServerError, "server"),
    (TelegramNetworkError, "network"),
    (ClientDecodeError, "unreadable"),
    (TelegramAPIError, "refused"),
)
# What is asked about updates: for them, or every minute whether Telegram still knows where to bring them.
_OF_UPDATES = (GetUpdates, SetWebhook, GetWebhookInfo)


class Wire(BaseRequestMiddleware):
    """Counts every try: to be the last of a session's middlewares.

    `by_webhook`: set while updates come to a listener of ours, so that only the webhook is asked about.
    """

    def __init__(self, instruments: Instruments) -> None:
        self.by_webhook = False
        self._instruments = instruments
        self._heard: float | None = None

    @property
    def silence(self) -> float | None:
        """Seconds since Telegram last answered a question for updates, or for its webhook; None where it never did."""
        return None if self._heard is None else time.monotonic() - self._heard

    async def __call__(
        self,
        make_request: NextRequestMiddlewareType[TelegramType],
        bot: Bot,
        method: TelegramMethod[TelegramType],
    ) -> Response[TelegramType]:
        """Make the request and note what came of it."""
        began, polling, outcome = time.monotonic(), isinstance(method, GetUpdates), "stopped"
        try:
            response = await make_request(bot, method)
            outcome = "ok"
            if isinstance(method, _OF_UPDATES):
                self._heard = time.monotonic()
            return response
        except Exception as exc:
            outcome = next((name for kind, name in _OUTCOMES if isinstance(exc, kind)), "failed")
            raise
        finally:
            self._instruments.telegram.labels(self._instruments.method_name(method.__api_method__), outcome).inc()
            if not polling:
                self._instruments.telegram_took.observe(time.monotonic() - began)
