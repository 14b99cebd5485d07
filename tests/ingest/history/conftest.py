"""A real client of the history over a Telegram that answers below it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from history_server import CHANNEL, CHAT_ID, TelegramServer
from telethon import TelegramClient

from ingest.history.backfill import PacedSource
from ingest.history.client import HistoryAccount, HistoryClient
from rag_core.storage import Archive, channels


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> TelegramServer:
    """The server; nothing is ever sent to the network."""
    found = TelegramServer()

    async def call(_: TelegramClient, request: Any, **__: Any) -> Any:
        return await found.answer(request)

    async def nothing(_: TelegramClient) -> None:
        return None

    async def sign_in(client: TelegramClient, **_: Any) -> None:
        found.sign_ins += 1
        client.session.set_dc(2, "127.0.0.1", 443)

    async def authorized(_: TelegramClient) -> bool:
        return bool(found.sign_ins)

    monkeypatch.setattr(TelegramClient, "__call__", call)
    monkeypatch.setattr(TelegramClient, "connect", nothing)
    monkeypatch.setattr(TelegramClient, "disconnect", nothing)
    monkeypatch.setattr(TelegramClient, "sign_in", sign_in)
    monkeypatch.setattr(TelegramClient, "is_user_authorized", authorized)
    return found


@pytest.fixture
def client(server: TelegramServer, tmp_path: Path) -> HistoryClient:
    assert server.sign_ins == 0
    return HistoryClient(HistoryAccount(1, "hash", "42:token"), tmp_path)


@pytest.fixture
def source(client: HistoryClient) -> PacedSource:
    async def skip(_: float) -> None:
        return None

    return PacedSource(client, sleep=skip)


@pytest.fixture
async def approved(archive: Archive) -> AsyncIterator[Archive]:
    """An archive with the channel, approved, with the bot inside."""
    await channels.save_channel(archive, CHANNEL)
    await channels.record_bot_joined(archive, CHAT_ID)
    yield archive
