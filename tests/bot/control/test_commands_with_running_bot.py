"""The commands beside a bot that runs as a process of its own, and what they do when it dies."""

import argparse
import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager

import pytest
from chaos.bot_process import fork_bot, fork_process
from driver import OTTO, CommandResult

from bot import control
from bot.app import run_bot
from bot.cli import ask as ask_command
from bot.cli import data as data_command
from bot.cli import doctor
from bot.control import RunningBot
from bot.data_folder import FolderLocked, lock_data_folder
from bot.settings import Settings
from rag_core.errors import RagError

FERRY = "When does the ferry to Owl Island leave?"
NOBODY = "http://127.0.0.1:9"  # where no Telegram is


@contextmanager
def bot_process(folder, api):
    """`citegram run` on the folder, ended in the end; the bot starts while the test goes on."""
    given = {"BOT__TOKEN": "42:" + "SANDBOX-" * 4 + "abc", "BOT__API": api, "MODELS__EMBEDDER": "none"}
    process = fork_bot(given | {"DATA__DIR": str(folder)}, folder.parent / "log")
    process.start()
    try:
        yield process
    finally:
        process.terminate()
        process.join(10)


async def answering(folder):
    async with asyncio.timeout(60):
        while not await RunningBot(folder, "").greet():  # noqa: ASYNC110 - another process has no event
            await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def running(filled, tmp_path_factory):
    """One bot for several tests, and its folder. It waits for a Telegram that is out of reach."""
    folder = shutil.copytree(filled, tmp_path_factory.mktemp("running") / "data")
    with bot_process(folder, NOBODY) as process:
        asyncio.run(answering(folder))
        yield process, folder


@pytest.fixture
def command(capsys):
    async def run(module, folder, *words):
        parser = argparse.ArgumentParser()
        module.declare(parser, "import" if module is data_command else "ask")
        args = parser.parse_args([*map(str, words)])
        settings = Settings.model_validate({"data": {"dir": folder}, "models": {"embedder": "none"}})
        capsys.readouterr()
        try:
            code, err = await args.run(args, settings), ""
        except RagError as exc:
            code, err = 1, exc.reason
        said = capsys.readouterr()
        return CommandResult(code, said.out, said.err + err)

    return run


def export(root):
    return root / "bot" / "sandbox" / "channels" / "owl-hill", "--username", "owl_hill", "--json"


def comparable(said):
    """What does not differ from one answer to the next: no trace ids, no milliseconds."""
    if said.out.startswith('{"refused"'):
        answer = json.loads(said.out)
        return answer | {"trace_id": None, "actions": sorted((one["tool"], one["ok"]) for one in answer["actions"])}
    return [line.split()[0] if " ms " in line else line for line in said.out.splitlines()]


async def test_asking_and_importing_is_the_same_beside_a_bot_and_alone(running, home, root, command, monkeypatch):
    long = "Когда открывается запись на осенний курс? " * 450  # 20,000 characters are taken
    questions = (FERRY, "Когда открывается запись на осенний курс?", "Who is the mayor of Paris?", "?", long)
    steps = []
    for question in questions:
        steps += [(ask_command, (question,)), (ask_command, (question, "--json")), (ask_command, (question, "--trace"))]
    steps += [(data_command, export(root)), (data_command, export(root))]
    steps += [(ask_command, ("What is the earliest mention of Ilse Brandt?", "--json"))]
    alone = [await command(module, home, *words) for module, words in steps]
    for module in (ask_command, data_command):  # here no index is opened
        monkeypatch.setattr(module, "open_up_to_date_engine" if module is ask_command else "open_engine", None)
    _, folder = running
    index = (folder / "lexical" / "current.json").read_bytes()
    beside = [await command(module, folder, *words) for module, words in steps]
    assert list(map(comparable, beside)) == list(map(comparable, alone))
    assert "7:30" in beside[0].out
    assert json.loads(beside[-2].out)["unchanged"] == 84
    assert json.loads(beside[-1].out)["sentences"][0]["citations"][0]["link"] == "https://t.me/owl_hill/84"
    assert {said.code for said in beside} == {0}
    assert (folder / "lexical" / "current.json").read_bytes() == index


async def test_the_second_bot_of_a_folder_is_told_of_the_first(running):
    process, folder = running
    second = Settings.model_validate(
        {"bot": {"token": "42:" + "SANDBOX-" * 4 + "abc", "api": NOBODY}, "data": {"dir": folder}}
    )
    with pytest.raises(FolderLocked, match=rf"process {process.pid}\) works in the folder {folder}: stop it first"):
        await run_bot(second, stop=asyncio.Event())
    assert await RunningBot(folder, "").greet()  # the socket is the first one's


async def test_a_bot_that_hangs_is_named_and_does_not_hang_the_command(running, command, monkeypatch):
    process, folder = running
    monkeypatch.setattr(control, "_CONNECT_TIMEOUT_SECONDS", 0.3)
    os.kill(process.pid or 0, signal.SIGSTOP)
    try:
        said = await command(ask_command, folder, FERRY)
        looked = await command(doctor, folder)
    finally:
        os.kill(process.pid or 0, signal.SIGCONT)
    sentence = f"Another Citegram (process {process.pid}) works in the folder {folder} and does not answer: "
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(sentence)
    assert f"BAD  {sentence}" in looked.out
    assert re.search(r"archive: \d+ posts\n", looked.out)
    assert looked.code == 1


async def test_after_a_kill_the_folder_is_free_and_the_old_socket_is_no_trouble(sandbox, live, home, command):
    with bot_process(home, sandbox.url) as process:
        await answering(home)
        await sandbox.say(OTTO, FERRY)
        (reply,) = await sandbox.replies(OTTO, timeout=30)
        assert "7:30" in reply["text"]
        process.kill()
        process.join()
    assert (home / "citegram.sock").exists()
    assert "7:30" in (await command(ask_command, home, FERRY)).out
    assert "a bot runs here" not in (await command(doctor, home)).out
    async with live():
        assert f"process {os.getpid()}" in (await command(doctor, home)).out
    assert not (home / "citegram.sock").exists()


_DIES = """
import asyncio, os
from bot.control.server import serve_control_socket
from bot.data_folder import lock_data_folder

async def die(say, **fields):
    os.kill(os.getpid(), 9)

async def main():
    with lock_data_folder(folder):
        async with serve_control_socket(folder, {"ask": die, "wake": die, "doctor": die}):
            await asyncio.Event().wait()

asyncio.run(main())
"""


@asynccontextmanager
async def mortal(folder):
    """The id of a process that holds the folder and is killed by what it is asked."""
    child = fork_process({}, folder.parent / "log", exec, _DIES, {"folder": folder})
    child.start()
    try:
        await answering(folder)
        assert child.pid
        yield child.pid
        await asyncio.to_thread(child.join, 30)
        assert child.exitcode == -signal.SIGKILL
    finally:
        child.kill()


async def test_a_bot_that_dies_in_the_middle_is_one_sentence(home, root, command):
    async with mortal(home) as number:
        said = await command(ask_command, home, FERRY, "--json")
    sentence = "ended before it was done: try again when it runs, or without it."
    assert said == (1, "", f"The bot (process {number}) {sentence}")
    async with mortal(home) as number:
        looked = await command(doctor, home)
    assert f"BAD  The bot (process {number}) {sentence}" in looked.out
    async with mortal(home):
        told = await command(data_command, home, *export(root))
    assert told.code == 1
    assert json.loads(told.out)["new"] == 84  # kept
    assert told.err.endswith(sentence)
    found = await command(ask_command, home, "How many posts mention Tawny?", "--json")
    assert "posts with the word" in json.loads(found.out)["sentences"][0]["text"]  # and taken in by the next start


_ORPHANS = """
import os, subprocess, sys
from pathlib import Path
from bot.data_folder import lock_data_folder

with lock_data_folder(Path(sys.argv[1])):
    child = subprocess.Popen(["sleep", "30"], close_fds=False, stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    os.kill(os.getpid(), 9)
"""


def test_a_child_that_outlives_a_killed_bot_does_not_hold_the_folder(home, root):
    words = [sys.executable, "-c", _ORPHANS, str(home)]
    killed = subprocess.run(words, cwd=root, stdout=subprocess.PIPE, check=False, timeout=60)
    try:
        with lock_data_folder(home):
            pass
    finally:
        os.kill(int(killed.stdout), signal.SIGKILL)
