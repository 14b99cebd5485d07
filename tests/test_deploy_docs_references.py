"""The pages of deploy/ keep up with the code: sentences that are said, tests and files that are named, the picture."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.cli.eval import KINDS

ROOT = Path(__file__).parents[1]
OPERATIONS, ARCHITECTURE = ROOT / "deploy" / "README.md", ROOT / "deploy" / "ARCHITECTURE.md"


def strings(node: ast.AST) -> Iterator[str]:
    """Every string below a node but docstrings, with {} for each value in an f-string."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        for child in ast.iter_child_nodes(node):
            yield from strings(child)


def sentences() -> list[str]:
    """Every sentence by which the doctor asks for something to be done: what it says, a colon, what to do.

    Notes that ask for nothing have no full stop, and name no command.
    """
    files = sorted((ROOT / "bot" / "doctor").glob("*.py"))
    said = [one for file in files for one in strings(ast.parse(file.read_text(encoding="utf-8")))]
    return [one for one in said if re.match(r"(?:[A-Z]|\{\} ).*: .*(?:\.$|citegram)", one)]


def test_there_are_sentences_to_look_for() -> None:
    assert len(sentences()) > 40


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


def test_every_kind_of_measurement_is_told_to_its_users() -> None:
    pages = (ROOT / "deploy" / "USING.md").read_text(encoding="utf-8").splitlines()
    (row,) = (line for line in pages if line.startswith("| `citegram eval …`"))
    assert [kind for kind in KINDS if not re.search(rf"`(?:eval )?{kind}`", row)] == []
    assert "citegram eval judge" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
