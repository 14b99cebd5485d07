"""Arrival of updates: HTTP listener, webhook, and inbox, which saves updates raw before they are confirmed and parsed.

aiogram confirms a batch with its next getUpdates: where the batch cannot be saved nothing is returned, and nothing is
confirmed. The webhook answers such an update with 503, and Telegram delivers it again for a day
(https://core.telegram.org/bots/api#setwebhook). Anybody may send what is expensive to parse, so that updates are parsed
in a thread of their own, within bounds and a limit of processor time; what cannot be parsed goes to quarantine.

Every web page that a browser on this machine shows can reach a port on 127.0.0.1, and may let its own name resolve to
127.0.0.1 (DNS rebinding).
"""

import asyncio
import hmac
import logging
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from aiogram import Bot
from aiogram.client.session.middlewares.base import BaseRequestMiddleware, NextRequestMiddlewareType
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest
from aiogram.methods import GetUpdates, Response, TelegramMethod
from aiogram.methods.base import TelegramType
from aiogram.types import Update
from aiogram.types.update import UpdateTypeLookupError
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler
from pydantic import ValidationError

from bot.background import cancel_tasks, run_in_background, spawn
from bot.settings import WebhookSettings
from rag_core.errors import ArchiveUnavailable, SettingsWrong
from rag_core.storage import Archive, raw_updates

LOOPBACK_PATTERN = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.IGNORECASE)
_REFUSAL_TEXT = "This port is for this machine: ask it as 127.0.0.1 or localhost, and not from another site's page.\n"
# Telegram opens 40 connections at most, and proxies keep some; more would use up the file descriptors.
_MAX_CONNECTIONS = 256
_FIRST_REQUEST_SECONDS = 10.0  # until the first request arrives: no client opens a connection in advance
_KEEP_ALIVE_SECONDS = 150.0  # between requests: longer than proxies keep a connection, so that they close it first
_LINGER_SECONDS = 2.0  # for the rest of an unread body
_IDLE_CHECK_SECONDS = 1.0

_OWN_SITE_VALUES = {"same-origin", "none"}  # none: typed into the address bar, or a bookmark

log = logging.getLogger(__name__)


def check_listen_host(host: str, public: bool, setting: str) -> str:
    """Check the host to listen on: loopback, or any address where the port is meant to be `public`.

    `setting` is the variable that named the host, such as MONITORING__HOST; its section has a PUBLIC too. Raises
    SettingsWrong. Names are not resolved, because their address may change: only "localhost" is accepted.
    """
    if not (public or is_loopback(host)):
        section = setting.partition("__")[0]
        raise SettingsWrong(
            f"{setting} is {host!r}, where others could reach this port: write 127.0.0.1, "
            f"or set {section}__PUBLIC=true if that is meant."
        )
    return host


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    with suppress(ValueError):  # a name, which may point anywhere
        return ip_address(host).is_loopback
    return host == "localhost"


@web.middleware
async def refuse_foreign_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Middleware for a local port: refuse with 403 requests that another site's page sends through a browser.

    The Host header must name this machine; its port is not compared, as a tunnel may have another. The Origin header
    must be the same origin. Sec-Fetch-Site covers requests that browsers send without an Origin (images, links, forms
    by GET). Programs send neither header and are not affected.
    """
    hosts, origins, sites = (request.headers.getall(name, []) for name in ("Host", "Origin", "Sec-Fetch-Site"))
    local = len(hosts) == 1 and LOOPBACK_PATTERN.fullmatch(hosts[0])
    own = local and all(origin.lower() == f"http://{hosts[0]}".lower() for origin in origins)
    # a link to the start page in a window of its own: the linking page sees nothing of it
    start = request.method, request.rel_url.raw_path, request.headers.get("Sec-Fetch-Dest")
    if not own or (not _OWN_SITE_VALUES.issuperset(sites) and start != ("GET", "/", "document")):
        raise web.HTTPForbidden(text=_REFUSAL_TEXT)
    return await handler(request)


@asynccontextmanager
async def serve_http(app: web.Application, host: str, port: int, *, close_s: float) -> AsyncIterator[None]:
    """Serve HTTP until the block ends; running requests then get `close_s` seconds. Raises OSError.

    Connections are limited in number and in idle time, bodies are not decompressed, and malformed requests are not
    logged, because strangers can send any number of them.
    """
    requests = log.getChild("requests")
    requests.addFilter(_is_own_error)
    connections = _ConnectionTracker()
    app.middlewares.insert(0, connections.note_request)
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=requests,
        shutdown_timeout=close_s,
        keepalive_timeout=_KEEP_ALIVE_SECONDS,
        lingering_time=_LINGER_SECONDS,
        auto_decompress=False,
    )
    await runner.setup()
    try:
        assert runner.server
        connections.server = runner.server
        listener = await asyncio.get_running_loop().create_server(connections.accept, host, port)
        async with run_in_background(connections.close_silent()):
            with closing(listener):
                yield
    finally:
        await runner.cleanup()


def _is_own_error(record: logging.LogRecord) -> bool:
    """Check that an aiohttp log record concerns this program, not what a client sent."""
    exc = record.exc_info[1] if record.exc_info else None
    return not isinstance(exc, HttpProcessingError | web.RequestPayloadError)


class _RefusedConnection(asyncio.Protocol):
    """Protocol that closes its connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


def _abort(connection: web.RequestHandler) -> None:
    if connection.transport is not None:
        connection.transport.abort()


class _ConnectionTracker:
    """Open connections of a server, with the time since which each waits for a request."""

    def __init__(self) -> None:
        self.server: web.Server | None = None
        self._idle_since: dict[web.RequestHandler, float] = {}
        self._served = set[web.RequestHandler]()  # had a request before
        self._busy = set[web.RequestHandler]()

    def accept(self) -> asyncio.BaseProtocol:
        """Create the protocol of a new connection. Over the limit, the longest idle connection is closed."""
        assert self.server
        open_ = [one for one in self.server.connections if one.transport and not one.transport.is_closing()]
        if len(open_) >= _MAX_CONNECTIONS:
            silent = [one for one in open_ if one not in self._busy]
            if not silent:
                return _RefusedConnection()
            now = time.monotonic()
            _abort(min(silent, key=lambda one: (one in self._served, self._idle_since.setdefault(one, now))))
        return self.server()

    @web.middleware
    async def note_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Middleware: mark a connection with a running request as not idle."""
        connection = request.protocol
        self._busy.add(connection)
        try:
            return await handler(request)
        finally:
            self._busy.discard(connection)
            self._served.add(connection)
            self._idle_since[connection] = time.monotonic()

    async def close_silent(self) -> None:
        """Close connections that send no request in time. Never ends."""
        while True:
            await asyncio.sleep(_IDLE_CHECK_SECONDS)
            assert self.server
            here, now = set(self.server.connections), time.monotonic()
            self._served &= here
            self._idle_since = {one: self._idle_since.get(one, now) for one in here}
            for one in here - self._busy:
                longest = _KEEP_ALIVE_SECONDS if one in self._served else _FIRST_REQUEST_SECONDS
                if now - self._idle_since[one] > longest:
                    _abort(one)


# Not given to aiogram's models: their unions of rich texts take exponential time. Posts are made from the raw updates.
UNREAD_FIELDS = frozenset({"rich_message"})
_UNSTORED_UPDATES = {"inline_query", "guest_message"}
_PARSE_SECONDS = 0.25  # of processor time for one update; most take less than a thousandth
_STEP_SECONDS = 0.05  # of processor time, after which a stop of the bot is noticed
_MAX_ERROR_LENGTH = 300
_CONTAINERS = (dict, list)  # of what JSON is decoded to


class InboxMiddleware(BaseRequestMiddleware):
    """Inbox middleware: stores raw updates of getUpdates or the webhook, then returns those that aiogram can parse."""

    def __init__(self, archive: Archive, heard: Callable[[], None] = lambda: None) -> None:
        """Set the archive; `heard` is called when Telegram has answered and its updates are stored."""
        self.archive = archive
        self.heard = heard
        self._thread = ThreadPoolExecutor(1, "updates")

    async def __call__(
        self, make_request: NextRequestMiddlewareType[TelegramType], bot: Bot, method: TelegramMethod[TelegramType]
    ) -> Response[TelegramType]:
        """Store and parse the batch. Raises ArchiveUnavailable where it cannot be stored."""
        result: Any = await make_request(bot, method)
        if not isinstance(method, GetUpdates):
            return result  # type: ignore[no-any-return]
        return await self.keep(bot, result)  # type: ignore[return-value]

    async def keep(self, bot: Bot, raws: Sequence[raw_updates.RawUpdate]) -> list[Update]:
        """Store raw updates in one transaction, then parse them; quarantined ones are returned as empty updates.

        Raises ArchiveUnavailable where they cannot be stored: then none of them is.
        """
        # What is typed in other chats is never stored; what is lost of it is typed again.
        if stored := [raw for raw in raws if raw.kind not in _UNSTORED_UPDATES]:
            await raw_updates.save_updates(self.archive, bot.id, stored)
        self.heard()
        return await self.parse(bot, raws)

    async def parse(self, bot: Bot, raws: Sequence[raw_updates.RawUpdate]) -> list[Update]:
        """Parse stored updates; those that fail are quarantined and returned as empty updates."""
        loop, parsed, wrong = asyncio.get_running_loop(), list[Update](), dict[int, str]()
        while waiting := raws[len(parsed) :]:
            parsed += await loop.run_in_executor(self._thread, _parse_some, bot, waiting, wrong)
        if wrong:
            await raw_updates.quarantine_updates(self.archive, bot.id, wrong)
        return parsed


def _parse_some(bot: Bot, raws: Sequence[raw_updates.RawUpdate], wrong: dict[int, str]) -> list[Update]:
    """Parse the first updates, as many as one step has time for; those that fail are empty, and `wrong` says why."""
    parsed, until = list[Update](), time.thread_time() + _STEP_SECONDS
    for raw in raws:
        kind = raw.kind
        try:
            decoded = raw_updates.decode_update(raw.text)
            kind = ", ".join(decoded)
            raw_updates.check_bounds(decoded)
            Update.model_rebuild()  # once: it takes longer than an update may
            with _limit_processor_time(_PARSE_SECONDS):
                update = Update.model_validate(_copy_read_fields(decoded), context={"bot": bot})
            _ = update.event_type
        except Exception as exc:  # whatever it is: the other updates go on
            # Only place and kind of the error: the values are somebody's message.
            if isinstance(exc, ValidationError):
                errors = exc.errors(include_input=False, include_url=False, include_context=False)
                error = "; ".join(f"{'.'.join(map(str, error['loc']))}: {error['type']}" for error in errors[:5])
            elif isinstance(exc, UpdateTypeLookupError):
                error = f"unknown kind: {kind}"
            else:
                known = isinstance(exc, raw_updates.UpdateOutOfBounds)
                error = str(exc) if known else f"{type(exc).__name__} when parsed"
            wrong[raw.update_id] = error[:_MAX_ERROR_LENGTH]
            log.error("update %s goes to quarantine: %s", raw.update_id, wrong[raw.update_id])
            update = Update.model_validate({"update_id": raw.update_id}, context={"bot": bot})
        parsed.append(update)
        if time.thread_time() > until:
            break
    return parsed


def _copy_read_fields(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Copy an update without the fields that no handler reads, wherever they are; without recursion."""
    root = dict(raw)
    copies: list[Any] = [root]
    for copy in copies:  # grows meanwhile
        if isinstance(copy, dict):
            for name in UNREAD_FIELDS & copy.keys():
                del copy[name]
        for key, value in list(copy.items()) if isinstance(copy, dict) else enumerate(copy):
            if isinstance(value, _CONTAINERS):
                copy[key] = value.copy()
                copies.append(copy[key])
    return root


@contextmanager
def _limit_processor_time(seconds: float) -> Iterator[None]:
    """Limit the processor time of this thread in the block: each call of a Python function checks it.

    aiogram's models call one for each object, also for those that a union tries. Raises UpdateOutOfBounds.
    """
    until, earliest, trace = time.thread_time() + seconds, time.perf_counter() + seconds, sys.gettrace()

    def check_time(*_: object) -> None:
        # The second clock is a call of the system's, and cannot be past its time before the first.
        if time.perf_counter() > earliest and time.thread_time() > until:
            raise raw_updates.UpdateOutOfBounds("takes too long to parse")

    sys.settrace(check_time)
    try:
        yield
    finally:
        sys.settrace(trace)


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

FeedUpdate = Callable[[Bot, Update], Awaitable[Any]]


class _WebhookHandler:
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
        try:
            async with asyncio.timeout(_READ_TIMEOUT_SECONDS):
                body = await request.read()
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        except web.RequestPayloadError:  # invalid chunks
            raise web.HTTPBadRequest from None
        try:
            raw = raw_updates.read_update(body.decode("utf-8", "replace"))
        except ValueError:
            log.error("the webhook was brought something that is no update: is it cut short on its way?")
            return web.Response(status=400)
        try:
            (update,) = await self._inbox.keep(self._bot, [raw])
        except ArchiveUnavailable as exc:
            log.error("update %d cannot be kept and is asked for again: %s", raw.update_id, exc.reason)
            return web.Response(status=503, headers=_RETRY_AFTER_HEADERS)

        async def handle() -> None:
            try:
                await self._feed(self._bot, update)
            except Exception:  # the update is stored; its failure must not affect another one
                log.exception("update %d cannot be handled", update.update_id)

        spawn(self._tasks, handle())
        return web.Response()

    async def idle(self, seconds: float) -> None:
        """Let running handlers finish; the others are repeated after the next start."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=seconds)
        await cancel_tasks(late)


@asynccontextmanager
async def serve_webhook(
    feed: FeedUpdate, bot: Bot, inbox: InboxMiddleware, settings: WebhookSettings
) -> AsyncIterator[None]:
    """Receive updates at the path of WEBHOOK__URL. Raises SettingsWrong where the port cannot be opened."""
    host = check_listen_host(settings.host, settings.public, "WEBHOOK__HOST")
    handler = _WebhookHandler(bot, inbox, settings.secret.get_secret_value(), feed)
    app = web.Application(client_max_size=_MAX_BODY_BYTES)
    app.router.add_post(urlsplit(settings.url).path or "/", handler.on_update)
    async with AsyncExitStack() as opened:
        opened.push_async_callback(handler.idle, _CLOSE_SECONDS)
        try:
            await opened.enter_async_context(serve_http(app, host, settings.port, close_s=_CLOSE_SECONDS))
        except OSError as exc:
            raise SettingsWrong(
                f"The port {settings.port} on {host} cannot be opened ({exc.strerror}): "
                "choose another one with WEBHOOK__PORT, and tell the proxy."
            ) from exc
        yield


async def keep_webhook_set(bot: Bot, settings: WebhookSettings, allowed: list[str], heard: Callable[[], None]) -> None:
    """Register the webhook, and check every minute that it is still set and updates can be delivered. Never ends.

    `heard` is called when no updates wait at Telegram. Raises SettingsWrong where it rejects the address.
    """
    registered, reported_until = False, datetime.now(UTC)
    while True:
        try:
            info = await bot.get_webhook_info() if registered else None
            if info is None or info.url != settings.url or set(info.allowed_updates or ()) != set(allowed):
                if registered:
                    log.warning("somebody took the webhook away: does another bot run with this token? It is set again")
                secret = settings.secret.get_secret_value()
                await bot.set_webhook(
                    settings.url, allowed_updates=allowed, drop_pending_updates=False, secret_token=secret
                )
                log.info("updates come to %s", settings.url)
                registered = True
            else:
                failed = info.last_error_date
                if isinstance(failed, datetime) and failed > reported_until:  # each error is reported once
                    reported_until, reason = failed, info.last_error_message
                    said = "Telegram could not deliver to WEBHOOK__URL (%s); %d updates wait: look at the proxy"
                    log.warning(said, reason, info.pending_update_count)
                if not info.pending_update_count:
                    heard()
        except (TelegramAPIError, ClientDecodeError) as exc:
            if isinstance(exc, TelegramBadRequest) and not registered:
                raise SettingsWrong(f"Telegram does not take WEBHOOK__URL ({exc.message}): correct it.") from None
            log.warning("the webhook could not be set or looked at (%s); trying again", exc)
        await asyncio.sleep(_CHECK_INTERVAL_SECONDS if registered else _RECONNECT_SECONDS)
