"""`citegram eval talk` and `eval followups`: small rows over a small corpus, with a row for each outcome."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from driver import write_rows

CORPUS = (
    {"id": "a", "text": "A ferry ticket costs twelve euros.", "title": "Harbour"},
    {"id": "b", "text": "A ferry ticket for children costs five euros.", "title": "Harbour"},
)
TALK = (
    {"id": "t1", "text": "hello", "lang": "en"},
    {"id": "t2", "text": "привет", "lang": "en"},  # answered in another language than the row's
    {"id": "t3", "text": "how much is a ferry ticket", "lang": "en"},  # a question, and searched
    {"id": "q1", "text": "hi, how much is a ferry ticket?", "lang": "en", "search": True, "answers": ["twelve euros"]},
    {"id": "q2", "text": "thanks", "lang": "en", "search": True, "answers": ["twelve euros"]},
)
DIALOGUE: dict[str, Any] = {
    "id": "d1", "lang": "en", "turns": ["How much is a ferry ticket?", "thanks", "and for children?"],
    "expect": "how much is a ferry ticket for children", "relevant": ["b"], "answers": ["five euros"], "corpus": "own",
}  # fmt: skip
LOST = {**DIALOGUE, "id": "d2", "turns": ["and for children?"], "relevant": [], "answers": ["seven"]}


def test_small_talk_is_handled_where_it_is_neither_searched_nor_refused(evaluate: Any, tmp_path: Path) -> None:
    write_rows(tmp_path / "talk.jsonl", TALK)
    write_rows(tmp_path / "corpus.jsonl", CORPUS)
    assert evaluate("talk", "talk.jsonl", "--json", "out.json").code == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["metrics"]["all"] == {"handled": 0.4, "talk_handled": 0.3333, "question_answered": 0.5}
    assert (found["rows"], found["failed"]) == (5, ["t2", "t3", "q2"])


def test_a_follow_up_is_understood_by_what_it_finds_or_says(evaluate: Any, tmp_path: Path) -> None:
    write_rows(tmp_path / "set" / "followups.jsonl", (DIALOGUE, LOST))
    write_rows(tmp_path / "set" / "own" / "corpus.jsonl", CORPUS)
    assert evaluate("followups", "set", "--json", "out.json").code == 0
    found = json.loads((tmp_path / "out.json").read_text())
    first, lost = found["judged"]
    assert first["reading"] == "How much is a ferry ticket (for children)?"
    assert (first["understood"], first["shown_right"], lost["understood"]) == (True, True, False)
    assert (found["metrics"]["all"]["understood"], found["metrics"]["all"]["shown_right"]) == (0.5, 0.5)


def test_a_file_of_no_rows_is_an_error_with_a_sentence(evaluate: Any, tmp_path: Path) -> None:
    write_rows(tmp_path / "talk.jsonl", ())
    said = evaluate("talk", "talk.jsonl")
    assert (said.code, said.err) == (1, "There is no row to measure: name a file with rows.\n")
