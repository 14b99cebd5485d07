"""The socket of the bot that owns the folder: who may ask, what may be said, and that no caller can do harm."""

import asyncio
import json
import os
import re
import shutil
import socket
import stat
import tempfile
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
from driver import HARBOUR

from bot import control
from bot.control import (
    BotGone,
    BotSilent,
    RunningBot,
    build_greeting,
    hold_folder,
    hold_folder_or_connect,
    open_socket_path,
    server,
)
from bot.control.server import RequestHandlers, serve_control_socket
from bot.data_folder import FolderLocked, lock_data_folder
from rag_core.errors import RagError
from rag_core.storage import posts

FERRY = "When does the ferry to Owl Island leave?"


def owner(folder):
    return RunningBot(folder, "unknown")


@contextmanager
def opened(folder):
    with socket.socket(socket.AF_UNIX) as raw, open_socket_path(folder) as path:
        raw.settimeout(30)
        raw.connect(path)
        yield raw


def received(raw):
    said = b""
    try:
        while more := raw.recv(1 << 20):
            said += more
    except ConnectionResetError:  # it closed without reading the rest of us
        pass
    return said


async def told(folder, *chunks):
    """What the bot says to someone who writes these bytes and no end."""

    def talk():
        with opened(folder) as raw:
            with suppress(BrokenPipeError, ConnectionResetError):
                for chunk in chunks:
                    raw.sendall(chunk)
            return received(raw)

    return await asyncio.to_thread(talk)


def post(body, do="ask"):
    return f"POST /{do} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def attending(folder, **handlers):
    with lock_data_folder(folder):
        async with serve_control_socket(folder, handlers):
            yield folder


def serving(library, indexer, rebuilding):
    return attending(library.rag.archive.folder, **RequestHandlers(library.rag, indexer, rebuilding).all())


async def echo(say, question, **more):
    return question


# the socket


async def test_the_socket_is_for_its_user_only_and_goes_with_the_bot(live, home):
    async with live():
        mode = (home / "citegram.sock").stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert not (home / "citegram.sock").exists()


@pytest.mark.parametrize("length", [107, 108, 400])
async def test_a_long_path_is_no_trouble(tmp_path, length):
    folder = Path(tempfile.mkdtemp(prefix="c"))
    deep = folder
    while (left := length - len(str(deep / "citegram.sock"))) > 1:
        deep /= "d" * min(left - 1, 60)
    try:
        async with attending(deep, ask=echo):
            assert abs(len(str(deep / "citegram.sock")) - length) < 2
            assert await owner(deep).ask("Too long?", trace=False) == "Too long?"
            assert (deep / "citegram.sock").exists()
        assert not (deep / "citegram.sock").exists()
    finally:
        shutil.rmtree(folder)


async def test_a_bot_without_a_socket_works_all_the_same(live, home, caplog):
    (home / "citegram.sock").mkdir()  # as on a disk that takes no sockets
    async with live():
        assert "other commands cannot ask this bot" in caplog.text
        assert not await owner(home).greet()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be someone else")
@pytest.mark.parametrize(("mode", "refused"), [(None, b"PermissionError"), (0o666, b"its own user only")])
async def test_another_user_is_not_served(tmp_path, mode, refused):
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    ask = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
        "s.sendall(b'POST /greet HTTP/1.0\\r\\n\\r\\n'); print(s.makefile().read())"
    )
    try:
        async with attending(folder, ask=echo):
            if mode:  # as an admin in a hurry would do it
                (folder / "citegram.sock").chmod(mode)
            words = ["python3", "-c", ask, str(folder / "citegram.sock")]
            pipe = asyncio.subprocess.PIPE
            child = await asyncio.create_subprocess_exec(*words, user=65534, stdout=pipe, stderr=pipe)
            said = await child.communicate()
        assert refused in b"".join(said)
    finally:
        shutil.rmtree(folder)


# what is said


async def test_an_index_that_does_not_move_is_a_sentence(library, monkeypatch):
    class Asleep:
        def wake(self):
            pass

    monkeypatch.setattr(server, "_STUCK_AFTER_SECONDS", 0.2)
    await posts.mark_posts_changed(library.rag.archive, None)
    async with serving(library, Asleep(), library) as folder:
        with pytest.raises(RagError, match="its log says why"):
            await owner(folder).wake(lambda done, total: None)


class Slowly:
    """A rebuild that fails in the end."""

    def __init__(self, error):
        self.started = []
        self._error = error

    async def start(self, chat_id):
        self.started.append(chat_id)

    async def progress(self):
        for done in (1, 2, 3):
            await asyncio.sleep(0.01)
            yield done, 3
        raise self._error


async def test_a_rebuild_is_followed_to_its_end_or_to_why_it_failed(library):
    moves = []
    rebuilding = Slowly(RagError("The disk is full."))
    async with serving(library, library, rebuilding) as folder:
        with pytest.raises(RagError, match="The disk is full"):
            await owner(folder).reindex(HARBOUR, lambda done, total: moves.append((done, total)))
    assert rebuilding.started == [HARBOUR]
    assert moves[-1] == (3, 3)


# callers that do harm


ASKED = json.dumps({"question": FERRY}).encode()


async def test_what_is_no_request_gets_one_sentence(live, home):
    refused = [
        (post(b""), "does not understand"),
        (post(b"\xff\xfe\x00\x01"), "does not understand"),
        (post(b"[1, 2]"), "does not understand"),
        (post(b"[" * 60_000), "does not understand"),
        (post(b"9" * 60_000), "does not understand"),
        (post(b"x" * 10_000_000), "262,144 bytes"),
        (post(b"{}", "dance"), "does not know the request 'dance'"),
        (post(b"{}"), "does not understand this (question: "),
        (post(b'{"question": ["x"]}'), "does not understand this (question: "),
        (post(ASKED[:-1] + b', "conversation": "1"}'), "does not understand this (conversation: "),
        (post(ASKED[:-1] + b', "conversation": 9223372036854775808}'), "does not understand this (conversation: "),
        (post(ASKED[:-1] + b', "recipe": "cake"}'), "does not understand this (recipe: "),
    ]
    async with live():
        for said, sentence in refused:
            reply = json.loads((await told(home, said)).splitlines()[-1])
            assert re.fullmatch(rf"[^\n]*{re.escape(sentence)}[^\n]*\.", reply["error"]), said[:200]
            assert await owner(home).ask(FERRY, trace=False), said[:200]
        for garbage in (b"\xff\xfe\x00\x01\n\n", b"x" * 100_000 + b"\r\n"):
            assert b" 400 " in await told(home, garbage)
        assert await owner(home).ask("\udcff ferry \x00 \U0001f6a2 \ud83d?", trace=False)  # odd letters are a question


async def test_a_conversation_is_remembered_by_its_number(live, home):
    async with live():
        await owner(home).ask("When does the ferry to Owl Island leave?", trace=False, conversation=1)
        understood = [
            found["understood"]
            for number in (1, 2, 0)
            if (found := await owner(home).ask("and to Bear Island?", trace=False, conversation=number))
        ]
    assert understood == ["When does the ferry to Bear Island leave?", "", ""]


async def test_an_answer_that_nobody_reads_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "_CALLER_TIMEOUT_SECONDS", 0.2)

    async def long(say, question, **more):
        return "x" * 3_000_000

    async with attending(tmp_path / "data", ask=long) as folder:
        with opened(folder) as raw:
            raw.sendall(post(ASKED))
            await asyncio.sleep(0.5)
            said = await asyncio.to_thread(received, raw)
        assert 0 < len(said) < 3_000_000
        monkeypatch.setattr(server, "_CALLER_TIMEOUT_SECONDS", 60)  # a busy machine reads 3 MB in more than 0.2 s
        assert await owner(folder).ask("", trace=False) == "x" * 3_000_000


async def test_nobody_works_for_a_caller_that_has_gone(tmp_path):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def forever(say, question, **more):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with attending(tmp_path / "data", ask=forever) as folder:
        asking = asyncio.create_task(owner(folder).ask("", trace=False))
        await begun.wait()
        asking.cancel()
        await asyncio.wait_for(ended.wait(), 30)


async def test_too_many_callers_are_told_to_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "_MAX_CALLERS", 3)
    begun, go = asyncio.Semaphore(0), asyncio.Event()

    async def wait(say, question, **more):
        begun.release()
        await go.wait()
        return question

    async with attending(tmp_path / "data", ask=wait) as folder:
        waiting = [asyncio.create_task(owner(folder).ask(f"{n}", trace=False)) for n in range(3)]
        for _ in waiting:
            await begun.acquire()
        with pytest.raises(RagError, match="too many commands"):
            await owner(folder).ask("", trace=False)
        go.set()
        assert await asyncio.gather(*waiting) == ["0", "1", "2"]
        assert await owner(folder).ask("Now?", trace=False) == "Now?"


async def test_a_bug_is_logged_and_the_next_caller_is_answered(tmp_path, caplog):
    async def broken(say, question, **more):
        raise ZeroDivisionError("a bug")

    async with attending(tmp_path / "data", ask=broken, doctor=echo) as folder:
        with pytest.raises(RagError, match="failed at this request"):
            await owner(folder).ask("", trace=False)
        assert "ZeroDivisionError" in caplog.text
        assert await owner(folder).greet()


async def test_a_bot_that_stops_lets_nobody_wait(tmp_path):
    begun = asyncio.Event()

    async def forever(say, question, **more):
        begun.set()
        await asyncio.Event().wait()

    async with attending(tmp_path / "data", ask=forever) as folder:
        asking = asyncio.create_task(owner(folder).ask("", trace=False))
        await begun.wait()
    with pytest.raises(BotGone, match=f"process {os.getpid()}.*ended before it was done"):
        await asyncio.wait_for(asking, 30)


# bots that do not answer as they should


async def mute(reader, writer):
    await reader.read()
    writer.close()


def saying(*said):
    async def speak(reader, writer):
        for one in said:
            writer.write(one)
        writer.close()

    return speak


CITEGRAM_VERSION = build_greeting()["Citegram-Version"]


def reply(body, version=CITEGRAM_VERSION):
    return f"HTTP/1.0 200 OK\r\nCitegram-Version: {version}\r\nCitegram-Process: 1\r\n\r\n".encode() + body


async def test_a_later_bot_is_told_apart(tmp_path):
    later = saying(reply(b"{}", "9.9"))
    async with await asyncio.start_unix_server(later, tmp_path / "citegram.sock"):
        with pytest.raises(RagError, match=r"The bot that runs here is Citegram 9\.9, this command"):
            await owner(tmp_path).ask("", trace=False)


@pytest.mark.parametrize("said", [b"hello\n", reply(b"hello\n"), reply(b"x" * (1 << 24) + b"\n"), reply(b"[]\n")])
async def test_what_is_no_bot_is_a_sentence(tmp_path, said):
    async with await asyncio.start_unix_server(saying(said), tmp_path / "citegram.sock"):
        with pytest.raises(RagError, match="is not understood by this command"):
            await owner(tmp_path).ask("", trace=False)


async def test_a_holder_that_does_not_answer_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(control, "_CONNECT_TIMEOUT_SECONDS", 0.2)
    with lock_data_folder(tmp_path):
        with pytest.raises(BotSilent, match=f"process {os.getpid()}.*does not answer"):
            async with hold_folder_or_connect(tmp_path):
                pass
        async with await asyncio.start_unix_server(mute, tmp_path / "citegram.sock"):
            with pytest.raises(BotSilent, match="does not answer"):
                async with hold_folder_or_connect(tmp_path):
                    pass
            await asyncio.sleep(0.05)  # it closes its side too


async def test_work_that_needs_the_folder_alone_is_refused_beside_a_bot(tmp_path):
    async with attending(tmp_path / "data", ask=echo) as folder:
        with pytest.raises(FolderLocked, match=rf"process {os.getpid()}\) works in the folder .*: stop it first"):
            async with hold_folder(folder):
                pass
    async with hold_folder(folder):
        with pytest.raises(FolderLocked), lock_data_folder(folder):
            pass


async def test_a_holder_that_ends_is_waited_for(tmp_path):
    async def briefly():
        with lock_data_folder(tmp_path):
            await asyncio.sleep(0.3)

    short = asyncio.create_task(briefly())
    await asyncio.sleep(0)
    async with hold_folder_or_connect(tmp_path) as found:
        assert short.done()
        assert found is None
        with pytest.raises(FolderLocked), lock_data_folder(tmp_path):
            pass
    with lock_data_folder(tmp_path):
        pass
