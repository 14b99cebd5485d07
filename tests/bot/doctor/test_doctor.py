import argparse
import asyncio
import json
import os
import shutil
import sqlite3
import time
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from aiohttp import web
from driver import ADMIN, GROUP, HARBOUR, KILN
from local_server import LocalServer

from bot import doctor as doctor_checks
from bot.cli import doctor
from bot.doctor import Check, CheckContext, Finding, check_settings, run_checks
from bot.doctor.telegram_checks import check_telegram
from bot.sandbox.state import set_chat_member
from bot.settings import Settings
from rag_core import RagSettings, open_engine
from rag_core.errors import ModelUnavailable
from rag_core.index.lexical_index import get_lexical_folder
from rag_core.models.catalog import WRITERS, check_model_files, verify_model_checksums, write_manifest
from rag_core.storage import Archive, channels, readers, schema
from rag_core.storage.backups import get_backups_folder, list_backups, make_backup, run_cancellable
from rag_core.types import PostKey


class Said(NamedTuple):
    code: int
    lines: list[str]

    def bad(self, start=""):
        """What must be mended, of what begins so."""
        return [line.removeprefix("BAD  ") for line in self.lines if line.startswith(f"BAD  {start}")]

    def has(self, words):
        return any(words in line for line in self.lines)


@pytest.fixture
def look(sandbox, home, tmp_path, capsys, monkeypatch):
    """Runs the doctor on the folder, with the sandbox as Telegram, and other settings by section."""
    monkeypatch.chdir(tmp_path)

    async def looked(**sections):
        given = {
            "bot": {"token": sandbox.token, "api": sandbox.url, "admins": (ADMIN,)},
            "data": {"dir": home},
            "models": {"embedder": "none", "reranker": "none"},
        }
        settings = Settings.model_validate(
            {name: given.get(name, {}) | sections.get(name, {}) for name in given | sections}
        )
        capsys.readouterr()
        code = await doctor.run(argparse.Namespace(json=False), settings)
        out = capsys.readouterr().out
        assert sandbox.token not in out
        return Said(code, out.splitlines())

    return looked


async def edited(home, sql):
    def work():
        with closing(sqlite3.connect(home / "citegram.db")) as archive, archive:
            archive.execute(sql)

    await asyncio.to_thread(work)  # a bot on this loop may have to end a transaction first


# all is well


@pytest.mark.parametrize("runs", [False, True])
async def test_where_all_is_well_every_line_is_short_and_the_exit_code_is_0(look, live, home, runs):
    await run_cancellable(lambda stop: make_backup(home, stop))
    async with live() if runs else nullcontext():
        said = await look()
    assert (said.code, said.bad()) == (0, [])
    assert said.lines[0].startswith("ok   a bot runs here: process ") == runs
    assert "ok   indexes and archive agree: 12 posts by number, 12 by words" in said.lines
    for start in ("ok   backups: 1, the last of ", "ok   settings: "):
        assert said.has(start)


async def test_a_program_reads_it_as_one_line(look, sandbox, home, capsys):
    settings = Settings.model_validate({"bot": {"token": "7:no", "api": sandbox.url}, "data": {"dir": home}})
    assert await doctor.run(argparse.Namespace(json=True), settings) == 1
    (line,) = capsys.readouterr().out.splitlines()
    read = json.loads(line)
    assert read["fine"] is False
    wrong = {finding["check"]: finding["what"] for finding in read["findings"] if finding["fine"] is False}
    assert set(wrong) == {"settings", "telegram"}
    assert all(": " in what and what.endswith(".") and "\n" not in what for what in wrong.values())


# the round


async def test_a_check_that_fails_or_hangs_does_not_stop_the_others():
    async def breaks(case):
        yield Finding(True, "found before it broke")
        raise RuntimeError("with the token 42:SECRET in it")

    async def hangs(case):
        await asyncio.Event().wait()
        yield Finding(True, "never")

    async def works(case):
        yield Finding(True, "the token is 42:SECRET")

    case = CheckContext(Settings.model_validate({"bot": {"token": "42:SECRET"}}))
    checks = (Check("first", 5, breaks), Check("second", 0.05, hangs), Check("third", 5, works))
    said = [(name, finding.fine, finding.what) async for name, finding in run_checks(case, checks)]
    assert said == [
        ("first", True, "found before it broke"),
        ("first", False, "The check of first failed (RuntimeError): run citegram -v doctor, and report what it says."),
        ("second", False, "The check of second was given up after 0.05 s: "
                          "look whether the disk and the servers it asks answer."),
        ("third", True, "the token is …"),
    ]  # fmt: skip


# Telegram


@pytest.mark.parametrize(
    ("bot", "sentence", "secret"),
    [
        ({"token": "43:STRANGER"}, "Telegram does not know this token: copy BOT__TOKEN from @BotFather", "STRANGER"),
        ({"token": "no token at all"}, "BOT__TOKEN is not a token: copy it from @BotFather again.", "no token at all"),
        ({"api": "http://127.0.0.1:9"}, "http://127.0.0.1:9 cannot be reached: look at the network", None),
        ({"proxy": "socks5://ann:hunter22@127.0.0.1:9"},
         "The proxy 127.0.0.1:9 cannot be reached: start it, or correct BOT__PROXY.", "hunter22"),
        ({"proxy": "my proxy with hunter22"}, "The setting BOT__PROXY cannot be used: write socks5://", "hunter22"),
    ],
)  # fmt: skip
async def test_a_wrong_setting_of_the_connection_is_named_and_its_secret_is_not_shown(look, bot, sentence, secret):
    said = await look(bot=bot)
    assert said.code == 1 and said.bad(sentence)
    assert secret is None or not said.has(secret)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("500", "answers with an error of its own: wait"),
        ("502html", "answers with an error of its own: wait"),
        ("drop", "cannot be reached: look at the network"),
        ("429", "asks to wait 7 s: look again then."),
        ("409", "Another program uses this bot's token: stop it"),
    ],
)
async def test_telegram_that_is_ill(look, sandbox, kind, sentence):
    sandbox.faults.fail_next("getMe", kind, times=9, retry_after=7)
    said = await look()
    assert said.code == 1
    assert any(sentence in line for line in said.bad())


def served(handler):
    return LocalServer(web.route("*", "/{all:.*}", handler))


async def test_the_privacy_mode_is_told(look, sandbox):
    sandbox.world.reads_groups = False
    assert (await look()).has("it gets commands and replies in groups")
    sandbox.world.reads_groups = True
    said = await look(bot={"guest": True})
    assert said.has("it gets all messages of its groups") and said.has("guest mode is off: switch it on")


async def test_a_webhook_that_is_set_is_held_against_what_telegram_has(sandbox):
    bot = Settings.model_validate({"bot": {"token": sandbox.token, "api": sandbox.url}}).bot
    wanted = SimpleNamespace(bot=bot, webhook=SimpleNamespace(url="https://ours.example/hook"))
    foreign = SimpleNamespace(bot=bot, webhook=SimpleNamespace(url=""))
    sandbox.world.queue.hook("https://elsewhere.example/hidden-path")
    (_, found) = [finding async for finding in check_telegram(CheckContext(foreign))]
    assert found.what.startswith("A webhook at elsewhere.example takes the bot's updates away")
    assert "hidden-path" not in found.what
    said = {}
    for there in ("", "https://old.example/hook", "https://ours.example/hook"):
        sandbox.world.queue.hook(there)
        (_, found) = [finding async for finding in check_telegram(CheckContext(wanted, runs=True))]
        said[there] = found
    ours = "WEBHOOK__URL says ours.example: restart the bot, which sets it."
    assert said[""] == (False, f"Telegram brings the updates to nobody, and {ours}")
    assert said["https://old.example/hook"] == (False, f"Telegram brings the updates to old.example, and {ours}")
    assert said["https://ours.example/hook"] == (True, "updates come by webhook to ours.example")


# rights


@pytest.fixture
async def joined(home):
    archive = await Archive.open(home)
    await channels.record_bot_joined(archive, HARBOUR)
    await channels.record_bot_joined(archive, KILN)
    await readers.bind_channel(archive, GROUP, HARBOUR)
    await archive.close()


async def test_the_bot_is_no_admin_of_a_channel_any_more(look, sandbox, joined):
    bot = sandbox.world.bot.id
    set_chat_member(sandbox.world, HARBOUR, bot, "administrator")
    set_chat_member(sandbox.world, KILN, bot, "administrator")
    set_chat_member(sandbox.world, GROUP, bot, "member")
    assert "ok   the bot reads 2 channels and may answer in 1 bound groups" in (await look()).lines
    set_chat_member(sandbox.world, HARBOUR, bot, "member")
    set_chat_member(sandbox.world, KILN, bot, "kicked")
    set_chat_member(sandbox.world, GROUP, bot, "left")
    said = await look()
    assert said.bad("The bot is no admin of Harbour News, so it gets no posts: make")
    assert said.bad("The bot is not in Печь и глина any more: add it")
    assert said.has(f"The bot is not in the group {GROUP}: add it again")


# the folder


async def test_a_disk_without_room_for_a_backup_and_a_rebuild(look, monkeypatch):
    monkeypatch.setattr(doctor_checks, "_MIN_FREE_BYTES", 1 << 62)
    said = await look()
    assert any("a backup and a rebuild of the indexes need" in line and "make room" in line for line in said.bad())


async def test_a_network_disk(look, home, tmp_path, monkeypatch):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"disk / ext4 rw 0 0\nbox:/share {home.resolve()} nfs4 rw 0 0\n")
    monkeypatch.setattr(doctor_checks, "_MOUNTS_FILE", mounts)
    assert any("lies on a network file system (nfs4)" in line for line in (await look()).bad())


async def test_what_others_can_read_is_named_with_the_command_that_closes_it(look, home):
    Path(".env").touch(0o600)
    assert not (await look()).code
    Path(".env").chmod(0o644)
    home.chmod(0o755)
    bad = (await look()).bad()
    assert ".env can be read by other users of this machine: run chmod 600 .env." in bad
    assert f"{home} can be read by other users of this machine: run chmod 700 {home}." in bad


# backups


async def test_backups_that_are_missing_old_or_broken(look, home):
    await edited(home, f"UPDATE channels SET added_at = {int(time.time())}")
    said = await look()
    assert said.code == 0
    assert "note no backup yet: the first is made at night, or with citegram backup" in said.lines
    await edited(home, f"UPDATE channels SET added_at = {int(time.time()) - 3 * 86400}")
    assert "There is no backup of 12 posts: run citegram backup, and leave the bot running at night." in (
        (await look()).bad()
    )
    made = await run_cancellable(lambda stop: make_backup(home, stop))
    assert not (await look()).bad()
    old = made.rename(get_backups_folder(home) / "citegram-20240101-000000.db")
    assert (await look()).bad("The last backup is ")
    fresh = await run_cancellable(lambda stop: make_backup(home, stop))
    fresh.write_bytes(old.read_bytes()[:9000])
    assert list_backups(home)[0] == fresh
    (line,) = (await look()).bad()
    assert line.startswith(f"The backup {fresh} cannot be put back: ")


# the archive and its indexes


async def test_pictures_that_wait_for_a_missing_program_are_told_with_the_way_to_get_it(
    look, home, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    said = await look()
    assert (said.code, said.bad()) == (0, [])
    assert said.has("note no post has a picture or a ")
    assert said.has("so far. To read one that comes: run ")
    await edited(
        home,
        "INSERT INTO media (chat_id, message_id, kind, file, locator, file_name, size, seconds, date, live) "
        "SELECT chat_id, message_id, 'picture', 'a', 'a', 'a.jpg', 9, 0, 0, 1 FROM posts LIMIT 1",
    )
    (line,) = (await look()).bad()
    assert line.startswith("files of posts (picture): 1 cannot be read: run sudo apt-get install tesseract-ocr ")


async def test_an_archive_of_an_earlier_version_is_left_to_the_bot(look, home, monkeypatch):
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ("CREATE TABLE tomorrow (x INTEGER)",)))
    said = await look()
    assert said.lines[0].startswith("note The archive is that of an earlier version of Citegram: start the bot")
    with closing(sqlite3.connect(home / "citegram.db")) as archive:
        assert archive.execute("PRAGMA user_version").fetchone() == (schema.get_schema_version() - 1,)
    assert said.has("ok   @")


async def test_a_damaged_archive_or_folder_is_one_sentence_and_the_rest_is_looked_at(look, home, tmp_path):
    shutil.rmtree(home / "lexical")
    assert (await look()).has("0 passages, 12 changes behind (taken in at the next start)")
    (home / "citegram.db").write_bytes(b"nonsense" * 4000)
    (tmp_path / "file").write_text("no folder")
    for folder, sentence in ((home, "is damaged"), (tmp_path / "file", "cannot be used")):
        said = await look(data={"dir": folder})
        assert said.code == 1
        assert sum(sentence in line for line in said.bad()) == 1
        assert said.has("ok   @")


async def test_an_index_that_is_ahead_of_the_archive(look, live, home):
    async with live():
        await edited(home, "UPDATE sequence SET value = value - 3")
        await edited(home, "DELETE FROM posts WHERE seq > (SELECT value FROM sequence)")
        said = await look()
    assert said.bad("The index knows of 3 changes that the archive does not have")


async def test_an_index_that_holds_something_else_than_the_archive(look, home):
    async with open_engine(RagSettings.model_validate({"data": {"dir": home}})) as rag:
        rag.lexical.replace([PostKey(HARBOUR, 10)], ())
        await asyncio.to_thread(rag.lexical.save, get_lexical_folder(rag.archive.folder), rag.archive.identity)
    said = await look()
    line = "1 of 12 posts that were compared stand differently in the lexical index: run citegram reindex."
    assert line in said.bad()


# models, servers, settings


async def test_a_model_that_is_missing_or_larger_than_the_memory(look, home, tiny_gguf, monkeypatch):
    said = await look(llm={"model": str(home / "gone.gguf")})
    assert said.bad(f"There is no model at {home / 'gone.gguf'}: check the path")
    monkeypatch.setattr("bot.doctor.measure_free_memory", lambda: 1000)
    said = await look(llm={"model": str(tiny_gguf)})
    assert said.bad(f"The model {tiny_gguf} needs about ")


def test_a_model_whose_bytes_changed_under_the_same_time(tmp_path):
    row = WRITERS[0]
    folder = tmp_path / row.name
    folder.mkdir()
    (folder / row.file).write_bytes(b"GGUF" * 100)
    write_manifest(folder)
    verify_model_checksums(row, folder)
    seen = (folder / row.file).stat()
    (folder / row.file).write_bytes(b"GGUX" * 100)
    os.utime(folder / row.file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    check_model_files(row, folder)  # which looks at the time
    with pytest.raises(ModelUnavailable, match=r"is damaged: delete .* and run citegram models pull"):
        verify_model_checksums(row, folder)


async def test_a_qdrant_server_that_is_gone_refuses_or_answers(look):
    async def keyed(request):
        return web.json_response({}, status=200 if request.headers.get("api-key") == "right" else 401)

    said = await look(qdrant={"url": "http://127.0.0.1:9"})
    assert "The Qdrant server 127.0.0.1:9 does not answer: start it, or correct QDRANT__URL." in said.bad()
    async with served(keyed) as server:
        assert (await look(qdrant={"url": server.url, "key": "wrong-one"})).has("refuses the key")
        assert (await look(qdrant={"url": server.url, "key": "right"})).has("ok   the Qdrant server")


@pytest.mark.parametrize(
    ("sections", "sentence"),
    [
        ({"llm": {"key": "k"}}, "LLM__KEY is set without LLM__URL"),
        ({"qdrant": {"key": "k"}}, "QDRANT__KEY is set without QDRANT__URL"),
        ({"bot": {"admins": ()}}, "BOT__ADMINS is empty, so nobody can approve a channel"),
        ({"qdrant": {"url": "http://vectors.example:6333", "key": "k"}}, "QDRANT__URL sends its key unencrypted"),
    ],
)
async def test_settings_that_contradict_each_other(sections, sentence):
    given = {"bot": {"token": "42:token", "admins": (1,)}} | sections
    given["bot"] = {"token": "42:token"} | given["bot"]
    found = [one async for one in check_settings(CheckContext(Settings.model_validate(given)))]
    assert [one.fine for one in found] == [False]
    assert found[0].what.startswith(sentence)
