"""The documents name only what is there: files, links, commands with their options, targets of make, tests.

README.ru.md says what README.md says: whoever changes one changes the other.
"""

import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

from bot.__main__ import build_parser
from bot.cli.eval import KINDS

ROOT = Path(__file__).parents[1]
ENGLISH, RUSSIAN = ROOT / "README.md", ROOT / "README.ru.md"
EVALUATION = ROOT / "deploy" / "EVALUATION.md"
PAGES = [ENGLISH, RUSSIAN, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "deploy").glob("*.md"))]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_TEST = re.compile(r"`((?:tests/)?[\w/]*test_\w+\.py)(?:::(\w+))?`")


def list_commands(page):
    """Every line of a block and every piece of code in the text, without the comments behind them."""
    text = page.read_text(encoding="utf-8")
    lines = [line for _, block in _FENCE.findall(text) for line in block.splitlines()]
    inline = re.findall(r"`([^`\n]+)`", _FENCE.sub("", text))
    return [re.sub(r"\s+#\s.*$", "", line).strip() for line in [*lines, *inline]]


@pytest.mark.parametrize("page", [ENGLISH, EVALUATION], ids=lambda page: page.name)
def test_every_command_that_is_named_can_be_given(page, capsys):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    found = Counter[str]()
    for line in list_commands(page):
        program, _, rest = line.removeprefix(".venv/bin/").partition(" ")
        found[program] += 1
        if program == "make" and rest:
            assert rest.split()[0] in targets
        elif program == "citegram" and rest:
            try:
                assert build_parser(shlex.split(rest)).parse_args(shlex.split(rest)).run
            except SystemExit:  # argparse ends so where a word is wrong
                pytest.fail(f"{line}: {capsys.readouterr().err}")
        elif program == "python":
            script, *given = shlex.split(rest)
            text = (ROOT / script).read_text(encoding="utf-8")
            assert [word for word in given if word.startswith("--") and f'"{word}"' not in text] == [], line
        elif re.fullmatch(r"(tests|bot|rag_core|deploy)/[\w./]+", line):
            assert (ROOT / line).exists(), line
    assert min(found["make"], found["citegram"]) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_and_test_that_a_page_names_is_there(page):
    text = page.read_text(encoding="utf-8")
    missing = {link for link in _LINK.findall(text) if "://" not in link and not link.startswith("#")
               and not (page.parent / link.partition("#")[0]).exists()}  # fmt: skip
    tests = {file.name: file for file in (ROOT / "tests").rglob("test_*.py")}
    for name, function in _TEST.findall(text):
        file = ROOT / name if name.startswith("tests/") else tests.get(Path(name).name)
        if not file or not file.exists() or f"def {function}" not in file.read_text(encoding="utf-8"):
            missing.add(f"{name}::{function}")
    assert not missing


def read_translated_parts(page):
    """What is the same in every language: headings, blocks, code, figures of tables (a Russian comma is a point)."""
    text = page.read_text(encoding="utf-8")
    prose = _FENCE.sub("", text)
    rows = [re.sub(r"(?<=\d),(?=\d)", ".", line) for line in prose.splitlines() if line.startswith("|")]
    return {
        "headings": [len(marks) for marks in re.findall(r"^(#+) ", prose, re.MULTILINE)],
        "blocks": [re.sub(r"\s+#\s.*$", "", inside, flags=re.MULTILINE) for _, inside in _FENCE.findall(text)],
        "code": Counter(re.findall(r"`([^`\n]+)`", prose)),
        "figures": [re.findall(r"\d+(?:\.\d+)?", row) for row in rows],
        "addresses": Counter(found for found in _LINK.findall(text) if "://" in found),
        "counts": [len(re.findall(mark, text, re.MULTILINE)) for mark in (r"!\[", r"\n\n", r"^- ")],
    }


def test_the_russian_readme_says_what_the_english_one_says():
    assert read_translated_parts(RUSSIAN) == read_translated_parts(ENGLISH)


def test_every_kind_of_measurement_is_told_to_its_users():
    lines = (ROOT / "deploy" / "USING.md").read_text(encoding="utf-8").splitlines()
    (row,) = (line for line in lines if line.startswith("| `citegram eval …`"))
    assert [kind for kind in KINDS if not re.search(rf"`(?:eval )?{kind}`", row)] == []
