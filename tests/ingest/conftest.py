"""A real archive, and small exports as Telegram Desktop writes them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rag_core.doors.archive import Archive

Chat = dict[str, Any]


@pytest.fixture
async def archive(tmp_path: Path) -> AsyncIterator[Archive]:
    archive = await Archive.open(tmp_path / "data")
    yield archive
    await archive.close()


@pytest.fixture
def written(tmp_path: Path) -> Callable[[object], Path]:
    """Write a result.json: bytes as they are, anything else as JSON."""

    def write(content: object, name: str = "result.json") -> Path:
        file = tmp_path / name
        raw = content if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False).encode()
        file.write_bytes(raw)
        return file

    return write


@pytest.fixture
def message() -> Callable[..., Chat]:
    """An exported message of today's format; the n-th is written n minutes after the first."""

    def make(message_id: int, text: str = "Хлеб по 90 рублей", **more: Any) -> Chat:
        unix = 1_710_244_800 + 60 * message_id
        return {
            "id": message_id,
            "type": "message",
            "date": "2024-03-12T15:00:00",
            "date_unixtime": str(unix),
            "from": "Пекарня",
            "from_id": "channel1234567890",
            "text": text,
            "text_entities": [{"type": "plain", "text": text}] if text else [],
        } | more

    return make


@pytest.fixture
def chat() -> Callable[..., Chat]:
    """An exported channel that holds the messages."""

    def make(*messages: object, **more: Any) -> Chat:
        head = {"name": "Пекарня", "type": "public_channel", "id": 1234567890}
        return head | more | {"messages": list(messages)}

    return make
