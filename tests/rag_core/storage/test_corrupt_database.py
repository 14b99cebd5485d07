from __future__ import annotations

import asyncio
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_core.errors import ArchiveUnavailable
from rag_core.storage import Archive, db, posts
from rag_core.storage.backups import get_backup_time, make_backup, restore_backup
from rag_core.types import Post

MakePost = Callable[..., Post]
GO_ON = threading.Event()


async def fill(folder: Path, make_post: MakePost) -> None:
    archive = await Archive.open(folder)
    await posts.save_posts(archive, [make_post(n, f"слово {n} " * 200) for n in range(1, 400)], source="import")
    await archive.close()


def spoil(folder: Path) -> None:
    """One page of the middle, as a bad sector leaves it: it is not among those that opening reads."""
    file = folder / "citegram.db"
    pages = bytearray(file.read_bytes())
    middle = len(pages) // 2 // 4096 * 4096
    pages[middle : middle + 4096] = b"\x5a" * 4096
    file.write_bytes(pages)


async def test_one_damaged_page_is_found_when_the_archive_is_opened(tmp_path: Path, make_post: MakePost) -> None:
    await fill(tmp_path, make_post)
    spoil(tmp_path)
    with pytest.raises(ArchiveUnavailable, match="is damaged, and there is no backup"):
        await Archive.open(tmp_path)


async def test_the_sentence_about_damage_offers_the_last_backup(tmp_path: Path, make_post: MakePost) -> None:
    await fill(tmp_path, make_post)
    backup = make_backup(tmp_path, GO_ON)
    spoil(tmp_path)
    with pytest.raises(ArchiveUnavailable, match="damaged") as caught:
        await Archive.open(tmp_path)
    assert "citegram restore" in caught.value.reason
    assert f"{get_backup_time(backup):%Y-%m-%d %H:%M}" in caught.value.reason
    assert "\n" not in caught.value.reason
    # and doing so helps
    restore_backup(tmp_path, None, GO_ON)
    archive = await Archive.open(tmp_path)
    assert await posts.count_posts(archive) == 399
    await archive.close()


async def test_a_large_archive_is_looked_through_after_it_was_opened(
    tmp_path: Path, make_post: MakePost, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(tmp_path, make_post)
    spoil(tmp_path)
    monkeypatch.setattr(db, "MAX_CHECKED_BYTES", 1 << 16)
    archive = await Archive.open(tmp_path)
    assert archive.large
    with pytest.raises(ArchiveUnavailable, match="is damaged"):
        await archive.check_pages()
    await archive.close()


async def test_an_archive_in_order_is_looked_through_while_others_write(tmp_path: Path, make_post: MakePost) -> None:
    await fill(tmp_path, make_post)
    archive = await Archive.open(tmp_path)
    assert not archive.large
    async with archive.writing() as transaction:
        await transaction.execute("UPDATE posts SET views = 1")
        await asyncio.wait_for(archive.check_pages(), 30)
    await archive.close()


CHILD = """
import asyncio, resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from rag_core.storage import Archive
from rag_core.storage import raw_updates
from rag_core.errors import ArchiveUnavailable

async def main():
    archive = await Archive.open(Path(sys.argv[1]))
    print("open", flush=True)
    kept, last = 0, ""
    while sys.stdin.readline():
        batch = [{"update_id": n, "message": {"text": "x" * 2000}} for n in range(kept, kept + 50)]
        try:
            await raw_updates.save_updates(archive, 42, batch)
            kept += 50
            print("kept", kept, flush=True)
        except ArchiveUnavailable as exc:
            print("said", exc.reason, flush=True)
    await archive.close()

asyncio.run(main())
"""


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limits of another process are set on Linux only")
async def test_what_was_kept_before_the_disk_ended_is_there_and_more_is_kept_when_it_goes_on(
    tmp_path: Path, root: Path
) -> None:
    """A limit on the size of files stands for the end of the disk: the log of the archive cannot grow."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(tmp_path), str(root), stdin=pipe, stdout=pipe
    )
    assert process.stdin
    assert process.stdout

    async def next_batch() -> str:
        process.stdin.write(b"go\n")
        return (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip()

    await asyncio.wait_for(process.stdout.readline(), 60)
    assert await next_batch() == "kept 50"
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
    said = [await next_batch() for _ in range(6)]
    kept = [line for line in said if line.startswith("kept")]
    assert said[-1].startswith("said The disk that holds the archive")
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert await next_batch() == f"kept {50 + 50 * len(kept) + 50}"
    process.stdin.close()
    await process.wait()
    archive = await Archive.open(tmp_path)
    ((number,),) = await archive.rows("SELECT count(*) FROM updates")
    assert number == 100 + 50 * len(kept)
    await archive.close()
