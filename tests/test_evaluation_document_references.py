"""deploy/EVALUATION.md names only what is there: make targets, commands with their options, scripts, tests."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from bot.__main__ import build_parser

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "deploy" / "EVALUATION.md"

_FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """Every line of a block and every piece of code in the text, without the comments behind them."""
    page = PAGE.read_text(encoding="utf-8")
    lines = [line for block in _FENCE.findall(page) for line in block.splitlines()]
    inline = re.findall(r"`([^`\n]+)`", _FENCE.sub("", page))
    return [re.sub(r"\s+#\s.*$", "", line).strip() for line in [*lines, *inline]]


def named(first: str) -> list[list[str]]:
    """The commands that begin with this word, in words, without it."""
    return [words[1:] for line in commands() if (words := shlex.split(line))[0] == first]


def test_every_command_of_citegram_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    found = named("citegram")
    assert len(found) >= 10
    for words in found:
        try:
            build_parser(words).parse_args(words)
        except SystemExit:  # argparse ends so where a word is wrong
            pytest.fail(f"{shlex.join(words)}: {capsys.readouterr().err}")


def test_every_target_of_make_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    found = named("make")
    assert len(found) >= 3
    assert {words[0] for words in found} <= targets


def test_every_script_is_there_and_knows_the_options_it_is_given() -> None:
    found = named("python")
    assert len(found) >= 4
    for script, *given in found:
        text = (ROOT / script).read_text(encoding="utf-8")
        for option in (word for word in given if word.startswith("--")):
            assert f'"{option}"' in text, f"{script} {option}"


def test_every_file_that_is_named_is_there() -> None:
    found = [line for line in commands() if re.fullmatch(r"(tests|bot|rag_core|deploy)/[\w./]+", line)]
    assert len(found) >= 8
    for file in found:
        assert (ROOT / file).exists(), file


def test_everything_that_is_linked_is_there() -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", PAGE.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert "pictures/bench.png" in local
    for link in local:
        assert (PAGE.parent / link).is_file(), link
