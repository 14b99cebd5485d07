import asyncio
import hashlib
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from driver import (
    ADMIN,
    GROUP,
    OTTO,
    RITA,
    buttons,
    current,
    execute,
    hold_rebuild,
    open_archive,
    press,
    press_until,
    say,
    wait_for_text,
)
from local_server import LocalServer

from bot import data_folder
from bot.handlers import admin
from bot.views.keyboards import Press
from rag_core.models.catalog import find_models
from rag_core.storage import Archive, index_state
from rag_core.storage.backups import get_backups_folder

FERRY = "When does the ferry to Owl Island leave?"


async def stats(sandbox, chat=ADMIN):
    reply = await say(sandbox, chat, "/stats")
    return str(reply["text"])


async def test_stats_say_how_the_bot_is(sandbox, live, ask, home):
    sandbox.push({"brand_new_kind": {"of": "update"}})
    get_backups_folder(home).mkdir()
    (get_backups_folder(home) / f"citegram-{datetime.now(UTC) - timedelta(hours=5):%Y%m%d-%H%M%S}.db").write_bytes(
        b"x" * 3_000_000
    )
    async with live():
        await ask(OTTO, FERRY)
        await ask(OTTO, "What is the capital of Mongolia?")
        said = await stats(sandbox)
    lines = said.splitlines()
    assert lines[0] == "4 channels · 12 posts"
    assert not [line for line in lines if "behind" in line or "⚠" in line or "missing" in line]  # all is well
    assert "1 message from Telegram that I could not read:" in lines
    assert any(line.startswith("• ") and line.endswith("unknown kind: update_id, brand_new_kind") for line in lines)
    assert "Questions today: 2 (sure 0, not sure 1, not found 1, failed 0)" in lines
    assert "Last 7 days: 2 (sure 0, not sure 1, not found 1, failed 0)" in lines
    assert "Last backup: 5 h ago (kept: 1)" in lines
    assert "Votes" not in said  # nobody has voted
    assert len(said) < 1000


async def test_stats_show_what_fails_with_its_sentence(sandbox, live, home, monkeypatch):
    from ingest.indexer import LexicalIndexer
    from rag_core.errors import IndexUnavailable

    async def broken(self, *_):
        raise IndexUnavailable("The index cannot be written to disk: free some space.")

    monkeypatch.setattr(LexicalIndexer, "catch_up", broken)
    moment = int(datetime.now(UTC).timestamp()) - 7200
    row = ("backup", moment + 60, 5, 3, 1, moment, "There was no room.", "made")
    execute(home, "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *row)
    async with live():
        async with asyncio.timeout(30):
            while "Failing: search by words" not in (said := await stats(sandbox)):
                pass
    assert "⚠ Failing: search by words (last" in said
    assert "The index cannot be written to disk: free some space." in said
    assert "Failed 2 h ago, fine again: backup. There was no room." in said


async def test_stats_of_very_many_channels_come_in_several_messages(sandbox, live, home):
    for n in range(1, 151):
        execute(home, f"INSERT INTO history (chat_id, state, began_at) VALUES ({-n}, 'paused', 0)")
    async with live():
        await sandbox.say(ADMIN, "/stats")
        first, last = await sandbox.replies(ADMIN, 2)
    assert first["text"].startswith("4 channels")
    assert "Disk: " in last["text"]


async def test_stats_are_for_admins_in_private_and_in_their_language(sandbox, live, home):
    sandbox.world.people[ADMIN].lang = "ru"
    async with live():
        assert await stats(sandbox, OTTO) == "Only this bot's admins can do this."
        said = await stats(sandbox)
    assert "Вопросов сегодня: 0 (уверенно 0, неуверенно 0, не нашлось 0, сбоев 0)" in said
    assert "Резервной копии ещё нет: первая будет этой ночью" in said


def test_what_goes_away_while_it_is_looked_at_takes_no_place(tmp_path, monkeypatch):
    """The vectors' log makes and moves folders all the time."""
    log = tmp_path / "vectors" / "shard" / "wal"
    log.mkdir(parents=True)
    (log.parent / "points").write_bytes(bytes(1000))
    (log / "young").mkdir()
    real = os.scandir

    def late(path):
        if not isinstance(path, int) and Path(path) == log / "young":
            shutil.rmtree(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", late)
    assert data_folder.measure_disk_usage(tmp_path).indexes == 1000
    assert not (log / "young").exists()


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(admin, "_UPDATE_INTERVAL_SECONDS", 0.0)


async def test_an_admin_has_the_search_rebuilt_and_watches_it(sandbox, home, live_bot):
    asked = await say(sandbox, ADMIN, "/reindex")
    assert asked["text"].startswith("Rebuild the search from all the posts?")
    assert list(buttons(asked)) == ["Rebuild it", "Cancel"]
    with hold_rebuild(home):
        await press(sandbox, asked, "Rebuild it", ADMIN)
        assert await wait_for_text(sandbox, asked, "Rebuilding") == "Rebuilding the search\nPreparing…"
        assert list(buttons(current(sandbox, asked))) == ["Cancel"]
        answered = await say(sandbox, OTTO, "When does the ferry to Owl Island leave?")
        assert "7:30" in answered["text"]
    done = await wait_for_text(sandbox, asked, "Done")
    assert done == "Done: the search is rebuilt (12 posts)."
    assert buttons(current(sandbox, asked)) == {}
    assert "7:30" in (await say(sandbox, OTTO, "When does the ferry to Owl Island leave?"))["text"]
    again = await say(sandbox, ADMIN, "/reindex")
    with hold_rebuild(home):
        await press(sandbox, again, "Rebuild it", ADMIN)
        await wait_for_text(sandbox, again, "Rebuilding the search")
        del sandbox.world.room(ADMIN).messages[again["message_id"]]  # then the end is told in a new one
    (end,) = await sandbox.replies(ADMIN, timeout=60)
    assert end["text"] == "Done: the search is rebuilt (12 posts)."


async def test_a_rebuild_is_cancelled_runs_once_and_fails_with_a_reason(sandbox, home, live_bot):
    first, second = await say(sandbox, ADMIN, "/reindex"), await say(sandbox, ADMIN, "/reindex")
    with hold_rebuild(home):
        await press(sandbox, first, "Rebuild it", ADMIN)
        await wait_for_text(sandbox, first, "Rebuilding")
        await press(sandbox, second, "Rebuild it", ADMIN)
        busy = "The search is already being rebuilt. Wait for it to finish, or cancel it."
        assert current(sandbox, second)["text"] == busy
        await press(sandbox, second, "Cancel", ADMIN)
        assert await wait_for_text(sandbox, first, "Cancelled") == "Cancelled. The search works as before."
        late = await press(sandbox, second, "Cancel", ADMIN)
        assert late == "This rebuild is already over."
    asked, broken = await say(sandbox, ADMIN, "/reindex"), await say(sandbox, ADMIN, "/reindex")
    await press(sandbox, asked, "Cancel", ADMIN)
    assert current(sandbox, asked)["text"] == "Nothing was changed."
    assert buttons(current(sandbox, asked)) == {}
    (home / "lexical.next").write_text("in the way")
    await press(sandbox, broken, "Rebuild it", ADMIN)
    failed = await wait_for_text(sandbox, broken, "The search was not rebuilt and works as")
    assert failed.startswith("The search was not rebuilt and works as before. I cannot write the index to disk")


async def test_after_a_restart_the_same_message_goes_on(sandbox, live, home):
    with hold_rebuild(home):
        async with live():
            asked = await say(sandbox, ADMIN, "/reindex")
            await press(sandbox, asked, "Rebuild it", ADMIN)
            await wait_for_text(sandbox, asked, "Rebuilding")
        assert current(sandbox, asked)["text"].startswith("Rebuilding")
    async with live():
        assert await wait_for_text(sandbox, asked, "Done") == "Done: the search is rebuilt (12 posts)."


async def test_nobody_else_can_ask_for_it(sandbox, live, home):
    async with live():
        refused = await say(sandbox, RITA, "/reindex")
        assert refused["text"].startswith("Это могут только администраторы бота.")
        await sandbox.say(ADMIN, "/reindex", chat_id=GROUP)
        await say(sandbox, ADMIN, "/help")
    async with open_archive(home) as archive:
        assert await archive.rows("SELECT * FROM rebuilds") == []
    assert not [m for m in sandbox.world.room(GROUP).messages.values() if m["from"]["id"] != ADMIN]


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
        assert asked["text"].startswith("In use:\nWrites the answers: qwen3-4b-instruct")
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
        await sandbox.press(ADMIN, ADMIN, asked["message_id"], Press(to="model", token="AAAAAAAA").pack())
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
    (file,) = row.source.files
    before = file.sha256
    object.__setattr__(file, "sha256", hashlib.sha256(tiny_gguf.read_bytes()).hexdigest())
    yield tiny_gguf
    object.__setattr__(file, "sha256", before)


async def test_an_admin_downloads_the_writer_with_a_button(sandbox, live, home, published, monkeypatch):
    goes_on, raw = asyncio.Event(), published.read_bytes()

    async def serve(request):
        answer = web.StreamResponse(
            headers={"ETag": f'"{hashlib.sha256(raw).hexdigest()}"', "Content-Length": str(len(raw))}
        )
        await answer.prepare(request)
        if request.method == "GET":
            await answer.write(raw[: len(raw) // 2])
            await goes_on.wait()
            await answer.write(raw[len(raw) // 2 :])
        return answer

    monkeypatch.setattr("bot.handlers.admin._UPDATE_INTERVAL_SECONDS", 0.05)
    async with LocalServer(web.get("/{path:.+}", serve)) as hub, live(sections={"models": {"hub": hub.url}}):
        asked = await say(sandbox, ADMIN, "/models")
        await sandbox.press(OTTO, ADMIN, asked["message_id"], buttons(asked)[PULL])
        await sandbox.press(ADMIN, ADMIN, asked["message_id"], Press(to="model-pull", token="AAAAAAAA").pack())
        assert current(sandbox, asked)["text"] == asked["text"]
        await sandbox.press(ADMIN, ADMIN, asked["message_id"], buttons(asked)[PULL])
        await wait_for_text(sandbox, asked, "Downloading qwen2.5-coder-1.5b: 50 %")
        assert not buttons(current(sandbox, asked))
        goes_on.set()
        said = await wait_for_text(sandbox, asked, "Writes the answers — now qwen2.5-coder-1.5b.")
        assert "In use:\nWrites the answers: qwen2.5-coder-1.5b" in said
        assert PULL not in buttons(current(sandbox, asked))
    assert (home / "models" / "qwen2.5-coder-1.5b" / "model.gguf").read_bytes() == raw


async def test_another_embedder_is_changed_to_and_how_far_it_is_is_told(
    sandbox, live, home, offline_models, multilingual_model
):
    for made in (offline_models, multilingual_model):
        (home / "models").mkdir(exist_ok=True)
        (home / "models" / made.name).symlink_to(made)
    async with live(sections={"models": {"embedder": offline_models.name}}):
        await wait_for_vectors(home, offline_models.name)
    async with live():
        asked = await say(sandbox, ADMIN, "/models")
        assert "Search by meaning: minilm-navec" in asked["text"]
        label = "Search by meaning: e5-small-centred"
        said = await press_until(
            sandbox, asked, label, "Search by meaning — e5-small-centred once I have read all the posts"
        )
        assert "I am reading the posts again with e5-small-centred: " in said
        await wait_for_vectors(home, "e5-small-centred")
        said = (await say(sandbox, ADMIN, "/models"))["text"]
        assert "Search by meaning: e5-small-centred" in said
        assert "I am reading" not in said


async def wait_for_vectors(home, model):
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
