from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from driver import Cli

from bot.data_folder import lock_data_folder
from rag_core.storage.backups import list_backups


@pytest.fixture
def citegram(home: Path, nowhere: Path, run_command: Cli) -> Cli:
    return partial(run_command, "--data", home)


def count(home: Path) -> int:
    with closing(sqlite3.connect(home / "citegram.db")) as archive:
        return int(archive.execute("SELECT count(*) FROM posts").fetchone()[0])


def test_a_backup_is_made_beside_a_running_bot_and_so_many_are_kept(
    citegram: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATA__BACKUPS", "2")
    with lock_data_folder(home):
        for _ in range(3):
            code, out, _ = citegram("backup")
            assert code == 0
    kept = list_backups(home)
    assert len(kept) == 2
    assert str(kept[0]) in out


def test_a_restore_puts_the_archive_back_and_a_question_is_answered_from_it(citegram: Cli, home: Path) -> None:
    citegram("backup")
    with closing(sqlite3.connect(home / "citegram.db")) as archive:
        archive.execute("DELETE FROM posts")
        archive.commit()
    code, out, err = citegram("restore")
    assert (code, err) == (0, "")
    assert "citegram-before-" in out
    assert count(home) == 12
    code, out, _ = citegram("ask", "When does the ferry to Owl Island leave?")
    assert code == 0
    assert "7:30" in out


def test_a_chosen_backup_is_put_back(citegram: Cli, home: Path, tmp_path: Path) -> None:
    citegram("backup")
    elsewhere = list_backups(home)[0].rename(tmp_path / "mine.db")
    (home / "citegram.db").unlink()
    code, out, _ = citegram("restore", str(elsewhere))
    assert code == 0
    assert "mine.db" in out
    assert "citegram-before-" not in out
    assert count(home) == 12


def test_a_restored_archive_has_no_trigger_or_view_of_others(citegram: Cli, home: Path, tmp_path: Path) -> None:
    shutil.copy(home / "citegram.db", tmp_path / "evil.db")
    listing = "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view') ORDER BY name"
    with closing(sqlite3.connect(tmp_path / "evil.db")) as archive:
        own = archive.execute(listing).fetchall()
        archive.execute('CREATE TRIGGER "e""vil" AFTER INSERT ON questions BEGIN DELETE FROM posts; END')
        archive.execute("CREATE VIEW evil AS SELECT * FROM posts")
        archive.execute(f"DROP TRIGGER {own[0][1]}")
        archive.execute(f"CREATE TRIGGER {own[0][1]} AFTER INSERT ON questions BEGIN DELETE FROM posts; END")
        archive.commit()
    assert citegram("restore", str(tmp_path / "evil.db")).code == 0
    with closing(sqlite3.connect(home / "citegram.db")) as archive:
        assert archive.execute(listing).fetchall() == own[1:]


def test_a_folder_restored_on_another_machine_answers_the_same_with_the_same_links(
    citegram: Cli, home: Path, tmp_path: Path
) -> None:
    questions = ("When does the ferry to Owl Island leave?", "Когда открывается запись на курс керамики?")
    before = [citegram("ask", question) for question in questions]
    for said, link in zip(before, ("https://t.me/harbour_news/10", "https://t.me/pech_i_glina/10"), strict=True):
        assert said.code == 0
        assert link in said.out
    citegram("backup")
    elsewhere = list_backups(home)[0].rename(tmp_path / "carried.db")
    shutil.rmtree(home)
    assert citegram("restore", elsewhere).code == 0
    assert [citegram("ask", question) for question in questions] == before


def test_a_restore_needs_the_folder_for_itself(citegram: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.control._CONNECT_TIMEOUT_SECONDS", 0.1)
    citegram("backup")
    with lock_data_folder(home):
        code, out, err = citegram("restore")
    assert (code, out) == (1, "")
    assert "Another Citegram" in err
    assert not list(home.glob("citegram-before-*"))


def test_what_cannot_be_done_is_one_sentence(citegram: Cli, home: Path) -> None:
    code, out, err = citegram("restore")
    assert (code, out) == (1, "")
    assert err.strip().startswith("There is no backup in")
    assert "\n" not in err.strip()


def test_a_damaged_archive_names_the_command_that_helps_and_it_does(citegram: Cli, home: Path) -> None:
    citegram("backup")
    file = home / "citegram.db"
    pages = bytearray(file.read_bytes())
    pages[8 * 4096 : 20 * 4096] = b"\x5a" * (12 * 4096)
    file.write_bytes(pages)
    code, out, err = citegram("ask", "When does the ferry to Owl Island leave?")
    assert (code, out) == (1, "")
    assert "`citegram restore`" in err
    assert citegram("restore")[0] == 0
    code, out, _ = citegram("ask", "When does the ferry to Owl Island leave?")
    assert "7:30" in out
