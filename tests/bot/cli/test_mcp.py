"""`citegram mcp` by the official client: the owner's assistant starts it and speaks to it over stdin and stdout."""

import io
import json
import pty
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from driver import execute

from bot.cli import mcp as command
from bot.control import hold_folder_or_connect
from bot.settings import read_settings

pytestmark = pytest.mark.slow

FERRY, TROPHY = "When does the ferry to Owl Island leave?", "Where did the treasurer hide the silver trophy?"
BEGIN = [sys.executable, "-m", "bot", "--data"]


@asynccontextmanager
async def connect(home, *options):
    from mcp import StdioServerParameters  # half a second, for every process that collects the tests
    from mcp.client.client import Client

    program, *words = *BEGIN, str(home), "mcp", *options
    environment = {"MODELS__EMBEDDER": "none", "BOT__TOKEN": "42:secret"}
    async with Client(StdioServerParameters(command=program, args=words, env=environment)) as client:
        yield client


async def call(client, tool, **given):
    found = await client.call_tool(tool, given)
    return found.structured_content or found.content[0].text


async def test_the_owner_reads_every_channel(home):
    async with connect(home) as client:
        assert len((await client.list_tools()).tools) == 5
        answer = await call(client, "ask", question=TROPHY)
        assert "under the staircase" in answer["sentences"][0]["text"]
        assert answer["sentences"][0]["citations"][0]["channel"] == "The safe"
        assert len((await call(client, "list_channels"))["channels"]) == 4
        assert (await call(client, "search", query="padlock"))["matching"] == 1
        assert (await call(client, "timeline", subject="ferry"))["certainty"] == "sure"
        checked = await call(client, "verify", text="The boathouse padlock opens with the digits 4417.")
        assert checked["verdicts"][0]["label"] == "supported"
        assert (await call(client, "ask", question="hello"))["said"].startswith("Hi!")
        assert await call(client, "search", query="") == "Write what you ask, in up to 20,000 characters."


@pytest.mark.parametrize("runs", [False, True], ids=["alone", "beside the bot"])
async def test_as_a_reader_it_reads_what_everybody_may(home, live, runs):
    execute(home, "UPDATE channels SET state = 'paused' WHERE title = 'Печь и глина'")
    bot = live() if runs else nothing()
    async with bot, connect(home, "--as-reader") as client:
        told = [await call(client, "ask", question=text) for text in (FERRY, TROPHY)]
        told += [await call(client, "search", query="trophy padlock"), await call(client, "verify", text=TROPHY)]
        told += [await call(client, "list_channels"), await call(client, "ask", question="what can you do?")]
    assert "pier four" in str(told[0])
    assert not any(word in str(told) for word in ("staircase", "4417", "safe", "Crew", "глина"))


@asynccontextmanager
async def nothing():
    yield


async def test_the_folder_is_free_again_soon_and_a_bot_that_starts_is_asked(home, live, monkeypatch):
    monkeypatch.setattr(command, "_HELD_SECONDS", 0.2)
    monkeypatch.setenv("MODELS__EMBEDDER", "none")
    owner = command.OwnerApplication(read_settings(data_dir=home), as_reader=False)
    for _ in range(2):
        assert "pier four" in str(await owner.ask(FERRY))
        async with hold_folder_or_connect(home) as other:  # waits until it is free
            assert other is None
    async with live():
        assert "pier four" in str(await owner.ask(FERRY))
    assert "pier four" in str(await owner.ask(FERRY))
    await owner.close()


def test_on_a_terminal_it_prints_what_an_assistant_needs(home):
    _ours, theirs = pty.openpty()
    found = subprocess.run([*BEGIN, str(home), "mcp", "--as-reader"], stdin=theirs, capture_output=True, check=True)
    (entry,) = json.loads(found.stdout)["mcpServers"].values()
    assert Path(entry["command"]).is_file()
    assert entry["args"] == ["--data", str(home.resolve()), "mcp", "--as-reader"]


@pytest.mark.parametrize("missing", ["extra", "folder"])
def test_what_is_missing_is_said_in_one_sentence(home, tmp_path, run_command, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.delitem(sys.modules, "bot.api.mcp_server", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    found = run_command("--data", home if missing == "extra" else tmp_path, "mcp")
    said = "-m pip install 'citegram[mcp]'" if missing == "extra" else "There are no posts in the folder"
    assert (found.code, found.out, said in found.err, found.err.count("\n")) == (1, "", True, 1)
