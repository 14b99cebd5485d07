"""The pages of deploy/ keep up with the code: sentences that are said, tests and files that are named, the picture."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OPERATIONS, ARCHITECTURE = ROOT / "deploy" / "README.md", ROOT / "deploy" / "ARCHITECTURE.md"


def sentences() -> list[str]:
    """Every sentence by which the doctor asks for something to be done."""
    found = []
    for file in sorted((ROOT / "bot" / "doctor").glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                found += [said for said in [node.value.value] if isinstance(said, str) and ": " in said]
    return found


def test_there_are_sentences_to_look_for() -> None:
    assert len(sentences()) > 30


@pytest.mark.parametrize("said", sentences())
def test_every_sentence_of_the_doctor_is_findable(said: str) -> None:
    seen = re.sub(r"\{[^}]*\}", "\0", said).split(": ")[0]  # what it says; behind the colon is what to do
    longest = max((part.strip(" :.,()=") for part in seen.split("\0")), key=len)
    rows = [line for line in OPERATIONS.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert any(longest in row.split(" | ")[0] for row in rows), longest


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
