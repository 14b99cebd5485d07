"""deploy/CAPACITY.md says what the arithmetic says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench import capacity_tables

PAGE = (Path(__file__).parents[2] / "deploy" / "CAPACITY.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", capacity_tables.tables())
def test_every_table_is_in_the_page_as_it_is_printed(table: str) -> None:
    assert table in PAGE, table


def test_the_arithmetic_has_no_other_tables() -> None:
    """Below it stand three tables of what was measured on a real server."""
    printed = sum(len(table.splitlines()) for table in capacity_tables.tables())
    arithmetic, _, measured = PAGE.partition("## What was run on a real Qdrant")
    assert len(re.findall(r"^\|", arithmetic, re.M)) == printed
    assert len(re.findall(r"^\| ---", measured, re.M)) == 3


def test_a_changed_figure_changes_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    before = capacity_tables.tables()
    monkeypatch.setattr(capacity_tables, "ARCHIVE", capacity_tables.ARCHIVE * 2)
    monkeypatch.setattr(capacity_tables, "POINT", capacity_tables.POINT * 2)
    changed = [one != other for one, other in zip(before, capacity_tables.tables(), strict=True)]
    assert changed == [True, False, True, True, False, False]
