"""The short form: a rebuild that is killed halfway, while questions are asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone

HERE = Path(__file__).parent


def test_no_question_fails_while_the_index_is_rebuilt_and_its_child_killed(tmp_path: Path) -> None:
    command = [sys.executable, HERE / "answers_during_rebuild.py", "--posts", "3000", "--before", "2", "--kill"]
    done = subprocess.run([*command, "--json", tmp_path / "row.json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    row = json.loads((tmp_path / "row.json").read_text(encoding="utf-8"))
    assert row["failed"] == 0, done.stderr
    assert (row["killed_at"], row["resumed_at"]) == (2000, 0)  # too soon for anything to have been saved
    assert row["asked_during"] >= 5
    assert row["arrived"] >= 1
    assert row["p50_during_ms"] < 10 * row["p50_before_ms"]  # the machine may do other work; by hand it is 2 at p95
    assert "ratio_p95" in done.stdout
