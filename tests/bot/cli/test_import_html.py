"""`citegram import` of a messages.html."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from driver import Cli


def test_a_page_needs_its_chat_and_is_then_searched_like_any_export(
    shared_data: Path, nowhere: Path, run_command: Cli
) -> None:
    citegram = partial(run_command, "--data", "data")
    page = shared_data / "tg_export_en" / "html"  # a real one
    said = citegram("import", page)
    assert said.is_one_sentence() and "--chat" in said.err
    said = citegram("import", page, "--chat", "-1003204528972", "--title", "The path", "--json")
    assert said.code == 0
    assert said.json() == {"new": 208, "edited": 0, "unchanged": 0, "skipped": 5, "deleted": 0, "kept": 0}
    assert "https://t.me/c/3204528972/8" in citegram("ask", "What is ʿIlm al-Kalām?").out
