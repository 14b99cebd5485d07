"""A program that asks the bot over HTTP, by the official client of MCP."""

import json
import socket
from contextlib import asynccontextmanager

import httpx2


def find_free_address():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return "127.0.0.1:{1}".format(*free.getsockname())


@asynccontextmanager
async def connect(address, token, mode="auto"):
    from mcp.client.client import Client  # half a second, for every process that collects the tests
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"http://{address}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


async def call(address, token, tool, **given):
    """What a tool returns; the sentence of an error."""
    async with connect(address, token) as client:
        found = await client.call_tool(tool, given)
    (content,) = found.content
    return content.text if found.is_error else json.loads(content.text)
