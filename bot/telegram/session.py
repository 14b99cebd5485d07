"""Bot API session: updates are left raw for `InboxMiddleware`, calls are retried, links in texts are neutralized."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from functools import cache
from typing import Any

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.session.base import DEFAULT_TIMEOUT
from aiogram.client.session.middlewares.base import BaseRequestMiddleware, NextRequestMiddlewareType
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramEntityTooLarge,
    TelegramNetworkError,
    TelegramRetryAfter,
    TelegramServerError,
)
from aiogram.methods import (
    CopyMessage,
    EditMessageText,
    GetUpdates,
    Response,
    SendChatAction,
    SendMessage,
    SendMessageDraft,
    SetMessageReaction,
    TelegramMethod,
)
from aiogram.methods.base import TelegramType
from aiohttp import ClientConnectorError

from bot.settings import BotSettings
from bot.telegram.recheck_before_sending import ContentWithdrawn, RecheckUnavailable
from bot.telegram.sending_backoff import get_backoff, is_in_background
from bot.telegram.update_inbox import UNREAD_FIELDS
from bot.views.message_formatting import neutralize_entities
from rag_core.errors import SettingsWrong
from rag_core.storage.raw_update_json import split_updates

# These have their own back-off, or show for seconds only.
_UNRETRIED_METHODS = {
    method.__api_method__ for method in (GetUpdates, SendChatAction, SendMessageDraft, SetMessageReaction)
}
# Errors that a retry may overcome.
_TRANSIENT_ERRORS = (TelegramRetryAfter, TelegramServerError, TelegramNetworkError, ClientDecodeError)
_MAX_RETRY_AFTER_SECONDS = 120  # longer waits that Telegram asks for are not made: the reader has left by then

PROXY_ERROR = "The setting BOT__PROXY cannot be used: write socks5://user:password@host:port or http://host:port."

log = logging.getLogger(__name__)


class NeutralizeLinksMiddleware(BaseRequestMiddleware):
    """Middleware that sets as code all text that Telegram would link, except this bot's commands.

    Views neutralize the names and words of others; this catches what a view overlooks.
    """

    async def __call__(
        self, make_request: NextRequestMiddlewareType[TelegramType], bot: Bot, method: TelegramMethod[TelegramType]
    ) -> Response[TelegramType]:
        """Make the request with the entities that its text needs."""
        request: Any = method
        for text, entities in (("text", "entities"), ("caption", "caption_entities")):
            content = getattr(request, text, None)
            if content and hasattr(request, entities):
                known = getattr(request, entities) or []
                marks = neutralize_entities(content, known)
                if len(marks) != len(known):
                    request = request.model_copy(update={entities: marks, "parse_mode": None})
        return await make_request(bot, request)


class SendOnce(SendMessage):
    """Message that must not be sent twice: it is sent again only where it cannot have arrived."""


class SendWithoutRetry(SendMessage):
    """Message without retries: the next edit makes up for a lost one."""


class EditWithoutRetry(EditMessageText):
    """Edit without retries: the next edit makes up for a lost one."""


def _decode_reply(text: str) -> Any:
    """Decode a reply without the fields that are too expensive for aiogram's models, wherever they are."""

    def drop_unread(found: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in found.items() if name not in UNREAD_FIELDS}

    return json.loads(text, object_hook=drop_unread)


@cache
def _keep_reply_model(kind: Any) -> Any:
    """Keep the model of a reply: pydantic forgets a generic one that nobody holds, and building it anew takes long."""
    return Response[kind]


class TelegramSession(AiohttpSession):
    """aiogram session that leaves updates raw for `InboxMiddleware`, which must be among its middlewares."""

    def __init__(self, **options: Any) -> None:
        super().__init__(json_loads=_decode_reply, **options)

    def check_response(
        self, bot: Bot, method: TelegramMethod[TelegramType], status_code: int, content: str
    ) -> Response[TelegramType]:
        """Check the response; the result of getUpdates becomes a list of `RawUpdate`."""
        if isinstance(method, GetUpdates) and (raws := split_updates(content)) is not None:
            return Response.model_construct(ok=True, result=raws)  # type: ignore[arg-type]
        _keep_reply_model(method.__returning__)
        return super().check_response(bot, method, status_code, content)

    async def close(self) -> None:
        """Close the connections, without aiogram's sleep for TLS: aiohttp waits for it itself since 3.12."""
        if self._session is not None:
            await self._session.close()


def create_session(settings: BotSettings, timeout: float = DEFAULT_TIMEOUT) -> TelegramSession:
    """Create a session with the Bot API server, through the proxy if one is set. Raises SettingsWrong for the proxy."""
    try:
        proxy = settings.proxy.get_secret_value() or None
        return TelegramSession(proxy=proxy, api=TelegramAPIServer.from_base(settings.api), timeout=timeout)
    except ValueError:  # its message may contain the password
        raise SettingsWrong(PROXY_ERROR) from None


class RetryMiddleware(BaseRequestMiddleware):
    """Retry middleware: repeats a call on flood control, server and network errors, and when access cannot be checked.

    getUpdates has aiogram's own back-off; temporary displays (drafts, "typing") and what is sent in the background
    (bot/telegram/sending_backoff.py) are not retried. During a flood wait that is known nothing is asked.
    """

    def __init__(self, tries: int = 6, pause: float = 0.5) -> None:
        self.tries = tries
        self.pause = pause

    async def __call__(
        self, make_request: NextRequestMiddlewareType[TelegramType], bot: Bot, method: TelegramMethod[TelegramType]
    ) -> Response[TelegramType]:
        """Make the request, at most `tries` times; the pause between doubles."""
        name, chat = method.__api_method__, getattr(method, "chat_id", None) or method.__api_method__
        if isinstance(method, CopyMessage):  # a look whether a post is still there: its limit is no chat's
            chat = name
        if name == GetUpdates.__api_method__:
            return await make_request(bot, method)
        backoff, asks = get_backoff(bot), name.startswith("get")
        if is_in_background() and not asks:
            async with backoff.slots:
                _check_wait(method, backoff.get_wait(chat), 0)
                return await _make_recorded_request(make_request, bot, method, chat)
        once = name in _UNRETRIED_METHODS or isinstance(method, SendWithoutRetry | EditWithoutRetry)
        for attempt in range(1, self.tries + 1):
            if not asks and (wait := backoff.try_answer(chat)):
                _check_wait(method, wait, 0 if once else _MAX_RETRY_AFTER_SECONDS)
                await asyncio.sleep(wait)
            try:
                if asks or name in _UNRETRIED_METHODS:  # they have limits of their own
                    return await make_request(bot, method)
                return await _make_recorded_request(make_request, bot, method, chat)
            except (*_TRANSIENT_ERRORS, RecheckUnavailable) as exc:
                pause = compute_retry_delay(exc, self.pause * 2 ** (attempt - 1))
                repeats = isinstance(exc, RecheckUnavailable) or may_have_arrived(exc)
                if once or attempt == self.tries or pause is None or (repeats and isinstance(method, SendOnce)):
                    raise
                log.warning("%s: %s; again in %.1f s", name, type(exc).__name__, pause)
            await asyncio.sleep(pause)
        raise AssertionError  # the last attempt returns or raises


async def _make_recorded_request(
    make_request: NextRequestMiddlewareType[TelegramType],
    bot: Bot,
    method: TelegramMethod[TelegramType],
    chat: int | str,
) -> Response[TelegramType]:
    """Make a request and record in the back-off what became of it."""
    backoff, background = get_backoff(bot), is_in_background()
    try:
        response = await make_request(bot, method)
    except ContentWithdrawn:  # nothing was asked of Telegram
        raise
    except Exception as exc:
        # What is wrong with an earlier message, which is edited, says nothing of its chat.
        if isinstance(exc, (*_TRANSIENT_ERRORS, RecheckUnavailable)) or method.__api_method__.startswith("send"):
            backoff.record_failure(chat, exc, background=background)
        raise
    backoff.record_success(chat)
    return response


def _check_wait(method: TelegramMethod[TelegramType], wait: float, longest: float) -> None:
    """Raise TelegramRetryAfter, without asking Telegram, for a longer wait than this."""
    if wait > longest:
        raise TelegramRetryAfter(method, "This chat, or the bot, must wait.", retry_after=math.ceil(wait))


def may_have_arrived(exc: Exception) -> bool:
    """Check whether Telegram may have accepted a message despite the error."""
    if isinstance(exc, ClientDecodeError):
        return not isinstance(exc.data, str)  # a string is a proxy's page instead of Telegram's answer
    reached = not isinstance(exc.__cause__, ClientConnectorError)
    return isinstance(exc, TelegramNetworkError) and not isinstance(exc, TelegramEntityTooLarge) and reached


def compute_retry_delay(exc: Exception, pause: float) -> float | None:
    """Seconds until the next try; None where another try cannot help or would send the message twice."""
    if isinstance(exc, TelegramRetryAfter):
        return exc.retry_after if exc.retry_after <= _MAX_RETRY_AFTER_SECONDS else None
    if isinstance(exc, ClientDecodeError):
        # A string is a proxy's HTML page; any other answer that aiogram cannot parse means that the call went through.
        return pause if isinstance(exc.data, str) else None
    return None if isinstance(exc, TelegramEntityTooLarge) else pause
