"""Exception tree: it is as it is drawn."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from rag_core import errors

ROOT = Path(__file__).parents[2]


def read_drawn_tree() -> Iterator[tuple[str, str, str]]:
    """Base, name and file of each class in the docstring."""
    above = [""]
    for indent, name, file in re.findall(r"^((?: {4})+)(\w+)(?: +(\S+\.py))?$", errors.__doc__ or "", re.M):
        above[len(indent) // 4 :] = [name]
        yield above[-2], name, file or "rag_core/errors.py"


def find_error_classes() -> Iterator[tuple[str, str, str]]:
    """Base, name and file of each class below RagError; files are read, not imported, as some need an extra."""
    derived = defaultdict[str, list[tuple[str, str]]](list)
    for file in (file for package in ("rag_core", "ingest", "bot") for file in (ROOT / package).rglob("*.py")):
        for name, bases in re.findall(r"^ *class (\w+)\(([\w., ]+)\):", file.read_text(encoding="utf-8"), re.M):
            for base in re.findall(r"(\w+)(?:,|$)", bases):
                derived[base].append((name, str(file.relative_to(ROOT))))
    left = ["RagError"]
    while left:
        base = left.pop()
        left += [name for name, _ in derived[base]]
        yield from ((base, name, file) for name, file in derived[base])


def test_the_tree_of_errors_is_as_it_is_drawn() -> None:
    root, *drawn = read_drawn_tree()
    assert root == ("", "RagError", "rag_core/errors.py")
    assert sorted(drawn) == sorted(find_error_classes())
