import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from functools import partial

import pytest
from driver import KILN, query_archive
from fake_mtproto_server import GROUP_ID, save_bakery, serve
from telethon import errors

from bot.__main__ import main
from bot.data_folder import lock_data_folder
from ingest.history import PacedSource
from rag_core.engine import load_or_make_lexical_index
from rag_core.storage import index_state
from rag_core.storage.backups import list_backups

pytestmark = pytest.mark.usefixtures("nowhere")


@pytest.fixture
def citegram(home, nowhere, run_command):
    return partial(run_command, "--data", home)


def count(home):
    with closing(sqlite3.connect(home / "citegram.db")) as archive:
        return int(archive.execute("SELECT count(*) FROM posts").fetchone()[0])


def test_a_backup_is_made_beside_a_running_bot_and_so_many_are_kept(citegram, home, monkeypatch):
    monkeypatch.setenv("DATA__BACKUPS", "2")
    with lock_data_folder(home):
        for _ in range(3):
            code, out, _ = citegram("backup")
            assert code == 0
    kept = list_backups(home)
    assert len(kept) == 2
    assert str(kept[0]) in out


def test_a_file_that_only_the_bot_can_fetch_waits_for_it(citegram, home):
    with closing(sqlite3.connect(home / "citegram.db")) as archive, archive:
        archive.execute(
            "INSERT INTO media (chat_id, message_id, kind, file, locator, file_name, size, seconds, date, live) "
            "SELECT chat_id, message_id, 'document', 'bot:AQAD', 'file-id', 'prices.txt', 9, 0, date, 1 "
            "FROM posts LIMIT 1"
        )
    code, out, _ = citegram("media", "read")
    assert (code, "1 waiting" in out, "HISTORY__API_ID" in out) == (0, True, False), out


def test_a_restore_puts_the_archive_back_and_a_question_is_answered_from_it(citegram, home):
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


def test_a_chosen_backup_is_put_back(citegram, home, tmp_path):
    citegram("backup")
    elsewhere = list_backups(home)[0].rename(tmp_path / "mine.db")
    (home / "citegram.db").unlink()
    code, out, _ = citegram("restore", str(elsewhere))
    assert code == 0
    assert "mine.db" in out
    assert "citegram-before-" not in out
    assert count(home) == 12


def test_a_restored_archive_has_no_trigger_or_view_of_others(citegram, home, tmp_path):
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


def test_a_folder_restored_on_another_machine_answers_the_same_with_the_same_links(citegram, home, tmp_path):
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


def test_a_restore_needs_the_folder_for_itself(citegram, home, monkeypatch):
    monkeypatch.setattr("bot.control._CONNECT_TIMEOUT_SECONDS", 0.1)
    said = citegram("restore")
    assert said.is_one_sentence() and said.err.startswith("There is no backup in")
    citegram("backup")
    with lock_data_folder(home):
        said = citegram("restore")
    assert said.is_one_sentence() and "Another Citegram" in said.err
    assert not list(home.glob("citegram-before-*"))


def test_a_damaged_archive_names_the_command_that_helps_and_it_does(citegram, home):
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


@pytest.fixture
def server(monkeypatch):
    """Telegram below the client library, asked without pauses."""
    quick = partial(PacedSource, sleep=lambda seconds: asyncio.sleep(min(seconds, 0.05)))
    monkeypatch.setattr("ingest.history.PacedSource", quick)
    return serve(monkeypatch)


@pytest.fixture
async def bakery(home):
    await query_archive(home, save_bakery)
    return home


def test_the_terminal_fetches_alone_and_lists(bakery, server, run_command, monkeypatch):
    server.post(*range(1, 151))
    told = run_command("--data", str(bakery), "history", "begin", "@bakery")
    assert told.is_one_sentence() and "HISTORY__API_ID" in told.err
    for name, value in (("HISTORY__API_ID", "1"), ("HISTORY__API_HASH", "h"), ("BOT__TOKEN", "42:token")):
        monkeypatch.setenv(name, value)
    told = run_command("--data", str(bakery), "history", "estimate", "@bakery")
    assert told.out == "Bakery: at most 150 posts, about 1 min.\n"
    assert run_command("--data", str(bakery), "history", "begin", "@bakery").code == 0
    lines = run_command("--data", str(bakery), "history", "--json").out.splitlines()
    (line,) = [found for found in map(json.loads, lines) if found["title"] == "Bakery"]
    assert (line["state"], line["percent"], line["posts"]) == ("done", 100, 150)
    monkeypatch.setenv("BOT__TIMEZONE", "Europe/Moscow")
    assert run_command("--data", str(bakery), "history", "begin", "@bakery", "--since", "0001-01-01").code == 0
    assert "Bakery: done, 100 %" in run_command("--data", str(bakery), "history").out
    with monkeypatch.context() as without:  # history was switched off, as it took out too much
        without.delenv("HISTORY__API_ID")
        without.delenv("HISTORY__API_HASH")
        undone = run_command("--data", str(bakery), "history", "undo", "@bakery")
        assert undone.out == "Bakery: 0 posts are back.\n"
    late = run_command("--data", str(bakery), "history", "pause", "@bakery")
    assert late.code == 1
    assert "no backfill of Bakery to pause" in late.err
    group = run_command("--data", str(bakery), "history", "begin", str(GROUP_ID))
    assert "is a group" in group.err
    server.problem = errors.ChannelPrivateError(None)
    assert "administrator" in run_command("--data", str(bakery), "history", "estimate", "@bakery").err


def states(home):
    rows = query_archive(home, lambda archive: archive.rows("SELECT chat_id, state FROM rebuilds ORDER BY id"))
    return [tuple(row) for row in asyncio.run(rows)]


def begin(home, chat_id):
    asyncio.run(query_archive(home, lambda archive: index_state.begin_rebuild(archive, chat_id)))


def test_alone_it_rebuilds_everything_or_one_channel(home, capsys):
    assert main(["--data", str(home), "reindex", "--channel", "@nobody"]) == 1
    assert capsys.readouterr().err == "There is no channel @nobody here: check its @name, link, id or title.\n"
    for extra in ([], ["--channel", "@pech_i_glina"]):
        assert main(["--data", str(home), "reindex", *extra]) == 0
    out = capsys.readouterr().out.splitlines()
    everything, one = out
    assert everything == "All channels: the index was built anew (12 posts)."
    assert one == "Печь и глина: the index was built anew (4 posts)."
    assert states(home) == [(None, "done"), (KILN, "done")]

    assert len(asyncio.run(query_archive(home, load_or_make_lexical_index))) == 12


def test_what_was_interrupted_comes_first(home, capsys):
    begin(home, None)
    assert main(["--data", str(home), "reindex", "--channel", str(KILN)]) == 0
    assert "A rebuild was interrupted: it goes on." in capsys.readouterr().err
    assert states(home) == [(None, "done")]  # the whole of it holds the channel
    begin(home, KILN)
    assert main(["--data", str(home), "reindex"]) == 0
    assert states(home) == [(None, "done"), (KILN, "done"), (None, "done")]


async def test_beside_the_bot_the_bot_does_it(live, home, run_command):
    async with live():
        said = await asyncio.to_thread(run_command, "--data", home, "reindex", "--channel", "@harbour_news")
        found = await asyncio.to_thread(run_command, "--data", home, "ask", "When does the ferry to Owl Island leave?")
    assert (said.code, said.out) == (0, "Harbour News: the index was built anew (4 posts).\n"), said.err
    assert await asyncio.to_thread(states, home) == [(-1001000001, "done")]
    assert "7:30" in found.out


def test_an_export_is_searched_and_one_in_html_is_refused_in_a_sentence(shared_data, nowhere, run_command):
    citegram = partial(run_command, "--data", "data")
    folder = shared_data / "tg_export_en"  # a real one
    said = citegram("import", folder / "html")
    assert said.is_one_sentence() and "Export the chat again with Telegram Desktop" in said.err
    said = citegram("import", folder / "json", "--title", "The path", "--json")
    assert said.code == 0
    assert said.json() == {"new": 208, "edited": 0, "unchanged": 0, "skipped": 5, "deleted": 0, "kept": 0}
    assert "https://t.me/c/3204528972/8" in citegram("ask", "What is ʿIlm al-Kalām?").out
