import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import pytest

from rag_core.errors import BackupFailed
from rag_core.storage import Archive, channels, posts, schema
from rag_core.storage.backups import list_backups, make_backup, prune_backups, read_archive_version, restore_backup

GO_ON = threading.Event()
OLD = schema.get_schema_version()  # to the Citegram of tomorrow
TOMORROW = "CREATE TABLE tomorrow (x INTEGER)"

Old = Callable[..., Path]


@contextmanager
def opened(file):
    with closing(sqlite3.connect(file)) as connection, connection:
        yield connection


def version(folder):
    with opened(folder / "citegram.db") as archive:
        return int(archive.execute("PRAGMA user_version").fetchone()[0])


@pytest.fixture
def old(tmp_path):
    """The folder of an archive as an earlier version left it."""

    def make_old():
        folder = tmp_path / "data"
        folder.mkdir(mode=0o700)
        with opened(folder / "citegram.db") as archive:
            for statement in chain.from_iterable(schema.MIGRATIONS):
                archive.execute(statement)
            archive.execute(f"PRAGMA user_version = {OLD}")
            archive.execute(
                "INSERT INTO channels (chat_id, title, kind, visibility, state, added_at) "
                "VALUES (-1001, 'Old News', 'channel', 'public', 'active', 0)"
            )
            for n in range(1, 301):
                row = (-1001, n, n, n, n, 0, 1, f"post {n}", b"h", "[]", "[]", "import", '["Elsewhere", -77, 5]')
                archive.execute(
                    "INSERT INTO posts (chat_id, message_id, seq, date, stamp, update_id, version, text, text_hash, "
                    "entities, links, source, origin) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)", row
                )  # fmt: skip
            archive.execute("UPDATE sequence SET value = ?", (300,))
        return folder

    return make_old


def update_citegram(monkeypatch, *statements):
    """Citegram of tomorrow, which has one more migration."""
    began = (TOMORROW, "DELETE FROM posts WHERE message_id > 100", *statements)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, began))


async def test_an_archive_of_an_earlier_version_is_migrated_once(old, monkeypatch):
    folder = old()
    with monkeypatch.context() as tomorrow:
        update_citegram(tomorrow)
        for _ in range(2):
            archive = await Archive.open(folder)
            assert (await channels.load_channels(archive))[-1001].title == "Old News"
            assert await posts.count_posts(archive) == 100
            await archive.close()
        assert version(folder) == OLD + 1
    (backup,) = list_backups(folder)  # an update that proves bad is undone by putting its backup back
    assert read_archive_version(backup, GO_ON) == OLD
    assert restore_backup(folder, None, GO_ON)[0] == backup
    archive = await Archive.open(folder)
    assert await posts.count_posts(archive) == 300
    await archive.close()
    nights = [make_backup(folder, GO_ON) for _ in range(4)]
    prune_backups(folder, 2)
    assert set(list_backups(folder)) == {backup, *nights[-2:]}
    second = make_backup(folder, GO_ON, version=OLD + 1)
    prune_backups(folder, 2)
    assert second in list_backups(folder)
    assert backup not in list_backups(folder)


@pytest.mark.parametrize("room", [True, False])
async def test_a_migration_that_fails_leaves_the_archive_as_it_was(old, monkeypatch, room):
    folder = old()
    with monkeypatch.context() as tomorrow:
        update_citegram(tomorrow, "INSERT INTO channels (chat_id, title) VALUES (-5, NULL)")
        if not room:
            tomorrow.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=1 << 20))
        with pytest.raises(sqlite3.IntegrityError if room else BackupFailed):
            await Archive.open(folder)
    assert version(folder) == OLD
    with opened(folder / "citegram.db") as archive:
        assert archive.execute("SELECT count(*) FROM posts").fetchone() == (300,)
        assert not archive.execute("SELECT 1 FROM sqlite_master WHERE name = 'tomorrow'").fetchall()
