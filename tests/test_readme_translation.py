"""README.ru.md says what README.md says: the same headings, commands, addresses and figures. What both show is there.

Whoever changes one changes the other. A failing test names the line that differs.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

from bot.__main__ import build_parser

ROOT = Path(__file__).parents[1]
ENGLISH, RUSSIAN = ROOT / "README.md", ROOT / "README.ru.md"
PAGES = (ENGLISH, RUSSIAN)

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose(page: Path) -> str:
    return _FENCE.sub("", text(page))


def headings(page: Path) -> list[int]:
    return [len(marks) for marks in re.findall(r"^(#+) ", prose(page), re.MULTILINE)]


def blocks(page: Path) -> list[tuple[str, list[str]]]:
    """Each block's language, and its commands without the comments behind them."""
    found = []
    for language, inside in _FENCE.findall(text(page)):
        found.append((language, [re.sub(r"\s+#\s.*$", "", line).rstrip() for line in inside.splitlines()]))
    return found


def codes(page: Path) -> Counter[str]:
    return Counter(re.findall(r"`([^`\n]+)`", prose(page)))


def figures(page: Path) -> list[list[str]]:
    """The numbers of every row of every table; a Russian comma is a point."""
    rows = [line for line in prose(page).splitlines() if line.startswith("|")]
    return [re.findall(r"\d+(?:\.\d+)?", re.sub(r"(?<=\d),(?=\d)", ".", row)) for row in rows]


def addresses(page: Path) -> Counter[str]:
    return Counter(found for found in _LINK.findall(text(page)) if "://" in found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_newcomer_has_little_to_read(page: Path) -> None:
    assert len(text(page).splitlines()) <= 70


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_figures_stand_in_one_marked_place(page: Path) -> None:
    _, _, marked = text(page).partition("<!-- figures: begin -->")
    inside, end, outside = marked.partition("<!-- figures: end -->")
    assert end
    shares = r"\b0[.,]\d\d\b"
    assert len(re.findall(shares, inside)) >= 8
    assert not re.findall(shares, outside)


def test_every_command_and_target_of_the_readme_is_there() -> None:
    named = [*codes(ENGLISH), *(line for _, lines in blocks(ENGLISH) for line in lines)]
    commands = [shlex.split(line)[1:] for line in named if line.startswith(".venv/bin/citegram ")]
    assert len(commands) >= 5
    for words in commands:
        assert build_parser(words).parse_args(words).run
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {line.split()[1] for line in named if line.startswith("make ")} <= set(targets)


def test_the_headings_have_the_same_number_order_and_levels() -> None:
    assert headings(RUSSIAN) == headings(ENGLISH)


def test_the_blocks_have_the_same_commands() -> None:
    assert blocks(ENGLISH)
    assert blocks(RUSSIAN) == blocks(ENGLISH)


def test_the_same_commands_settings_and_files_are_named() -> None:
    english, russian = codes(ENGLISH), codes(RUSSIAN)
    assert not english - russian, "missing in README.ru.md"
    assert not russian - english, "missing in README.md"


def test_the_tables_have_the_same_rows_and_figures() -> None:
    assert figures(RUSSIAN) == figures(ENGLISH)


def test_the_same_addresses_are_linked() -> None:
    assert addresses(RUSSIAN) == addresses(ENGLISH)


def test_there_are_as_many_pictures_and_paragraphs() -> None:
    for pattern in (r"!\[", r"\n\n", r"^- "):
        english, russian = (len(re.findall(pattern, text(page), re.MULTILINE)) for page in PAGES)
        assert russian == english, pattern


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_and_picture_that_is_linked_is_there(page: Path) -> None:
    local = [found for found in _LINK.findall(text(page)) if "://" not in found]
    assert local
    for found in local:
        assert (ROOT / found.partition("#")[0]).is_file(), found
