"""The pages of deploy/ keep up with the code: tests and files that are named, the picture."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from bot.cli.eval import KINDS

ROOT = Path(__file__).parents[1]
ARCHITECTURE = ROOT / "deploy" / "ARCHITECTURE.md"


def test_every_test_that_the_architecture_names_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", ARCHITECTURE.read_text(encoding="utf-8"))
    assert len(named) >= 7
    for file, test in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert not test or test in there, f"{file}::{test}"


def test_the_picture_is_there() -> None:
    (shown,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", ARCHITECTURE.read_text(encoding="utf-8"))
    assert (ARCHITECTURE.parent / shown).read_bytes().startswith(b"\x89PNG")


def test_every_kind_of_measurement_is_told_to_its_users() -> None:
    pages = (ROOT / "deploy" / "USING.md").read_text(encoding="utf-8").splitlines()
    (row,) = (line for line in pages if line.startswith("| `citegram eval …`"))
    assert [kind for kind in KINDS if not re.search(rf"`(?:eval )?{kind}`", row)] == []
    assert "citegram eval judge" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
