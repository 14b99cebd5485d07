import asyncio
import multiprocessing
import random
import time
from datetime import UTC, datetime

import pytest
from sample_sizes import choose_size

from ingest.media.reader import ExportFiles, MediaReader, remove_left_folders
from rag_core.storage import Archive, channels, media, posts, visible_posts
from rag_core.types import DOCUMENT, Channel, Media, MediaFile, Post, PostKey

START = datetime(2026, 3, 12, 12, tzinfo=UTC)
KILLS, FILES, CHAT = choose_size(30, 8), choose_size(1200, 320), -1001


class CopiedFiles(ExportFiles):
    """Files that are fetched into the reader's folder first, as those of Telegram are."""

    async def fetch(self, waiting, folder):
        source = await super().fetch(waiting, folder)
        copied = folder / source.name
        copied.write_bytes(source.read_bytes())
        return copied


async def read_files(folder, on_file=lambda _: None):
    """Go on with the queue, as a bot does that was just started."""
    remove_left_folders(folder)
    archive = await Archive.open(folder)

    async def list_kinds():
        return frozenset({DOCUMENT})

    async def find_no_model():
        return None

    reader = MediaReader(archive, {"path": CopiedFiles()}, list_kinds, speech_model=find_no_model)
    try:
        async with asyncio.timeout(60):
            await reader.catch_up(on_file)
    finally:
        await reader.close()
        await archive.close()


def read_until_killed(folder, steps):
    asyncio.run(read_files(folder, lambda _: steps.release()))


def kill_one(context, folder, files, seconds):
    """Kill a process some time after it has read so many files."""
    done = context.Semaphore(0)
    running = context.Process(target=read_until_killed, args=(folder, done))
    running.start()
    assert all(done.acquire(timeout=60) for _ in range(files))
    time.sleep(seconds)
    running.kill()
    running.join()


@pytest.mark.slow
async def test_every_file_is_read_once_after_many_kills(tmp_path):
    archive, exported = await Archive.open(tmp_path / "data"), tmp_path / "export"
    exported.mkdir()
    names = [f"list_{n}.txt" for n in range(FILES)]
    for n, name in enumerate(names):
        (exported / name).write_text(f"Булка номер {n}: {n + 40} рублей\nПечём по {n % 28 + 1}-м числам\n")
    try:
        await channels.save_channel(archive, Channel(CHAT, "Пекарня"))
        listed = [
            Post(PostKey(CHAT, n + 1), START, "Прайс", media=Media(
                "document", name, file=MediaFile(DOCUMENT, f"path:9:{name}", str(exported / name), 9)))
            for n, name in enumerate(names)
        ]  # fmt: skip
        await posts.save_posts(archive, listed, source="import")
        chance, context = random.Random(7), multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["pytest", "ingest.media.reader"])
        midway = 0
        for _ in range(KILLS):
            files, seconds = chance.randint(1, 3), chance.uniform(0, 0.03)
            await asyncio.to_thread(kill_one, context, tmp_path / "data", files, seconds)
            states = {one.state: one.files for one in await media.count_media(archive)}
            midway += 0 < states.get("read", 0) < FILES
        assert midway > KILLS // 3, "the kills came before or after the work"
        await read_files(tmp_path / "data")
        assert [(one.state, one.files) for one in await media.count_media(archive)] == [("read", FILES)]
        found = await visible_posts.fetch_posts(archive, [post.key for post in listed])
        for n, post in enumerate(found[one.key] for one in listed):
            text = f"Прайс\n\nБулка номер {n}: {n + 40} рублей\nПечём по {n % 28 + 1}-м числам"
            assert (post.text, post.version) == (text, 1)
        assert not await archive.value("SELECT count(*) FROM post_versions")
        assert not list((tmp_path / "data").glob(".reading-*"))
    finally:
        await archive.close()


def test_a_copy_that_the_owner_made_of_kept_files_is_no_leftover(tmp_path):
    for name in ("media-2024", ".reading-x1y2z3"):
        (tmp_path / name).mkdir()
    remove_left_folders(tmp_path)
    assert [place.name for place in tmp_path.iterdir()] == ["media-2024"]
