"""History from the replies of a real Telegram server, recorded by test_mtproto_server.py."""

from __future__ import annotations

import json
import socket
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from wire_recording import RECORDING, live_through, read_older_layer, replay_wire

from ingest.mtproto import HistoryAccount, HistoryClient
from rag_core.storage import Archive


async def test_a_channel_lives_through_its_recording(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a replay opens no connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    recording: dict[str, Any] = json.loads(RECORDING.read_text())
    read_older_layer(monkeypatch)
    replay_wire(monkeypatch, recording["calls"])
    clock = [1000.0]

    async def do(**_: object) -> None:
        return None

    def pass_time(seconds: float) -> None:
        clock[0] += seconds

    account = HistoryAccount(1, "hash", "777007:token", (2, "127.0.0.1", 1))
    client = HistoryClient(account, tmp_path, clock=lambda: clock[0])
    now = datetime.fromisoformat(recording["now"])
    await live_through(archive, client, recording["chat_id"], now, do, pass_time)
    assert recording["calls"] == []
