import json
import os
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from rag_core.storage import schema
from rag_core.storage.backups import list_backups

# An archive as 0.1.0 leaves it. Until that is tagged, ARCHIVE=write makes it anew; from then on it never changes.
RELEASED = Path(__file__).with_name("archive_0_1_0.sql")
QUESTION = "How warm is the water?"
ANSWER = "The water has 14 degrees this morning."
TEXTS = [ANSWER, "Bring a towel and dry shoes.", "Training is on Mondays at six."]


@pytest.fixture
def citegram(nowhere, run_command):
    return partial(run_command, "--data", nowhere / "data")


@pytest.fixture
def archive(nowhere, citegram):
    """The released archive in the data folder."""
    file = nowhere / "data" / "citegram.db"
    if os.environ.get("ARCHIVE") == "write":
        write_released_archive(nowhere, citegram)
    else:
        file.parent.mkdir(mode=0o700)
        with closing(sqlite3.connect(file)) as unpacked:
            unpacked.executescript(RELEASED.read_text("utf-8"))
    return file


def write_released_archive(folder, citegram):
    messages = [
        {"id": number, "type": "message", "date_unixtime": str(1_790_000_000 + number), "text": text}
        for number, text in enumerate(TEXTS, 1)
    ]
    chat = {"name": "Quarry", "type": "public_channel", "id": 77, "messages": messages}
    (folder / "result.json").write_text(json.dumps(chat), "utf-8")
    assert citegram("import", "result.json", "--username", "quarry_swimmers").code == 0
    with closing(sqlite3.connect(folder / "data" / "citegram.db")) as made:
        lines = [*made.iterdump(), f"PRAGMA user_version = {read_version(made)};", ""]
    RELEASED.write_text("\n".join(lines), "utf-8")


def read_version(archive):
    return int(archive.execute("PRAGMA user_version").fetchone()[0])


def list_tables(archive):
    return set(archive.execute("SELECT type, name, sql FROM sqlite_master"))


def test_an_archive_of_the_release_is_upgraded_and_answers(citegram, archive):
    with closing(sqlite3.connect(archive)) as released:
        version = read_version(released)
    told = citegram("ask", QUESTION)
    assert (told.code, told.err) == (0, "")
    assert ANSWER in told.out
    assert "https://t.me/quarry_swimmers/1" in told.out
    with closing(sqlite3.connect(archive)) as upgraded, closing(sqlite3.connect(":memory:")) as fresh:
        for statements in schema.MIGRATIONS:
            for statement in statements:
                fresh.execute(statement)
        assert list_tables(upgraded) == list_tables(fresh), "a migration that was released has changed"
        assert read_version(upgraded) == schema.get_schema_version()
        assert [row[0] for row in upgraded.execute("SELECT text FROM posts ORDER BY message_id")] == TEXTS
    assert len(list_backups(archive.parent)) == (version < schema.get_schema_version())


@pytest.fixture
def update_and_back(citegram, archive):
    """A later version works with the archive, then this one is put back in its place."""

    def update_and_back():
        with pytest.MonkeyPatch.context() as later:
            later.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ("ALTER TABLE posts ADD COLUMN mood TEXT",)))
            assert ANSWER in citegram("ask", QUESTION).out

    return update_and_back


@pytest.mark.parametrize("words", ["ask water?", "import result.json", "reindex", "backup", "run", "doctor"])
def test_an_archive_of_a_later_version_is_refused_in_one_sentence(
    citegram, archive, update_and_back, monkeypatch, words
):
    monkeypatch.setenv("BOT__TOKEN", "42:" + "SANDBOX-" * 4 + "abc")
    monkeypatch.setenv("BOT__API", "http://127.0.0.1:9")
    update_and_back()
    before = archive.read_bytes()
    told = citegram(*words.split())
    assert told.code == 1
    assert "was written by a later version of Citegram. Update Citegram, or put back a backup" in told.out + told.err
    assert archive.read_bytes() == before


def test_a_rollback_puts_the_backup_of_the_update_back(citegram, archive, update_and_back):
    with closing(sqlite3.connect(archive)) as released:
        version = read_version(released)
    update_and_back()
    backup = list_backups(archive.parent)[0]
    assert f"-version{version}" in backup.name
    told = citegram("restore", backup)
    assert (told.code, told.err) == (0, "")
    assert ANSWER in citegram("ask", QUESTION).out
