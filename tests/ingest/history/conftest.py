"""A real client of the history over a Telegram that answers below it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fake_mtproto_server import CHANNEL, CHAT_ID, TelegramServer, serve

from ingest.history import PacedSource
from ingest.mtproto import HistoryClient
from rag_core.storage import Archive, channels


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> TelegramServer:
    return serve(monkeypatch)


@pytest.fixture
def client(server: TelegramServer, tmp_path: Path) -> HistoryClient:
    assert server.sign_ins == 0
    return HistoryClient(1, "hash", "42:token", tmp_path)


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
