"""`citegram demo` beside itself: one demo a folder, the next free port, and a question for the one that runs."""

import asyncio
import io
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from driven_sandbox import DrivenSandbox

from bot.data_folder import show_progress_bar
from bot.sandbox import Sandbox

ROOT = Path(__file__).parents[3]
QUESTION = "What is the earliest mention of Ilse Brandt?"


def test_a_second_demo_of_a_folder_uses_the_first(tmp_path, root, run_command, monkeypatch):
    monkeypatch.setenv("MODELS__EMBEDDER", "none")
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    words = [sys.executable, "-m", "bot", "--data", str(tmp_path), "demo", "--port", "0"]
    with subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, text=True) as first:
        try:
            address = next(line for line in first.stdout if line.startswith("Open http")).split()[1]
            while not (tmp_path / "demo" / "citegram.sock").exists():  # the page is open just before the bot answers
                time.sleep(0.05)
            said = run_command("--data", tmp_path, "demo", "--port", "0")
            assert said.out == f"The demo is running already (process {first.pid}): open the address that it printed.\n"
            said = run_command("--data", tmp_path, "demo", "--once", QUESTION)
            assert said.out.replace("\u202f", " ").startswith("First mentioned on 20 November 2025: ")
            assert "https://t.me/owl_hill_observers/84" in said.out
            assert said.err == ""
            first.terminate()
            first.wait(timeout=60)
            assert opened.read_text().strip() == address
        finally:
            first.kill()
    # one that has ended is nobody to ask
    assert "<https://t.me/owl_hill_observers/84>" in run_command("--data", tmp_path, "demo", "--once", QUESTION).out


FAKE_PYTHON = """#!/bin/sh
case "$*" in
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  *"pip install"*) echo begin >> log; sleep 0.2; echo end >> log ;;
esac
"""


SLOW_PYTHON = """#!/bin/sh
site=.venv/lib/python3/site-packages
case "$*" in
  "-m venv .venv") mkdir -p .venv/bin "$site" && cp "$0" .venv/bin/python ;;
  *"--require-hashes"*)
    for n in 1 2; do echo "Collecting a$n==1"; done
    echo "Requirement already satisfied: a3==1 in $site"; echo "Requirement already satisfied: b>2 in $site"
    sleep line5
    echo "Installing collected packages: a1, a2, a3"; mkdir "$site/a1.dist-info" "$site/a2.dist-info"
    sleep line10 ;;
esac
"""
# A second is a fiftieth of one, and `sleep lineN` waits until who counts the seconds has begun the one after the Nth.
HASTY_SLEEP = """#!/bin/sh
case "$1" in
  line*) until [ "$(wc -c < seconds)" -gt "${1#line}" ]; do /bin/sleep 0.01; done ;;
  *) printf . >> seconds; exec /bin/sleep 0.02 ;;
esac
"""


@pytest.mark.slow
async def test_an_installation_tells_how_far_it_is(tmp_path):
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy", ignore=shutil.ignore_patterns("pictures"))
    (tmp_path / "requirements.lock").write_text("".join(f"a{n}==1 \\\n    --hash=sha256:0\n" for n in (1, 2, 3)))
    python = tmp_path / "python"
    hasty = tmp_path / "hasty" / "sleep"
    hasty.parent.mkdir()
    hasty.write_text(HASTY_SLEEP, encoding="utf-8")
    (tmp_path / "seconds").touch()
    python.write_text(SLOW_PYTHON, encoding="utf-8")
    for program in (python, hasty):
        program.chmod(0o755)
    path = {"PATH": f"{hasty.parent}:{os.environ['PATH']}"}
    command = ("make", "install", f"PYTHON={python}", "UV=")
    make = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, env=os.environ | path
    )
    said = (await asyncio.wait_for(make.communicate(), 60))[0].decode()
    assert make.returncode == 0
    for line in ("fetched 3 of 3 packages", "installed 2 of 3 packages", "installing Citegram itself", "Installed."):
        assert line in said


async def test_two_makes_at_once_set_up_one_after_the_other(tmp_path):
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy", ignore=shutil.ignore_patterns("pictures"))
    python = tmp_path / "python"
    python.write_text(FAKE_PYTHON, encoding="utf-8")
    python.chmod(0o755)
    both = [
        await asyncio.create_subprocess_exec(
            "make", "install", f"PYTHON={python}", "UV=", cwd=tmp_path, stdout=asyncio.subprocess.PIPE
        )
        for _ in range(2)
    ]
    said = [(await asyncio.wait_for(one.communicate(), 30))[0].decode() for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert (tmp_path / "log").read_text().split() == ["begin", "end"] * 2  # one set-up has two steps
    assert sorted("waiting for it" in one for one in said) == [False, True]
    assert all("Installed." in one for one in said)


def test_a_run_begins_above_the_update_ids_of_the_one_before():
    before = Sandbox(clock=lambda: 1.8e9).world.queue
    before.push_raw({"message": {}})
    assert Sandbox(clock=lambda: 1.8e9 + 0.3).world.queue.next_id >= before.next_id


async def test_the_page_takes_the_next_free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sandbox = DrivenSandbox()
        with pytest.raises(OSError, match=str(port)):
            await sandbox.start(port)
        await sandbox.start(port, 0)
        assert not sandbox.url.endswith(f":{port}")
        await sandbox.stop()


@pytest.mark.parametrize("terminal", [True, False])
def test_bars_are_for_terminals(monkeypatch, terminal):
    shown = io.StringIO()
    shown.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", shown)
    with show_progress_bar("embed") as moved:
        time.sleep(1.1)  # work that takes under a second shows nothing
        moved(1, 2)
    assert ("embed" in shown.getvalue()) == terminal
