"""`citegram eval judge` as a person meets it, and its figure."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from driver import Cli

from bot.evaluation.measures import JudgedSentence, compute_auc, compute_judge_metrics


def test_the_figure_is_the_share_of_pairs_that_are_told_apart() -> None:
    assert compute_auc([3.0, 1.0, 2.0, 0.0], [True, True, False, False]) == 0.75
    assert compute_auc([1.0, 1.0], [True, False]) == 0.5
    assert compute_auc([1.0], [True]) is None
    rows = [JudgedSentence("en", True, 0.2, 2.0, 1.0), JudgedSentence("en", False, 0.9, -2.0, 3.0)]
    assert compute_judge_metrics(rows) == {"auc": 1.0, "confidence_auc": 0.0, "seconds": 2.0, "right": 0.5}


@pytest.mark.slow
def test_a_model_is_measured_over_a_question_set(
    evaluate: Cli, root: Path, tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM__THREADS", "1")
    samples = shutil.copytree(root / "bot/sandbox/channels", tmp_path / "samples")
    shutil.copy(samples / "questions.jsonl", samples / "queries.jsonl")
    given = ("--model", tiny_gguf, "--limit", "8", "--seed", "3", "--json", "out.json")
    said = evaluate("judge", samples, *given)
    assert said.code == 0, said.err
    assert "sentences judged by" in said.out
    told = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert told["command"] == "judge" and told["rows"] == len(told["judged"]) > 0
    assert told["metrics"]["all"]["seconds"] > 0
