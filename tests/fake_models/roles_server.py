"""A server of OpenAI's protocol that plays parts: what it replies depends on what it is asked to be."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from rag_core.writing.prompts import load_prompt


@asynccontextmanager
async def serve_roles(replies: Mapping[str, str]) -> AsyncIterator[str]:
    """Serve on loopback while this lasts; yields the address. `replies` by the name of the prompt."""

    async def chat(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        system = next((one["content"] for one in asked["messages"] if one["role"] == "system"), "")
        said = next(said for purpose, said in replies.items() if _is(purpose, system))
        if not asked.get("stream"):
            return web.json_response({"choices": [{"message": {"content": said}, "finish_reason": "stop"}]})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in ({"content": said}, {}):
            one = {"choices": [{"delta": piece, "finish_reason": None if piece else "stop"}]}
            await response.write(f"data: {json.dumps(one)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    async def listed(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "parts"}]})

    app = web.Application()
    app.router.add_get("/v1/models", listed)
    app.router.add_post("/v1/chat/completions", chat)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _is(purpose: str, system: str) -> bool:
    # a list of tools may follow
    langs = ("all",) if purpose == "plan" else ("ru", "en")
    return any(system.startswith(load_prompt(purpose, lang).system) for lang in langs)
