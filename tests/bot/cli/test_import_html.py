"""`citegram import` of a messages.html."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.__main__ import main


@pytest.fixture
def page(tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real page; data and settings are those of an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MODELS__EMBEDDER", "none")
    return shared_data / "tg_export_en" / "html"


def run(*words: object) -> int:
    return main(["--data", "data", "import", *map(str, words)])


def test_a_page_needs_its_chat_and_is_then_searched_like_any_export(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(page) == 1
    said = capsys.readouterr()
    assert said.out == "" and "--chat" in said.err and len(said.err.strip().splitlines()) == 1

    assert run(page, "--chat", "-1003204528972", "--title", "The path", "--json") == 0
    counts = {"new": 208, "edited": 0, "unchanged": 0, "skipped": 5, "deleted": 0}
    assert json.loads(capsys.readouterr().out) == counts
    assert main(["--data", "data", "ask", "What is ʿIlm al-Kalām?"]) == 0
    assert "https://t.me/c/3204528972/8" in capsys.readouterr().out
