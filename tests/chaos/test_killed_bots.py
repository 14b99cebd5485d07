"""Whatever happens to the bot, nothing is lost, there twice or stale: short forms of `kill_loop.py`, `fault_matrix.py`
and `watch_kills.py`, in one file because all bots are forked from one process.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from chaos import fault_matrix
from chaos.consistency_check import check_answers
from chaos.kill_loop import Plan, run_kills
from chaos.watch_kills import POSTS_A_KILL, measure_kills


@pytest.fixture
def models(request: pytest.FixtureRequest) -> Path | None:
    """Where the offline model is; None where it cannot be fetched: then words alone are looked at."""
    try:
        return Path(request.getfixturevalue("offline_models")).parent
    except pytest.skip.Exception:
        return None


@pytest.mark.timeout(420)  # it takes 25 s, and ten times as long among ten others
def test_five_kills_lose_nothing_double_nothing_and_leave_nothing_stale(tmp_path: Path, models: Path | None) -> None:
    short = Plan(kills=5, updates=1000, rate=110, patience=200, longest_life=2)
    metrics, wrong = run_kills(short, tmp_path, models)
    assert wrong == []
    assert (metrics["kills"], metrics["kills_before_ready"]) == (5, 1)
    assert metrics["updates"] >= 1000
    assert metrics["stores"]["archive"]["seen"] == metrics["posts"] > 300
    assert metrics["stores"]["answers"]["seen"] == metrics["questions"] > 5
    stores = {"archive", "lexical", "dense"} if models else {"archive", "lexical"}
    assert {name for name, store in metrics["stores"].items() if store["seen"] > 200} == stores
    assert metrics["tracebacks"] == 0, (tmp_path / "bot.log").read_text(encoding="utf-8")[-5000:]


@pytest.mark.timeout(420)
def test_a_dropped_update_is_noticed(tmp_path: Path) -> None:
    short = Plan(kills=1, updates=400, rate=110, questions=8, patience=200, longest_life=1, drop=40)
    metrics, _ = run_kills(short, tmp_path, None)
    assert metrics["stores"]["archive"]["lost"] >= 8  # of eleven updates; the others are questions, or no posts


def test_an_answer_that_is_lost_or_twice_is_noticed() -> None:
    found = check_answers({1: [], 2: ["a"], 3: ["a", "a"], 4: ["a", "a"], 5: ["a", "a", "a"]}, {4: 1, 5: 1})
    assert (len(found.lost), len(found.twice)) == (1, 2)


@pytest.mark.timeout(600)  # it takes 20 s, and many times as long beside others
def test_a_kill_in_an_import_and_nonsense_while_questions_come_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))  # what it sets for its bots is left to no other test
    cells = fault_matrix.run_matrix("kill/import,invalid/questions", tmp_path / "homes", None, posts=500, seconds=3)
    assert [(cell.fault, cell.activity, cell.wrong, cell.skipped) for cell in cells] == [
        ("kill -9", "import", [], ""),
        ("invalid JSON", "questions", [], ""),
    ]
    killed, garbled = cells
    assert killed.restarts == 2
    assert killed.posts > 2000
    assert garbled.questions > 10


@pytest.mark.timeout(300)
async def test_three_kills_lose_no_notice(tmp_path: Path) -> None:
    figures = await measure_kills(tmp_path, 3)
    assert figures["posts"] == 4 * POSTS_A_KILL
    assert figures["lost"] == 0
    assert figures["twice"] <= 3  # one for each kill between the taking of a message and the note of it
