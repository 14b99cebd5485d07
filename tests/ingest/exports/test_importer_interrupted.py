"""An import that is killed, again and again: the next run ends it, nothing twice, nothing lost."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from ingest.exports import import_export
from ingest.json_export import ImportOptions
from rag_core.storage import Archive, posts
from rag_core.storage.post_rows import PostTally

pytestmark = pytest.mark.slow

POSTS = 3000


async def run_import(folder: Path, file: Path) -> None:
    archive = await Archive.open(folder)
    await import_export(archive, file, ImportOptions())
    await archive.close()


def kept(folder: Path) -> int:
    with contextlib.suppress(sqlite3.OperationalError):
        connection = sqlite3.connect(f"file:{folder / 'citegram.db'}?mode=ro", uri=True)
        with contextlib.closing(connection):
            return int(connection.execute("SELECT count(*) FROM posts").fetchone()[0])
    return 0


def killed_after(folder: Path, file: Path, least: int) -> int:
    """Run the import in a process of its own and kill it once `least` posts are there; how many then are."""
    child = get_context("fork").Process(target=lambda: asyncio.run(run_import(folder, file)))
    child.start()
    deadline = time.monotonic() + 30
    while kept(folder) < least and child.is_alive() and time.monotonic() < deadline:
        time.sleep(0.002)
    child.kill()
    child.join()
    return kept(folder)


async def test_an_import_killed_in_the_middle_is_ended_by_the_next_one(
    tmp_path: Path,
    written: Callable[..., Path],
    chat: Callable[..., dict[str, Any]],
    message: Callable[..., dict[str, Any]],
) -> None:
    file = written(chat(*(message(n, f"Цена {n} " * 40) for n in range(1, POSTS + 1))))
    folder = tmp_path / "killed"

    left = [killed_after(folder, file, least) for least in (1, 800, 1600)]

    assert left == sorted(left)
    assert sum(0 < count < POSTS for count in left) >= 2, "no kill came in the middle"
    archive = await Archive.open(folder)
    try:
        report = await import_export(archive, file, ImportOptions())
        assert report.tally == PostTally(new=POSTS - left[-1], unchanged=left[-1])
        assert await posts.list_message_ids(archive, -1001234567890) == set(range(1, POSTS + 1))
        assert await archive.rows("SELECT * FROM post_versions") == []
        ((seqs, last),) = await archive.rows("SELECT count(DISTINCT seq), max(seq) FROM posts")
        assert seqs == last == await posts.get_last_seq(archive) == POSTS
        ((healthy,),) = await archive.rows("PRAGMA integrity_check")
        assert healthy == "ok"
    finally:
        await archive.close()
