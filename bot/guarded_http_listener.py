"""HTTP listeners: allowed addresses, protection of local ports from web pages, limits on connections.

Every web page that a browser on this machine shows can reach a port on 127.0.0.1: pages may send requests to any
address (cross-site request forgery), and may let their own name resolve to 127.0.0.1 (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from rag_core.errors import SettingsWrong

_LOOPBACK_PATTERN = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.IGNORECASE)
_REFUSAL_TEXT = "This port is for this machine: ask it as 127.0.0.1 or localhost, and not from another site's page.\n"
# Telegram opens 40 connections at most, and proxies keep some; more would use up the file descriptors.
_MAX_CONNECTIONS = 256
_FIRST_REQUEST_SECONDS = 10.0  # until the first request arrives: no client opens a connection in advance
_KEEP_ALIVE_SECONDS = 150.0  # between requests: longer than proxies keep a connection, so that they close it first
_LINGER_SECONDS = 2.0  # for the rest of an unread body
_CHECK_INTERVAL_SECONDS = 1.0

_OWN_SITE_VALUES = {"same-origin", "none"}  # none: typed into the address bar, or a bookmark

log = logging.getLogger(__name__)


def check_listen_host(host: str, public: bool, setting: str) -> str:
    """Check the host to listen on: loopback, or any address where the port is meant to be `public`.

    `setting` is the variable that named the host, such as MONITORING__HOST; its section has a PUBLIC too. Raises
    SettingsWrong. Names are not resolved, because their address may change: only "localhost" is accepted.
    """
    if public or host == "localhost":
        return host
    try:
        loopback = ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        section = setting.partition("__")[0]
        raise SettingsWrong(
            f"{setting} is {host!r}, where others could reach this port: write 127.0.0.1, "
            f"or set {section}__PUBLIC=true if that is meant."
        )
    return host


@web.middleware
async def refuse_foreign_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Middleware for a local port: refuse with 403 requests that another site's page sends through a browser.

    The Host header must name this machine; its port is not compared, as a tunnel may have another. The Origin header
    must be the same origin. Sec-Fetch-Site covers requests that browsers send without an Origin (images, links, forms
    by GET). Programs send neither header and are not affected.
    """
    hosts = request.headers.getall("Host", [])
    if len(hosts) != 1 or not _LOOPBACK_PATTERN.fullmatch(hosts[0]):
        raise web.HTTPForbidden(text=_REFUSAL_TEXT)
    if any(origin.lower() != f"http://{hosts[0]}".lower() for origin in request.headers.getall("Origin", [])):
        raise web.HTTPForbidden(text=_REFUSAL_TEXT)
    sites = request.headers.getall("Sec-Fetch-Site", [])
    if not _OWN_SITE_VALUES.issuperset(sites) and not _is_start_page_request(request):
        raise web.HTTPForbidden(text=_REFUSAL_TEXT)
    return await handler(request)


def _is_start_page_request(request: web.Request) -> bool:
    """Check that a request is a link to the start page in a window of its own: the linking page sees nothing of it."""
    asked = (request.method, request.rel_url.raw_path, request.headers.get("Sec-Fetch-Dest"))
    return asked == ("GET", "/", "document")


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
        closing = asyncio.create_task(connections.close_silent())
        try:
            yield
        finally:
            listener.close()
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
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
            self._close(min(silent, key=lambda one: (one in self._served, self._idle_since.setdefault(one, now))))
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
            await asyncio.sleep(_CHECK_INTERVAL_SECONDS)
            assert self.server
            here, now = set(self.server.connections), time.monotonic()
            self._served &= here
            self._idle_since = {one: self._idle_since.get(one, now) for one in here}
            for one in here - self._busy:
                if now - self._idle_since[one] > (
                    _KEEP_ALIVE_SECONDS if one in self._served else _FIRST_REQUEST_SECONDS
                ):
                    self._close(one)

    @staticmethod
    def _close(connection: web.RequestHandler) -> None:
        if connection.transport is not None:
            connection.transport.abort()
