import asyncio
import sqlite3
import threading
import time
from contextlib import closing
from datetime import UTC, datetime

import pytest

from rag_core.errors import ArchiveUnavailable, ArchiveVersionUnknown
from rag_core.storage import Archive, posts
from rag_core.types import Post, PostKey

NOON = datetime(2024, 3, 12, 12, tzinfo=UTC)


def post(message_id, text="Хлеб по 90 рублей"):
    return Post(PostKey(-1001, message_id), NOON, text)


async def one(archive, pragma):
    async with archive.writing() as connection:
        ((value,),) = await connection.execute_fetchall(f"PRAGMA {pragma}")
    return value


async def test_the_writer_is_durable_and_waits_for_others(archive):
    assert await one(archive, "journal_mode") == "wal"
    assert await one(archive, "synchronous") == 2
    assert await one(archive, "foreign_keys") == 1
    assert await one(archive, "busy_timeout") == 10_000
    assert await one(archive, "trusted_schema") == 0
    assert await archive.value("PRAGMA trusted_schema") == 0


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_transaction_that_fails_leaves_nothing_and_the_next_one_works(archive, cancelled):
    async def fail():
        async with archive.writing() as connection:
            await posts.save_arrivals_in_transaction(connection, [(post(1), 0)], source="live")
            await asyncio.sleep(60 if cancelled else 0)
            raise ZeroDivisionError

    task = asyncio.create_task(fail())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else ZeroDivisionError):
        await task
    assert await posts.count_posts(archive) == await posts.get_last_seq(archive) == 0
    await posts.save_posts(archive, [post(2)], source="live")
    assert await posts.list_message_ids(archive, -1001) == {2}


async def test_work_in_the_writer_s_thread_is_all_or_nothing(archive):
    await archive.execute("CREATE TABLE kept (value)")
    begun, ended = threading.Event(), threading.Event()

    def insert(connection):
        return connection.execute("INSERT INTO kept VALUES (1)").rowcount

    def fail(connection):
        insert(connection)
        raise ZeroDivisionError

    def take_long(connection):
        insert(connection)
        begun.set()
        ended.wait(10)

    with pytest.raises(ZeroDivisionError):
        await archive.write(fail)
    for _ in range(2):
        task = asyncio.create_task(archive.write(take_long))
        await asyncio.to_thread(begun.wait, 10)
        begun.clear()
        task.cancel()
        ended.set()
        time.sleep(0.05)  # noqa: ASYNC251 - the thread goes on before the task hears of it
        with pytest.raises(asyncio.CancelledError):
            await task
        ended.clear()
    assert await archive.write(insert) == 1
    assert await archive.value("SELECT count(*) FROM kept") == 1


async def test_cancelled_writes_that_wait_for_a_lock_do_not_keep_others_waiting(tmp_path):
    archive = await Archive.open(tmp_path / "patient", patience=1.0)
    other = sqlite3.connect(tmp_path / "patient" / "citegram.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    tasks = [asyncio.create_task(archive.execute("DELETE FROM posts")) for _ in range(4)]
    for task in tasks:
        await asyncio.sleep(0.05)
        task.cancel()
    began = time.monotonic()
    with pytest.raises(ArchiveUnavailable):
        await archive.execute("DELETE FROM posts")
    assert time.monotonic() - began < 3.0, "the first one's second, then its own"
    other.close()
    await archive.close()
    assert all(task.cancelled() for task in tasks)


async def test_one_cancelled_while_it_waits_for_a_lock_leaves_no_transaction_behind(archive):
    other = sqlite3.connect(archive.folder / "citegram.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    task = asyncio.create_task(posts.save_posts(archive, [post(1)], source="live"))
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.sleep(0.1)
    other.execute("ROLLBACK")  # now it gets the lock that nobody wants any more
    other.close()
    with pytest.raises(asyncio.CancelledError):
        await task

    await posts.save_posts(archive, [post(2)], source="live")
    assert await posts.list_message_ids(archive, -1001) == {2}


@pytest.mark.parametrize("version", [26, 999])
async def test_an_archive_of_an_unknown_version_is_refused_and_left_alone(tmp_path, version):
    with closing(sqlite3.connect(tmp_path / "citegram.db")) as other:
        other.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(
            ArchiveVersionUnknown, match="before version 0.1.0" if version == 26 else "by a later version"
        ):
            await Archive.open(tmp_path)
        assert other.execute("PRAGMA user_version").fetchone() == (version,)


async def test_two_that_open_a_new_archive_at_once_make_it_once(tmp_path):
    both = await asyncio.gather(Archive.open(tmp_path), Archive.open(tmp_path))
    for archive in both:
        assert await posts.count_posts(archive) == 0
        await archive.close()


async def test_a_locked_archive_says_so(tmp_path):
    archive = await Archive.open(tmp_path, patience=0.05)
    other = sqlite3.connect(tmp_path / "citegram.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(ArchiveUnavailable, match="locked by another program"):
        await posts.save_posts(archive, [post(1)], source="live")

    other.execute("ROLLBACK")
    other.close()
    assert (await posts.save_posts(archive, [post(1)], source="live")).new == 1
    await archive.close()


async def test_a_full_disk_says_so_and_loses_nothing_that_was_kept(archive):
    await posts.save_posts(archive, [post(1)], source="live")
    pages = await one(archive, "page_count")
    await one(archive, f"max_page_count = {pages}")

    with pytest.raises(ArchiveUnavailable, match="is full"):
        await posts.save_posts(archive, [post(n, "слово " * 500) for n in range(2, 100)], source="live")

    assert await posts.list_message_ids(archive, -1001) == {1}
    await one(archive, "max_page_count = 1000000")
    assert (await posts.save_posts(archive, [post(2)], source="live")).new == 1


async def test_a_read_only_archive_says_so(archive):
    async with archive.writing() as connection:
        await connection.execute("PRAGMA query_only = ON")
    with pytest.raises(ArchiveUnavailable, match="permissions"):
        await posts.save_posts(archive, [post(1)], source="live")


@pytest.mark.parametrize("folder", ["file/{odd}", "taken"])
async def test_a_folder_or_a_file_that_cannot_be_made_says_so(tmp_path, folder):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "taken" / "citegram.db").mkdir(parents=True)
    with pytest.raises(ArchiveUnavailable, match="cannot be opened"):
        await Archive.open(tmp_path / folder)
    (tmp_path / "citegram.db").write_bytes(b"\x89PNG" * 2000)
    with pytest.raises(ArchiveUnavailable, match="damaged"):
        await Archive.open(tmp_path)


async def test_wrong_sql_is_a_bug_and_readers_cannot_write(archive):
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await archive.rows("SELECT * FROM nowhere")
    with pytest.raises(ArchiveUnavailable):
        await archive.rows("DELETE FROM posts")
