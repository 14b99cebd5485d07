"""HTTP server on loopback, free ports, and a server that speaks OpenAI's protocol."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, Self

from aiohttp import web


def find_free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens at now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def find_free_port() -> int:
    return find_free_ports(1)[0]


class LocalServer:
    """Server of these routes, as an asynchronous context; its address is the same after a stop."""

    def __init__(self, *routes: web.RouteDef, port: int = 0, longest_body: int = 2**28) -> None:
        self._routes, self._port, self._longest_body = routes, port, longest_body
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, the first time at a free port unless one is given."""
        app = web.Application(client_max_size=self._longest_body)
        app.add_routes(self._routes)
        # a request in flight is cut off as by a crash
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Be gone: open connections end, new ones are refused."""
        if self._runner:
            await self._runner.cleanup()
            self._runner = None


Body = dict[str, Any]
Answer = Callable[[web.Request, Body], Awaitable[web.StreamResponse]]


class OpenAiServer(LocalServer):
    """Chat completions by `answer`. `asked` are the requests for text, `models` is what it lists."""

    def __init__(self, answer: Answer, *, name: str = "stand-in", port: int = 0) -> None:
        super().__init__(web.get("/v1/models", self._list), web.post("/v1/chat/completions", self._chat), port=port)
        self.answer, self.asked = answer, list[Body]()
        self.models: Body = {"data": [{"id": name, "owned_by": "somebody"}]}

    async def _list(self, _: web.Request) -> web.Response:
        return web.json_response(self.models)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(await request.json())
        return await self.answer(request, self.asked[-1])


def answer_with(write: Callable[[Body], str], *, length: int = 0, pause: float = 0) -> Answer:
    """Answer with the written text, streamed in pieces of this length (0: one piece) where a stream is wanted."""

    async def answer(request: web.Request, asked: Body) -> web.StreamResponse:
        text = write(asked)
        if not asked.get("stream"):
            return web.json_response({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})
        size = length or len(text) or 1
        pieces = [make_event(text[start : start + size]) for start in range(0, len(text), size)]
        return await stream(request, *pieces, make_event(finish="stop"), b"data: [DONE]\n\n", pause=pause)

    return answer


def make_event(text: str = "", finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()


async def stream(
    request: web.Request, *events: bytes, pause: float = 0, kind: str = "text/event-stream"
) -> web.StreamResponse:
    """Send these bytes as they are, with a pause after each."""
    response = web.StreamResponse(headers={"Content-Type": kind})
    await response.prepare(request)
    for event in events:
        await response.write(event)
        await asyncio.sleep(pause)
    return response
