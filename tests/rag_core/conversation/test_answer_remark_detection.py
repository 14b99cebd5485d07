"""Remarks about an answer are told by kind, and what asks something of the posts is no remark."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from rag_core.conversation.answer_remark_detection import AnswerRemark, detect_answer_remark

SETS = Path(__file__).parents[2] / "data" / "answer_remarks"

REMARKS = {
    AnswerRemark.SOURCES: "источник?|а откуда инфа|где это написано|source?|where did you get that|got a link?",
    AnswerRemark.SURE: "точно?|ты уверен|не верю|are you sure?|really?|thats wrong, check again",
    AnswerRemark.WHEN: "еще актуально?|когда это написали|how old is this info|still valid?|Актуально? А то опоздаю.",
    AnswerRemark.WHOLE: "покажи весь пост|можно целиком?|полный текст|show me the whole post|full text pls",
    AnswerRemark.MORE: "подробнее|ещё|что ещё известно?|more|tell me more|anything else?|и?",
    AnswerRemark.SHORTER: "короче|в двух словах|суть|tldr|too long|in one sentence please",
}
OTHERS = (
    "откуда автобус", "источник воды", "подробнее про ярмарку", "короче говоря, когда концерт", "ещё бы", "точно",
    "спасибо за ссылку", "сегодняшние новости", "когда это было", "Точно? А в субботу?", "полный список цен",
    "how old is he", "whats the link", "more dates", "the whole cake", "are they sure the bridge opens in May",
    "what was posted today", "and before?", "thanks for the link", "who said the lift would work", "", "?!", "…" * 300,
)  # fmt: skip


@pytest.mark.parametrize("kind", REMARKS)
def test_a_remark_is_told_by_kind(kind: AnswerRemark) -> None:
    told = {text: detect_answer_remark(text) for text in REMARKS[kind].split("|")}
    assert told == dict.fromkeys(told, kind)


@pytest.mark.parametrize("text", OTHERS)
def test_what_names_something_is_no_remark(text: str) -> None:
    assert detect_answer_remark(text) is None


# Shares of the remarks that are read with the right kind; `remarks2` was held out while the words were chosen.
@pytest.mark.parametrize(
    ("name", "least"), [("remarks", 0.95), ("remarks2", 0.65), ("remarks3", 0.85), ("remarks4", 0.80)]
)
def test_most_remarks_are_read_and_no_question_is_taken_for_one(name: str, least: float) -> None:
    rows = [json.loads(line) for line in (SETS / f"{name}.jsonl").read_text("utf-8").splitlines()]
    read, all_rows = Counter[str](), Counter[str]()
    for row in rows:
        kind = "other" if row["kind"] in {"question", "talk"} else "remark"
        all_rows[kind] += 1
        read[kind] += detect_answer_remark(row["text"]) == (row["kind"] if kind == "remark" else None)
    assert read["remark"] / all_rows["remark"] >= least
    assert all_rows["other"] - read["other"] <= 3
    assert not [r["text"] for r in rows if r["kind"] == "question" and detect_answer_remark(r["text"])]


def test_no_question_of_any_set_is_taken_for_a_remark(shared_data: Path) -> None:
    files = [*(shared_data / "people").rglob("queries.jsonl"), shared_data / "xquad" / "queries.jsonl"]
    files += (shared_data / "people" / "talk.jsonl", *SETS.parent.rglob("queries.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    texts = [row["text"] for row in rows if "text" in row]
    assert len(texts) > 1000
    assert [text for text in texts if detect_answer_remark(text)] == []
