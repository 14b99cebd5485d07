"""`citegram report`: a page of numbers that is safe to open, and readable for its owner only."""

from __future__ import annotations

import re
import sqlite3
import stat
import xml.etree.ElementTree as ElementTree
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from driver import Cli, open_archive

from bot.cli.channel_report import build_report
from rag_core.storage import channels, posts
from rag_core.types import Channel, Post, PostKey

MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
HOSTILE = "</title><script>alert(1)</script> & Co"
CHAT = -1001
ANSWERS = ('{"refused": true}', '{"refused": false}', '{"refused": false}')


async def fill(home: Path) -> None:
    """Three posts in the first week and one in the third, by a channel with a hostile name."""
    days = (0, 1, 6, 14)
    texts = [f"The <b>Ferry</b> of Captain Harbour{n} leaves & the Ferry comes back." for n in range(len(days))]
    kept = [
        Post(PostKey(CHAT, n), MONDAY + timedelta(days=day), text)
        for n, (day, text) in enumerate(zip(days, texts, strict=True), 1)
    ]
    async with open_archive(home) as archive:
        await channels.save_channel(archive, Channel(CHAT, HOSTILE, "harbour"))
        await posts.save_posts(archive, kept, source="test")
    asked_at = int((MONDAY + timedelta(days=15)).timestamp())
    with closing(sqlite3.connect(home / "citegram.db")) as connection, connection:
        connection.executemany(
            "INSERT INTO questions (bot_id, update_id, chat_id, user_id, message_id, private, text, lang, asked_at, "
            "state, answer) VALUES (1, ?, 5, 5, ?, 1, 'what is quixotic?', 'en', ?, 'answered', ?)",
            [(n, n, asked_at, answer) for n, answer in enumerate(ANSWERS)],
        )


async def test_the_page_counts_posts_and_questions_by_week_and_is_no_way_in(tmp_path: Path) -> None:
    await fill(tmp_path)
    async with open_archive(tmp_path) as archive:
        page = await build_report(archive, MONDAY, 3)
    assert "<script" not in page
    policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    assert policy in page
    assert "quixotic" not in page
    assert "&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt; &amp; Co" in page
    assert not re.search(r"(?:src|href)=", page)
    ElementTree.fromstring(
        page.removeprefix("<!doctype html>")
        .replace('<meta charset="utf-8">', "")
        .replace(policy, "")
        .replace('<meta name="viewport" content="width=device-width, initial-scale=1">', "")
    )
    assert re.findall(r"<title>(week of [^<]*)</title>", page) == [
        "week of 16 November 2026: 3, 1 without an answer",
        "week of 16 November 2026: 3, 1 without an answer",
        "week of 2 November 2026: 3",
        "week of 16 November 2026: 1",
    ]
    assert "<li>Ferry <span>4</span></li>" in page


def test_the_command_writes_a_private_file_also_over_an_older_one(
    home: Path, tmp_path: Path, run_command: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATA__DIR", str(home))
    file = tmp_path / "page.html"
    file.write_text("old")
    file.chmod(0o644)
    done = run_command("report", "--weeks", "2", "--out", str(file))
    assert "open it in a browser" in done.out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "Nobody asked in these weeks." in file.read_text()
    refused = run_command("report", "--out", str(tmp_path / "no" / "page.html"))
    assert refused.code == 1
    assert "Name another file with --out." in refused.err
