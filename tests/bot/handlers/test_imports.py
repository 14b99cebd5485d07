import asyncio
import json
import logging
import os
import shutil
import sys
from pathlib import Path

import pytest
from driven_sandbox import send_file_as_person
from driver import (
    ADMIN,
    GROUP,
    HARBOUR,
    OTTO,
    RITA,
    Shown,
    load_channel,
    query_archive,
    say,
    wait_until,
)

from bot.handlers.imports import translate_note
from bot.i18n import get_translator
from bot.sandbox.state import UploadedFile
from ingest import exports
from rag_core.storage import channels, posts
from rag_core.types import Channel, Visibility

BAKERY = -10077
ROLLS = "When does the bakery sell cinnamon rolls?"


def entry(number, text):
    stamp = 1_700_000_000 + number * 3600
    return {"id": number, "type": "message", "date": "2023-11-14T22:13:20", "date_unixtime": str(stamp),
            "from": "Bakery", "from_id": "channel77", "text": text, "text_entities": []}  # fmt: skip


def export(count=3, *, name="Bakery", chat=77, kind="private_channel"):
    texts = ["The bakery sells cinnamon rolls at six in the morning.", *(f"Loaf number {n}." for n in range(1, count))]
    messages = [entry(number, text) for number, text in enumerate(texts, 1)]
    return json.dumps({"name": name, "type": kind, "id": chat, "messages": messages}).encode()


async def sent(sandbox, data, name="result.json", caption="/import", who=ADMIN):
    await sandbox.send_file(who, name, data, caption)
    (reply,) = await sandbox.replies(who)
    return Shown(sandbox, reply)


async def kept(home, chat_id=BAKERY):
    return int(await query_archive(home, lambda archive: posts.count_posts(archive, chat_id)))


def nothing_left(home):
    return not (home / "incoming").exists()


def child_that(monkeypatch, code):
    monkeypatch.setattr(exports, "_WORKER_ARGUMENTS", ("-c", code))


@pytest.fixture
def quick(monkeypatch):
    """A child that has read three posts before it begins: for what happens around it."""
    tally = {"new": 3, "edited": 0, "unchanged": 0, "skipped": 0, "deleted": 0}
    end = json.dumps({"end": {"tally": tally, "channels": [], "notes": [], "more": 0}})
    child_that(monkeypatch, f"print({end!r})")


async def test_an_export_is_imported_found_and_opened(sandbox, home, live_bot):
    telling = await sent(sandbox, export())
    assert "Stop" in telling.buttons and "result.json" in telling.text
    report = await telling.end()
    assert report.startswith("result.json is imported.\n\nBakery\nNew: 3 · edited: 0 · unchanged: 0 · left out: 0")
    (asked,) = await sandbox.replies(ADMIN)
    who = Shown(sandbox, asked)
    assert who.text == "So far only admins can ask about Bakery. Who else may?"
    assert "six in the morning" not in (await say(sandbox, OTTO, ROLLS))["text"]
    assert "six in the morning" in (await say(sandbox, ADMIN, ROLLS))["text"]
    await sandbox.press(ADMIN, *who.place, who.buttons["Everyone"])
    assert "six in the morning" in (await say(sandbox, OTTO, ROLLS))["text"]
    again = await (await sent(sandbox, export())).end()
    assert "New: 0 · edited: 0 · unchanged: 3" in again
    assert nothing_left(home)
    assert (await say(sandbox, ADMIN, "/help"))["text"].startswith(
        "Just write your question. I look for the answer"
    )  # and nothing is asked again


async def test_many_new_channels_are_one_sentence_in_russian_as_well(sandbox, live, home):
    chats = [json.loads(export(name=f"Пекарня {n}", chat=100 + n)) for n in range(9)]
    full = json.dumps({"about": "", "chats": {"about": "", "list": chats}}).encode()
    async with live(admins=(RITA,)):
        report = await (await sent(sandbox, full, "Экспорт.json", who=RITA)).end()
        assert report.startswith("Экспорт.json импортирован.\n\nПекарня 0\n")
        assert "Пекарня 4\n… и ещё 4\nНовых: 27 · изменённых: 0 · без изменений: 0" in report
        (asked,) = await sandbox.replies(RITA)
        assert asked["text"].startswith("9 новых каналов. Пока вы не решите, их читают только администраторы")
    assert nothing_left(home)


async def test_a_document_without_a_word_is_told_how_and_imported_by_a_reply(sandbox, home, quick, live_bot):
    how = await sent(sandbox, export(), caption="")
    assert how.text.startswith("Send me a channel's export as a document")
    document = await sandbox.send_file(ADMIN, "notes.bin", export())
    await sandbox.replies(ADMIN)  # not a question, and not called an export
    assert await kept(home) == 0
    reply = await say(sandbox, ADMIN, "/import", reply_to=document["message_id"])
    assert "New: 3" in await Shown(sandbox, reply).end()


async def test_without_a_document_it_says_how(sandbox, live):
    async with live(admins=(ADMIN, RITA)):
        assert (await say(sandbox, ADMIN, "/import"))["text"].startswith("Send me a channel's export as a document")
        assert (await say(sandbox, RITA, "/IMPORT"))["text"].startswith("Пришлите экспорт канала документом")


async def test_others_are_refused_and_press_nothing(sandbox, live, home):
    async with live():
        for caption in ("/import", "/import @harbour_news"):
            assert "Only this bot's admins" in (await sent(sandbox, export(), caption=caption, who=OTTO)).text
        assert "Only this bot's admins" in (await say(sandbox, OTTO, "/import"))["text"]
        theirs = await sent(sandbox, export(), caption="", who=OTTO)
        assert theirs.text.startswith("I can only read text")
        sandbox.world.reads_groups = True
        upload = UploadedFile("f1", "result.json", "application/json", export())
        send_file_as_person(sandbox.world, ADMIN, upload, "/import@citegram_bot", chat_id=GROUP)
        await say(sandbox, OTTO, "/help")
    assert GROUP not in sandbox.world.sent
    assert await kept(home) == 0 and nothing_left(home)


# the channel it is of


async def test_a_name_in_the_caption_makes_links_open_and_publishes_nothing(sandbox, live, home):
    sandbox.world.add_channel(BAKERY - 1, "Another bakery", "other_bakery", bot=False)
    async with live():
        unknown = await (await sent(sandbox, export(), caption="/import @other_bakery")).end()  # but to Telegram
        assert "is not from the channel you named" in unknown
        assert await kept(home) == 0
        report = await (await sent(sandbox, export(kind="public_channel"), caption="/import @bakery_news")).end()
        assert "New: 3" in report
        (asked,) = await sandbox.replies(ADMIN)
        assert asked["text"].startswith("So far only admins can ask about Bakery.")
        channel = await load_channel(home, BAKERY)
        assert (channel.username, channel.visibility, channel.state) == ("bakery_news", Visibility.ADMINS, "active")
        wrong = await (await sent(sandbox, export(chat=78), caption="/import @bakery_news")).end()
        assert wrong == "result.json is not from the channel you named: check the name, or leave it out."
        strange = await sent(sandbox, export(), caption="/import что угодно")
        assert "is not from the channel you named" in strange.text


async def test_an_export_in_html_is_a_sentence_that_says_what_to_do(sandbox, live, home):
    async with live(admins=(ADMIN, RITA)):
        page = b"<!DOCTYPE html>"
        said = "messages.html is HTML: export the chat again with Telegram Desktop, format “Machine-readable JSON”,"
        assert (await (await sent(sandbox, page, "messages.html")).end()).startswith(said)
        said = await (await sent(sandbox, page, "messages.html", who=RITA)).end()
        assert said.startswith("messages.html — HTML: экспортируйте чат в Telegram Desktop заново")
    assert nothing_left(home)


async def test_a_known_channel_keeps_its_readers_and_a_removed_one_is_for_admins(sandbox, live, home, monkeypatch):
    async def changed(archive):
        await channels.set_channel_state(archive, HARBOUR, "paused")
        await channels.save_channel(archive, Channel(BAKERY, "Bakery", visibility=Visibility.PUBLIC, state="removed"))

    async def wait(*_):
        return 0

    # otherwise the channel would be forgotten before the import
    monkeypatch.setattr(channels, "purge_removed_posts", wait)
    await query_archive(home, changed)
    bare = int(str(HARBOUR).removeprefix("-100"))
    async with live():
        assert "New: 3" in await (await sent(sandbox, export(name="Harbour News", chat=bare))).end()
        assert (await say(sandbox, ADMIN, "/help"))["text"].startswith("Just write your question")  # nothing was asked
        assert "New: 3" in await (await sent(sandbox, export())).end()
    known, removed = await load_channel(home, HARBOUR), await load_channel(home, BAKERY)
    assert (known.visibility, known.state) == (Visibility.PUBLIC, "paused")
    assert (removed.visibility, removed.state) == (Visibility.ADMINS, "active")
    assert await kept(home) == 3


# one at a time, stopped, interrupted


def slow_child(monkeypatch, tmp_path):
    """The child waits for ever after it has begun."""
    code = (
        "import json, os, time; print(json.dumps({'at': [1, 2]}), flush=True); "
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    )
    child_that(monkeypatch, code)


async def child_of(tmp_path):
    file = tmp_path / "pid"
    await wait_until(lambda: file.exists() and file.read_text() != "")
    return int(file.read_text())


async def gone(pid):
    return await wait_until(lambda: not Path(f"/proc/{pid}").exists())


async def test_one_import_at_a_time_shows_its_progress_and_can_be_stopped(sandbox, live, home, tmp_path, monkeypatch):
    monkeypatch.setattr("bot.handlers.imports._EDIT_INTERVAL_SECONDS", 0.0)
    async with live():
        with monkeypatch.context() as stuck:
            slow_child(stuck, tmp_path)
            telling = await sent(sandbox, export())
            stop = telling.buttons["Stop"]
            pid = await child_of(tmp_path)
            busy = await sent(sandbox, export())
            assert busy.text == "Another import is running. Wait for it to finish, or stop it."
            assert await sandbox.until(lambda: telling.text == "Importing result.json: 50 %")
            assert telling.buttons == {"Stop": stop}

            async def said_to(who, data):
                pressed = await sandbox.press(who, *telling.place, data)
                return str(pressed["answer"]["text"])

            assert "Only this bot's admins" in await said_to(OTTO, stop)
            assert await said_to(ADMIN, stop[:-12] + "AAAAAAAAAA:0") == "This import is over."
            assert await said_to(ADMIN, stop) == "Stopping …"
            assert (await telling.end()).startswith("I stopped importing result.json.")
            assert await gone(pid)
            assert await said_to(ADMIN, stop) == "This import is over."
        assert nothing_left(home)
        assert "New: 3" in await (await sent(sandbox, export())).end()


async def test_the_report_waits_as_long_as_telegram_asks(sandbox, live, home, quick, monkeypatch):
    monkeypatch.setattr("bot.handlers.imports._EDIT_TIMEOUT_SECONDS", 0.1)
    async with live():
        sandbox.faults.fail_next("editMessageText", "429", retry_after=1)
        assert "New: 3" in await (await sent(sandbox, export())).end()


async def test_stopping_the_bot_stops_the_import_and_says_so(sandbox, live, home, tmp_path, monkeypatch):
    slow_child(monkeypatch, tmp_path)
    async with live():
        telling = await sent(sandbox, export())
        pid = await child_of(tmp_path)
    assert (await telling.end()).startswith("I was restarted while importing result.json.")
    assert await gone(pid) and nothing_left(home)


async def test_after_a_crash_the_next_start_says_so_and_leaves_nothing(sandbox, live, home, tmp_path, monkeypatch):
    with monkeypatch.context() as stuck:
        slow_child(stuck, tmp_path)
        async with live():
            telling = await sent(sandbox, export())
            await child_of(tmp_path)
            shutil.copytree(home / "incoming", tmp_path / "left")
    shutil.copytree(tmp_path / "left", home / "incoming")
    sandbox.world.change(sandbox.world.room(ADMIN), telling.place[1], text="Importing result.json: 50 %")
    async with live():
        assert await telling.says("I was restarted while importing result.json.")
        assert nothing_left(home)
        assert "New: 3" in await (await sent(sandbox, export())).end()


LIMITS = {
    "over its limits": ("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)", "is too large to read here"),
    "out of memory": ('print(\'{"refused": ["import-too-heavy", {}]}\')', "is too large to read here"),
    "too long": ("import time; time.sleep(600)", "result.json took too long to read"),
    "with a bug": ("raise KeyError('of ours')", "Something went wrong on my side. Please"),
    "without a disk": ('print(\'{"refused": ["import-disk", {}]}\')', "My disk is full or read-only"),
}


async def test_a_child_that_ends_badly_is_a_sentence(sandbox, home, monkeypatch, live_bot):
    for how, (code, said) in LIMITS.items():
        child_that(monkeypatch, code)
        monkeypatch.setattr(exports, "_MAX_SECONDS", 0.7 if how == "too long" else 60)
        assert said in await (await sent(sandbox, export())).end(), how
        assert nothing_left(home)


async def test_a_confined_process_has_little_memory(tmp_path):
    code = "from rag_core import processes as w; w.limit_process(); print('begun', flush=True); bytearray(2**31)"
    confined = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await confined.communicate()
    assert out == b"begun\n" and err.rstrip().endswith(b"MemoryError")


async def test_a_child_without_its_bot_ends(sandbox, home, tmp_path):
    folder = tmp_path / "incoming"
    folder.mkdir()
    (folder / "result.json").write_bytes(export(20_000))
    order = {"file": str(folder / "result.json"), "data": str(home), "zone": "UTC", "chat": None}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ingest.exports", json.dumps(order),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout and process.stdin
    await process.stdout.readline()
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 30) == 1


# the way from Telegram


async def test_a_token_is_never_logged_and_a_hostile_file_name_is_only_text(sandbox, live, caplog):
    caplog.set_level(logging.DEBUG)
    sandbox.token = "42:" + "S3CRET" * 6
    async with live():
        for kind in ("500", "drop", "502html"):
            sandbox.faults.fail_next("file", kind, times=30)
            said = await (await sent(sandbox, export())).end()
            assert said == "Telegram did not give me result.json. Please send it again."
            sandbox.faults.clear()
        sandbox.faults.fail_next("file", "500")  # once: tried again
        assert "New: 3" in await (await sent(sandbox, export())).end()
        await sandbox.replies(ADMIN)  # who may read it
        sandbox.faults.fail_next("file", "500", times=99)
        for name in ("../../../etc/passwd", "x" * 5000 + ".json", "\u202egnp.json", "{ $file }.json", "\u200b", "a\nb"):
            said = await (await sent(sandbox, b"nonsense", name)).end()
            assert said.endswith(". Please send it again.") and len(said) < 200
            assert "\u202e" not in said and "\n" not in said
    assert "S3CRET" not in "\n".join(logging.Formatter().format(record) for record in caplog.records)


async def test_21_megabytes_are_refused_before_and_after_they_are_asked_for(sandbox, live, home, monkeypatch):
    large = b"x" * (21 * 2**20)
    async with live():
        said = await sent(sandbox, large)
        assert said.text.startswith("result.json is over 20 MB") and "citegram import" in said.text
        monkeypatch.setattr("bot.sandbox.state.UploadedFile.wire", lowballed)
        assert (await (await sent(sandbox, large)).end()).startswith("result.json is over 20 MB")
        monkeypatch.setattr("bot.sandbox.methods._MAX_DOWNLOAD_BYTES", 2**30)  # a server that gives whatever there is
        assert (await (await sent(sandbox, large)).end()).startswith("result.json is over 20 MB")
    assert nothing_left(home)


def lowballed(upload):
    return {"file_id": upload.file_id, "file_unique_id": "u", "file_name": upload.name, "file_size": 5}


async def test_a_local_server_gives_a_path_on_its_disk(sandbox, live, home, tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    sandbox.world.local = tmp_path / "bot-api"
    async with live():
        assert "New: 3" in await (await sent(sandbox, export())).end()
        await sandbox.replies(ADMIN)
        theirs = next((tmp_path / "bot-api").rglob("*.json"))
        assert theirs.exists()  # the server's file is the server's
        with monkeypatch.context() as lying:
            lying.setattr("bot.sandbox.state.UploadedFile.wire", lowballed)
            said = await (await sent(sandbox, b"x" * (21 * 2**20))).end()
            assert said.startswith("result.json is over 20 MB")
        sandbox.world.local = None
        for place in (tmp_path / "nowhere.json", tmp_path / "folder", tmp_path / "pipe"):
            monkeypatch.setattr("bot.sandbox.state.UploadedFile.path", lambda _, place=place: str(place))
            said = await (await sent(sandbox, export())).end()
            assert said.startswith("My Bot API server keeps result.json where I cannot read it")
    assert nothing_left(home)


def test_a_note_is_one_short_line():
    said = translate_note("import-note-empty", {"title": f"{'я' * 5000}\u202e\n"}, get_translator("en"))
    assert len(said) < 200 and "\n" not in said and "\u202e" not in said
