"""A real client of the history over a Telegram that answers below it."""

import pytest
from fake_mtproto_server import CHANNEL, CHAT_ID, serve

from ingest.history import PacedSource
from ingest.mtproto import HistoryClient
from rag_core.storage import channels


@pytest.fixture
def server(monkeypatch):
    return serve(monkeypatch)


@pytest.fixture
def client(server, tmp_path):
    assert server.sign_ins == 0
    return HistoryClient(1, "hash", "42:token", tmp_path)


@pytest.fixture
def source(client):
    async def skip(_):
        return None

    return PacedSource(client, sleep=skip)


@pytest.fixture
async def approved(archive):
    await channels.save_channel(archive, CHANNEL)
    await channels.record_bot_joined(archive, CHAT_ID)
    yield archive
