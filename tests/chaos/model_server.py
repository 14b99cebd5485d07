"""A stand-in for a language model's server, on loopback: it quotes the first post it is shown, and can be gone."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from aiohttp import web

_POST = re.compile(r"<post (\d+) \|[^>]*>\n(.+?)\n</post \1>", re.DOTALL)
_PAUSE_S = 0.02  # between pieces, so that an outage meets answers half-way


class ModelServer:
    """OpenAI's protocol as far as Citegram asks it. `asked` counts the texts it was to write."""

    def __init__(self) -> None:
        self.asked = self._port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where it answers; the same after a stop."""
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Listen, the first time at a free port."""
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._write)
        self._runner = web.AppRunner(app, shutdown_timeout=0, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Be gone: answers break off, connections are refused."""
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "stand-in", "owned_by": "chaos"}]})

    async def _write(self, request: web.Request) -> web.StreamResponse:
        asked: dict[str, Any] = await request.json()
        self.asked += 1
        said = _quoted(asked["messages"][-1]["content"])
        if not asked.get("stream"):
            return web.json_response({"choices": [{"message": {"content": said}, "finish_reason": "stop"}]})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for start in range(0, len(said), 8):
            await response.write(_event({"delta": {"content": said[start : start + 8]}, "finish_reason": None}))
            await asyncio.sleep(_PAUSE_S)
        await response.write(_event({"delta": {}, "finish_reason": "stop"}) + b"data: [DONE]\n\n")
        return response


def _event(choice: dict[str, Any]) -> bytes:
    return f"data: {json.dumps({'choices': [{'index': 0} | choice]})}\n\n".encode()


def _quoted(prompt: str) -> str:
    """The first line of the last prompt's first post, with its number."""
    found = _POST.search(prompt)
    return f"{found[2].splitlines()[0]} [{found[1]}]" if found else "The posts do not say."
