"""`citegram verify`: alone and beside a bot that holds the folder, as text and as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from driver import HARBOUR, save

from bot.cli import ask as ask_command
from bot.cli.folder import open_archive
from bot.data_folder import lock_data_folder
from bot.settings import Settings
from rag_core.errors import RagError
from rag_core.types import Post, PostKey

FERRY = "The ferry to Owl Island leaves at 7:30 every morning."
LATE = "The ferry to Owl Island leaves at 9:15 every morning."
SECRET = "The treasurer hid the silver trophy under the staircase."

Run = Callable[..., Awaitable[str]]


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process and gives what it printed."""

    async def command(*words: str, code: int = 0) -> str:
        parser = argparse.ArgumentParser()
        ask_command.declare_verify(parser)
        settings = Settings.model_validate({"data": {"dir": home}, "models": {"embedder": "none"}})
        capsys.readouterr()
        assert await ask_command.run_verify(parser.parse_args(words), settings) == code
        said = capsys.readouterr()
        return said.err if code else said.out

    return command


def without_ids(said: str) -> Any:
    return json.loads(said) | {"trace_id": ""}


async def test_the_terminal_reads_every_channel_and_says_which_post_decides(run: Run) -> None:
    assert (await run(FERRY)).startswith(f"“{FERRY}”\nThe posts say so\n  “The ferry to Owl Island leaves at 7:30")
    late = await run(LATE)
    assert "The posts say otherwise" in late
    assert "https://t.me/harbour_news/10  Harbour News, 12 March 2024" in late
    assert "1 independent source, first https://t.me/c/1000004/10, 12 March 2024" in await run(SECRET)
    assert (await run("A zeppelin flies to Bear Mountain.")).endswith("The posts do not say this\n")


async def test_a_text_that_is_a_post_is_named_as_that_post(run: Run, home: Path) -> None:
    text = "The harbour kiosk sells hot soup for four euros a bowl."
    await save(home, Post(PostKey(HARBOUR, 200), datetime(2024, 5, 1, tzinfo=UTC), text))
    said = await run(text)
    assert said.startswith(
        "This is the post of 1 May 2024 in Harbour News. I found no later post that changes it.\n"
        "  https://t.me/harbour_news/200\n"
    )
    same = json.loads(await run(text, "--json"))["same"]
    assert (same["link"], same["title"], same["state"]) == ("https://t.me/harbour_news/200", "Harbour News", "holds")
    assert json.loads(await run("The harbour kiosk sells hot soup.", "--json"))["same"] is None


async def test_json_is_one_object_and_the_trace_is_asked_for(run: Run) -> None:
    plain, traced = json.loads(await run(LATE, "--json")), json.loads(await run(LATE, "--json", "--trace"))
    (only,) = plain["verdicts"]
    assert (only["claim"], only["label"], only["citations"], only["superseded"]) == (LATE, "contradicted", [], None)
    assert only["against"][0]["link"] == "https://t.me/harbour_news/10"
    assert (plain["left"], plain["without"], "trace" in plain) == (0, [], False)
    assert {"plan", "lexical", "verify"} <= {span["stage"] for span in traced["trace"]}
    assert any(" ms " in line for line in (await run(LATE, "--trace")).splitlines())


async def test_the_terminal_says_how_many_claims_were_not_checked(run: Run) -> None:
    text = " ".join(f"The ferry number {n} to Owl Island carries {n + 40} dogs." for n in range(11))
    assert (await run(text)).endswith("I did not check 3 more statements. Send them separately.\n")
    assert json.loads(await run(text, "--json"))["left"] == 3


async def test_beside_a_running_bot_the_verdicts_are_the_same(run: Run, live: Any, home: Path) -> None:
    texts = [FERRY, LATE, SECRET, f"{FERRY} {SECRET}"]
    alone = [without_ids(await run(text, "--json")) for text in texts]
    async with live():
        with pytest.raises(RagError), lock_data_folder(home):
            pass
        beside = [without_ids(await run(text, "--json")) for text in texts]
    assert beside == alone


async def test_where_nothing_was_imported_one_sentence_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_archive(tmp_path / "new"):
        settings = Settings.model_validate({"data": {"dir": tmp_path / "new"}, "models": {"embedder": "none"}})
    args = argparse.Namespace(text=FERRY, json=False, trace=False)
    assert await ask_command.run_verify(args, settings) == 1
    assert capsys.readouterr().err.startswith("I have no channels yet. Add me to a")
