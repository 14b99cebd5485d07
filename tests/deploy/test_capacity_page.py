"""deploy/CAPACITY.md says what the arithmetic says."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import capacity_tables

PAGE = (Path(__file__).parents[2] / "deploy" / "CAPACITY.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", capacity_tables.tables())
def test_every_table_is_in_the_page_as_it_is_printed(table: str) -> None:
    assert table in PAGE, table
