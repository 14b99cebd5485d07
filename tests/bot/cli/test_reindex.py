"""`citegram reindex`: alone, going on with what was interrupted, and beside the bot that runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from driver import KILN, Cli, query_archive

from bot.__main__ import main
from rag_core.engine import load_or_make_lexical_index
from rag_core.storage import index_state

pytestmark = pytest.mark.usefixtures("nowhere")


def states(home: Path) -> list[tuple[int | None, str]]:
    """Scope and state of every rebuild."""

    rows = query_archive(home, lambda archive: archive.rows("SELECT chat_id, state FROM rebuilds ORDER BY id"))
    return [tuple(row) for row in asyncio.run(rows)]


def begin(home: Path, chat_id: int | None) -> None:
    """A rebuild of a process that is gone."""

    asyncio.run(query_archive(home, lambda archive: index_state.begin_rebuild(archive, chat_id)))


def test_alone_it_rebuilds_everything_or_one_channel(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for extra in ([], ["--channel", "@pech_i_glina"]):
        assert main(["--data", str(home), "reindex", *extra]) == 0
    out = capsys.readouterr().out.splitlines()
    everything, one = out
    assert everything == "All channels: the index was built anew (12 posts)."
    assert one == "Печь и глина: the index was built anew (4 posts)."
    assert states(home) == [(None, "done"), (KILN, "done")]

    assert len(asyncio.run(query_archive(home, load_or_make_lexical_index))) == 12


def test_what_was_interrupted_comes_first(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin(home, None)
    assert main(["--data", str(home), "reindex", "--channel", str(KILN)]) == 0
    assert "A rebuild was interrupted: it goes on." in capsys.readouterr().err
    assert states(home) == [(None, "done")]  # the whole of it holds the channel
    begin(home, KILN)
    assert main(["--data", str(home), "reindex"]) == 0
    assert states(home) == [(None, "done"), (KILN, "done"), (None, "done")]


def test_a_channel_nobody_knows_is_said_in_one_sentence(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(home), "reindex", "--channel", "@nobody"]) == 1
    assert capsys.readouterr().err == "There is no channel @nobody here: check its @name, link, id or title.\n"
    assert states(home) == []


async def test_beside_the_bot_the_bot_does_it(live: Any, home: Path, run_command: Cli) -> None:
    async with live():
        said = await asyncio.to_thread(run_command, "--data", home, "reindex", "--channel", "@harbour_news")
    assert (said.code, said.out) == (0, "Harbour News: the index was built anew (4 posts).\n"), said.err
    assert await asyncio.to_thread(states, home) == [(-1001000001, "done")]
