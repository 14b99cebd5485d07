"""The short form: a rebuild that is killed halfway, while questions are asked."""

from __future__ import annotations

import pytest
from bench import answers_during_rebuild

pytestmark = pytest.mark.alone


def test_no_question_fails_while_the_index_is_rebuilt_and_its_child_killed(capsys: pytest.CaptureFixture[str]) -> None:
    row = answers_during_rebuild.main(["--posts", "2500", "--before", "1", "--kill"])
    said = capsys.readouterr()
    assert row["failed"] == 0, said.err
    assert (row["killed_at"], row["resumed_at"]) == (2000, 0)  # too soon for anything to have been saved
    assert row["asked_during"] >= 5
    assert row["arrived"] >= 1
    assert row["p50_during_ms"] < 10 * row["p50_before_ms"]  # the machine may do other work; by hand it is 2 at p95
    assert "ratio_p95" in said.out
