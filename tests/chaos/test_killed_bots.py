"""Whatever happens to the bot, nothing is lost, there twice or stale: short forms of `kill_loop.py`, `fault_matrix.py`
and `watch_kills.py`, in one file because all bots are forked from one process.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from chaos import fault_matrix, kill_loop
from chaos.consistency_check import check_answers
from chaos.watch_kills import POSTS_A_KILL, measure_kills


@pytest.fixture
def models(request: pytest.FixtureRequest) -> str:
    """Where the offline model is; "none" where it cannot be fetched: then words alone are looked at."""
    try:
        return str(request.getfixturevalue("offline_models").parent)
    except pytest.skip.Exception:
        return "none"


@pytest.mark.timeout(420)  # it takes 25 s, and ten times as long among ten others
def test_five_kills_lose_nothing_double_nothing_and_leave_nothing_stale(tmp_path: Path, models: str) -> None:
    out, folder = tmp_path / "chaos.json", tmp_path / "home"
    short = ["--kills", "5", "--updates", "1000", "--rate", "110", "--patience", "200", "--models", models]
    short += ["--longest-life", "2", "--folder", str(folder), "--json", str(out)]
    assert kill_loop.main(short) == 0
    metrics = json.loads(out.read_text(encoding="utf-8"))["metrics"]["all"]
    assert {kind: metrics[kind] for kind in ("lost", "twice", "stale")} == {"lost": 0, "twice": 0, "stale": 0}
    assert (metrics["kills"], metrics["kills_before_ready"]) == (5, 1)
    assert metrics["updates"] >= 1000
    assert metrics["stores"]["archive"]["seen"] == metrics["posts"] > 300
    assert metrics["stores"]["answers"]["seen"] == metrics["questions"] > 5
    stores = {"archive", "lexical"} if models == "none" else {"archive", "lexical", "dense"}
    assert {name for name, store in metrics["stores"].items() if store["seen"] > 200} == stores
    assert metrics["tracebacks"] == 0, (folder / "bot.log").read_text(encoding="utf-8")[-5000:]


@pytest.mark.timeout(420)
def test_a_dropped_update_is_noticed(tmp_path: Path) -> None:
    out = tmp_path / "chaos.json"
    short = ["--kills", "1", "--updates", "400", "--rate", "110", "--questions", "8", "--patience", "200"]
    short += ["--longest-life", "1", "--models", "none", "--drop", "40"]
    short += ["--folder", str(tmp_path / "home"), "--json", str(out)]
    assert kill_loop.main(short) == 1
    metrics = json.loads(out.read_text(encoding="utf-8"))["metrics"]["all"]
    assert metrics["stores"]["archive"]["lost"] >= 8  # of eleven updates; the others are questions, or no posts


def test_an_answer_that_is_lost_or_twice_is_noticed() -> None:
    found = check_answers({1: [], 2: ["a"], 3: ["a", "a"], 4: ["a", "a"], 5: ["a", "a", "a"]}, {4: 1, 5: 1})
    assert (len(found.lost), len(found.twice)) == (1, 2)


@pytest.mark.timeout(600)  # it takes 20 s, and many times as long beside others
def test_a_kill_in_an_import_and_nonsense_while_questions_come_lose_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))  # what it sets for its bots is left to no other test
    out = tmp_path / "survive.json"
    short = ["--cells", "kill/import,invalid/questions", "--posts", "500", "--seconds", "3", "--models", "none"]
    short += ["--at-once", "--folder", str(tmp_path / "homes"), "--json", str(out)]
    assert fault_matrix.main(short) == 0
    told = json.loads(out.read_text(encoding="utf-8"))
    assert [(cell["fault"], cell["activity"]) for cell in told["each"]] == [
        ("kill -9", "import"),
        ("invalid JSON", "questions"),
    ]
    assert told["metrics"]["all"]["well"] == 2
    killed, garbled = told["each"]
    assert killed["restarts"] == 2
    assert killed["posts"] > 2000
    assert garbled["questions"] > 10
    assert "kill -9" in capsys.readouterr().out


@pytest.mark.timeout(300)
async def test_three_kills_lose_no_notice(tmp_path: Path) -> None:
    figures = await measure_kills(tmp_path, 3)
    assert figures["posts"] == 4 * POSTS_A_KILL
    assert figures["lost"] == 0
    assert figures["twice"] <= 3  # one for each kill between the taking of a message and the note of it
