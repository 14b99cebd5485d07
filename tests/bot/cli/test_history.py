"""`citegram history`: what is set for it, and a backfill without the bot."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from driver import query_archive
from fake_mtproto_server import CHANNEL, CHAT_ID, TelegramServer, serve
from telethon import errors

from ingest.history import PacedSource
from rag_core.storage import Archive, channels
from rag_core.types import Channel, Visibility

GROUP_ID = CHAT_ID - 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> TelegramServer:
    """Telegram below the client library, asked without pauses."""
    quick = partial(PacedSource, sleep=lambda seconds: asyncio.sleep(min(seconds, 0.05)))
    monkeypatch.setattr("bot.cli.data.PacedSource", quick)
    return serve(monkeypatch)


@pytest.fixture
async def bakery(home: Path) -> Path:
    """A channel that the bot is in and has no posts of, and an approved group."""

    async def save(archive: Archive) -> None:
        await channels.save_channel(archive, Channel(CHAT_ID, "Bakery", "bakery", visibility=Visibility.PUBLIC))
        await channels.save_channel(archive, Channel(GROUP_ID, "Bakers", kind="supergroup"))
        await channels.record_bot_joined(archive, CHAT_ID)

    await query_archive(home, save)
    return home


def test_the_terminal_fetches_alone_and_lists(
    bakery: Path, server: TelegramServer, run_command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.post(*range(1, 151))
    for name, value in (("HISTORY__API_ID", "1"), ("HISTORY__API_HASH", "h"), ("BOT__TOKEN", "42:token")):
        monkeypatch.setenv(name, value)
    told = run_command("--data", str(bakery), "history", "estimate", "@bakery")
    assert told.out == "Bakery: at most 150 posts, about 1 min.\n"
    assert run_command("--data", str(bakery), "history", "begin", "@bakery").code == 0
    lines = run_command("--data", str(bakery), "history", "--json").out.splitlines()
    (line,) = [found for found in map(json.loads, lines) if found["title"] == "Bakery"]
    assert (line["state"], line["percent"], line["posts"]) == ("done", 100, 150)
    late = run_command("--data", str(bakery), "history", "pause", "@bakery")
    assert late.code == 1
    assert "no backfill of Bakery to pause" in late.err
    group = run_command("--data", str(bakery), "history", "begin", str(GROUP_ID))
    assert "is a group" in group.err
    server.problem = errors.ChannelPrivateError(None)
    assert "administrator" in run_command("--data", str(bakery), "history", "estimate", "@bakery").err


def test_the_terminal_says_what_to_set(bakery: Path, run_command: Any) -> None:
    told = run_command("--data", str(bakery), "history", "begin", "@bakery")
    assert told.code == 1
    assert "HISTORY__API_ID" in told.err
    assert CHANNEL.title not in told.err
