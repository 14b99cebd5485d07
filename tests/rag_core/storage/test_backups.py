import asyncio
import shutil
import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from ingest.indexer import LexicalIndexer
from rag_core.engine import load_or_make_lexical_index
from rag_core.errors import ArchiveUnavailable, BackupFailed
from rag_core.index.lexical_index import get_lexical_folder
from rag_core.storage import Archive, backups, channel_history, channels, db, index_state, posts, questions
from rag_core.storage.backups import (
    ARCHIVE_FILE,
    WorkCancelled,
    copy_database,
    get_backup_time,
    get_backups_folder,
    list_backups,
    make_backup,
    prune_backups,
    restore_backup,
    run_cancellable,
)
from rag_core.types import Channel

CHANNEL = -1001
GO_ON = threading.Event()


@pytest.fixture
async def archive(tmp_path):
    archive = await Archive.open(tmp_path / "data")
    yield archive
    await archive.close()


async def backed_up(archive):
    return await run_cancellable(lambda stop: make_backup(archive.folder, stop))


async def reopened(archive):
    await archive.close()
    restore_backup(archive.folder, None, GO_ON)
    return await Archive.open(archive.folder)


def read_file(file, sql):
    """The first column of a query on a file beside the archive."""
    with closing(sqlite3.connect(file)) as copy:
        return [row[0] for row in copy.execute(sql)]


async def test_a_backup_holds_what_was_committed_in_one_file_for_its_owner(archive, make_post):
    await posts.save_posts(archive, [make_post(n, f"post {n}") for n in range(1, 500)], source="live")
    backup = await backed_up(archive)
    assert backup.parent == archive.folder / "backups"
    assert backup.stat().st_mode & 0o777 == 0o600
    assert abs(get_backup_time(backup) - datetime.now(UTC)) < timedelta(seconds=10)
    assert list(backup.parent.iterdir()) == [backup]  # no log, no journal, nothing half done
    assert read_file(backup, "SELECT count(*) FROM posts") == [499]


async def test_a_second_backup_leaves_the_one_that_is_being_made_alone(archive, monkeypatch):
    """That of the night, and `citegram backup`: the archive was called damaged."""
    begun, go_on = threading.Event(), threading.Event()

    def copy_and_wait(*given):
        copy_database(*given)
        begun.set()
        assert go_on.wait(10)

    monkeypatch.setattr(backups, "copy_database", copy_and_wait)
    first = asyncio.create_task(backed_up(archive))
    assert await asyncio.to_thread(begun.wait, 10)
    second = asyncio.create_task(backed_up(archive))
    await asyncio.sleep(0.3)
    go_on.set()
    assert {await first, await second} == set(list_backups(archive.folder))


async def test_writing_goes_on_while_a_backup_is_made(archive, make_post):
    await posts.save_posts(archive, [make_post(n, "слово " * 600) for n in range(1, 1000)], source="import")
    making, waits, number = asyncio.create_task(backed_up(archive)), [], 10_000
    while not making.done():
        number += 1
        started = time.perf_counter()
        await posts.save_posts(archive, [make_post(number, "during")], source="live")
        waits.append(time.perf_counter() - started)
    backup = await making
    assert len(waits) > 3
    assert max(waits) < 1
    ids = read_file(backup, "SELECT message_id FROM posts WHERE message_id > 10000 ORDER BY 1")
    assert ids == list(range(10_001, 10_001 + len(ids)))  # of one moment, whatever was written meanwhile


async def test_a_put_back_archive_has_another_identity_and_what_was_there_beside_it(archive, make_post):
    await posts.save_posts(archive, [make_post(1, "kept")], source="live")
    before, backup = archive.identity, await backed_up(archive)
    await posts.save_posts(archive, [make_post(2, "lost")], source="live")
    again = await reopened(archive)
    try:
        assert await posts.list_message_ids(again, CHANNEL) == {1}
        assert again.identity != before
        assert again.origin == before
    finally:
        await again.close()
    (aside,) = archive.folder.glob("citegram-before-*.db")
    assert read_file(aside, "SELECT count(*) FROM posts") == [2]
    assert list_backups(archive.folder) == [backup]
    later = await Archive.open(archive.folder)
    await later.close()
    assert later.identity == again.identity  # it stays the same from then on


async def test_a_log_of_the_archive_that_was_there_is_not_played_into_the_one_put_back(archive, make_post):
    await backed_up(archive)
    await posts.save_posts(archive, [make_post(n, "after the backup") for n in range(1, 50)], source="live")
    folder = archive.folder.with_name("killed")
    shutil.copytree(archive.folder, folder)  # as a kill leaves it: the posts are in the log alone
    assert (folder / "citegram.db-wal").stat().st_size
    restore_backup(folder, None, GO_ON)
    again = await Archive.open(folder)
    assert await posts.count_posts(again) == 0
    await again.close()
    (aside,) = folder.glob("citegram-before-*.db")
    assert read_file(aside, "SELECT count(*) FROM posts") == [49]  # with its log


async def test_a_restore_that_is_killed_halfway_loses_no_post(archive, make_post, monkeypatch):
    await backed_up(archive)
    await posts.save_posts(archive, [make_post(n, "after the backup") for n in range(1, 50)], source="live")
    folder, set_aside = archive.folder.with_name("killed"), backups._set_archive_aside
    shutil.copytree(archive.folder, folder)  # the posts are in the log alone

    def die(file):
        set_aside(file)
        raise SystemExit

    monkeypatch.setattr(backups, "_set_archive_aside", die)
    with pytest.raises(SystemExit):
        restore_backup(folder, None, GO_ON)
    assert read_file(folder / ARCHIVE_FILE, "SELECT count(*) FROM posts") == [49]


async def test_what_came_after_a_backup_is_a_gap_of_the_channels_the_bot_is_in(archive, make_post):
    for number, inside in ((1, True), (2, False)):
        await channels.save_channel(archive, Channel(number, f"Channel {number}"))
        if inside:
            await channels.record_bot_joined(archive, number)
    joined = datetime.now(UTC) - timedelta(days=9)
    beat = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
    async with archive.writing() as connection:
        await connection.execute("UPDATE channels SET joined_at = ? WHERE joined_at", (int(joined.timestamp()),))
    await channel_history.record_heartbeat(archive, beat)
    await backed_up(archive)
    again = await reopened(archive)
    found_gaps = await channel_history.list_open_gaps(again)
    assert list(found_gaps) == [1]
    ((gap,),) = found_gaps.values()
    assert gap.since == beat
    assert abs(gap.until - datetime.now(UTC)) < timedelta(minutes=1)
    # the time since the last heartbeat is told once
    assert await channel_history.get_last_heartbeat(again) == gap.until
    await again.close()


async def test_questions_of_the_time_of_the_backup_are_not_answered_again(archive):
    asked = questions.QuestionRow(
        bot_id=1, update_id=1, chat_id=5, message_id=1, user_id=5, text="when?", lang="en",
        asked_at=datetime.now(UTC), private=True,
    )  # fmt: skip
    await questions.queue_question(archive, asked)
    await backed_up(archive)
    again = await reopened(archive)
    assert await questions.take_next_question(again) is None
    await again.close()


async def test_indexes_notice_that_a_backup_was_put_back_by_whoever_did_it(archive, make_post):
    lexical = await load_or_make_lexical_index(archive)
    indexer = LexicalIndexer(archive, lexical)
    await posts.save_posts(archive, [make_post(1, "ferry")], source="live")
    await indexer.catch_up()
    await indexer.save()
    await index_state.queue_changed_posts(archive, "a store", "model")
    backup = await backed_up(archive)
    await archive.close()
    shutil.copy(backup, archive.folder / ARCHIVE_FILE)  # by hand
    again = await Archive.open(archive.folder)
    # It would fit: the same number of changes. But what it is of may be another post.
    assert (get_lexical_folder(again.folder) / "current.json").exists()
    assert (await load_or_make_lexical_index(again)).watermark == 0
    assert await index_state.count_unembedded_changes(again, "a store") == 1
    await again.close()


async def test_only_so_many_backups_are_kept(archive):
    assert list_backups(archive.folder) == []  # a new archive needs none
    made = [await backed_up(archive) for _ in range(4)]
    assert len({file.name for file in made}) == 4  # also within one second
    assert list_backups(archive.folder) == made[::-1]
    assert prune_backups(archive.folder, 2) == 2
    assert list_backups(archive.folder) == [made[3], made[2]]
    assert prune_backups(archive.folder, 0) == 1
    assert list_backups(archive.folder) == [made[3]]


def test_a_name_from_a_clock_that_was_ahead_is_no_newest_backup(tmp_path):
    get_backups_folder(tmp_path).mkdir()
    now = datetime.now(UTC)
    names = [f"citegram-{now + timedelta(days=days):%Y%m%d-%H%M%S}.db" for days in (3650, 0, -1)]
    for name in (*names, "citegram-99999999-999999.db", "notes.txt"):
        (get_backups_folder(tmp_path) / name).touch()
    assert [file.name for file in list_backups(tmp_path)] == [names[1], names[2], names[0]]


@pytest.mark.slow
async def test_a_backup_that_was_cut_short_leaves_nothing_under_its_name(archive, make_post):
    await posts.save_posts(archive, [make_post(n, "слово " * 600) for n in range(1, 500)], source="import")
    code = (
        "import sys, threading, time; from pathlib import Path; from rag_core.storage import backups;"
        "backups.time = type('slow', (), {'sleep': lambda s: (print('copying', flush=True), time.sleep(60))});"
        "backups.make_backup(Path(sys.argv[1]), threading.Event())"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(archive.folder), stdout=asyncio.subprocess.PIPE
    )
    assert await asyncio.wait_for(process.stdout.readline(), 30) == b"copying\n"
    assert list(get_backups_folder(archive.folder).glob("*.part"))
    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert list_backups(archive.folder) == []
    backup = await backed_up(archive)
    assert list(get_backups_folder(archive.folder).iterdir()) == [backup]  # what was left is swept


async def test_a_backup_ends_when_nobody_waits_for_it_and_fills_no_disk(archive, monkeypatch):
    stop = threading.Event()
    stop.set()
    with pytest.raises(WorkCancelled):
        make_backup(archive.folder, stop)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=50 << 20))
    with pytest.raises(BackupFailed, match=r"no room for a backup: 64 MB must be free .* and 50 MB are"):
        await backed_up(archive)
    assert list(get_backups_folder(archive.folder).iterdir()) == []


def spoil(file):
    """One page of the middle, as a bad sector leaves it: it is not among those that opening reads."""
    pages = bytearray(file.read_bytes())
    middle = len(pages) // 2 // 4096 * 4096
    pages[middle : middle + 4096] = b"\x5a" * 4096
    file.write_bytes(pages)


async def fill(folder, make_post):
    archive = await Archive.open(folder)
    await posts.save_posts(archive, [make_post(n, f"слово {n} " * 200) for n in range(1, 400)], source="import")
    await archive.close()


async def test_the_newest_backup_that_is_whole_is_put_back(archive, make_post):
    await fill(archive.folder, make_post)
    first, second = await backed_up(archive), await backed_up(archive)
    spoil(second)
    await archive.close()
    with pytest.raises(BackupFailed, match=f"{second.name} is no whole archive"):
        restore_backup(archive.folder, second, GO_ON)
    assert not list(archive.folder.glob("citegram-before-*"))
    assert restore_backup(archive.folder, None, GO_ON)[0] == first
    spoil(archive.folder / ARCHIVE_FILE)  # of a damaged archive no backup is made
    with pytest.raises(ArchiveUnavailable, match="damaged"):
        make_backup(archive.folder, GO_ON)
    assert list_backups(archive.folder) == [second, first]


async def test_what_is_no_archive_that_we_know_is_not_put_back(archive, tmp_path):
    file = tmp_path / "given.db"
    for content in (None, b"", b"\x89PNG" * 2000):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(BackupFailed, match="no whole archive"):
            restore_backup(archive.folder, file, GO_ON)
    with pytest.raises(BackupFailed, match="no backup in"):
        restore_backup(archive.folder, None, GO_ON)
    with closing(sqlite3.connect(await backed_up(archive))) as later:
        later.execute("PRAGMA user_version = 999")
    with pytest.raises(BackupFailed, match="Update Citegram"):
        restore_backup(archive.folder, None, GO_ON)
    with pytest.raises(BackupFailed, match="no archive in"):
        make_backup(tmp_path, GO_ON)


# damage


async def test_one_damaged_page_is_found_and_the_sentence_offers_the_last_backup(tmp_path, make_post):
    await fill(tmp_path, make_post)
    backup = make_backup(tmp_path, GO_ON)
    hidden = backup.rename(tmp_path / "hidden.db")
    spoil(tmp_path / ARCHIVE_FILE)
    with pytest.raises(ArchiveUnavailable, match="is damaged, and there is no backup"):
        await Archive.open(tmp_path)
    hidden.rename(backup)
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


async def test_a_large_archive_is_looked_through_after_it_was_opened_while_others_write(
    tmp_path, make_post, monkeypatch
):
    await fill(tmp_path, make_post)
    archive = await Archive.open(tmp_path)
    assert not archive.large
    async with archive.writing() as transaction:
        await transaction.execute("UPDATE posts SET suspected = 1")
        await asyncio.wait_for(archive.check_pages(), 30)
    await archive.close()
    spoil(tmp_path / ARCHIVE_FILE)
    monkeypatch.setattr(db, "MAX_CHECKED_BYTES", 1 << 16)
    archive = await Archive.open(tmp_path)
    assert archive.large
    with pytest.raises(ArchiveUnavailable, match="is damaged"):
        await archive.check_pages()
    await archive.close()
