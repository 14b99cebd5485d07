"""OpenAI-compatible server: chat completions, whole or streamed, with the replies that a test writes."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from local_server import LocalServer

Body = dict[str, Any]
Answer = Callable[[web.Request, Body], Awaitable[web.StreamResponse]]


class OpenAiServer(LocalServer):
    """Chat completions by `answer`. `asked` are the requests for text, `models` is what it lists."""

    def __init__(self, answer, *, name="stand-in", port=0):
        super().__init__(web.get("/v1/models", self._list), web.post("/v1/chat/completions", self._chat), port=port)
        self.answer, self.asked = answer, []
        self.models = {"data": [{"id": name, "owned_by": "somebody"}]}

    async def _list(self, _):
        return web.json_response(self.models)

    async def _chat(self, request):
        self.asked.append(await request.json())
        return await self.answer(request, self.asked[-1])


def answer_with(write, *, length=0, pause=0):
    """Answer with the written text, streamed in pieces of this length (0: one piece) where a stream is wanted."""

    async def answer(request, asked):
        text = write(asked)
        if not asked.get("stream"):
            return web.json_response({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})
        size = length or len(text) or 1
        pieces = [make_event(text[start : start + size]) for start in range(0, len(text), size)]
        return await stream(request, *pieces, make_event(finish="stop"), b"data: [DONE]\n\n", pause=pause)

    return answer


def make_event(text="", finish=None):
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()


async def stream(request, *events, pause=0, kind="text/event-stream"):
    """Send these bytes as they are, with a pause after each."""
    response = web.StreamResponse(headers={"Content-Type": kind})
    await response.prepare(request)
    for event in events:
        await response.write(event)
        await asyncio.sleep(pause)
    return response
