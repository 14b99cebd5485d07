"""HTTP server on loopback, and free ports."""

import socket
from contextlib import ExitStack

from aiohttp import web


def find_free_ports(count):
    """Ports of loopback that nobody listens at now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def find_free_port():
    return find_free_ports(1)[0]


class LocalServer:
    """Server of these routes, as an asynchronous context; its address is the same after a stop."""

    def __init__(self, *routes, port=0, longest_body=2**28):
        self._routes, self._port, self._longest_body = routes, port, longest_body
        self._runner = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *_):
        await self.stop()

    async def start(self):
        """Listen, the first time at a free port unless one is given."""
        app = web.Application(client_max_size=self._longest_body)
        app.add_routes(self._routes)
        # a request in flight is cut off as by a crash
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()
        self._port = self._runner.addresses[0][1]

    async def stop(self):
        """Be gone: open connections end, new ones are refused."""
        if self._runner:
            await self._runner.cleanup()
            self._runner = None
