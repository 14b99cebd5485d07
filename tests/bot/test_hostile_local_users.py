"""The data folder and its socket against other users of this machine, and against what they put into it."""

import asyncio
import json
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

import pytest
from driver import OTTO

from bot.control import RunningBot
from bot.control.server import serve_control_socket
from bot.data_folder import lock_data_folder
from rag_core.errors import RagError

NOBODY = 65534
FERRY = "When does the ferry to Owl Island leave?"
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be someone else")

SWAP = """
import os, socket, sys
path = sys.argv[1]
os.unlink(path)
s = socket.socket(socket.AF_UNIX); s.bind(path); os.chmod(path, 0o777); s.listen(8)
print("swapped", flush=True)
c, _ = s.accept()
c.sendall(b'{"citegram": 1, "version": "0", "process": 1}\\n')
c.settimeout(5)
try: print("told:", c.recv(9999).decode(), flush=True)
except OSError as exc: print("told: nothing", exc, flush=True)
"""


@pytest.fixture
def folder():
    """A data folder that others can get at, as an admin in a hurry makes it."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


async def echo(say, question, **more):
    return question


async def as_nobody(script, *words):
    pipe = asyncio.subprocess.PIPE
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    return await asyncio.create_subprocess_exec(
        python, "-c", script, *words, user=NOBODY, group=NOBODY, extra_groups=[], stdout=pipe, stderr=pipe
    )


@only_root
async def test_another_user_cannot_hold_the_folder(folder):
    before = os.umask(0o077)  # as the command sets it
    try:
        with lock_data_folder(folder):
            pass
    finally:
        os.umask(before)
    hold = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)"
    child = await as_nobody(hold, str(folder / "citegram.lock"))
    _, said = await child.communicate()
    assert b"PermissionError" in said


@only_root
async def test_somebody_who_swaps_the_socket_is_not_asked(folder):
    folder.chmod(0o777)
    with lock_data_folder(folder):
        async with serve_control_socket(folder, {"ask": echo}):
            child = await as_nobody(SWAP, str(folder / "citegram.sock"))
            assert await child.stdout.readline() == b"swapped\n"
            with pytest.raises(RagError, match=r"Another user \(id 65534\) answers in the folder .*: chmod 700"):
                await RunningBot(folder, "1").ask("Who is the treasurer?", trace=False)
            rest, _ = await child.communicate()
    assert b"treasurer" not in rest


async def test_a_link_in_the_place_of_the_socket_is_replaced_and_not_followed(folder, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    mode = stat.S_IMODE(victim.stat().st_mode)
    (folder / "citegram.sock").symlink_to(victim)
    with lock_data_folder(folder):
        async with serve_control_socket(folder, {"ask": echo}):
            assert stat.S_ISSOCK((folder / "citegram.sock").lstat().st_mode)
            assert await RunningBot(folder, "1").ask("Anybody?", trace=False) == "Anybody?"
    assert victim.read_text() == "precious"
    assert stat.S_IMODE(victim.stat().st_mode) == mode


async def test_many_slow_callers_leave_room_for_the_next(folder, monkeypatch):
    monkeypatch.setattr("bot.control.server._CALLER_TIMEOUT_SECONDS", 0.5)
    with lock_data_folder(folder):
        async with serve_control_socket(folder, {"ask": echo}):
            path = str(folder / "citegram.sock")
            lines = [await asyncio.open_unix_connection(path) for _ in range(120)]
            for _, writer in lines:
                writer.write(b"POST /ask HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n" + b"x" * 30_000)
            async with asyncio.timeout(20):
                while True:
                    try:
                        assert await RunningBot(folder, "1").ask("Is there room?", trace=False) == "Is there room?"
                        break
                    except RagError:
                        await asyncio.sleep(0.2)
            assert b"No request came" in await lines[0][0].read()
            for _, writer in lines:
                writer.transport.abort()


BOMBS = {
    "a pipe": os.mkfifo,
    "a device": lambda place: place.symlink_to("/dev/zero"),
    "deep JSON": lambda place: place.write_bytes(b"[" * 200_000),
    "nothing": lambda place: place.write_bytes(b""),
    "a folder": Path.mkdir,
}


@pytest.mark.parametrize("make", BOMBS.values(), ids=BOMBS)
async def test_the_bot_starts_and_answers_whatever_is_in_its_indexes(sandbox, live, ask, home, make):
    note = json.loads((home / "lexical" / "current.json").read_text("utf-8"))
    for place in (home / "lexical" / note["folder"] / "docs.bin", home / "lexical" / "current.json"):
        place.unlink()
        make(place)
    async with asyncio.timeout(60), live(sections={"models": {"embedder": "none"}}):
        for _ in range(100):
            reply = await ask(OTTO, FERRY)
            if "7:30" in reply["text"]:
                break
            await asyncio.sleep(0.1)
        assert "7:30" in reply["text"]
