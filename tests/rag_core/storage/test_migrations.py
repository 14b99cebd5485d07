from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from rag_core.errors import ArchiveNotUpdated, BackupFailed
from rag_core.storage import Archive, channels, posts, schema
from rag_core.storage.backups import list_backups, make_backup, prune_backups, read_archive_version, restore_backup

GO_ON = threading.Event()
OLD = schema.FIRST_VERSION
TOMORROW = "CREATE TABLE tomorrow (x INTEGER)"

Old = Callable[..., Path]


@contextmanager
def opened(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file)) as connection, connection:
        yield connection


def version(folder: Path) -> int:
    with opened(folder / "citegram.db") as archive:
        return int(archive.execute("PRAGMA user_version").fetchone()[0])


@pytest.fixture
def old(tmp_path: Path) -> Old:
    """The folder of an archive as an earlier version left it."""

    def make_old(texts: int = 300) -> Path:
        folder = tmp_path / "data"
        folder.mkdir(mode=0o700)
        with opened(folder / "citegram.db") as archive:
            for statement in schema.MIGRATIONS[0]:
                archive.execute(statement)
            archive.execute(f"PRAGMA user_version = {OLD}")
            archive.execute(
                "INSERT INTO channels (chat_id, title, kind, visibility, state, added_at) "
                "VALUES (-1001, 'Old News', 'channel', 'public', 'active', 0)"
            )
            for n in range(1, texts + 1):
                row = (-1001, n, n, n, n, 0, 1, f"post {n}", b"h", "[]", "[]", "import", '["Elsewhere", -77, 5]')
                archive.execute(
                    "INSERT INTO posts (chat_id, message_id, seq, date, stamp, update_id, version, text, text_hash, "
                    "entities, links, source, origin) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)", row
                )  # fmt: skip
            archive.execute("UPDATE sequence SET value = ?", (texts,))
        return folder

    return make_old


def update_citegram(monkeypatch: pytest.MonkeyPatch, *statements: str) -> None:
    """Citegram of tomorrow, which has one more migration."""
    began = (TOMORROW, "DELETE FROM posts WHERE message_id > 100", *statements)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, began))


async def test_an_archive_of_an_earlier_version_is_migrated_once(old: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = old()
    update_citegram(monkeypatch)
    for _ in range(2):
        archive = await Archive.open(folder)
        assert (await channels.load_channels(archive))[-1001].title == "Old News"
        assert await posts.count_posts(archive) == 100
        await archive.close()
    assert version(folder) == OLD + 1
    (backup,) = list_backups(folder)
    assert read_archive_version(backup, GO_ON) == OLD


async def test_a_new_archive_gets_all_migrations_and_no_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update_citegram(monkeypatch)
    await (await Archive.open(tmp_path)).close()
    assert version(tmp_path) == OLD + 1
    assert list_backups(tmp_path) == []


@pytest.mark.parametrize(
    "wrong", ["UPDATE no_such_table SET x = 1", "INSERT INTO channels (chat_id, title) VALUES (-5, NULL)"]
)
async def test_a_migration_that_fails_leaves_the_archive_as_it_was_and_says_so(
    old: Old, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    folder = old()
    with monkeypatch.context() as tomorrow:
        update_citegram(tomorrow, wrong)
        with pytest.raises(ArchiveNotUpdated, match="is as it was: go on with the version you had") as caught:
            await Archive.open(folder)
    (backup,) = list_backups(folder)
    assert str(backup) in caught.value.reason
    assert version(folder) == OLD
    with opened(folder / "citegram.db") as archive:
        assert archive.execute("SELECT count(*) FROM posts").fetchone() == (300,)
        assert not archive.execute("SELECT 1 FROM sqlite_master WHERE name = 'tomorrow'").fetchall()
    again = await Archive.open(folder)  # the version that was there before goes on
    assert await posts.count_posts(again) == 300
    await again.close()


async def test_an_update_that_proves_bad_is_undone_by_putting_its_backup_back(
    old: Old, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = old()
    with monkeypatch.context() as tomorrow:
        update_citegram(tomorrow)
        updated = await Archive.open(folder)
        assert await posts.count_posts(updated) == 100
        await updated.close()
    (backup,) = list_backups(folder)
    assert restore_backup(folder, None, GO_ON).backup == backup
    assert version(folder) == OLD
    archive = await Archive.open(folder)
    assert await posts.count_posts(archive) == 300
    await archive.close()


async def test_the_backup_of_an_update_outlives_the_nightly_ones_until_the_next_update(
    old: Old, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = old()
    update_citegram(monkeypatch)
    await (await Archive.open(folder)).close()
    (first,) = list_backups(folder)
    assert "-version" in first.name
    nights = [make_backup(folder, GO_ON) for _ in range(4)]
    prune_backups(folder, 2)
    assert set(list_backups(folder)) == {first, *nights[-2:]}
    second = make_backup(folder, GO_ON, version=OLD + 1)
    prune_backups(folder, 2)
    assert second in list_backups(folder)
    assert first not in list_backups(folder)


async def test_without_room_for_a_backup_the_tables_of_posts_are_not_changed(
    old: Old, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = old()
    update_citegram(monkeypatch)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=1 << 20))
    with pytest.raises(BackupFailed, match=r"a backup comes first. There is no room for a backup: \d+ MB must be free"):
        await Archive.open(folder)
    assert version(folder) == OLD


async def test_an_archive_without_posts_needs_no_room_for_a_backup(old: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = old(texts=0)
    update_citegram(monkeypatch)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=1 << 20))
    await (await Archive.open(folder)).close()
    assert version(folder) == OLD + 1
    assert list_backups(folder) == []
