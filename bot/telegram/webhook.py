"""Webhook: updates are saved before they are confirmed with 200, then handled like polled ones.

A reverse proxy with a certificate stands before the port. An update that cannot be saved is answered with 503, so
that Telegram delivers it again; it tries for a day (https://core.telegram.org/bots/api#setwebhook).
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest
from aiogram.types import Update, WebhookInfo
from aiohttp import web

from bot.guarded_http_listener import check_listen_host, serve_http
from bot.settings import WebhookSettings
from bot.telegram.update_inbox import InboxMiddleware
from rag_core.errors import ArchiveUnavailable, SettingsWrong
from rag_core.storage.raw_update_json import read_update

_SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105 - the name of a header
# Bytes. A rich message of 32,768 characters, each with its own markup, in reply to another: two or three million.
# An update refused for its size is delivered again for a day and blocks its chat.
_MAX_BODY_BYTES = 2**23
_READ_TIMEOUT_SECONDS = 20.0
# Telegram respects it; without it its pauses grow to minutes.
_RETRY_AFTER_HEADERS = {"Retry-After": "5"}
_CLOSE_SECONDS = 3.0
_CHECK_INTERVAL_SECONDS = 60.0
_RECONNECT_SECONDS = 10.0

log = logging.getLogger(__name__)

FeedUpdate = Callable[[Bot, Update], Awaitable[Any]]


class _WebhookHandler:
    """Handler of the webhook's one route."""

    def __init__(self, bot: Bot, inbox: InboxMiddleware, secret: str, feed: FeedUpdate) -> None:
        self._bot, self._inbox, self._feed = bot, inbox, feed
        self._secret = secret.encode()
        self._tasks: set[asyncio.Task[None]] = set()

    async def on_update(self, request: web.Request) -> web.Response:
        """Check the secret, store the update, confirm it, and only then handle it."""
        secret = request.headers.get(_SECRET_HEADER, "").encode(errors="surrogateescape")
        if not hmac.compare_digest(secret, self._secret):
            refusal = web.Response(status=401)
            refusal.force_close()
            return refusal
        body = await _read_body(request)
        try:
            raw = read_update(body.decode("utf-8", "replace"))
        except ValueError:
            log.error("the webhook was brought something that is no update: is it cut short on its way?")
            return web.Response(status=400)
        try:
            (update,) = await self._inbox.keep(self._bot, [raw])
        except ArchiveUnavailable as exc:
            log.error("update %d cannot be kept and is asked for again: %s", raw.update_id, exc.reason)
            return web.Response(status=503, headers=_RETRY_AFTER_HEADERS)
        task = asyncio.create_task(self._handle(update))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return web.Response()

    async def _handle(self, update: Update) -> None:
        try:
            await self._feed(self._bot, update)
        except Exception:  # the update is stored; its failure must not affect another one
            log.exception("update %d cannot be handled", update.update_id)

    async def idle(self, seconds: float) -> None:
        """Let running handlers finish; the others are repeated after the next start."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


async def _read_body(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(_READ_TIMEOUT_SECONDS):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    except web.RequestPayloadError:  # invalid chunks
        raise web.HTTPBadRequest from None


@asynccontextmanager
async def serve_webhook(
    feed: FeedUpdate, bot: Bot, inbox: InboxMiddleware, settings: WebhookSettings
) -> AsyncIterator[None]:
    """Receive updates at the path of WEBHOOK__URL. Raises SettingsWrong where the port cannot be opened."""
    host = check_listen_host(settings.host, settings.public, "WEBHOOK__HOST")
    handler = _WebhookHandler(bot, inbox, settings.secret.get_secret_value(), feed)
    app = web.Application(client_max_size=_MAX_BODY_BYTES)
    app.router.add_post(urlsplit(settings.url).path or "/", handler.on_update)
    try:
        async with AsyncExitStack() as opened:
            try:
                await opened.enter_async_context(serve_http(app, host, settings.port, close_s=_CLOSE_SECONDS))
            except OSError as exc:
                raise SettingsWrong(
                    f"The port {settings.port} on {host} cannot be opened ({exc.strerror}): "
                    "choose another one with WEBHOOK__PORT, and tell the proxy."
                ) from exc
            yield
    finally:
        await handler.idle(_CLOSE_SECONDS)


async def keep_webhook_set(bot: Bot, settings: WebhookSettings, allowed: list[str], heard: Callable[[], None]) -> None:
    """Register the webhook, and check every minute that it is still set and updates can be delivered. Never ends.

    `heard` is called when no updates wait at Telegram. Raises SettingsWrong where it rejects the address.
    """
    registered, reported_until = False, datetime.now(UTC)
    while True:
        try:
            info = await bot.get_webhook_info() if registered else None
            if info is None or info.url != settings.url or set(info.allowed_updates or ()) != set(allowed):
                await _set_webhook(bot, settings, allowed, again=registered)
                registered = True
            else:
                reported_until = _report_delivery_error(info, reported_until)
                if not info.pending_update_count:
                    heard()
        except (TelegramAPIError, ClientDecodeError) as exc:
            log.warning("the webhook could not be set or looked at (%s); trying again", exc)
        await asyncio.sleep(_CHECK_INTERVAL_SECONDS if registered else _RECONNECT_SECONDS)


async def _set_webhook(bot: Bot, settings: WebhookSettings, allowed: list[str], *, again: bool) -> None:
    if again:
        log.warning("somebody took the webhook away: it is set again. Does another bot run with this token?")
    try:
        await bot.set_webhook(
            settings.url,
            allowed_updates=allowed,
            drop_pending_updates=False,
            secret_token=settings.secret.get_secret_value(),
        )
    except TelegramBadRequest as exc:
        if again:
            raise
        raise SettingsWrong(f"Telegram does not take WEBHOOK__URL ({exc.message}): correct it.") from None
    log.info("updates come to %s", settings.url)


def _report_delivery_error(info: WebhookInfo, seen: datetime) -> datetime:
    """Log Telegram's last delivery error, once; returns the time up to which errors were logged."""
    failed = info.last_error_date
    if not isinstance(failed, datetime) or failed <= seen:
        return seen
    waiting, reason = info.pending_update_count, info.last_error_message
    log.warning("Telegram could not deliver to WEBHOOK__URL (%s); %d updates wait: look at the proxy", reason, waiting)
    return failed
