from __future__ import annotations

import asyncio
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from driver import ADMIN, OTTO, execute, say

from bot import data_folder
from bot.handlers.admin import format_age
from bot.i18n import LANGUAGES, get_translator
from bot.sandbox import Sandbox
from rag_core.storage.backups import get_backups_folder

FERRY = "When does the ferry to Owl Island leave?"


async def stats(sandbox: Sandbox, chat: int = ADMIN) -> str:
    reply = await say(sandbox, chat, "/stats")
    return str(reply["text"])


async def test_stats_say_how_the_bot_is(sandbox, live, ask, home):
    sandbox.push({"brand_new_kind": {"of": "update"}})
    get_backups_folder(home).mkdir()
    (get_backups_folder(home) / f"citegram-{datetime.now(UTC) - timedelta(hours=5):%Y%m%d-%H%M%S}.db").write_bytes(
        b"x" * 3_000_000
    )
    async with live():
        await ask(OTTO, FERRY)
        await ask(OTTO, "What is the capital of Mongolia?")
        said = await stats(sandbox)
    lines = said.splitlines()
    assert lines[0] == "4 channels · 12 posts"
    assert not [line for line in lines if "behind" in line or "⚠" in line or "missing" in line]  # all is well
    assert "1 message from Telegram that I could not read:" in lines
    assert any(line.startswith("• ") and line.endswith("unknown kind: update_id, brand_new_kind") for line in lines)
    assert "Questions today: 2 (answered 1, not found 1, failed 0)" in lines
    assert "Last 7 days: 2 (answered 1, not found 1, failed 0)" in lines
    assert "Last backup: 5 h ago (kept: 1)" in lines
    (talks,) = [line for line in lines if line.startswith("Talks in 7 days: 1.")]
    assert "questions 2.0, not found 1.0" in talks
    assert len(said) < 1000


async def test_stats_show_what_fails_with_its_sentence(sandbox, live, home, monkeypatch):
    from ingest.indexer import LexicalIndexer
    from rag_core.errors import IndexUnavailable

    async def broken(self: LexicalIndexer, *_: Any) -> int:
        raise IndexUnavailable("The index cannot be written to disk: free some space.")

    monkeypatch.setattr(LexicalIndexer, "catch_up", broken)
    moment = int(datetime.now(UTC).timestamp()) - 7200
    row = ("backup", moment + 60, 5, 3, 1, moment, "There was no room.", "made")
    execute(home, "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *row)
    async with live():
        async with asyncio.timeout(30):
            while "Failing: search by words" not in (said := await stats(sandbox)):
                pass
    assert "⚠ Failing: search by words (last" in said
    assert "The index cannot be written to disk: free some space." in said
    assert "Failed 2 h ago, fine again: backup. There was no room." in said


async def test_stats_are_for_admins_in_private_and_in_their_language(sandbox, live, home):
    sandbox.world.people[ADMIN].lang = "ru"
    async with live():
        assert "Only this bot's admins can do this." in await stats(sandbox, OTTO)
        said = await stats(sandbox)
    assert "Вопросов сегодня: 0 (отвечено 0, не нашлось 0, сбоев 0)" in said
    assert "Резервной копии ещё нет: первая будет этой ночью" in said


@pytest.mark.parametrize("lang", LANGUAGES)
def test_how_long_ago_is_said_in_a_unit_that_fits(lang):
    words = get_translator(lang)
    past = [timedelta(seconds=-5), timedelta(seconds=59), timedelta(minutes=3), timedelta(hours=7), timedelta(days=9)]
    said = [format_age(datetime.now(UTC) - span, words) for span in past]
    numbers = ["".join(filter(str.isdigit, text)) for text in said]
    assert numbers == ["0", "59", "3", "7", "9"]
    assert len({text.strip("0123456789") for text in said}) == 4


def test_the_disk_is_measured(tmp_path):
    (tmp_path / "citegram.db").write_bytes(b"x" * 1000)
    (tmp_path / "citegram.db-wal").write_bytes(b"x" * 100)
    (tmp_path / "lexical" / "1").mkdir(parents=True)
    (tmp_path / "lexical" / "1" / "postings.npz").write_bytes(b"x" * 30)
    disk = data_folder.measure_disk_usage(tmp_path)
    assert (disk.archive, disk.indexes, disk.backups) == (1100, 30, 0)
    assert disk.free > 0


def test_what_goes_away_while_it_is_looked_at_takes_no_place(tmp_path, monkeypatch):
    """The vectors' log makes and moves folders all the time."""
    log = tmp_path / "vectors" / "shard" / "wal"
    log.mkdir(parents=True)
    (log.parent / "points").write_bytes(bytes(1000))
    (log / "young").mkdir()
    real = os.scandir

    def late(path: Any) -> Any:
        if not isinstance(path, int) and Path(path) == log / "young":
            shutil.rmtree(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", late)
    assert data_folder.measure_disk_usage(tmp_path).indexes == 1000
    assert not (log / "young").exists()
